"""What `toolcell export` and `toolcell respond` print, in the types of the official packages of OpenAI and Anthropic.

A response is made of the package's own types, as the API would send it. What comes back has to be what the package would send.
Nothing is sent.
"""

import json
import os
import subprocess
from typing import Any

from anthropic.types import Message, MessageParam, ToolParam
from openai.types.chat import ChatCompletion, ChatCompletionFunctionToolParam
from openai.types.chat import ChatCompletionToolMessageParam, ChatCompletionUserMessageParam
from openai.types.responses import FunctionToolParam, Response
from openai.types.responses.response_input_item_param import FunctionCallOutput
from pydantic import TypeAdapter

TOOLCELL = os.environ["TOOLCELL"]
TOOLS = os.environ["TOOLCELL_TOOLS"].split()
# Id, name and arguments of each call, and what its result holds.
CALLS = [
    ("call_1", "everything_test_simple_text", "{}", "This is a simple text response for testing."),
    ("call_2", "everything_test_image_content", "{}", "image"),
    ("call_3", "everything_test_error_handling", "{}", "ERROR [execution_failed/intentional]: "),
    ("call_4", "ticker", '{"ticks": 0}', "ERROR [schema_validation_failed/"),
    ("call_5", "no_such_tool", "{}", "ERROR [unknown_tool/unknown_tool]: "),
]
# Arguments that are cut off. Those of Anthropic arrive as a value.
CUT = ("call_6", "ticker", '{"ticks": ', "ERROR [invalid_arguments/arguments_not_json]: ")


def toolcell(command: str, dialect: str, message: str = "", code: int = 0) -> Any:
    arguments = [TOOLCELL, command, *TOOLS, f"--dialect={dialect}", "--no-config"]
    ran = subprocess.run(arguments, input=message, capture_output=True, text=True, timeout=600)
    assert ran.returncode == code, ran
    return json.loads(ran.stdout)


def whole(value: Any) -> Any:
    """The value with every list of it read: pydantic checks the items of an `Iterable` only then."""
    if isinstance(value, dict):
        return {name: whole(inner) for name, inner in value.items()}
    if isinstance(value, (str, bytes, int, float, bool)) or value is None:
        return value
    return [whole(inner) for inner in value]


def parsed(kind: Any, value: Any) -> Any:
    """The value as the type `kind`, which has to know all of it."""
    # It has to live until all lists are read.
    adapter = TypeAdapter(kind)
    known = whole(adapter.validate_python(value))
    assert known == value, f"{kind}: {value} has what the type has not: {known}"
    return known


def names(tools: list[dict]) -> set[str]:
    return {tool.get("function", tool)["name"] for tool in tools}


def exported(dialect: str, kind: Any) -> None:
    tools = [parsed(kind, tool) for tool in toolcell("export", dialect)]
    assert {"everything_test_simple_text", "everything_test_image_content", "ticker"} <= names(tools), names(tools)


def chat() -> None:
    exported("openai", ChatCompletionFunctionToolParam)
    asked = [*CALLS, CUT]
    calls = [{"id": id, "type": "function", "function": {"name": name, "arguments": text}} for id, name, text, _ in asked]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    response = {"id": "r", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    *results, images = toolcell("respond", "openai", ChatCompletion.model_validate(response).model_dump_json(), code=1)
    assert len(results) == len(asked), results
    for (id, _, _, held), result in zip(asked, results):
        result = parsed(ChatCompletionToolMessageParam, result)
        assert result["tool_call_id"] == id and held in result["content"], result
    said, image = parsed(ChatCompletionUserMessageParam, images)["content"]
    assert "call_2" in said["text"] and image["image_url"]["url"].startswith("data:image/png;base64,iVBORw0KGgo"), image


def responses() -> None:
    exported("openai-responses", FunctionToolParam)
    asked = [*CALLS, CUT]
    calls = [{"type": "function_call", "call_id": id, "name": name, "arguments": text} for id, name, text, _ in asked]
    response = {"id": "r", "object": "response", "created_at": 1, "model": "m", "output": calls, "tools": []}
    response |= {"parallel_tool_calls": True, "tool_choice": "auto"}
    results = toolcell("respond", "openai-responses", Response.model_validate(response).model_dump_json(), code=1)
    assert len(results) == len(asked), results
    for (id, _, _, held), result in zip(asked, results):
        result = parsed(FunctionCallOutput, result)
        assert result["call_id"] == id and held in json.dumps(result["output"]), result
    [image] = results[1]["output"]
    assert image["image_url"].startswith("data:image/png;base64,iVBORw0KGgo"), image


def messages() -> None:
    exported("anthropic", ToolParam)
    calls = [{"type": "tool_use", "id": id, "name": name, "input": json.loads(text)} for id, name, text, _ in CALLS]
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": calls}
    message |= {"stop_reason": "tool_use", "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    [answer] = toolcell("respond", "anthropic", Message.model_validate(message).model_dump_json(), code=1)
    results = parsed(MessageParam, answer)["content"]
    assert answer["role"] == "user" and len(results) == len(CALLS), answer
    for (id, _, _, held), result in zip(CALLS, results):
        assert result["tool_use_id"] == id and held in json.dumps(result["content"]), result
        assert result["is_error"] == held.startswith("ERROR"), result
    [image] = results[1]["content"]
    assert image["source"]["media_type"] == "image/png", image


for check in (chat, responses, messages):
    check()
    print(f"python packages, {check.__name__}: ok", flush=True)
