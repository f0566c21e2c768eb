"""What a worker answers to an Arcade engine, in the types of Arcade's own package.

The engine signs its tokens as Arcade's does. What the worker answers has to fit the types, and to have nothing that they have
not.
"""

import json
import os
import secrets
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import jwt
from arcade_core.schema import ToolCallRequest, ToolCallResponse, ToolDefinition
from pydantic import BaseModel

TOOLCELL = os.environ["TOOLCELL"]
TOOLS = os.environ["TOOLCELL_TOOLS"].split()
# What the engine and its worker share.
SECRET = secrets.token_hex()
T = TypeVar("T", bound=BaseModel)
# A proxy of the environment knows nothing of this machine's loopback address.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@contextmanager
def worker() -> Iterator[tuple[str, str]]:
    """A server that is a worker, too: its address, and the token of its other clients."""
    # For its owner alone, as every such file.
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(SECRET)
        file.flush()
        arguments = [TOOLCELL, "serve", *TOOLS, "--listen=127.0.0.1:0", f"--arcade-secret-file={file.name}", "--no-config"]
        server = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
        try:
            said = {}
            while len(said) < 2:
                line = server.stderr.readline()
                assert line, "the server ended"
                for start in ("MCP at ", "Authorization: Bearer "):
                    if line.startswith(start):
                        said[start] = line.removeprefix(start).strip()
            # A full pipe would block the server.
            threading.Thread(target=server.stderr.read, daemon=True).start()
            yield said["MCP at "].removesuffix("/mcp"), said["Authorization: Bearer "]
        finally:
            server.terminate()
            server.wait(timeout=60)


def token(secret: str = SECRET, **claims: Any) -> str:
    claims = {"aud": "worker", "exp": int(time.time()) + 60, "ver": "1"} | claims
    return jwt.encode(claims, secret, algorithm="HS256")


def asked(path: str, body: str | None = None, bearer: str | None = None) -> tuple[int, Any]:
    headers = {"Content-Type": "application/json"}
    if bearer is not None:
        headers["Authorization"] = f"Bearer {bearer}"
    request = urllib.request.Request(BASE + path, body.encode() if body is not None else None, headers)
    try:
        with OPENER.open(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def parsed(kind: type[T], value: Any) -> T:
    """The value as the type `kind`, which has to know all of it."""
    known = kind.model_validate(value)
    again = known.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert again == value, f"{kind.__name__}: {value} has what the type has not: {again}"
    return known


def definitions() -> dict[str, ToolDefinition]:
    status, listed = asked("/worker/tools", bearer=token())
    assert status == 200, listed
    tools = [parsed(ToolDefinition, tool) for tool in listed]
    assert all(tool.fully_qualified_name == str(tool.get_fully_qualified_name()) for tool in tools), tools
    assert asked("/v1/dialects/arcade/tools", bearer=TOKEN) == (200, listed), "other clients get the same"
    return {tool.name: tool for tool in tools}


def called(tool: ToolDefinition, inputs: dict[str, Any], **fields: Any) -> ToolCallResponse:
    reference = {"name": tool.name, "toolkit": tool.toolkit.name, "version": tool.toolkit.version}
    fields = {"run_id": "run-1", "execution_id": str(uuid.uuid4()), "created_at": "2026-01-01T00:00:00Z"} | fields
    request = ToolCallRequest.model_validate({"tool": reference, "inputs": inputs, **fields})
    status, answer = asked("/worker/tools/invoke", request.model_dump_json(), token())
    assert status == 200, answer
    response = parsed(ToolCallResponse, answer)
    assert response.execution_id == request.execution_id, response
    assert response.success == (response.output.error is None and response.output.requires_authorization is None), response
    return response


def strangers() -> None:
    """Without a token that the engine signed, a worker only tells that it runs."""
    status, health = asked("/worker/health")
    assert status == 200 and health["status"] == "ok", health
    request = ToolCallRequest.model_validate({"tool": {"name": "test_simple_text", "toolkit": "everything"}})
    wrong = [None, TOKEN, token("another secret, just as long as it"), token(aud="client"), token(exp=int(time.time()) - 60)]
    for bearer in wrong:
        for body, path in [(None, "/worker/tools"), (request.model_dump_json(), "/worker/tools/invoke")]:
            status, answer = asked(path, body, bearer)
            assert status == 401, answer
            assert answer["code"] == "unauthorized", answer
    status, _ = asked("/v1/tools", bearer=token())
    assert status == 401, "an engine is no other client"


def calls() -> None:
    tools = definitions()
    assert {"test_simple_text", "test_image_content", "ticker"} <= set(tools), sorted(tools)
    [ticks] = [parameter for parameter in tools["ticker"].input.parameters if parameter.name == "ticks"]
    assert ticks.required and ticks.value_schema.val_type == "integer", ticks

    said = called(tools["test_simple_text"], {})
    assert said.output.value == "This is a simple text response for testing.", said
    image = called(tools["test_image_content"], {})
    assert isinstance(image.output.value, dict) and "image/png" in json.dumps(image.output.value), image

    one = str(uuid.uuid4())
    ticked = called(tools["ticker"], {"ticks": 3, "interval_ms": 60}, execution_id=one)
    assert ticked.output.value == {"ticks": 3, "of": 3}, ticked
    assert called(tools["ticker"], {"ticks": 3, "interval_ms": 60}, execution_id=one) == ticked, "the same execution"

    failed = called(tools["test_error_handling"], {}).output.error
    assert failed.is_tool_error and failed.extra["error_class"] == "execution_failed", failed
    wrong = called(tools["ticker"], {"ticks": 0}).output.error
    assert wrong.can_retry and wrong.extra["error_class"] == "schema_validation_failed", wrong
    other = tools["ticker"].model_copy(update={"name": "no_such_tool"})
    assert called(other, {}).output.error.extra["error_class"] == "unknown_tool"


with worker() as (BASE, TOKEN):
    for check in (strangers, calls):
        check()
        print(f"arcade package, {check.__name__}: ok", flush=True)
