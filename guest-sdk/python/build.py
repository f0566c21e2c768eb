"""Builds a component from a Python project: `build.py PROJECT SDK WIT OUT PACKAGES`, with componentize-py in the folder PACKAGES.
OUT.sources lists the files that were read.

The project's own code is run by componentize-py alone, inside of WebAssembly. Here it is only parsed.
"""

import argparse
import ast
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

if sys.version_info < (3, 11):
    sys.exit(f"Python {sys.version.split()[0]} is too old for toolcell's SDK: install Python 3.11 or later")

import tomllib

#: Names of the SDK, and the interface that each needs.
NEEDS = {
    "progress": "progress", "partial_result": "progress", "log": "log", "canceled": "cancellation",
    "checkpoint": "cancellation", "ask": "interaction", "remember": "interaction", "remembered": "interaction",
    "artifact": "artifacts", "modify_context": "context-modifiers", "call_tool": "tools", "callable_tools": "tools",
    "fetch": "http", "check": "validation", "preflight": "validation", "configuration": "configuration", "classify": "classification",
    "ask_all": "interaction", "wait": "cancellation-signal", "acknowledge": "cancellation",
}
#: Folders that hold no source of the component. All that toolcell leaves out of the digest of the sources is among them: a
#: build must read nothing that the user's consent does not cover.
SKIPPED = {"__pycache__", "toolcell", "target", "tests", "test", "build", "dist", "node_modules", "venv"}


class Refused(Exception):
    """A project that cannot be built, in words for its author."""


def _table(found, name):
    table = found.get(name, {})
    if not isinstance(table, dict):
        raise Refused(f"pyproject.toml: {name} is not a table")
    return table


def settings(project):
    """Returns the namespace and the main module of a project."""
    try:
        with open(project / "pyproject.toml", "rb") as file:
            found = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refused(f"pyproject.toml: {error}") from None
    own = _table(_table(found, "tool"), "toolcell")
    for key in own.keys() - {"module", "namespace"}:
        raise Refused(f"pyproject.toml: [tool.toolcell] has no {key}: it has module and namespace")
    namespace = own.get("namespace") or _table(found, "project").get("name")
    if not namespace or not isinstance(namespace, str):
        raise Refused("pyproject.toml: name the project, with name in [project]")
    module = own.get("module") or "tool"
    if not isinstance(module, str) or not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", module):
        raise Refused(f"pyproject.toml: {module!r} is no name of a module")
    return namespace, module


def sources(project):
    """Returns the files that belong to the component: no hidden ones, no tests, no environments, not the SDK."""
    found = []
    for folder, folders, names in os.walk(project):
        folder = pathlib.Path(folder)
        folders[:] = sorted(
            name for name in folders
            if name not in SKIPPED and not name.startswith(".") and not (folder / name / "pyvenv.cfg").exists()
        )
        for name in sorted(names):
            is_test = re.fullmatch(r"(test_.*|.*_test|conftest)\.py", name)
            if not is_test and not name.startswith(".") and (folder / name).is_file():
                found.append(folder / name)
    return found


def needs(project, files):
    """Returns the interfaces that the sources use, from the names that they take of the SDK."""
    found = set()
    for path in (path for path in files if path.suffix == ".py"):
        try:
            tree = ast.parse(path.read_bytes(), str(path.relative_to(project)))
        except (SyntaxError, ValueError) as error:
            place = f"{path.relative_to(project)}:{getattr(error, 'lineno', 1)}"
            raise Refused(f"{place}: {getattr(error, 'msg', error)}") from None
        found |= _needs_of(tree)
    return found


def _needs_of(tree):
    found, modules = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "toolcell":
            names = NEEDS if any(alias.name == "*" for alias in node.names) else {alias.name for alias in node.names}
            found |= {NEEDS[name] for name in names if name in NEEDS}
        elif isinstance(node, ast.ImportFrom) and node.module == "logging":
            found.add("log")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "toolcell":
                    modules.add(alias.asname or "toolcell")
                elif alias.name.split(".")[0] == "logging":
                    found.add("log")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            found |= {NEEDS[node.attr]} if node.attr in NEEDS else set()
    return found


def world(found):
    """Returns the WIT of a world with exactly these interfaces, so that a tool claims no more than it uses."""
    lines = ["package toolcell:python-tool;", "", "world python-tool {"]
    if "cancellation-signal" in found:
        found = found | {"cancellation"}
        lines += ["  import wasi:clocks/monotonic-clock@0.2.6;", "  import wasi:io/poll@0.2.6;"]
    exports = {"validation", "configuration", "classification"}
    for name in sorted(found - {"http"} - exports):
        lines.append(f"  import toolcell:tool/{name}@0.2.0;")
    if "http" in found:
        lines += ["  import wasi:http/types@0.2.6;", "  import wasi:http/outgoing-handler@0.2.6;"]
        lines.append("  import wasi:io/streams@0.2.6;")
    for name in ["guest", *sorted(found & exports)]:
        lines.append(f"  export toolcell:tool/{name}@0.2.0;")
    return "\n".join([*lines, "}", ""])


#: Where the component sees the project's files while the snapshot is taken, and the list of those that were opened then.
APP = "/0/"
OPENED = ".toolcell-opened"

#: Modules of these names are not imported unasked: they are programs, or need what the sandbox lacks.
PROGRAMS = ("__main__", "conftest", "setup", "test", "tests")

#: The module that is run once. There are no files of Python in a call, so everything that is imported late is imported
#: here: what the loaded modules name anywhere, and all of each package that comes with the project.
ENTRY = """\
import importlib
import pkgutil
import sys

opened = set()

def noted(event, arguments):
    if event == "open" and opened is not None and isinstance(arguments[0], str) and arguments[0].startswith({app!r}):
        opened.add(arguments[0])

sys.addaudithook(noted)
importlib.import_module({module!r})

def late(name):
    # An import that its module does without, such as of another operating system's modules.
    try:
        importlib.import_module(name)
    except BaseException:
        pass

def below(package):
    try:
        for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            if found.name.rpartition(".")[2] not in {programs!r}:
                late(found.name)
                if found.ispkg and found.name in sys.modules:
                    below(sys.modules[found.name])
    except Exception:
        pass

names, walked = {names!r}, set()
while True:
    files = {{getattr(module, "__file__", None) for module in list(sys.modules.values())}}
    fresh = sorted(file for file in files if isinstance(file, str) and file in names and file not in walked)
    roots = sorted(name for name in {packages!r} if name in sys.modules and name not in walked)
    if not fresh and not roots:
        break
    for file in fresh:
        walked.add(file)
        for name in names[file]:
            late(name)
    for name in roots:
        walked.add(name)
        below(sys.modules[name])

import linecache
import tokenize

for file in sorted(file for file in walked if file.startswith({app!r})):
    with tokenize.open(file) as source:
        text = source.read()
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)

from toolcell import _component

Guest, Validation, Configuration, Classification = _component.component({namespace!r})

with open({app!r} + {opened!r}, "w", encoding="utf-8") as file:
    file.write("\\n".join(sorted(opened)))
opened = None
"""


def imported(path, project):
    """Returns the absolute names of the modules that a source imports, wherever it does."""
    found = set()
    package = list(path.relative_to(project).with_suffix("").parts)
    # A relative import begins at the package that the module is in, or is.
    package = package[:-1]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            # What is imported from a package can be a module of it.
            found |= {name, *(f"{name}.{alias.name}" for alias in node.names if alias.name != "*")} if name else set()
    return sorted(found)


#: Runs componentize-py, as the script does that pip would install beside a Python.
RUN = """\
import sys
sys.path.insert(0, sys.argv.pop(1))
sys.argv[0] = "componentize-py"
from componentize_py import script
sys.exit(script())
"""


def stage(project, sdk, wit, folder, files, found):
    """Copies everything that goes into the component into `folder`."""
    app = folder / "app"
    for path in files:
        place = app / path.relative_to(project)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    shutil.copytree(sdk / "toolcell", app / "toolcell", ignore=shutil.ignore_patterns("__pycache__", "testing.py"))
    contract = folder / "wit"
    shutil.copytree(wit, contract / "deps" / "tool", ignore=shutil.ignore_patterns("deps"))
    shutil.copytree(wit / "deps" / "io", contract / "deps" / "io")
    if "cancellation-signal" in found:
        (contract / "deps" / "clocks").mkdir()
        shutil.copyfile(sdk / "wit" / "clocks.wit", contract / "deps" / "clocks" / "clocks.wit")
    if "http" in found:
        shutil.copyfile(sdk / "wit" / "io.wit", contract / "deps" / "io" / "streams.wit")
        (contract / "deps" / "http").mkdir()
        shutil.copyfile(sdk / "wit" / "http.wit", contract / "deps" / "http" / "http.wit")
    (contract / "world.wit").write_text(world(found), encoding="utf-8")
    return app, contract


def build(project, sdk, wit, out, packages):
    namespace, module = settings(project)
    files = list(sources(project))
    place = module.replace(".", "/")
    if not any(path.relative_to(project).as_posix() in (f"{place}.py", f"{place}/__init__.py") for path in files):
        raise Refused(f"there is no module {module}: write {place}.py, or name another as module in [tool.toolcell]")
    found = needs(project, files)
    with tempfile.TemporaryDirectory(prefix="toolcell-py-") as folder:
        folder = pathlib.Path(folder)
        app, contract = stage(project, sdk, wit, folder, files, found)
        names = {
            APP + path.relative_to(project).as_posix(): imported(path, project) for path in files if path.suffix == ".py"
        }
        main = module.split(".")[0]
        vendored = sorted(
            path.parent.name for path in files
            if path.name == "__init__.py" and path.parent.parent == project and path.parent.name != main
        )
        entry = ENTRY.format(
            module=module, namespace=namespace, names=names, packages=vendored, programs=PROGRAMS, app=APP, opened=OPENED
        )
        (app / "toolcell_entry.py").write_text(entry, encoding="utf-8")
        made = folder / "component.wasm"
        command = [sys.executable, "-I", "-B", "-c", RUN, packages, "--quiet", "--wit-path", contract]
        command += ["--world", "python-tool"]
        if "http" in found:
            # Without this, two interfaces of the name `types` get longer ones.
            for name in ("wasi:http/types@0.2.6=http_types", "toolcell:tool/types@0.2.0=types"):
                command += ["--import-interface-name", name]
        command += ["componentize", "toolcell_entry", "--python-path", app, "--output", made]
        # Else componentize-py adds the packages of the Python that runs it.
        empty = folder / "environment"
        (empty / "lib" / "python3" / "site-packages").mkdir(parents=True)
        variables = os.environ | {"VIRTUAL_ENV": str(empty)}
        ended = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
        if ended.returncode != 0:
            raise Refused(explain(ended.stdout + ended.stderr, str(folder)))
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made, out)
        opened = (app / OPENED).read_text(encoding="utf-8").splitlines()
        read = {project / name.removeprefix(APP) for name in opened} & set(files)
        listed = sorted(str(path) for path in read | {project / "pyproject.toml"})
        out.with_name(f"{out.name}.sources").write_text(json.dumps(listed), encoding="utf-8")


def explain(text, folder):
    """Returns the part of componentize-py's output that is about the project."""
    text = text.replace("/0/", "").replace(f"{folder}/app/", "")
    at = text.rfind("Traceback (most recent call last)")
    if at >= 0:
        text = text[at:]
        end = re.search(r"^(Error|Caused by|Stack backtrace|\s+\d+: )", text[1:], re.M)
        text = text[: end.start() + 1] if end else text
    return text.strip() or "componentize-py failed, and said nothing"


def main():
    parser = argparse.ArgumentParser()
    for name in ("project", "sdk", "wit", "out", "packages"):
        parser.add_argument(name, type=lambda text: pathlib.Path(text).resolve())
    try:
        build(**vars(parser.parse_args()))
    except Refused as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
