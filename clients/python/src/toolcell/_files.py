"""Files of workspaces, and their changes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Optional

from ._errors import ToolcellError

# As the program checks it. No path matches.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class WorkspaceFile:
    """A file of a workspace."""

    path: str
    """Within the workspace, without a leading slash."""
    size: int
    """Bytes."""
    digest: Optional[str] = None
    """`sha256:<hex>` of the content; None in the list of a running client."""


@dataclass(frozen=True)
class FileChange:
    """A file that was added, changed or removed."""

    path: str
    """Within the workspace, without a leading slash."""
    change: Literal["added", "changed", "removed"]
    size: Optional[int] = None
    """Bytes; None for a removed file and a link."""
    digest: Optional[str] = None
    """`sha256:<hex>` of the content; None for a removed file and a link."""


@dataclass(frozen=True)
class WorkspaceChanges:
    """Changes in a workspace, by a call or between snapshots. Paths are untrusted, because tools choose them."""

    name: str
    """Name of the workspace."""
    changes: list[FileChange]
    """The first 100, sorted by path."""
    more: int = 0
    """Number of changed files that are not in `changes`."""
    problem: Optional[str] = None
    """Reason why the changes are unknown; None if they are known."""


@dataclass(frozen=True)
class Snapshot:
    """A snapshot of the files of a workspace."""

    id: str
    created_at: str
    """RFC 3339."""
    files: int
    """Number of files, folders and links."""
    bytes: int


@dataclass(frozen=True)
class WorkspaceInfo:
    """A workspace, with its use and its quota."""

    name: str
    created_at: str
    """RFC 3339."""
    used_at: str
    """RFC 3339."""
    files: int
    """Number of files, folders and links."""
    bytes: int
    """Bytes of the files."""
    snapshot_count: int
    snapshot_bytes: int
    quota_files: int
    quota_bytes: int
    """Maximum of `bytes` and `snapshot_bytes` together."""


def checked_name(name: Any, what: str) -> str:
    """Returns the name of a workspace or snapshot. Raises ToolcellError if it is not valid."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    rule = "it has 1 to 64 letters, digits, `.`, `_` and `-`, and begins with a letter or digit"
    message = f"cannot use {name!r:.100} as the name of a {what}: {rule}"
    raise ToolcellError("invalid_arguments", "workspace_name_invalid", message)


def file_of(facts: Mapping[str, Any]) -> WorkspaceFile:
    return WorkspaceFile(facts["path"], facts["size"], facts["digest"])


def changes_of(name: str, facts: Mapping[str, Any]) -> WorkspaceChanges:
    changes = [FileChange(one["path"], one["change"], one.get("size"), one.get("digest")) for one in facts["files"]]
    return WorkspaceChanges(name, changes, facts.get("more", 0), facts.get("problem"))


def snapshot_of(facts: Mapping[str, Any]) -> Snapshot:
    usage = facts["usage"]
    return Snapshot(facts["id"], facts["created_at"], usage["files"], usage["bytes"])


def info_of(facts: Mapping[str, Any]) -> WorkspaceInfo:
    usage, quota = facts["usage"], facts["quota"]
    return WorkspaceInfo(
        name=facts["name"],
        created_at=facts["created_at"],
        used_at=facts["used_at"],
        files=usage["files"],
        bytes=usage["bytes"],
        snapshot_count=facts["snapshot_count"],
        snapshot_bytes=facts["snapshot_bytes"],
        quota_files=quota["files"],
        quota_bytes=quota["bytes"],
    )
