import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import LONG, WORDS, Make, run_snippet
from pydantic_ai import (
    Agent,
    BinaryContent,
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    ToolApproved,
    ToolDefinition,
    ToolDenied,
)
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from toolcell import Toolcell
from toolcell.pydantic_ai import ToolcellProgress, ToolcellToolset


class Model:
    """Makes the calls, and then ends."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.calls = calls
        self.listed: dict[str, ToolDefinition] = {}

    async def see(self, ctx: RunContext[None], tools: list[ToolDefinition]) -> list[ToolDefinition]:
        self.listed = {tool.name: tool for tool in tools}
        return tools

    async def stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        for at, part in enumerate(self(messages, info).parts):
            if isinstance(part, ToolCallPart):
                yield {at: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}
            elif isinstance(part, TextPart):
                yield part.content

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if any(isinstance(message, ModelResponse) for message in messages):
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart(name, args, f"call_{at}") for at, (name, args) in enumerate(self.calls)])


def agent(cell: Toolcell, model: Model) -> Agent[None, Any]:
    both = FunctionModel(model, stream_function=model.stream)
    toolset = ToolcellToolset[None](cell).prepared(model.see)
    return Agent(both, toolsets=[toolset], output_type=[str, DeferredToolRequests])


def answers(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


async def test_a_tool_has_its_schemas_and_a_result_its_value(client: Make) -> None:
    # A model sends null for what it leaves out.
    model = Model(("jq", {**WORDS, "max_outputs": None}))
    [answer] = answers((await agent(client("jq"), model).run("go")).all_messages())
    assert answer.content == {"outputs": [3], "truncated": False}
    assert answer.metadata["invocation_id"] and answer.outcome == "success"
    jq = model.listed["jq"]
    assert jq.parameters_json_schema["properties"]["max_outputs"]["maximum"] == 10000
    assert jq.return_schema is not None and jq.return_schema["required"] == ["outputs", "truncated"]


async def test_a_model_corrects_arguments_and_reads_failures(client: Make) -> None:
    model = Model(("jq", {"filter": "|"}), ("files_read", {"path": "/etc/passwd"}))
    messages = (await agent(client("jq", "files"), model).run("go")).all_messages()
    retried, failed = answers(messages)
    assert retried.outcome == "retried" and "[invalid_arguments/filter_invalid]" in str(retried.content)
    assert failed.outcome == "failed" and "[permission_denied/not_granted]" in str(failed.content)


async def test_an_image_is_binary_content(client: Make) -> None:
    model = Model(("everything_test_image_content", {}), ("everything_test_audio_content", {}))
    image, audio = answers((await agent(client("everything"), model).run("go")).all_messages())
    assert isinstance(image.content, BinaryContent) and image.content.media_type == "image/png"
    assert str(audio.content).startswith("[audio: ") and audio.metadata["content"][0]["data"]


@pytest.mark.parametrize(
    ("decision", "content", "status"),
    [
        (True, {"outputs": [3], "truncated": False}, "succeeded"),
        (ToolApproved(override_args={"filter": "1"}), {"outputs": [1], "truncated": False}, "succeeded"),
        (ToolDenied("not today"), "not today", "denied"),
    ],
)
async def test_an_approval_is_a_deferred_call(
    asking: Make, statuses: Callable[[int], list[str]], decision: Any, content: Any, status: str
) -> None:
    runs = agent(asking(), Model(("jq", WORDS)))
    first = await runs.run("go")
    assert isinstance(first.output, DeferredToolRequests)
    [call] = first.output.approvals
    assert first.output.metadata[call.tool_call_id]["message"].startswith("Approval needed")
    results = DeferredToolResults(approvals={call.tool_call_id: decision})
    second = await runs.run(message_history=first.all_messages(), deferred_tool_results=results)
    assert second.output == "done"
    [answer] = answers(second.all_messages())
    assert answer.content == content
    assert await asyncio.to_thread(statuses, 1) == [status]


async def test_an_approval_is_void_in_another_process(asking: Make) -> None:
    first = await agent(asking(), Model(("jq", WORDS))).run("go")
    runs = agent(asking(), Model())
    for output in (DeferredToolRequests, str):
        assert isinstance(first.output, DeferredToolRequests)
        first = await runs.run(
            message_history=first.all_messages(), deferred_tool_results=first.output.build_results(approve_all=True)
        )
        assert isinstance(first.output, output)


async def test_the_client_can_decide(asking: Make) -> None:
    model = Model(("jq", WORDS))
    [answer] = answers((await agent(asking(approve=lambda question: True), model).run("go")).all_messages())
    assert answer.outcome == "success"
    [answer] = answers((await agent(asking(approve="deny"), model).run("go")).all_messages())
    assert answer.outcome == "failed" and "approval_rejected" in str(answer.content)


async def test_progress_is_in_the_event_stream(client: Make) -> None:
    updates = []
    async with agent(client("ticker"), Model(("ticker", {"ticks": 2}))).run_stream_events("go") as events:
        async for event in events:
            if isinstance(event, ToolcellProgress):
                updates.append((event.message, event.tool_call_id))
    assert updates == [("tick 1 of 2", "call_0"), ("tick 2 of 2", "call_0")]


async def test_canceling_the_run_cancels_the_call(client: Make, statuses: Callable[[int], list[str]]) -> None:
    begun = asyncio.Event()

    async def run() -> None:
        async with agent(client("ticker"), Model(("ticker", LONG))).run_stream_events("go") as events:
            async for event in events:
                if isinstance(event, ToolcellProgress):
                    begun.set()

    task = asyncio.create_task(run())
    await asyncio.wait_for(begun.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(statuses, 1) == ["canceled"]


async def test_retries_are_the_agents(client: Make) -> None:
    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([ToolCallPart("jq", {"filter": "|"})])

    with pytest.raises(UnexpectedModelBehavior):
        await Agent(FunctionModel(model), toolsets=[ToolcellToolset(client("jq"))], retries=1).run("go")


def test_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run_snippet("Pydantic AI", {"model": FunctionModel(Model(("jq", WORDS)))}, tmp_path, monkeypatch)
    assert answers(names["result"].all_messages())[0].content == {"outputs": [3], "truncated": False}
