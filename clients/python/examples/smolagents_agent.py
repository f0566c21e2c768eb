"""The code of a smolagents agent calls jq in the sandbox. Its model is a fake: put another one in its place.

pip install 'toolcell[smolagents]'; python smolagents_agent.py [COMPONENT]
"""

import sys
from typing import Any

from smolagents import CodeAgent, Model
from smolagents.models import ChatMessage, MessageRole
from smolagents.monitoring import LogLevel
from toolcell import Toolcell
from toolcell.smolagents import tools

CODE = """
result = jq(filter="map(.price) | add", input=[{"price": 3}, {"price": 4}])
final_answer(f"The sum is {result['outputs'][0]}.")
"""


class Fake(Model):
    def generate(self, messages: list[ChatMessage], **_: Any) -> ChatMessage:
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"<code>{CODE}</code>")


with Toolcell(sys.argv[1] if len(sys.argv) > 1 else "jq", config=False) as cell:
    agent = CodeAgent(tools=tools(cell), model=Fake(), verbosity_level=LogLevel.OFF)
    print(agent.run("What is the sum of the prices?"))
