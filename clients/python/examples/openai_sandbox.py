"""A sandbox agent of the OpenAI Agents SDK works in a workspace of toolcell. Its model is a script: the example needs no key.

    pip install toolcell[openai-agents]
    python openai_sandbox.py
"""

import asyncio
import os
from pathlib import Path

from agents import RunConfig, Runner
from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.capabilities import Shell
from agents.sandbox.entries import File
from agents.testing import ScriptedModel, assistant_message, function_call

from toolcell.openai_sandbox import ToolcellSandboxClient


async def main() -> None:
    model = ScriptedModel(
        [
            [
                function_call(
                    "exec_command",
                    {"cmd": "awk -F, '{ sum += $2 } END { print sum }' sales.csv | tee sum.txt"},
                    call_id="1",
                )
            ],
            [assistant_message("The sum is 7.")],
        ]
    )
    agent = SandboxAgent(name="Analyst", model=model, capabilities=[Shell()])
    manifest = Manifest(entries={"sales.csv": File(content=b"Jan,3\nFeb,4\n")})
    # TOOLCELL_SHELL is the folder of the tool in a checkout; the packages of toolcell bring it as `shell`.
    client = ToolcellSandboxClient(shell=os.environ.get("TOOLCELL_SHELL", "shell"), timeout=10, config=False)
    session = await client.create(manifest=manifest)
    async with session:
        config = RunConfig(sandbox=SandboxRunConfig(session=session), tracing_disabled=True)
        answer = await Runner.run(agent, "What is the sum of the sales?", run_config=config)
        print(answer.final_output)
        with await session.read(Path("sum.txt")) as file:
            print(file.read())
    await client.delete(session)


asyncio.run(main())
