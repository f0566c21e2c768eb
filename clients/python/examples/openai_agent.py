"""An agent of the OpenAI Agents SDK calls jq in the sandbox. Its model is a fake: leave it out to use OpenAI's.

pip install 'toolcell[openai-agents]'; python openai_agent.py [COMPONENT]
"""

import json
import sys
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from toolcell import Toolcell
from toolcell.openai_agents import tools

ARGUMENTS = {"filter": "map(.price) | add", "input": [{"price": 3}, {"price": 4}]}


class Fake(Model):
    """Makes a call, and says its result."""

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        last: Any = input[-1]
        output: Any = ResponseFunctionToolCall(
            type="function_call", call_id="call_1", name="jq", arguments=json.dumps(ARGUMENTS)
        )
        if last.get("type") == "function_call_output":
            text = ResponseOutputText(type="output_text", text=f"The sum is {last['output']}.", annotations=[])
            output = ResponseOutputMessage(
                type="message", id="message_1", role="assistant", status="completed", content=[text]
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


set_tracing_disabled(True)
with Toolcell(sys.argv[1] if len(sys.argv) > 1 else "jq", config=False) as cell:
    agent = Agent(name="analyst", model=Fake(), tools=list(tools(cell)))
    print(Runner.run_sync(agent, "What is the sum of the prices?").final_output)
