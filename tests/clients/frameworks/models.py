"""What the model of a framework gets from tools: each framework over standard streams and over HTTP. Some pass on the structured
content of an answer alone, some the text alone, so each must be whole. Nothing may be warned of, at the end of a session either.

models.py FRAMEWORK..: they need different versions of the MCP package, so each is imported where it is used."""

import asyncio
import contextlib
import http.server
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

TOOLCELL = os.environ["TOOLCELL"]
TOOLS = os.environ["TOOLCELL_FRAMEWORK_TOOLS"].split()
CITIES = "name,people\nBern,134591\nOslo,709037\n"
PAGE = b"<html><head><title>Hi</title></head><body><p>Peter Piper</p></body></html>"

Call = tuple[str, dict[str, Any]]
# Where a server is: a command with its arguments, or an address with its headers.
Command = list[str]
Address = tuple[str, dict[str, str]]


def calls(url: str) -> list[tuple[str, dict[str, Any], str]]:
    """Name and arguments of each call, and what its result holds."""
    return [
        ("files_read", {"path": "cities.csv"}, "Bern,134591"),
        ("files_list", {}, "cities.csv"),
        ("files_search", {"pattern": "Oslo"}, "Oslo,709037"),
        ("web_fetch", {"url": url}, "Peter Piper"),
        ("jq", {"filter": ".a + 1", "input": {"a": 41}}, "42"),
        ("sql_query", {"sql": "select sum(people) as total from cities", "files": [{"path": "cities.csv"}]}, "843628"),
        ("ticker", {"ticks": 1}, "1 of 1 ticks"),
    ]


async def with_pydantic_ai(place: Command | Address, wanted: list[Call]) -> AsyncIterator[str]:
    """The model answers with one call after the other, and sees what came back."""
    from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    got: list[Any] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert {name for name, _ in wanted} <= {tool.name for tool in info.function_tools}, info.function_tools
        parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
        got[:] = [part.content for part in parts if isinstance(part, ToolReturnPart)]
        if len(got) == len(wanted):
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart(*wanted[len(got)])])

    if isinstance(place, list):
        transport: Any = StdioTransport(command=place[0], args=place[1:], env=dict(os.environ))
    else:
        transport = StreamableHttpTransport(place[0], headers=place[1])
    agent = Agent(FunctionModel(model), toolsets=[MCPToolset(transport)])
    async with agent:
        await agent.run("look at the cities")
    for content in got:
        yield text_of(content)


async def with_openai_agents(place: Command | Address, wanted: list[Call]) -> AsyncIterator[str]:
    from agents import RunContextWrapper
    from agents.mcp import MCPServer, MCPServerStdio, MCPServerStreamableHttp, MCPUtil

    if isinstance(place, list):
        params: Any = {"command": place[0], "args": place[1:], "env": dict(os.environ)}
        server: MCPServer = MCPServerStdio(params, client_session_timeout_seconds=60)
    else:
        params = {"url": place[0], "headers": place[1]}
        server = MCPServerStreamableHttp(params, client_session_timeout_seconds=60)
    async with server:
        tools = {tool.name: tool for tool in await server.list_tools()}
        for tool in tools.values():
            MCPUtil.to_function_tool(tool, server, convert_schemas_to_strict=True)
        for name, arguments in wanted:
            got = await MCPUtil.invoke_mcp_tool(server, tools[name], RunContextWrapper(None), json.dumps(arguments))
            yield text_of(got)


async def with_langchain(place: Command | Address, wanted: list[Call]) -> AsyncIterator[str]:
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from langchain_mcp_adapters.tools import load_mcp_tools

    if isinstance(place, list):
        connection: Any = {"transport": "stdio", "command": place[0], "args": place[1:], "env": dict(os.environ)}
    else:
        connection = {"transport": "streamable_http", "url": place[0], "headers": place[1]}
    async with MultiServerMCPClient({"toolcell": connection}).session("toolcell") as session:
        tools = {tool.name: tool for tool in await load_mcp_tools(session)}
        for name, arguments in wanted:
            call = {"name": name, "args": arguments, "id": "1", "type": "tool_call"}
            yield text_of((await tools[name].ainvoke(call)).content)


async def with_llama_index(place: Command | Address, wanted: list[Call]) -> AsyncIterator[str]:
    from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

    if isinstance(place, list):
        client = BasicMCPClient(place[0], args=place[1:], env=dict(os.environ), timeout=60)
    else:
        client = BasicMCPClient(place[0], headers=place[1], timeout=60)
    tools = {tool.metadata.name: tool for tool in await McpToolSpec(client).to_tool_list_async()}
    for name, arguments in wanted:
        yield (await tools[name].acall(**arguments)).content


def text_of(content: Any) -> str:
    """The text of what a model gets: of values and of lists of blocks too, as a model reads them."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(text_of(part) for part in content)
    if isinstance(content, dict):
        return "\n".join(text_of(part) for part in content.values())
    return str(content)


@contextlib.contextmanager
def page() -> Iterator[str]:
    """A page on this machine."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(PAGE)))
            self.end_headers()
            self.wfile.write(PAGE)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


@contextlib.contextmanager
def served(options: list[str]) -> Iterator[Address]:
    """A server of the tools, and its token."""
    command = [TOOLCELL, "serve", *options, "--listen=127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr
        address, token = "", ""
        for line in process.stderr:
            address = line.removeprefix("MCP at ").strip() if line.startswith("MCP at ") else address
            token = line.removeprefix("Authorization: ").strip() if line.startswith("Authorization: ") else token
            if address and token:
                break
        assert address and token, "the server did not start"
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield address, {"Authorization": token}
    finally:
        process.terminate()
        process.wait()


class Warned(logging.Handler):
    """What is logged as a warning or worse."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.name}: {record.getMessage()}")


Framework = Callable[[Command | Address, list[Call]], AsyncIterator[str]]
FRAMEWORKS: dict[str, Framework] = {
    "pydantic-ai": with_pydantic_ai,
    "openai-agents": with_openai_agents,
    "langchain-mcp-adapters": with_langchain,
    "llama-index-tools-mcp": with_llama_index,
}


async def all_of(found: AsyncIterator[str]) -> list[str]:
    return [text async for text in found]


def main() -> None:
    warned = Warned()
    logging.getLogger().addHandler(warned)
    with tempfile.TemporaryDirectory() as folder, page() as url:
        (Path(folder) / "cities.csv").write_text(CITIES)
        options = [*TOOLS, f"--allow-read={folder}", f"--allow-net={url}", "--no-config"]
        expected = calls(f"{url}/page")
        wanted = [(name, arguments) for name, arguments, _ in expected]
        with served(options) as address:
            for name in sys.argv[1:]:
                for place in ([TOOLCELL, "mcp", *options], address):
                    found = asyncio.run(all_of(FRAMEWORKS[name](place, wanted)))
                    for (called, _, held), text in zip(expected, found, strict=True):
                        assert held in text, f"{name}, {called}: {text}"
                assert not warned.lines, f"{name}: {warned.lines}"
                print(f"{name}: ok", flush=True)


main()
