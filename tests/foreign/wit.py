"""Plain functions in Python and JavaScript, made into components by componentize-py and componentize-qjs alone."""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from program import call, canceled, granted, run, toolcell

SOURCES = Path(__file__).parent / "wit"
# What `wasi:filesystem` has; a part of it suffices.
FILESYSTEM = SOURCES.parents[2] / "guest-sdk/typescript/wit/filesystem"


def python(folder: Path) -> Path:
    program = Path(sys.executable).parent / "componentize-py"
    wit = ["--wit-path", str(SOURCES / "world.wit"), "--world", "tables"]
    made = folder / "python.wasm"
    run(str(program), *wit, "componentize", "app", "--python-path", str(SOURCES), "--output", str(made), cwd=folder)
    return made


def javascript(folder: Path) -> Path:
    program = Path(os.environ["JAVASCRIPT"]) / "componentize-qjs" / "cli.mjs"
    package = folder / "wit"
    shutil.copytree(FILESYSTEM, package / "deps" / "filesystem")
    for file in SOURCES.glob("*.wit"):
        shutil.copy(file, package)
    wit = ["--wit", str(package), "--world", "tables-with-files"]
    made = folder / "javascript.wasm"
    run("node", str(program), *wit, "--js", str(SOURCES / "app.js"), "--sync", "--output", str(made), cwd=folder)
    return made


def limited(component: Path) -> None:
    described = json.loads(toolcell("describe", str(component), "--json"))
    names = [declaration["name"] for declaration in described["declarations"]]
    assert names == ["add", "lines", "spin"], names
    assert call(f"{component}#add", {"a": 40, "b": 2})["structured_content"] == 42
    starved = call(f"{component}#spin", {}, "--fuel=100000000", code=4)
    assert starved["error"]["error_code"] == "fuel_exhausted", starved
    late = call(f"{component}#spin", {}, "--timeout=1s", code=4)
    assert late["error"]["error_code"] == "epoch_deadline", late
    canceled(f"{component}#spin", {})


def reads(component: Path, folder: Path) -> None:
    """A component does not say which arguments are paths: a profile does."""
    (folder / "profile.json").write_text(json.dumps({"tools": {"lines": {"read_only": True, "paths": ["path"]}}}))
    wrapped = component.with_suffix(".wrapped.wasm")
    toolcell("wrap", str(component), f"--profile={folder / 'profile.json'}", "-o", str(wrapped))
    text = folder / "text"
    text.write_text("a\nb\n")
    granted(f"{wrapped}#lines", text, 2)
    absent = call(f"{wrapped}#lines", {"path": str(folder / "absent")}, f"--allow-read={folder}", code=1)
    assert absent["error"]["error_class"] == "execution_failed", absent


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for component in [python(folder), javascript(folder)]:
            limited(component)
            reads(component, folder)
    print("foreign components: 2 ran")


main()
