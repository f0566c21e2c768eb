"""The table that the unit tests of `host/dialect/src/amplifier/result.rs` read, too."""

import json
from pathlib import Path
from typing import Any

import pytest
from amplifier_core import ToolResult
from amplifier_module_tool_toolcell._result import answered

TABLE = json.loads((Path(__file__).parent / "results.json").read_text())


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case["name"])
def test_an_answer_is_the_result_of_the_dialect(case: dict[str, Any]) -> None:
    answer = {key: case["mcp"][key] for key in ("content", "isError")}
    if case["mcp"]["structuredContent"] is not None:
        answer["structuredContent"] = case["mcp"]["structuredContent"]
    answer["_meta"] = {"toolcell/status": "failed" if answer["isError"] else "succeeded"}
    if "added" in case["mcp"]:
        answer["_meta"]["toolcell/text_property"] = case["mcp"]["added"]
    if case["mcp"]["error"] is not None:
        answer["_meta"]["toolcell/error"] = case["mcp"]["error"]
    result = answered(answer)
    told = case["amplifier"]
    assert (result.success, result.output, result.error) == (told["success"], told["output"], told["error"])
    content = [block.model_dump(exclude_none=True) for block in result.content] if result.content else None
    assert content == told["content"]
    assert (result.metadata or {}).get("structured_content") == told["structured_content"]
    # What the dialect writes is what the framework itself reads.
    read = ToolResult(**{key: told[key] for key in ("success", "output", "error", "content")})
    assert read.get_serialized_output() == result.get_serialized_output()
