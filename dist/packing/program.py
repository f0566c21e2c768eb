"""What a built program is for: its platform, the libraries that it needs, and what comes with it."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .files import ROOT, File, Tree, gzipped

PROGRAM_MB_MAX = 50
"""Maximum size of an optimised program, in millions of bytes: see docs/decisions/0032."""

ELF_MACHINES = {0x3E: "x86_64", 0xB7: "aarch64"}
MACH_CPUS = {0x01000007: "x86_64", 0x0100000C: "aarch64"}
SHELLS = {
    "bash": "share/bash-completion/completions/toolcell",
    "zsh": "share/zsh/site-functions/_toolcell",
    "fish": "share/fish/vendor_completions.d/toolcell.fish",
}
TOOLS = "share/toolcell/tools"
"""Where the program looks for the tools that came with it, from the folder above its own."""


class Refused(Exception):
    """Why there is no package."""


@dataclass(frozen=True)
class Program:
    content: bytes
    os: str
    """linux or darwin"""
    arch: str
    """x86_64 or aarch64"""
    interpreter: str | None
    """The dynamic loader; None if the program is static."""
    libraries: tuple[str, ...]
    glibc: tuple[int, int] | None
    """The lowest version of glibc that has all symbols that the program uses."""

    @property
    def triple(self) -> str:
        """The platform as archives name it."""
        return f"{self.arch}-{self.os}"

    @property
    def node(self) -> str:
        """The platform as Node.js names it."""
        return f"{self.os}-{'x64' if self.arch == 'x86_64' else 'arm64'}"

    @property
    def debian(self) -> str:
        """The architecture as Debian and OCI name it."""
        return "amd64" if self.arch == "x86_64" else "arm64"

    @property
    def wheel(self) -> str:
        """The platform tag of a wheel."""
        if self.os == "darwin":
            return "macosx_11_0_arm64" if self.arch == "aarch64" else "macosx_10_12_x86_64"
        if self.interpreter is None:
            return f"manylinux_2_17_{self.arch}.manylinux2014_{self.arch}.musllinux_1_1_{self.arch}"
        if self.glibc is None:
            raise Refused("a wheel cannot say which C library the program needs: it is neither static nor built for glibc")
        return f"manylinux_{self.glibc[0]}_{self.glibc[1]}_{self.arch}"


def read(path: Path) -> Program:
    """Reads a program for Linux, without its debug information, or for macOS."""
    start = path.open("rb").read(64)
    if start[:4] == b"\xcf\xfa\xed\xfe":
        (cpu,) = struct.unpack_from("<I", start, 4)
        return Program(path.read_bytes(), "darwin", MACH_CPUS[cpu], None, (), None)
    if start[:4] != b"\x7fELF":
        raise Refused(f"{path} is no program for Linux or macOS")
    (machine,) = struct.unpack_from("<H", start, 18)
    if machine not in ELF_MACHINES:
        raise Refused(f"{path} is for a processor that no package is for")
    with tempfile.TemporaryDirectory() as folder:
        stripped = Path(folder) / "toolcell"
        shutil.copyfile(path, stripped)
        subprocess.run(["strip", stripped], check=True)
        content = stripped.read_bytes()
        told = subprocess.check_output(["readelf", "-W", "-l", "-d", "-V", stripped], text=True)
    interpreter = re.search(r"interpreter: ([^\]]+)\]", told)
    versions = [tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", told)]
    if "GLIBC_ABI_DT_RELR" in told:
        # Relative relocations that are packed, which earlier loaders refuse.
        versions.append((2, 36))
    return Program(
        content,
        "linux",
        ELF_MACHINES[machine],
        interpreter.group(1) if interpreter else None,
        tuple(re.findall(r"\(NEEDED\).*\[([^\]]+)\]", told)),
        max(versions, default=None),
    )


def prefix(path: Path, program: Program, tools: dict[str, Path], level: int) -> Tree:
    """What is installed below a prefix such as /usr: the program at `path`, tools, manual pages and completions."""
    tree: Tree = {"bin/toolcell": File(program.content, executable=True)}
    for name, tool in tools.items():
        tree[f"{TOOLS}/{name}.wasm"] = File(tool.read_bytes())
    descriptions = {name: description(path, tool) for name, tool in tools.items()}
    tree[f"{TOOLS}/descriptions.json"] = File(json.dumps(descriptions).encode())
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([path, "man", folder], check=True)
        for page in sorted(Path(folder).iterdir()):
            tree[f"share/man/man1/{page.name}.gz"] = File(gzipped(page.read_bytes(), level))
    for shell, place in SHELLS.items():
        tree[place] = File(subprocess.check_output([path, "completions", shell]))
    return tree


def description(program: Path, tool: Path) -> str:
    """One line for `toolcell list`."""
    told = json.loads(subprocess.check_output([program, "describe", tool, "--json"], text=True))
    first = [declaration["description"].splitlines()[0] for declaration in told["declarations"]]
    return "; ".join(line.split(". ")[0].rstrip(".") for line in first)


def documents() -> Tree:
    return {name: File((ROOT / name).read_bytes()) for name in ("LICENSE", "README.md", "CHANGELOG.md")}
