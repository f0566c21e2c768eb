import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    Model,
    ModelResponse,
    Runner,
    RunState,
    ToolGuardrailFunctionOutput,
    Usage,
    set_tracing_disabled,
    tool_input_guardrail,
)
from conftest import LONG, WORDS, Make, run_snippet
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from toolcell import Toolcell
from toolcell.openai_agents import approval, tools

set_tracing_disabled(True)


class Scripted(Model):
    """Makes the calls, at once or one after the other, and then ends."""

    def __init__(self, *calls: tuple[str, Any], at_once: bool = True) -> None:
        self.calls = calls
        self.at_once = at_once
        self.answered: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        items = [item for item in input if isinstance(item, dict)]
        self.answered = [item for item in items if item.get("type") == "function_call_output"]
        output: list[Any] = [
            ResponseFunctionToolCall(
                type="function_call",
                call_id=f"call_{at}",
                name=name,
                arguments=args if isinstance(args, str) else json.dumps(args),
            )
            for at, (name, args) in enumerate(self.calls)
        ]
        done = len(self.answered)
        if not self.at_once:
            output = output[done : done + 1]
        if done >= len(self.calls):
            text = ResponseOutputText(type="output_text", text="done", annotations=[])
            output = [
                ResponseOutputMessage(type="message", id="m", role="assistant", status="completed", content=[text])
            ]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def agent(cell: Toolcell, model: Model) -> Agent[Any]:
    return Agent(name="analyst", model=model, tools=list(tools(cell)))


async def outputs(cell: Toolcell, *calls: tuple[str, Any]) -> list[Any]:
    model = Scripted(*calls)
    await Runner.run(agent(cell, model), "go")
    return [item["output"] for item in model.answered]


async def test_a_tool_has_its_schema_and_a_result_its_text(client: Make, statuses: Callable[[int], list[str]]) -> None:
    cell = client("jq")
    jq = next(tool for tool in tools(cell) if tool.name == "jq")
    assert isinstance(jq, FunctionTool) and not jq.strict_json_schema
    assert jq.params_json_schema["required"] == ["filter"]
    # A model sends null for what it leaves out.
    assert await outputs(cell, ("jq", {**WORDS, "max_outputs": None})) == ["3"]
    assert statuses(1) == ["succeeded"]


async def test_runs_whose_calls_have_the_same_id_are_apart(client: Make) -> None:
    cell = client("jq")
    shared = agent(cell, Scripted()).tools
    models = [Scripted(("jq", {"filter": str(number)})) for number in range(8)]
    await asyncio.gather(*(Runner.run(Agent(name="one", model=model, tools=shared), "go") for model in models))
    assert [model.answered[0]["output"] for model in models] == [str(number) for number in range(8)]


async def test_a_model_reads_errors_and_refusals(client: Make) -> None:
    wrong, refused = await outputs(
        client("jq", "files"), ("jq", {"filter": "|"}), ("files_read", {"path": "/etc/passwd"})
    )
    assert "[invalid_arguments/filter_invalid]" in wrong
    assert "[permission_denied/not_granted]" in refused


async def test_arguments_that_are_not_an_object_are_an_error(client: Make) -> None:
    cell = client("jq", approve="deny")
    broken, listed = await outputs(cell, ("jq", '{"filter": '), ("jq", "[]"))
    assert "[invalid_arguments/arguments_not_json]" in broken
    assert "[invalid_arguments/arguments_not_an_object]" in listed


async def test_an_image_is_an_image(client: Make) -> None:
    calls = [(f"everything_test_{kind}_content", {}) for kind in ("image", "audio")]
    [image], audio = await outputs(client("everything"), *calls)
    assert image["type"] == "input_image" and image["image_url"].startswith("data:image/png;base64,")
    assert audio.startswith("[audio: ")


@pytest.mark.parametrize(("is_approved", "output", "status"), [(True, "3", "succeeded"), (False, "not", "denied")])
async def test_an_approval_interrupts_the_run(
    asking: Make, statuses: Callable[[int], list[str]], is_approved: bool, output: str, status: str
) -> None:
    model = Scripted(("jq", WORDS))
    runs = agent(asking(), model)
    first = await Runner.run(runs, "go")
    [item] = first.interruptions
    question = approval(item)
    assert question is not None and question.message.startswith("Approval needed")
    state = first.to_state()
    if is_approved:
        state.approve(item)
    else:
        state.reject(item)
    second = await Runner.run(runs, state)
    assert (second.final_output, second.interruptions) == ("done", [])
    assert output in model.answered[0]["output"]
    assert await asyncio.to_thread(statuses, 1) == [status]


async def test_an_approval_is_void_in_another_process(asking: Make) -> None:
    first = await Runner.run(agent(asking(), Scripted(("jq", WORDS))), "go")
    state = first.to_state()
    state.approve(first.interruptions[0])
    model = Scripted()
    runs = agent(asking(), model)
    await Runner.run(runs, await RunState.from_string(runs, state.to_string()))
    assert "make the same call again" in model.answered[0]["output"]


async def test_an_approval_for_all_calls_of_a_tool(asking: Make) -> None:
    model = Scripted(("jq", WORDS), ("jq", {"filter": "1"}), at_once=False)
    runs = agent(asking(), model)
    first = await Runner.run(runs, "go")
    state = first.to_state()
    state.approve(first.interruptions[0], always_approve=True)
    assert (await Runner.run(runs, state)).interruptions == []
    assert [item["output"] for item in model.answered] == ["3", "1"]


async def test_the_client_can_decide(asking: Make) -> None:
    assert await outputs(asking(approve=lambda question: True), ("jq", WORDS)) == ["3"]
    [denied] = await outputs(asking(approve="deny"), ("jq", WORDS))
    assert "approval_rejected" in denied


async def test_a_guardrail_sees_a_call_before_it_begins(asking: Make, client: Make, tmp_path: Path) -> None:
    @tool_input_guardrail
    def refuse(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("no")

    @tool_input_guardrail
    def allow(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.allow()

    for make, guardrail, output in [(client, refuse, "no"), (client, allow, "3"), (asking, allow, "approval_rejected")]:
        model = Scripted(("jq", WORDS))
        runs = agent(make("jq") if make is client else make(), model)
        for tool in runs.tools:
            assert isinstance(tool, FunctionTool)
            tool.tool_input_guardrails = [guardrail]
        await Runner.run(runs, "go")
        assert output in model.answered[0]["output"]
        assert bool((tmp_path / "records").read_text()) is (guardrail is allow)


async def test_canceling_the_run_cancels_the_call(client: Make, statuses: Callable[[int], list[str]]) -> None:
    cell = client("ticker")
    begun = asyncio.Event()

    class Watched(Scripted):
        async def get_response(self, *given: Any, **more: Any) -> ModelResponse:
            begun.set()
            return await super().get_response(*given, **more)

    task = asyncio.create_task(Runner.run(agent(cell, Watched(("ticker", LONG))), "go"))
    await asyncio.wait_for(begun.wait(), 60)
    # The SDK has no stream for the progress of a tool.
    await asyncio.sleep(2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(statuses, 1) == ["canceled"]


def test_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Scripted(("jq", WORDS))
    run_snippet("OpenAI Agents SDK", {"model": model}, tmp_path, monkeypatch)
    assert model.answered[0]["output"] == "3"
