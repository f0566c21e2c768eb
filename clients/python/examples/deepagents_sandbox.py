"""An agent of deepagents works in a sandbox of toolcell. Its model is a script, so the example needs no key.

    pip install toolcell[deepagents]
    python deepagents_sandbox.py
"""

import os
from collections.abc import Sequence
from typing import Any

from deepagents import create_deep_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from toolcell.deepagents import ToolcellSandbox


class Script(GenericFakeChatModel):
    """A model that makes the same calls each time."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> "Script":
        return self


def call(id: str, name: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"id": id, "name": name, "args": arguments}])


model = Script(
    messages=iter(
        [
            call("1", "write_file", file_path="/workspace/sales.csv", content="Jan,3\nFeb,4\n"),
            call("2", "execute", command="awk -F, '{ sum += $2 } END { print sum }' sales.csv | tee sum.txt"),
            call("3", "execute", command="cat /etc/shadow"),
            AIMessage("The sum is 7."),
        ]
    )
)

# TOOLCELL_SHELL is the folder of the tool in a checkout; the packages of toolcell bring it as `shell`.
with ToolcellSandbox(shell=os.environ.get("TOOLCELL_SHELL", "shell"), timeout=10, config=False) as sandbox:
    agent = create_deep_agent(model=model, backend=sandbox)
    answer = agent.invoke({"messages": [HumanMessage("What is the sum of the sales?")]})
    for message in answer["messages"]:
        if isinstance(message, ToolMessage) and message.name == "execute":
            print(message.text)
    print(answer["messages"][-1].text)
    print(sandbox.download_files(["/workspace/sum.txt"])[0].content)
