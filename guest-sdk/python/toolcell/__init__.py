"""Write toolcell tools in Python. A tool is a typed function; its declaration comes from its type hints and its docstring.

    from toolcell import tool

    @tool
    def count(text: str) -> str:
        \"\"\"Counts the words of a text.\"\"\"
        return f"{len(text.split())} words"

A parameter of type `Path` names a file that the tool reads, `WritablePath` one that it writes, `Url` what it reaches over the
network: a call may use what its arguments name, as far as the operator granted it.

A tool returns a `str` (text for the model), any value that becomes JSON (a dataclass declares its schema), or an `Output`.
An exception is a failure: raise `ToolError` with a code and a message of your own; the traceback of any other exception is
kept in the record of the call.

A call runs in a fresh copy of the state that the module had when it was built: nothing survives a call. Import everything at
the top of a module, because the standard library is not there when the tool runs.
"""

from typing import TYPE_CHECKING

from ._calls import Answer, Callable, call_tool, callable_tools
from ._configuration import configuration, configured
from ._context import Context, context
from ._declare import Facts, check, classify, preflight, tool
from ._errors import Canceled, NotAnswered, ToolError
from ._http import Response, fetch
from ._output import Output, audio, diff, file, image, link, text
from ._running import (
    Artifact, acknowledge, artifact, canceled, checkpoint, log, modify_context, partial_result, progress, wait,
)
from ._questions import ask, ask_all, remember, remembered
from ._schema import Url, WritablePath

__all__ = [
    "Answer", "Artifact", "Callable", "Canceled", "Context", "Facts", "NotAnswered", "Output", "Response", "ToolError", "Url",
    "WritablePath", "acknowledge", "artifact", "ask", "ask_all", "audio", "call_tool", "callable_tools", "canceled", "check", "checkpoint", "classify",
    "configuration", "configured", "context", "diff", "fetch", "file", "image", "link", "log", "modify_context",
    "partial_result", "preflight", "progress", "remember", "remembered", "text", "tool", "wait",
]

# A type checker would take every name for one of this module.
if not TYPE_CHECKING:

    def __getattr__(name):
        """Says of a client that is imported here where its package is, which has the same name."""
        if name in ("Toolcell", "AsyncToolcell", "ToolcellError"):
            message = (
                f"toolcell.{name} is in the client for callers, and {__file__} is the SDK for tools: import the client "
                "in a folder that is not the project of a tool"
            )
            raise ImportError(message, name=__name__, path=__file__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
