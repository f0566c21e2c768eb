"""What a call gives back, and what it tells while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from ._errors import ToolcellError, of_facts
from ._files import WorkspaceChanges, changes_of

_PREFIX = "toolcell/"
# Names the property that toolcell added to the structured output.
_ADDED = f"{_PREFIX}text_property"


@dataclass(frozen=True)
class Result:
    """The result of a call that succeeded. All of it is untrusted: a tool wrote it."""

    text: str
    """The texts of the content, in lines."""
    structured: Any
    """The structured output; None if the tool has none."""
    content: list[dict[str, Any]]
    """Blocks of MCP: texts, images, resources."""
    invocation_id: Optional[str]
    """The id with which `toolcell show` finds the record of the call."""
    meta: dict[str, Any] = field(default_factory=dict)
    """More facts, such as `usage`, `provenance` and `artifact_refs`."""
    workspace: Optional[WorkspaceChanges] = None
    """Changes that the call made in its workspace; None without a workspace."""

    @property
    def value(self) -> Any:
        """The structured output, or else the text."""
        return self.text if self.structured is None else self.structured


@dataclass(frozen=True)
class Progress:
    """What a tool says of its work. The numbers of one call only grow."""

    progress: float
    total: Optional[float]
    message: Optional[str]
    index: int = 0
    """The index of the call, in a batch or a message."""


@dataclass(frozen=True)
class Log:
    """A message that a tool logged."""

    level: str
    logger: Optional[str]
    data: Any


def result_of(answer: Any) -> Result:
    """The result in an answer to `tools/call`. Raises ToolcellError if the call failed."""
    if not isinstance(answer, dict):
        raise ToolcellError("execution_failed", "answer_unreadable", "toolcell answered with what is not a result")
    meta: Mapping[str, Any] = answer.get("_meta") or {}
    # Without what toolcell adds for clients that read one of both forms: the structured output as text, and the text in it.
    blocks = [block for block in answer.get("content") or [] if isinstance(block, dict)]
    content = [block for block in blocks if f"{_PREFIX}repeats" not in (block.get("_meta") or {})]
    structured = answer.get("structuredContent")
    if isinstance(structured, dict):
        structured = {name: value for name, value in structured.items() if name != meta.get(_ADDED)}
    text = "\n".join(str(block.get("text", "")) for block in content if block.get("type") == "text")
    invocation_id = meta.get(f"{_PREFIX}invocation_id")
    changed = meta.get(f"{_PREFIX}workspace")
    workspace = changes_of(str(changed.get("name")), changed) if isinstance(changed, dict) else None
    if answer.get("isError"):
        facts = meta.get(f"{_PREFIX}error")
        facts = facts if isinstance(facts, dict) else {}
        raise of_facts(
            facts,
            message=text or "the call failed",
            invocation_id=invocation_id,
            content=_returned(content, facts),
            workspace=workspace,
        )
    more = {key[len(_PREFIX) :]: value for key, value in meta.items() if key.startswith(_PREFIX) and key != _ADDED}
    return Result(text, structured, content, invocation_id, more, workspace)


def _returned(content: list[dict[str, Any]], facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the tool returned beside the message of its error."""
    return [block for block in content if block.get("text") != facts.get("message")]


def progress_of(params: Mapping[str, Any], index: int) -> Progress:
    total, message = params.get("total"), params.get("message")
    return Progress(
        progress=float(params.get("progress") or 0.0),
        total=float(total) if isinstance(total, (int, float)) else None,
        message=message if isinstance(message, str) else None,
        index=index,
    )
