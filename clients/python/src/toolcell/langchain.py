"""toolcell's tools for LangChain and LangGraph.

    from langchain.agents import create_agent
    from toolcell import Toolcell
    from toolcell.langchain import tools

    with Toolcell("jq.wasm") as cell:
        agent = create_agent(model, tools(cell))

A result is untrusted data: a tool wrote it. An error of a tool is a ToolMessage with the status `error`, which the model
reads; with `handle_tool_error = False` it is a ToolException. In a graph with a checkpointer, a call that needs an
approval is an interrupt, as HumanInTheLoopMiddleware makes one for each call: `Command(resume={"type": "approve"})` runs
it, `{"type": "edit", "edited_action": {"name": .., "args": ..}}` runs it with other arguments, and
`{"type": "reject", "message": ..}` does not. The keyword `approve` of Toolcell answers in its place.

The progress of a call is in the stream mode `custom`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, Literal, Optional, Union

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, ToolException
from langgraph.config import get_stream_writer
from langgraph.types import interrupt
from pydantic import PrivateAttr

from . import _adapter
from ._adapter import Asked, Calls, Image, Kept
from ._client import Toolcell
from ._errors import ToolcellError
from ._questions import Decision
from ._result import Progress, Result

__all__ = ["tools"]

_RESPONSE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "type": {"enum": ["approve", "edit", "reject"]},
        "edited_action": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "args": {"type": "object"}},
            "required": ["name", "args"],
        },
        "message": {"type": "string"},
    },
    "required": ["type"],
}


def tools(cell: Toolcell, *, accept_partial_view: bool = False) -> list[BaseTool]:
    """The tools of a client, for `create_agent`, `bind_tools` and ToolNode. They end with the client.

    A description of long arguments is cut, and an approval of it is refused. With `accept_partial_view` it counts: show
    all of `args` then.
    """
    calls, open = Calls(cell, accept_partial_view), _OpenCalls()
    return [
        _Tool(name=tool.name, description=tool.description, args_schema=tool.parameters).over(calls, open)
        for tool in calls.tools()
    ]


@dataclass
class _OpenCall:
    """The call of a task of a graph that was asked about. Each execution of the task makes the same interrupts."""

    name: str
    arguments: Mapping[str, Any]
    question: Optional[Asked] = None
    """None once it is answered."""
    used: int = 0
    """How many of the task's answers are used up."""


_OpenCalls = Kept[_OpenCall]
_Output = tuple[Union[str, list[Union[str, dict[str, Any]]]], dict[str, Any]]


class _Tool(BaseTool):
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    handle_tool_error: Any = True
    _calls: Calls = PrivateAttr()
    _open: _OpenCalls = PrivateAttr()

    def over(self, calls: Calls, open: _OpenCalls) -> _Tool:
        self._calls, self._open = calls, open
        return self

    # The parameter has a name that no argument of a tool has.
    def _run(self, /, *, toolcell_config: RunnableConfig, **arguments: Any) -> _Output:
        asking = _Asking(self, arguments, toolcell_config)
        try:
            outcome = asking.resumed() or self._calls.call(self.name, arguments, asking.on_progress)
            while isinstance(outcome, Asked):
                outcome = self._calls.answer(outcome, asking.decide(outcome), asking.on_progress)
        except ToolcellError as error:
            raise _readable(error) from error
        return _output(outcome)

    async def _arun(self, /, *, toolcell_config: RunnableConfig, **arguments: Any) -> _Output:
        asking = _Asking(self, arguments, toolcell_config)
        try:
            outcome = asking.resumed() or await self._calls.call_async(self.name, arguments, asking.on_progress)
            while isinstance(outcome, Asked):
                outcome = await self._calls.answer_async(outcome, asking.decide(outcome), asking.on_progress)
        except ToolcellError as error:
            raise _readable(error) from error
        return _output(outcome)


class _Asking:
    """The questions of one execution of a call.

    LangGraph executes a task again from its start once its interrupt is answered. The call then goes on in the program,
    and does not start again.
    """

    def __init__(self, tool: _Tool, arguments: Mapping[str, Any], config: RunnableConfig) -> None:
        self._tool = tool
        self._arguments = arguments
        self._task = _task(config)
        self._used = 0
        self._resumed: Optional[Asked] = None
        self.on_progress = _on_progress(tool.name)

    def resumed(self) -> Optional[Asked]:
        open = self._tool._open.get(self._task) if self._task else None
        if open is not None and self._is_of(open):
            self._resumed = open.question
        return self._resumed

    def decide(self, question: Asked) -> Decision:
        """The decision on a call. Raises GraphInterrupt to ask for it."""
        if self._task is None:
            return Decision(False, note="it can be approved in a graph, or by the function `approve` of the client")
        open = self._tool._open.get(self._task)
        if open is None:
            open = _OpenCall(self._tool.name, self._arguments)
            self._tool._open.keep(self._task, open)
        elif not self._is_of(open):
            # Their answers could not be told apart.
            return Decision(False, note="another call of the same step needs an approval: make this call alone")
        open.question = question
        while True:
            answer = interrupt(self._request(question), response_schema=_RESPONSE_SCHEMA)
            self._used += 1
            is_new = self._used > open.used
            open.used = max(self._used, open.used)
            # An answer that is there before its question was given to an earlier process, about an earlier question.
            if is_new and question is self._resumed:
                open.question = None
                return _decision(answer, question)

    def _is_of(self, open: _OpenCall) -> bool:
        return open.name == self._tool.name and open.arguments == self._arguments

    def _request(self, question: Asked) -> dict[str, Any]:
        return {
            "type": "tool_approval",
            "name": question.name,
            "args": dict(question.arguments),
            "description": question.approval.message,
            "is_cut": question.approval.is_cut,
            "invocation_id": question.approval.invocation_id,
            "expires_at": question.approval.expires_at,
        }


def _task(config: RunnableConfig) -> Optional[str]:
    """The task of a graph, the same in each of its executions; None outside of a graph."""
    facts = config.get("configurable") or {}
    namespace = facts.get("checkpoint_ns")
    return f"{facts.get('thread_id')}/{namespace}" if namespace else None


def _decision(answer: Any, question: Asked) -> Decision:
    """Anything but a clear yes is a no."""
    said: Mapping[str, Any] = answer if isinstance(answer, Mapping) else {}
    note = said.get("message")
    note = note if isinstance(note, str) else None
    if said.get("type") == "approve":
        return Decision(True, note=note)
    if said.get("type") == "edit":
        action = said.get("edited_action")
        edited = action.get("args") if isinstance(action, Mapping) and action.get("name") == question.name else None
        if isinstance(edited, Mapping):
            return Decision(True, note=note, arguments=dict(edited))
    return Decision(False, note=note)


def _on_progress(tool: str) -> Optional[Callable[[Progress], None]]:
    try:
        write = get_stream_writer()
    except (KeyError, RuntimeError):
        # Not in a graph.
        return None

    def tell(update: Progress) -> None:
        write(
            {
                "type": "toolcell_progress",
                "tool": tool,
                "progress": update.progress,
                "total": update.total,
                "message": update.message,
            }
        )

    return tell


def _readable(error: ToolcellError) -> ToolException:
    return ToolException(_adapter.text(error))


def _output(result: Result) -> _Output:
    found = _adapter.parts(result)
    if all(isinstance(part, str) for part in found):
        return "\n".join(str(part) for part in found), _adapter.facts(result)
    return [_block(part) for part in found], _adapter.facts(result)


def _block(part: Union[str, Image]) -> Union[str, dict[str, Any]]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image", "base64": part.data, "mime_type": part.media_type}
