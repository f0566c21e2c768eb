"""The Debian package: program, tool, manual pages and completions below /usr. It has no maintainer scripts."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from datetime import datetime, timezone
from pathlib import Path

from .files import ROOT, File, Tree, below, gzipped
from .program import Program

MAINTAINER = "The toolcell project <toolcell@users.noreply.github.com>"
COPYRIGHT = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: toolcell
Source: https://github.com/toolcell/toolcell

Files: *
Copyright: The toolcell project
License: Apache-2.0
 On Debian systems, the text of the licence is in
 /usr/share/common-licenses/Apache-2.0.
"""
CONTROL = """Package: toolcell
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {kibibytes}
{depends}Section: utils
Priority: optional
Homepage: https://github.com/toolcell/toolcell
Description: runs untrusted tools for agents in a WebAssembly sandbox
 Each call runs in a fresh sandbox with the permissions that were granted and
 with limits on CPU, time, memory and output. Tools are called on the command
 line, and offered to agents over MCP and HTTP.
"""


def pack(version: str, program: Program, installed: Tree, seconds: int, level: int) -> tuple[str, bytes]:
    tree = below("usr", installed)
    zsh = tree.pop("usr/share/zsh/site-functions/_toolcell")
    tree["usr/share/zsh/vendor-completions/_toolcell"] = zsh
    tree["usr/share/doc/toolcell/copyright"] = File(COPYRIGHT.encode())
    tree["usr/share/doc/toolcell/changelog.gz"] = File(gzipped(changelog(version, seconds).encode(), 9))
    tree["usr/share/doc/toolcell/README.md"] = File((ROOT / "README.md").read_bytes())
    size = sum(len(file.content) for file in tree.values())
    control = CONTROL.format(
        version=version,
        architecture=program.debian,
        maintainer=MAINTAINER,
        kibibytes=-(-size // 1024),
        depends=depends(program),
    )
    sums = "".join(f"{hashlib.md5(file.content).hexdigest()}  {path}\n" for path, file in sorted(tree.items()))
    tree["DEBIAN/control"] = File(control.encode())
    tree["DEBIAN/md5sums"] = File(sums.encode())
    with tempfile.TemporaryDirectory() as folder:
        place, built = Path(folder) / "root", Path(folder) / "toolcell.deb"
        write(place, tree, seconds)
        # xz takes a minute for a program that is not optimised.
        compressor = "-Zxz" if level > 5 else "-Zgzip"
        packer = ["dpkg-deb", "--root-owner-group", compressor, f"-z{min(level, 6)}", "--build", place, built]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(seconds)}
        subprocess.run(packer, check=True, env=environment, stdout=subprocess.DEVNULL)
        return f"toolcell_{version}_{program.debian}.deb", built.read_bytes()


def depends(program: Program) -> str:
    if program.glibc is None:
        return ""
    libraries = [f"libc6 (>= {program.glibc[0]}.{program.glibc[1]})"]
    if any(re.match(r"libgcc_s\b", library) for library in program.libraries):
        libraries.append("libgcc-s1")
    return f"Depends: {', '.join(libraries)}\n"


def changelog(version: str, seconds: int) -> str:
    date = datetime.fromtimestamp(seconds, timezone.utc).strftime("%a, %d %b %Y %H:%M:%S +0000")
    entry = "  * https://github.com/toolcell/toolcell/blob/main/CHANGELOG.md"
    return f"toolcell ({version}) unstable; urgency=medium\n\n{entry}\n\n -- {MAINTAINER}  {date}\n"


def write(place: Path, tree: Tree, seconds: int) -> None:
    for path, file in tree.items():
        target = place / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.content)
        target.chmod(file.mode)
    for path in [place, *place.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (seconds, seconds))
