"""Calls untrusted tools, WebAssembly components, in the sandbox of the program `toolcell`.

    from toolcell import Toolcell

    with Toolcell("jq.wasm") as cell:
        print(cell.call("jq", {"filter": "length", "input": [1, 2, 3]}).structured)
"""

from typing import TYPE_CHECKING, NoReturn

from ._aio import AsyncCall, AsyncToolcell
from ._client import Call, Toolcell
from ._errors import ToolcellError
from ._files import FileChange, Snapshot, WorkspaceChanges, WorkspaceFile, WorkspaceInfo
from ._options import Options
from ._questions import Approval, Decision, Question
from ._result import Log, Progress, Result
from ._shapes import Dialect, Format
from ._workspace import AsyncWorkspace, Workspace, list_workspaces, list_workspaces_async

__all__ = [
    "Approval",
    "AsyncCall",
    "AsyncToolcell",
    "AsyncWorkspace",
    "Call",
    "Decision",
    "Dialect",
    "FileChange",
    "Format",
    "Log",
    "Options",
    "Progress",
    "Question",
    "Result",
    "Snapshot",
    "Toolcell",
    "ToolcellError",
    "Workspace",
    "WorkspaceChanges",
    "WorkspaceFile",
    "WorkspaceInfo",
    "list_workspaces",
    "list_workspaces_async",
]

# A type checker would take every name for one of this module.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        """Says of a tool that is imported here where its SDK is, which has the same name."""
        if name in ("tool", "testing", "ToolError"):
            message = (
                f"toolcell.{name} is in the SDK for tools, and {__file__} is the client for callers: `toolcell build` "
                "writes the SDK into the project of a tool, and it is found first from there"
            )
            raise ImportError(message, name=__name__, path=__file__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
