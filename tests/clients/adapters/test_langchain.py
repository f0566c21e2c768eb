import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import LONG, WORDS, Make, component, run_snippet
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool, ToolException
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command
from toolcell import Toolcell
from toolcell.langchain import tools

THREAD: Any = {"configurable": {"thread_id": "1"}}
APPROVE = {"type": "approve"}


class Model(FakeMessagesListChatModel):
    def bind_tools(self, tools: Any, **_: Any) -> "Model":
        return self


def calling(*calls: tuple[str, dict[str, Any]]) -> AIMessage:
    made = [{"name": name, "args": args, "id": f"call_{at}"} for at, (name, args) in enumerate(calls)]
    return AIMessage("", tool_calls=made)


def agent(cell: Toolcell, *calls: tuple[str, dict[str, Any]], accept_partial_view: bool = False, **options: Any) -> Any:
    """Its model makes the calls at once, and then ends."""
    model = Model(responses=[calling(*calls), AIMessage("done")])
    return create_agent(model, tools(cell, accept_partial_view=accept_partial_view), **options)


def answers(state: Any) -> list[ToolMessage]:
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


def named(cell: Toolcell, name: str) -> BaseTool:
    return next(tool for tool in tools(cell) if tool.name == name)


class Standard:
    jq: BaseTool

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def open(cls) -> Iterator[None]:
        with Toolcell(component("jq"), config=False) as cell:
            cls.jq = named(cell, "jq")
            yield

    @property
    def tool_constructor(self) -> BaseTool:
        return self.jq

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return WORDS


class TestUnit(Standard, ToolsUnitTests):
    pass


class TestIntegration(Standard, ToolsIntegrationTests):
    pass


def test_a_tool_has_its_schema(client: Make) -> None:
    function = convert_to_openai_tool(named(client("jq"), "jq"))["function"]
    assert function["parameters"]["required"] == ["filter"]
    assert function["parameters"]["properties"]["max_outputs"]["maximum"] == 10000
    assert function["description"].startswith("Run")


def test_a_result_has_a_text_and_an_artifact(client: Make) -> None:
    # A model sends null for what it leaves out.
    [message] = answers(agent(client("jq"), ("jq", {**WORDS, "max_outputs": None})).invoke({"messages": ["go"]}))
    assert (message.content, message.status) == ("3", "success")
    assert message.artifact["structured_content"] == {"outputs": [3], "truncated": False}
    assert message.artifact["invocation_id"]


def test_a_model_reads_errors_and_refusals(client: Make) -> None:
    calls = agent(client("jq", "files"), ("jq", {"filter": "|"}), ("files_read", {"path": "/etc/passwd"}))
    wrong, refused = answers(calls.invoke({"messages": ["go"]}))
    assert wrong.status == refused.status == "error"
    assert "[invalid_arguments/filter_invalid]" in wrong.content
    assert "[permission_denied/not_granted]" in refused.content
    tool = named(client("jq"), "jq").model_copy(update={"handle_tool_error": False})
    with pytest.raises(ToolException, match="filter_invalid"):
        tool.invoke({"filter": "|"})


def test_an_image_is_a_block(client: Make) -> None:
    calls = agent(client("everything"), ("everything_test_image_content", {}), ("everything_test_audio_content", {}))
    image, audio = answers(calls.invoke({"messages": ["go"]}))
    [block] = image.content
    assert (block["type"], block["mime_type"], bool(block["base64"])) == ("image", "image/png", True)
    assert audio.content.startswith("[audio: ")
    assert audio.artifact["content"][0]["data"]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("decision", "content", "status"),
    [
        (APPROVE, "3", "success"),
        ({"type": "edit", "edited_action": {"name": "jq", "args": {"filter": "1"}}}, "1", "success"),
        ({"type": "edit", "edited_action": {"name": "other", "args": {"filter": "1"}}}, "not approved", "error"),
        ({"type": "reject", "message": "not today"}, "not today", "error"),
        (True, "not approved", "error"),
    ],
)
async def test_an_approval_is_an_interrupt(
    asking: Make, is_async: bool, decision: Any, content: str, status: str
) -> None:
    graph = agent(asking(), ("jq", WORDS), checkpointer=InMemorySaver())

    async def run(given: Any) -> Any:
        return await graph.ainvoke(given, THREAD) if is_async else graph.invoke(given, THREAD)

    [question] = (await run({"messages": ["go"]}))["__interrupt__"]
    assert question.value["type"] == "tool_approval"
    assert (question.value["name"], question.value["args"]) == ("jq", WORDS)
    assert question.value["description"].startswith("Approval needed")
    [message] = answers(await run(Command(resume=decision)))
    assert content in message.content and message.status == status


def test_calls_of_one_step_are_approved_each(asking: Make, statuses: Callable[[int], list[str]]) -> None:
    graph = agent(asking(), ("jq", WORDS), ("jq", {"filter": "1"}), checkpointer=InMemorySaver())
    asked = graph.invoke({"messages": ["go"]}, THREAD)["__interrupt__"]
    decisions = {one.id: APPROVE if one.value["args"] == WORDS else {"type": "reject"} for one in asked}
    first, second = answers(graph.invoke(Command(resume=decisions), THREAD))
    assert (first.content, second.status) == ("3", "error")
    assert sorted(statuses(2)) == ["denied", "succeeded"]


@pytest.mark.parametrize(("accepts", "status"), [(False, "error"), (True, "success")])
def test_a_part_of_a_call_is_not_approved_unknowingly(asking: Make, accepts: bool, status: str) -> None:
    long = {"filter": "length", "input": list(range(1000))}
    graph = agent(asking(), ("jq", long), accept_partial_view=accepts, checkpointer=InMemorySaver())
    [question] = graph.invoke({"messages": ["go"]}, THREAD)["__interrupt__"]
    assert question.value["is_cut"] and question.value["args"] == long
    [message] = answers(graph.invoke(Command(resume=APPROVE), THREAD))
    assert message.status == status


def test_a_question_expires(asking: Make) -> None:
    graph = agent(asking(approval_timeout=1), ("jq", WORDS), checkpointer=InMemorySaver())
    assert "__interrupt__" in graph.invoke({"messages": ["go"]}, THREAD)
    time.sleep(2)
    [message] = answers(graph.invoke(Command(resume=APPROVE), THREAD))
    assert message.status == "error" and "approval_expired" in message.content


def test_arguments_that_do_not_fit_are_asked_about_again(asking: Make) -> None:
    graph = agent(asking(), ("jq", WORDS), checkpointer=InMemorySaver())
    graph.invoke({"messages": ["go"]}, THREAD)
    edit = {"type": "edit", "edited_action": {"name": "jq", "args": {"filter": 7}}}
    [again] = graph.invoke(Command(resume=edit), THREAD)["__interrupt__"]
    assert "Your last answer is not valid" in again.value["description"]
    [message] = answers(graph.invoke(Command(resume=APPROVE), THREAD))
    assert message.content == "3"


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_question_of_a_tool_is_no_interrupt(client: Make, is_async: bool) -> None:
    cell = client("everything", fill=lambda form: {"name": "Ada"})
    tool = named(cell, "everything_test_input_required_result_elicitation")
    assert "Ada" in (await tool.ainvoke({}) if is_async else tool.invoke({}))


def test_an_approval_is_void_in_another_process(asking: Make) -> None:
    saver = InMemorySaver()
    agent(asking(), ("jq", WORDS), checkpointer=saver).invoke({"messages": ["go"]}, THREAD)
    later = create_agent(Model(responses=[AIMessage("done")]), tools(asking()), checkpointer=saver)
    state = later.invoke(Command(resume=APPROVE), THREAD)
    assert "__interrupt__" in state and not answers(state)
    [message] = answers(later.invoke(Command(resume=APPROVE), THREAD))
    assert message.content == "3"


def test_answers_of_one_task_are_not_mixed_up(asking: Make) -> None:
    """A ToolNode in a graph of one's own makes all calls of a message in one task."""
    graph: Any = StateGraph(MessagesState).add_node("tools", ToolNode(tools(asking()))).add_edge(START, "tools")
    graph = graph.compile(checkpointer=InMemorySaver())
    state = graph.invoke({"messages": [calling(("jq", WORDS), ("jq", {"filter": "1"}))]}, THREAD)
    [question] = state["__interrupt__"]
    done = answers(graph.invoke(Command(resume=APPROVE), THREAD))
    approved = [message for message in done if message.status == "success"]
    assert [message.content for message in approved] == ["3" if question.value["args"] == WORDS else "1"]
    [other] = [message for message in done if message.status == "error"]
    assert "make this call alone" in other.content


def test_the_client_can_decide(asking: Make) -> None:
    [message] = answers(agent(asking(approve=lambda question: True), ("jq", WORDS)).invoke({"messages": ["go"]}))
    assert message.content == "3"
    [message] = answers(agent(asking(approve="deny"), ("jq", WORDS)).invoke({"messages": ["go"]}))
    assert message.status == "error"


def test_nothing_runs_unapproved_outside_of_a_graph(asking: Make) -> None:
    message = named(asking(), "jq").invoke({"name": "jq", "args": WORDS, "id": "1", "type": "tool_call"})
    assert message.status == "error" and "approval_rejected" in message.content


def test_progress_is_in_the_stream(client: Make) -> None:
    calls = agent(client("ticker"), ("ticker", {"ticks": 2}))
    updates = list(calls.stream({"messages": ["go"]}, stream_mode="custom"))
    assert [update["message"] for update in updates] == ["tick 1 of 2", "tick 2 of 2"]
    assert {update["tool"] for update in updates} == {"ticker"}


async def test_canceling_the_run_cancels_the_call(client: Make, statuses: Callable[[int], list[str]]) -> None:
    begun = asyncio.Event()

    async def run() -> None:
        async for _ in agent(client("ticker"), ("ticker", LONG)).astream({"messages": ["go"]}, stream_mode="custom"):
            begun.set()

    task = asyncio.create_task(run())
    await asyncio.wait_for(begun.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(statuses, 1) == ["canceled"]


def test_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(responses=[calling(("jq", WORDS)), AIMessage("three")])
    names = run_snippet("LangChain and LangGraph", {"model": model}, tmp_path, monkeypatch)
    assert answers(names["state"])[0].content == "3"
