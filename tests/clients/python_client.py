"""The official Python client against `toolcell mcp` and `toolcell serve`, in each revision that it speaks."""

import asyncio
import os

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

TOOLCELL = os.environ["TOOLCELL"]
URL = os.environ["TOOLCELL_URL"]
TOKEN = os.environ["TOOLCELL_TOKEN"]
TOOLS = os.environ["TOOLCELL_TOOLS"].split()
PARALLEL = 20
# How the client finds the revision: by the handshake of the older one, or by the question of the newer one.
REVISIONS = {"legacy": "2025-11-25", "2026-07-28": "2026-07-28", "auto": "2026-07-28"}


async def exercise(client: Client) -> None:
    """Lists, and calls what answers in each way."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert {"everything_test_simple_text", "everything_test_image_content", "ticker"} <= set(tools), sorted(tools)
    assert tools["ticker"].input_schema["required"] == ["ticks"], tools["ticker"]
    assert tools["ticker"].description and tools["ticker"].annotations.read_only_hint

    said = await client.call_tool("everything_test_simple_text", {})
    assert not said.is_error and said.content[0].text == "This is a simple text response for testing.", said
    image = (await client.call_tool("everything_test_image_content", {})).content[0]
    assert (image.type, image.mime_type) == ("image", "image/png") and image.data.startswith("iVBORw0KGgo"), image

    heard = []

    async def progress(done: float, of: float | None, message: str | None) -> None:
        heard.append((done, of, message))

    ticked = await client.call_tool("ticker", {"ticks": 3, "interval_ms": 60}, progress_callback=progress)
    assert ticked.structured_content == {"ticks": 3, "of": 3, "text": "3 of 3 ticks"}, ticked
    assert heard and heard == sorted(heard, key=lambda update: update[0]), heard

    failed = await client.call_tool("everything_test_error_handling", {})
    assert failed.is_error and "intentionally" in failed.content[0].text, failed
    assert failed.meta["toolcell/error"]["class"] == "execution_failed", failed
    wrong = await client.call_tool("ticker", {"ticks": 0})
    assert wrong.is_error and wrong.meta["toolcell/error"]["class"] == "schema_validation_failed", wrong
    try:
        await client.call_tool("no_such_tool", {})
    except MCPError as error:
        assert error.code == -32602, error
    else:
        raise AssertionError("a tool that there is not was called")

    calls = [client.call_tool("ticker", {"ticks": 1 + at % 5}) for at in range(PARALLEL)]
    answers = [answer.structured_content["ticks"] for answer in await asyncio.gather(*calls)]
    assert answers == [1 + at % 5 for at in range(PARALLEL)], answers


def http(headers: dict[str, str]) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(headers=headers, timeout=60)


async def over_stdio(mode: str) -> str:
    parameters = StdioServerParameters(command=TOOLCELL, args=["mcp", *TOOLS], env=dict(os.environ))
    async with Client(parameters, mode=mode, read_timeout_seconds=120) as client:
        await exercise(client)
        return client.protocol_version


async def over_http(mode: str) -> str:
    async with http({"Authorization": f"Bearer {TOKEN}"}) as session:
        transport = streamable_http_client(URL, http_client=session)
        async with Client(transport, mode=mode, read_timeout_seconds=120) as client:
            await exercise(client)
            return client.protocol_version


async def refused(headers: dict[str, str]) -> None:
    """Without the token no request is accepted, neither the client's nor one made by hand."""
    async with http(headers) as session:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        answer = await session.post(URL, json=body, headers={"Accept": "application/json, text/event-stream"})
        assert answer.status_code == 401 and "test_simple_text" not in answer.text, answer
        try:
            async with Client(streamable_http_client(URL, http_client=session), mode="legacy") as client:
                await client.list_tools()
        except Exception:
            return
        raise AssertionError("the client came in without the token")


async def main() -> None:
    for mode, revision in REVISIONS.items():
        for transport in (over_stdio, over_http):
            spoken = await transport(mode)
            assert spoken == revision, f"{mode}: the client speaks {spoken}"
            print(f"python client {transport.__name__} mode={mode}: {spoken} ok", flush=True)
    await refused({})
    await refused({"Authorization": "Bearer " + "x" * len(TOKEN)})
    print("python client without the token: refused", flush=True)


asyncio.run(main())
