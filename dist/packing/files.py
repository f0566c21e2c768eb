"""Files of a package, and archives of them that depend on nothing else: sorted, one time, no user."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import tarfile
import zipfile
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class File:
    """The content of a file, and whether it is executable."""

    content: bytes
    executable: bool = False

    @property
    def mode(self) -> int:
        return 0o755 if self.executable else 0o644


Tree = dict[str, File]
"""Files by their path in a package, with `/`."""


def epoch() -> int:
    """SOURCE_DATE_EPOCH, else the time of the last commit, in seconds."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is None:
        given = subprocess.check_output(["git", "log", "-1", "--format=%ct"], cwd=ROOT, text=True)
    return int(given)


def moment(seconds: int) -> str:
    """The time in RFC 3339."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def below(prefix: str, tree: Tree) -> Tree:
    return {f"{prefix}/{path}": file for path, file in tree.items()}


def tar(tree: Tree, seconds: int, folders: dict[str, tuple[int, int]] | None = None) -> bytes:
    """A tar archive of `tree`, with the folders above its files. `folders` gives some a mode and an owner."""
    known = {str(parent) for path in tree for parent in Path(path).parents} - {"."}
    special = folders or {}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(known | special.keys() | tree.keys()):
            info = tarfile.TarInfo(path)
            info.mtime = seconds
            file = tree.get(path)
            if file is None:
                info.type = tarfile.DIRTYPE
                info.mode, owner = special.get(path, (0o755, 0))
                info.uid = info.gid = owner
                archive.addfile(info)
            else:
                info.mode, info.size = file.mode, len(file.content)
                archive.addfile(info, io.BytesIO(file.content))
    return out.getvalue()


def gzipped(content: bytes, level: int) -> bytes:
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=level, mtime=0, filename="") as packed:
        packed.write(content)
    return out.getvalue()


def zipped(tree: Tree, seconds: int, level: int) -> bytes:
    """A zip archive of `tree`, in its order."""
    # The format begins in 1980, and has no time zone.
    time = max(datetime.fromtimestamp(seconds, timezone.utc), datetime(1980, 1, 1, tzinfo=timezone.utc))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for path, file in tree.items():
            info = zipfile.ZipInfo(path, time.timetuple()[:6])
            info.create_system = 3
            info.external_attr = (0o100000 | file.mode) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, file.content)
    return out.getvalue()
