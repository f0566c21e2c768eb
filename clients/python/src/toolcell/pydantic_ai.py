"""toolcell's tools for Pydantic AI.

    from pydantic_ai import Agent
    from toolcell import Toolcell
    from toolcell.pydantic_ai import ToolcellToolset

    agent = Agent("openai:gpt-5.5", toolsets=[ToolcellToolset(Toolcell("jq.wasm"))])

A result is untrusted data: a tool wrote it. The model can correct arguments that do not fit (ModelRetry); it reads any
other error as the failure of the call (ToolFailed). A call that needs an approval is deferred: an agent with
`DeferredToolRequests` in its `output_type` returns it, with the question in `metadata`, and goes on with
`DeferredToolResults`. The keyword `approve` of Toolcell answers in its place.

The progress of a call is in the event stream, as ToolcellProgress.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Optional, Union

from pydantic_ai import ApprovalRequired, BinaryContent, ModelRetry, RunContext, ToolFailed, ToolReturn
from pydantic_ai.messages import CustomEvent, ModelRequest
from pydantic_ai.tools import AgentDepsT, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from . import _adapter
from ._adapter import Asked, Calls, Image, Kept, Tool
from ._client import Toolcell
from ._errors import ToolcellError
from ._questions import Decision
from ._result import Progress, Result

__all__ = ["ToolcellProgress", "ToolcellToolset"]

# The program checks the arguments.
_ANY = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))
_CORRECTABLE = ("invalid_arguments", "schema_validation_failed")


@dataclass(kw_only=True)
class ToolcellProgress(CustomEvent):
    """What a tool says of its work."""

    progress: float
    total: Optional[float]
    message: Optional[str]


class ToolcellToolset(AbstractToolset[AgentDepsT]):
    """The tools of a client, which starts with the first run. Close the client after the last one.

    A question about long arguments is cut, and an approval of it is refused. With `accept_partial_view` it counts: show
    all arguments of the deferred call then.
    """

    def __init__(self, cell: Toolcell, *, id: Optional[str] = None, accept_partial_view: bool = False) -> None:
        self._calls = Calls(cell, accept_partial_view)
        self._asked: Kept[Asked] = Kept()
        self._id = id

    @property
    def id(self) -> Optional[str]:
        return self._id

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        await self._decline_denied(ctx)
        return {tool.name: self._tool(tool, ctx) for tool in await self._calls.tools_async()}

    def _tool(self, tool: Tool, ctx: RunContext[AgentDepsT]) -> ToolsetTool[AgentDepsT]:
        definition = ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=tool.parameters,
            return_schema=tool.output,
        )
        return ToolsetTool(toolset=self, tool_def=definition, max_retries=ctx.max_retries, args_validator=_ANY)

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        async def on_progress(update: Progress) -> None:
            await ctx.emit(ToolcellProgress(progress=update.progress, total=update.total, message=update.message))

        key = ctx.tool_call_id or ""
        # Without a question that is open, an approval is for one of an earlier process, and counts for nothing.
        question = self._asked.take(key) if ctx.tool_call_approved else None
        try:
            if question is None:
                outcome = await self._calls.call_async(name, tool_args, on_progress)
            else:
                edited = None if tool_args == question.arguments else tool_args
                outcome = await self._calls.answer_async(question, Decision(True, arguments=edited), on_progress)
        except ToolcellError as error:
            failed = ModelRetry if error.error_class in _CORRECTABLE else ToolFailed
            raise failed(_adapter.text(error)) from error
        if isinstance(outcome, Asked):
            self._asked.keep(key, outcome)
            approval = outcome.approval
            raise ApprovalRequired(
                {
                    "message": approval.message,
                    "is_cut": approval.is_cut,
                    "invocation_id": approval.invocation_id,
                    "expires_at": approval.expires_at,
                }
            )
        return ToolReturn(_value(outcome, tool.tool_def.return_schema), metadata=_adapter.facts(outcome))

    async def _decline_denied(self, ctx: RunContext[AgentDepsT]) -> None:
        """Pydantic AI answers a denied call by itself."""
        open = self._asked.keys()
        if not open:
            return
        requests = (message for message in ctx.messages if isinstance(message, ModelRequest))
        answered = {getattr(part, "tool_call_id", None) for request in requests for part in request.parts}
        for key in open:
            question = self._asked.take(key) if key in answered else None
            if question is not None:
                await self._calls.decline_async(question)


def _value(result: Result, schema: Optional[dict[str, Any]]) -> Any:
    """The structured output, if the tool declares one: code mode reads it. Otherwise what a model reads."""
    found: list[Any] = [_part(part) for part in _adapter.parts(result)]
    if schema is not None and result.structured is not None:
        images = [part for part in found if not isinstance(part, str)]
        return [result.structured, *images] if images else result.structured
    return found[0] if len(found) == 1 else found


def _part(part: Union[str, Image]) -> Union[str, BinaryContent]:
    if isinstance(part, str):
        return part
    return BinaryContent(data=base64.b64decode(part.data), media_type=part.media_type)
