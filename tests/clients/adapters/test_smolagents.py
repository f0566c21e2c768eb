import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import LONG, WORDS, Make, run_snippet
from PIL.Image import Image
from smolagents import CodeAgent, Model, ToolCallingAgent
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole
from smolagents.monitoring import LogLevel
from toolcell import Toolcell, ToolcellError
from toolcell.smolagents import tools


class Scripted(Model):
    """Makes one call after the other, and then answers with what it was told last."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        super().__init__(model_id="scripted")
        self.calls = list(calls)
        self.read: list[str] = []

    def generate(self, messages: list[ChatMessage], **_: Any) -> ChatMessage:
        self.read.append(str(messages[-1].content))
        name, arguments = self.calls.pop(0) if self.calls else ("final_answer", {"answer": "done"})
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        call = ChatMessageToolCall(id=f"call_{len(self.read)}", type="function", function=function)
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])


class Coder(Model):
    def __init__(self, code: str) -> None:
        super().__init__(model_id="coder")
        self.code = code

    def generate(self, messages: list[ChatMessage], **_: Any) -> ChatMessage:
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: go\n<code>\n{self.code}\n</code>")


def read(cell: Toolcell, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    """What a model reads after each call."""
    model = Scripted(*calls)
    ToolCallingAgent(tools=tools(cell), model=model, verbosity_level=LogLevel.OFF).run("go")
    return model.read[1:]


def test_a_tool_has_inputs_and_a_result_its_value(client: Make) -> None:
    cell = client("jq")
    jq = next(tool for tool in tools(cell) if tool.name == "jq")
    assert jq.inputs["filter"]["type"] == "string" and "nullable" not in jq.inputs["filter"]
    assert (jq.inputs["input"]["type"], jq.inputs["max_outputs"]["nullable"]) == ("any", True)
    # A model sends null for what it leaves out.
    [result] = read(cell, ("jq", {**WORDS, "max_outputs": None}))
    assert "{'outputs': [3], 'truncated': False}" in result


def test_code_reads_the_structured_output(client: Make) -> None:
    code = 'final_answer(jq(filter="length", input=[1, 2, 3])["outputs"][0] + 1)'
    agent = CodeAgent(tools=tools(client("jq")), model=Coder(code), verbosity_level=LogLevel.OFF)
    assert agent.run("go") == 4


def test_a_model_reads_errors_and_refusals(client: Make) -> None:
    wrong, refused = read(client("jq", "files"), ("jq", {"filter": "|"}), ("files_read", {"path": "/etc/passwd"}))
    assert "[invalid_arguments/filter_invalid]" in wrong
    assert "[permission_denied/not_granted]" in refused


def test_an_image_is_an_image(client: Make) -> None:
    named = {tool.name: tool for tool in tools(client("everything"))}
    assert isinstance(named["everything_test_image_content"](), Image)
    assert named["everything_test_audio_content"]().startswith("[audio: ")


def test_the_client_decides(asking: Make) -> None:
    [denied] = read(asking(), ("jq", WORDS))
    assert "approval_rejected" in denied
    [approved] = read(asking(approve=lambda question: True), ("jq", WORDS))
    assert "[3]" in approved


def test_closing_the_client_cancels_the_call(client: Make, statuses: Callable[[int], list[str]]) -> None:
    cell = client("ticker")
    ticker = next(tool for tool in tools(cell) if tool.name == "ticker")
    threading.Timer(2, cell.close).start()
    with pytest.raises(ToolcellError, match="client_closed"):
        ticker(**LONG)
    assert statuses(1) == ["canceled"]


def test_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Scripted(("jq", WORDS))
    run_snippet("smolagents", {"model": model}, tmp_path, monkeypatch)
    assert json.dumps([3]) in model.read[1]
