"""The first call with the Python package of an installed wheel: an OpenAI-shaped call of the tool that is shipped."""

import asyncio
import json

from toolcell import AsyncToolcell, Toolcell

CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "jq", "arguments": json.dumps({"filter": "map(.n) | add", "input": [{"n": 1}, {"n": 2}]})},
}


async def main() -> None:
    async with AsyncToolcell("jq") as cell:
        check(await cell.call(CALL))


def check(answer: dict) -> None:
    assert answer["role"] == "tool" and answer["tool_call_id"] == "call_1", answer
    assert "3" in answer["content"], answer


with Toolcell("jq") as cell:
    (tool,) = [tool for tool in cell.tools(format="openai") if tool["function"]["name"] == "jq"]
    assert tool["function"]["parameters"]["type"] == "object", tool
    check(cell.call(CALL))
asyncio.run(main())
