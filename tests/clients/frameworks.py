"""What the model of a framework gets from a tool: pydantic-ai passes on the structured content alone, if there is one."""

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

TOOLCELL = os.environ["TOOLCELL"]
CITIES = "name,people\nBern,134591\nOslo,709037\n"
# Name and arguments of each call, and what its result holds.
CALLS = [
    ("files_read", {"path": "cities.csv"}, CITIES),
    ("files_list", {}, "cities.csv"),
    ("files_search", {"pattern": "Oslo"}, "Oslo,709037"),
]


async def returned(folder: str) -> list[Any]:
    """What the model gets from each of the calls, which it makes one after the other."""
    got: list[Any] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert {name for name, _, _ in CALLS} <= {tool.name for tool in info.function_tools}, info.function_tools
        parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
        got[:] = [part.content for part in parts if isinstance(part, ToolReturnPart)]
        if len(got) == len(CALLS):
            return ModelResponse(parts=[TextPart("done")])
        name, arguments, _ = CALLS[len(got)]
        return ModelResponse(parts=[ToolCallPart(name, arguments)])

    arguments = ["mcp", "example-tools/files", f"--allow-read={folder}", "--no-config"]
    transport = StdioTransport(command=TOOLCELL, args=arguments, env=dict(os.environ))
    agent = Agent(FunctionModel(model), toolsets=[MCPToolset(transport)])
    async with agent:
        await agent.run("look at the cities")
    return got


with tempfile.TemporaryDirectory() as place:
    (Path(place) / "cities.csv").write_text(CITIES)
    for (called, _, held), content in zip(CALLS, asyncio.run(returned(place)), strict=True):
        text = content["text"] if isinstance(content, dict) else content
        assert held in text, f"{called}: {content}"
print("pydantic-ai: ok", flush=True)
