"""The files that a snippet made become artifacts."""

import dataclasses
import mimetypes
import os
import stat

from toolcell import ToolError, artifact

#: Maximum number of files that are kept.
FILES_MAX = 20
#: Maximum size of all of them, in bytes.
BYTES_MAX = 64 << 20
_CHUNK = 1 << 20

# The types that Python knows, wherever this runs.
mimetypes.init(files=[])


@dataclasses.dataclass
class File:
    """A file that is kept. `path` is relative to the working directory."""

    path: str
    size: int
    block: dict

    def entry(self):
        return {"path": self.path, "bytes": self.size, "reference": self.block["reference"]}


def keep(folder):
    """Makes artifacts of the files below `folder`, in the order of their paths. Returns them, and what was left out."""
    kept, left, room = [], 0, BYTES_MAX
    for path, size in sorted(_files(folder)):
        if len(kept) == FILES_MAX or size > room:
            left += 1
            continue
        try:
            block = _copy(os.path.join(folder, path), path)
        except (OSError, ToolError) as error:
            return kept, [f"{_name(path)} and later files are not kept: {error}"]
        room -= size
        kept.append(File(_name(path), size, block))
    if left == 0:
        return kept, []
    return kept, [f"{left} files are not kept: at most {FILES_MAX} with {BYTES_MAX >> 20} MiB together are"]


def _files(folder):
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not os.path.islink(os.path.join(place, name))]
        for name in names:
            path = os.path.join(place, name)
            found = os.lstat(path)
            # A link could lead to what was only granted for reading.
            if stat.S_ISREG(found.st_mode):
                yield os.path.relpath(path, folder), found.st_size


def _copy(place, path):
    media_type = mimetypes.guess_type(path)[0] or "application/octet-stream"
    with open(place, "rb") as source, artifact(_name(os.path.basename(path)), media_type) as target:
        while chunk := source.read(_CHUNK):
            target.write(chunk)
        return target.finish()


def _name(path):
    return path.encode("utf-8", "backslashreplace").decode()
