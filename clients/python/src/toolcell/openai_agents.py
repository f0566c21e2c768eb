"""toolcell's tools for the OpenAI Agents SDK.

    from agents import Agent, Runner
    from toolcell import Toolcell
    from toolcell.openai_agents import tools

    with Toolcell("jq.wasm") as cell:
        agent = Agent(name="analyst", tools=list(tools(cell)))

A result is untrusted data: a tool wrote it. An error of a tool is a text that the model reads. A call that needs an
approval interrupts the run: `result.interruptions` has it, `state.approve(item)` runs it, `state.reject(item)` does
not, and `approval(item)` is the question. The keyword `approve` of Toolcell answers in its place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Optional, Union

from agents import FunctionTool, RunContextWrapper, ToolApprovalItem, ToolOutputImage, ToolOutputText, Usage
from agents.tool_context import ToolContext

from . import _adapter
from ._adapter import Asked, Calls, Image, Kept, Tool
from ._client import Toolcell
from ._errors import ToolcellError
from ._questions import Approval, Decision
from ._result import Result

__all__ = ["approval", "tools"]

_Output = Union[str, list[Union[ToolOutputText, ToolOutputImage]]]

_ASKED: Kept[Asked] = Kept()


def tools(cell: Toolcell, *, accept_partial_view: bool = False) -> list[FunctionTool]:
    """The tools of a client, for an Agent. They end with the client.

    A question about long arguments is cut, and an approval of it is refused. With `accept_partial_view` it counts: show
    all arguments of the interruption then.
    """
    calls = Calls(cell, accept_partial_view)
    return [_Function(tool, calls).tool for tool in calls.tools()]


def approval(item: ToolApprovalItem) -> Optional[Approval]:
    """The question of an interruption, as it is to be shown; None if it is not of a tool of this process."""
    question = _ASKED.get(f"{item.name}/{item.call_id}")
    # Not every model API gives each call another id.
    is_same = question is not None and question.arguments == _arguments(item.arguments or "")
    return question.approval if question is not None and is_same else None


class _Function:
    """One tool, and those of its calls that were begun before the SDK invokes them."""

    def __init__(self, tool: Tool, calls: Calls) -> None:
        self._calls = calls
        self._asked: Kept[Asked] = Kept()
        # With the usage of the run, which tells it from the other runs: not every model API gives each call another id.
        self._ended: Kept[tuple[Usage, Union[Result, ToolcellError]]] = Kept()
        self.tool = FunctionTool(
            name=tool.name,
            description=tool.description,
            params_json_schema=tool.parameters,
            on_invoke_tool=self._invoke,
            # Fields that may be left out would become fields that are demanded.
            strict_json_schema=False,
            is_enabled=self._is_enabled,
            needs_approval=self._needs_approval if calls.stops else False,
        )

    async def _needs_approval(self, ctx: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        """Begins the call, because the program decides whether it needs an approval. It stops at the question."""
        if self.tool.tool_input_guardrails:
            # They see a call before it begins. One that asks is then refused.
            return False
        outcome: Union[Result, Asked, ToolcellError]
        try:
            outcome = await self._calls.call_async(self.tool.name, arguments, None)
        except ToolcellError as error:
            outcome = error
        if isinstance(outcome, Asked):
            self._asked.keep(call_id, outcome)
            _ASKED.keep(f"{self.tool.name}/{call_id}", outcome)
            return True
        self._ended.keep(_key(ctx, call_id), (ctx.usage, outcome))
        return False

    async def _invoke(self, ctx: ToolContext[Any], given: str) -> _Output:
        ended = self._ended.take(_key(ctx, ctx.tool_call_id))
        if ended is not None:
            return _output(ended[1])
        try:
            return _output(await self._call(ctx, _arguments(given)))
        except ToolcellError as error:
            return _output(error)

    async def _call(self, ctx: ToolContext[Any], arguments: Mapping[str, Any]) -> Result:
        # The SDK invokes it only if it was approved.
        question = self._asked.take(ctx.tool_call_id)
        if question is not None and question.arguments == arguments:
            outcome = await self._calls.answer_async(question, Decision(True), None)
        else:
            outcome = await self._calls.call_async(self.tool.name, arguments, None)
        while isinstance(outcome, Asked):
            # About a question of another process, or another question: there is no approval of it.
            always = ctx.is_tool_approved(self.tool.name, "") is True
            note = "it needs an approval, for which this run cannot be interrupted: make the same call again"
            outcome = await self._calls.answer_async(outcome, Decision(always, note=None if always else note), None)
        return outcome

    async def _is_enabled(self, ctx: RunContextWrapper[Any], agent: Any) -> bool:
        """The SDK answers a rejected call by itself, and then asks which tools there are."""
        for call_id in self._asked.keys():
            if ctx.is_tool_approved(self.tool.name, call_id) is False:
                question = self._asked.take(call_id)
                if question is not None:
                    await self._calls.decline_async(question)
        return True


def _key(ctx: RunContextWrapper[Any], call_id: str) -> str:
    return f"{id(ctx.usage)}/{call_id}"


def _arguments(given: str) -> dict[str, Any]:
    try:
        arguments = json.loads(given or "{}")
    except ValueError as error:
        raise ToolcellError("invalid_arguments", "arguments_not_json", f"the arguments are not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise ToolcellError("invalid_arguments", "arguments_not_an_object", "the arguments are not a JSON object")
    return arguments


def _output(ended: Union[Result, ToolcellError]) -> _Output:
    found = _adapter.parts(ended)
    if all(isinstance(part, str) for part in found):
        return "\n".join(str(part) for part in found)
    return [_part(part) for part in found]


def _part(part: Union[str, Image]) -> Union[ToolOutputText, ToolOutputImage]:
    if isinstance(part, str):
        return ToolOutputText(text=part)
    return ToolOutputImage(image_url=f"data:{part.media_type};base64,{part.data}")
