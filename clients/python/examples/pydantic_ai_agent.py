"""A Pydantic AI agent calls jq in the sandbox. Its model is a function: put the name of a model in its place.

pip install 'toolcell[pydantic-ai]'; python pydantic_ai_agent.py [COMPONENT]
"""

import sys

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from toolcell import Toolcell
from toolcell.pydantic_ai import ToolcellToolset

ARGUMENTS = {"filter": "map(.price) | add", "input": [{"price": 3}, {"price": 4}]}


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Makes a call, and says its result."""
    for part in messages[-1].parts:
        if isinstance(part, ToolReturnPart) and isinstance(part.content, dict):
            return ModelResponse([TextPart(f"The sum is {part.content['outputs'][0]}.")])
    return ModelResponse([ToolCallPart("jq", ARGUMENTS)])


with Toolcell(sys.argv[1] if len(sys.argv) > 1 else "jq", config=False) as cell:
    agent = Agent(FunctionModel(model), toolsets=[ToolcellToolset(cell)])
    print(agent.run_sync("What is the sum of the prices?").output)
