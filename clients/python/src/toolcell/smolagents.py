"""toolcell's tools for smolagents.

    from smolagents import ToolCallingAgent
    from toolcell import Toolcell
    from toolcell.smolagents import tools

    with Toolcell("jq.wasm") as cell:
        agent = ToolCallingAgent(tools=tools(cell), model=model)

A result is untrusted data: a tool wrote it. It is the structured output of the tool, which the code of a CodeAgent
reads as `result["field"]`, a PIL image, or the text. An error is a ToolcellError, whose message the model reads.
smolagents cannot interrupt a run: the keyword `approve` of Toolcell answers about calls that need an approval. Without
it they fail.
"""

from __future__ import annotations

import base64
import io
import keyword
import re
from collections.abc import Mapping
from typing import Any

from PIL.Image import open as open_image
from smolagents import Tool  # type: ignore[import-untyped]
from smolagents.tools import AUTHORIZED_TYPES  # type: ignore[import-untyped]

from . import _adapter
from ._adapter import Calls, Image
from ._client import Toolcell

__all__ = ["tools"]


def tools(cell: Toolcell) -> list[Tool]:
    """The tools of a client, for an agent. They end with the client."""
    return [_Tool(cell, tool) for tool in Calls(cell).tools()]


class _Tool(Tool):  # type: ignore[misc]
    skip_forward_signature_validation = True

    def __init__(self, cell: Toolcell, tool: _adapter.Tool) -> None:
        self._cell = cell
        self._called = tool.name
        self.name = _identifier(tool.name)
        self.description = tool.description
        required = tool.parameters.get("required") or []
        properties: Mapping[str, Any] = tool.parameters["properties"]
        self.inputs = {name: _input(schema, name in required) for name, schema in properties.items()}
        self.output_type = "any" if tool.output is None else "object"
        self.output_schema = tool.output
        super().__init__()

    def forward(self, **arguments: Any) -> Any:
        result = self._cell.call(self._called, arguments)
        found = _adapter.parts(result)
        if self.output_schema is not None and result.structured is not None:
            return result.structured
        if len(found) == 1 and isinstance(found[0], Image):
            return open_image(io.BytesIO(base64.b64decode(found[0].data)))
        return _adapter.text(result)


def _identifier(name: str) -> str:
    """The name of a function for the code of a model."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"{word}_" if keyword.iskeyword(word) or word[:1].isdigit() else word


def _input(schema: Any, is_required: bool) -> dict[str, Any]:
    schema = schema if isinstance(schema, dict) else {}
    kind = schema.get("type")
    known = [one for one in (kind if isinstance(kind, list) else [kind]) if one in AUTHORIZED_TYPES]
    described: dict[str, Any] = {
        "type": known if len(known) > 1 else known[0] if known else "any",
        "description": str(schema.get("description") or ""),
    }
    return described if is_required else {**described, "nullable": True}
