"""What the host says of the call."""

import dataclasses
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Context:
    """`cwd` is the caller's folder, if the call may use it; `scratch` a folder of this call alone, if the tool asked for one."""

    invocation_id: str = ""
    attempt: int = 1
    cwd: Path | None = None
    scratch: Path | None = None


_current = Context()


def context():
    """Returns what the host says of the current call."""
    return _current


def enter(invocation_id, attempt, fields):
    global _current
    place = lambda name: Path(fields[name]) if fields.get(name) else None
    _current = Context(invocation_id, attempt, place("cwd"), place("scratch"))
