"""Not run: what the types of the package promise to a caller. mypy reads it with `warn_unused_ignores`."""

from __future__ import annotations

from typing import Any, Union

from toolcell import Approval, AsyncToolcell, Decision, Progress, Question, Result, Toolcell, ToolcellError


def approve(question: Approval) -> Union[bool, Decision]:
    return Decision(True, note="seen") if question.message else False


def fill(question: Question) -> dict[str, Any]:
    return {"name": question.message}


def calls() -> None:
    with Toolcell("jq.wasm", allow_read=["src"], timeout=5, config=False, approve=approve, fill=fill) as cell:
        result: Result = cell.call("jq", {"filter": "."}, timeout=1.5)
        tools: list[dict[str, Any]] = cell.tools("openai")
        answer: dict[str, Any] = cell.call({"type": "tool_use", "id": "a", "name": "jq", "input": {}})
        call = cell.submit("ticker", {"ticks": 3}, progress=True)
        updates: list[Progress] = list(call.progress())
        messages: list[dict[str, Any]] = cell.run({"role": "assistant"}, dialect="openai")
        print(result.text, tools, answer, updates, messages)
        cell.tools("latin")  # type: ignore[arg-type]
        cell.call("jq", "filter")  # type: ignore[call-overload]
    Toolcell(approve=7)  # type: ignore[arg-type]


async def async_calls() -> None:
    async def decide(question: Approval) -> bool:
        return question.is_cut

    async with AsyncToolcell("jq.wasm", approve=decide) as cell:
        result: Result = await cell.call("jq", {"filter": "."})
        running = await cell.submit("ticker", {"ticks": 3}, progress=True)
        messages: list[str | None] = [update.message async for update in running.progress()]
        try:
            print(result.text, messages, await running)
        except ToolcellError as error:
            print(error.error_class, error.code, error.retry_after)
