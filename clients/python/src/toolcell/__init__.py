"""Calls untrusted tools, WebAssembly components, in the sandbox of the program `toolcell`.

    from toolcell import Toolcell

    with Toolcell("jq.wasm") as cell:
        print(cell.call("jq", {"filter": "length", "input": [1, 2, 3]}).structured)
"""

from ._aio import AsyncCall, AsyncToolcell
from ._client import Call, Toolcell
from ._errors import ToolcellError
from ._options import Options
from ._questions import Approval, Decision, Question
from ._result import Log, Progress, Result
from ._shapes import Dialect, Format

__all__ = [
    "Approval",
    "AsyncCall",
    "AsyncToolcell",
    "Call",
    "Decision",
    "Dialect",
    "Format",
    "Log",
    "Options",
    "Progress",
    "Question",
    "Result",
    "Toolcell",
    "ToolcellError",
]
