"""The npm packages: `toolcell`, which is the client of `clients/npm` and the command, and one per platform."""

from __future__ import annotations

import json
from pathlib import Path

from .files import ROOT, File, Tree, below, gzipped, tar
from .program import Program, Refused

SOURCES = ROOT / "clients/npm"
LAUNCHER = ROOT / "dist/npm/toolcell.mjs"
PLATFORMS = ("darwin-arm64", "linux-arm64", "linux-x64")


def pack_platform(version: str, program: Program, installed: Tree, seconds: int, level: int) -> tuple[str, bytes]:
    """The package with the program, which npm installs where its platform is the machine's."""
    system, cpu = program.node.split("-")
    described = {
        "name": f"@toolcell/{program.node}",
        "version": version,
        "description": f"The program toolcell for {program.node}; install the package toolcell",
        "license": "Apache-2.0",
        "repository": {"type": "git", "url": "git+https://github.com/toolcell/toolcell.git"},
        "os": [system],
        "cpu": [cpu],
        "files": ["bin", "share"],
        "preferUnplugged": True,
    }
    if program.interpreter is not None and program.glibc is not None:
        described["libc"] = ["glibc"]
    kept = {path: file for path, file in installed.items() if path.startswith(("bin/", "share/toolcell/"))}
    tree = kept | {"package.json": document(described), "LICENSE": File((ROOT / "LICENSE").read_bytes())}
    return f"toolcell-{program.node}-{version}.tgz", gzipped(tar(below("package", tree), seconds), level)


def pack(version: str, seconds: int, level: int) -> tuple[str, bytes]:
    """The package `toolcell`. Its JavaScript has been built."""
    if not SOURCES.is_dir():
        raise Refused(f"the client is not at {SOURCES}")
    described = json.loads((SOURCES / "package.json").read_text())
    described["version"] = version
    described["bin"] = {"toolcell": "bin/toolcell.mjs"}
    described["optionalDependencies"] = {f"@toolcell/{platform}": version for platform in PLATFORMS}
    # They are for the sources.
    for field in ("scripts", "devDependencies", "private"):
        described.pop(field, None)
    tree: Tree = {}
    for name in described["files"]:
        place = SOURCES / name
        if not place.exists():
            raise Refused(f"{place} is missing: run `npm ci && npm run build` in {SOURCES.relative_to(ROOT)}")
        files = [place] if place.is_file() else [file for file in sorted(place.rglob("*")) if file.is_file()]
        tree |= {file.relative_to(SOURCES).as_posix(): File(file.read_bytes()) for file in files}
    described["files"] = sorted({*described["files"], "bin"})
    tree["package.json"] = document(described)
    tree["bin/toolcell.mjs"] = File(LAUNCHER.read_bytes(), executable=True)
    tree["README.md"] = File((SOURCES / "README.md").read_bytes())
    tree["LICENSE"] = File((ROOT / "LICENSE").read_bytes())
    return f"toolcell-{version}.tgz", gzipped(tar(below("package", tree), seconds), level)


def document(content: dict) -> File:
    return File((json.dumps(content, indent=2) + "\n").encode())


def main_package(folder: Path, version: str) -> Path:
    """The file that `pack` wrote into `folder`."""
    return folder / f"toolcell-{version}.tgz"
