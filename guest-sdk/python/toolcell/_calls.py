"""Calls of other tools: those that the tool's `tool_calls` name and that the operator granted."""

import dataclasses
import json
import typing

from . import _host
from ._errors import ToolError
from ._output import dumps


@dataclasses.dataclass
class Callable:
    """A tool that this call may call, by its qualified name."""

    name: str
    description: str


@dataclasses.dataclass
class Answer:
    """What a model would read of the result. `missing` says what is missing of a result that is usable and not complete."""

    invocation_id: str
    content: list
    structured: typing.Any = None
    missing: ToolError | None = None

    @property
    def text(self):
        return "\n".join(block["text"] for block in self.content if block.get("type") == "text")


def callable_tools():
    """Returns the tools that this call may call."""
    return [Callable(name, description) for name, description in _host.current().list_tools()]


def call_tool(name, /, **arguments):
    """Calls a tool and waits for its end. Raises its `ToolError` if it fails."""
    invocation, content, structured, missing = _host.current().call_tool(name, dumps(arguments))
    structured = None if structured is None else json.loads(structured)
    return Answer(invocation, json.loads(content), structured, missing)
