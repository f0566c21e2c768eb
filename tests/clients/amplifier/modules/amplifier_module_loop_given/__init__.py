"""An orchestrator that makes the calls that its prompt lists, with the events of the framework's contract."""

import json
from typing import Any

from amplifier_core import ToolResult
from amplifier_core.events import TOOL_ERROR, TOOL_POST, TOOL_PRE

__amplifier_module_type__ = "orchestrator"


class Loop:
    async def execute(self, prompt: str, tools: dict[str, Any], hooks: Any, **_: Any) -> str:
        said = []
        for call in json.loads(prompt):
            result = await self._call(tools[call["name"]], call, hooks)
            said.append({"success": result.success, "text": result.get_serialized_output()})
        return json.dumps(said)

    async def _call(self, tool: Any, call: dict[str, Any], hooks: Any) -> ToolResult:
        data = {"tool_name": tool.name, "tool_call_id": call["id"], "tool_input": call["input"]}
        before = await hooks.emit(TOOL_PRE, data)
        if before.action == "deny":
            result = ToolResult(success=False, error={"message": before.reason or "denied", "type": "execution"})
        else:
            result = await tool.execute({**call["input"], "_tool_call_id": call["id"]})
        shown = result.safe_hook_presentation()
        if result.success:
            await hooks.emit(TOOL_POST, {**data, "tool_result": shown})
        else:
            await hooks.emit(TOOL_ERROR, {**data, "error": shown["error"]})
        return result


async def mount(coordinator: Any, config: dict[str, Any]) -> None:
    await coordinator.mount("orchestrator", Loop())
