"""The wheel: the Python package of `clients/python`, with the program inside, and the command `toolcell`."""

from __future__ import annotations

import base64
import hashlib
import tomllib

from .files import ROOT, File, Tree, zipped
from .program import Program, Refused

SOURCES = ROOT / "clients/python"
# Beside the package: a command needs none of its modules, and the SDK in the folder of a tool has the same name.
LAUNCHER = '''"""Starts the program of the package `toolcell`."""

import os
import sys
from pathlib import Path


def main() -> None:
    program = Path(__file__).with_name("toolcell") / "bin/toolcell"
    os.execv(program, ["toolcell", *sys.argv[1:]])
'''
MAIN = '''"""Starts the program of this package."""

from toolcell_launcher import main

main()
'''


def package() -> Tree:
    """The modules of the Python package."""
    place = SOURCES / "src/toolcell"
    if not place.is_dir():
        raise Refused(f"the Python package is not at {place}")
    files = [file for file in sorted(place.rglob("*")) if file.is_file()]
    kept = [file for file in files if file.suffix in (".py", ".pyi") or file.name == "py.typed"]
    return {f"toolcell/{file.relative_to(place).as_posix()}": File(file.read_bytes()) for file in kept}


def metadata(project: dict, version: str) -> str:
    lines = [
        "Metadata-Version: 2.4",
        "Name: toolcell",
        f"Version: {version}",
        f"Summary: {project['description']}",
        "License-Expression: Apache-2.0",
        "License-File: LICENSE",
        f"Requires-Python: {project['requires-python']}",
        f"Keywords: {','.join(project['keywords'])}",
        *(f"Classifier: {classifier}" for classifier in project["classifiers"]),
        *(f"Project-URL: {name}, {url}" for name, url in project["urls"].items()),
        "Description-Content-Type: text/markdown",
    ]
    for extra, requirements in project["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}", *(f"Requires-Dist: {one}; extra == '{extra}'" for one in requirements)]
    return "\n".join(lines) + "\n\n" + (SOURCES / "README.md").read_text()


def pack(version: str, program: Program, installed: Tree, seconds: int, level: int) -> tuple[str, bytes]:
    """Name and content of the wheel. The program finds its tools beside it, as in every package."""
    project = tomllib.loads((SOURCES / "pyproject.toml").read_text())["project"]
    info, data = f"toolcell-{version}.dist-info", f"toolcell-{version}.data/data"
    tree = package()
    tree["toolcell/__main__.py"] = File(MAIN.encode())
    tree["toolcell_launcher.py"] = File(LAUNCHER.encode())
    for path, file in installed.items():
        if path.startswith("bin/") or path.startswith("share/toolcell/"):
            tree[f"toolcell/{path}"] = file
        else:
            # pip puts these below the prefix of the environment.
            tree[f"{data}/{path}"] = file
    tags = [f"py3-none-{platform}" for platform in program.wheel.split(".")]
    told = ["Wheel-Version: 1.0", "Generator: toolcell", "Root-Is-Purelib: false", *(f"Tag: {tag}" for tag in tags)]
    tree = dict(sorted(tree.items()))
    tree[f"{info}/METADATA"] = File(metadata(project, version).encode())
    tree[f"{info}/WHEEL"] = File(("\n".join(told) + "\n").encode())
    tree[f"{info}/entry_points.txt"] = File(b"[console_scripts]\ntoolcell = toolcell_launcher:main\n")
    tree[f"{info}/licenses/LICENSE"] = File((ROOT / "LICENSE").read_bytes())
    record = [f"{path},{digest(file.content)},{len(file.content)}" for path, file in tree.items()]
    record.append(f"{info}/RECORD,,")
    tree[f"{info}/RECORD"] = File(("\n".join(record) + "\n").encode())
    return f"toolcell-{version}-py3-none-{program.wheel}.whl", zipped(tree, seconds, level)


def digest(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
