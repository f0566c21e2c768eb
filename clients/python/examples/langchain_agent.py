"""A LangChain agent calls jq in the sandbox. Its model is a fake: put a chat model in its place.

pip install 'toolcell[langchain]' langchain; python langchain_agent.py [COMPONENT]
"""

import sys
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from toolcell import Toolcell
from toolcell.langchain import tools


class Model(FakeMessagesListChatModel):
    """Answers with a call, and then with a sentence."""

    def bind_tools(self, tools: Any, **_: Any) -> "Model":
        return self


ARGUMENTS = {"filter": "map(.price) | add", "input": [{"price": 3}, {"price": 4}]}
CALL = {"name": "jq", "args": ARGUMENTS, "id": "call_1"}

with Toolcell(sys.argv[1] if len(sys.argv) > 1 else "jq", config=False) as cell:
    model = Model(responses=[AIMessage("", tool_calls=[CALL]), AIMessage("The sum is")])
    state = create_agent(model, tools(cell)).invoke({"messages": ["What is the sum of the prices?"]})

result, said = state["messages"][-2:]
print(f"{said.text} {result.text}.")
