"""From an answer of toolcell to a `ToolResult`."""

import json
import re
from typing import Any

from amplifier_core import ToolResult

_VALIDATION = {"unknown_tool", "invalid_arguments", "schema_validation_failed", "schema_not_loaded"}
_METADATA = (
    "invocation_id",
    "status",
    "empty_result",
    "artifact_refs",
    "resource_refs",
    "context_modifiers",
    "provenance",
    "usage",
)


class ToolcellResult(ToolResult):
    """A `ToolResult` with what Amplifier has no field for, such as the id of the call in toolcell's records."""

    metadata: dict[str, Any] | None = None


def answered(answer: Any) -> ToolcellResult:
    """The result of a call that was answered."""
    if not isinstance(answer, dict):
        return failed("toolcell answered with what is not a result", "execution")
    meta = answer.get("_meta") or {}
    # Without what toolcell adds for clients that read one of both forms: the structured output as text, and the text in it.
    content = [block for block in answer.get("content") or [] if "toolcell/repeats" not in (block.get("_meta") or {})]
    blocks = [_block(block) for block in content]
    metadata = {key: meta[f"toolcell/{key}"] for key in _METADATA if f"toolcell/{key}" in meta}
    structured = answer.get("structuredContent")
    if isinstance(structured, dict):
        structured = {name: value for name, value in structured.items() if name != meta.get("toolcell/text_property")}
    facts = meta.get("toolcell/error") or {}
    error = None
    if answer.get("isError"):
        message = facts.get("message") or _last_text(blocks) or "the call failed"
        error = {**_error(message, facts.get("class"), facts.get("code")), **_retry(facts)}
        # The message is one of the blocks. The others are what the tool returned nevertheless, and what hooks add.
        blocks = [block for block in blocks if block != _text(message)]
    after = [_text(_line(error))] if error else []
    is_value = structured is not None and _is_all_said(structured, blocks)
    output = structured if is_value else _joined([*blocks, *after])
    if structured is not None and not is_value:
        metadata["structured_content"] = structured
    # Only where the output alone would leave something out.
    is_more = any(block["type"] == "image" for block in blocks) or (is_value and after)
    return _result(error is None, output, error, [*blocks, *after] if is_more else None, metadata)


def refused(message: str, data: Any) -> ToolcellResult:
    """The result of a request that was refused; `data` is toolcell's record of the result, if there is one."""
    record = data if isinstance(data, dict) else {}
    facts = record.get("error") or {}
    error = {**_error(message, facts.get("error_class"), facts.get("error_code")), **_retry(facts)}
    metadata = {key: record[key] for key in ("invocation_id", "status", "provenance") if key in record}
    return _result(False, _line(error), error, None, metadata)


def failed(message: str, kind: str) -> ToolcellResult:
    """The result of a call that toolcell did not get, or did not answer."""
    return ToolcellResult(success=False, output=message, error={"message": message, "type": kind})


def _result(
    success: bool, output: Any, error: dict[str, Any] | None, content: Any, metadata: dict[str, Any]
) -> ToolcellResult:
    fields = {"success": success, "output": output, "error": error, "metadata": metadata}
    try:
        return ToolcellResult(**fields, content=content)
    except ValueError:
        # An image that Amplifier does not accept: the output names it.
        return ToolcellResult(**fields)


def _is_all_said(structured: Any, blocks: list[dict[str, Any]]) -> bool:
    """Whether the only text is the copy that toolcell makes for a tool without a text of its own.

    A tool with one says there what a model should read: the lines of a file, next to a value with their number.
    """
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    try:
        return not texts or (len(texts) == 1 and json.loads(texts[0]) == structured)
    except ValueError:
        return False


def _joined(blocks: list[dict[str, Any]]) -> str | None:
    return "\n".join(block["text"] if block["type"] == "text" else _omitted(block) for block in blocks) or None


def _block(block: dict[str, Any]) -> dict[str, Any]:
    """A block of the protocol as a text or an image, which is all that Amplifier has."""
    kind = block.get("type")
    if kind == "text":
        return _text(str(block.get("text", "")))
    if kind == "image":
        source = {"type": "base64", "media_type": block.get("mimeType"), "data": block.get("data")}
        return {"type": "image", "source": source}
    if kind == "audio":
        return _text(_size("audio", block.get("mimeType"), block.get("data", "")))
    resource = block.get("resource") if kind == "resource" else block
    if not isinstance(resource, dict):
        return _text(json.dumps(block))
    if isinstance(resource.get("text"), str):
        return _text(resource["text"])
    if isinstance(resource.get("blob"), str):
        return _text(_size("resource", resource.get("mimeType"), resource["blob"]))
    name, uri = resource.get("name"), resource.get("uri")
    return _text(f"[resource {name}: {uri}]" if name and name != uri else f"[resource {uri}]")


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _omitted(image: dict[str, Any]) -> str:
    source = image["source"]
    return _size("image", source["media_type"], source["data"])


def _size(kind: str, media_type: Any, data: Any) -> str:
    digits = len(str(data).rstrip("="))
    return f"[{kind}, {media_type or 'of an unknown type'}, {digits * 3 // 4} bytes]"


def _last_text(blocks: list[dict[str, Any]]) -> str | None:
    return next((block["text"] for block in reversed(blocks) if block["type"] == "text"), None)


def _error(message: str, error_class: Any, code: Any) -> dict[str, Any]:
    kind = "validation" if error_class in _VALIDATION else "timeout" if error_class == "timeout" else "execution"
    return {"message": message, "type": kind, "class": error_class, "code": code}


def _retry(facts: dict[str, Any]) -> dict[str, Any]:
    return {key: facts[key] for key in ("hint", "recoverability", "retry_after") if key in facts}


def _line(error: dict[str, Any]) -> str:
    """What a model reads of an error: it sees the output, and nothing else."""
    where = f" [{error['class']}/{error['code']}]" if error.get("class") else ""
    hint = f"\n{error['hint']}" if error.get("hint") else ""
    return f"{error['message']}{where}{hint}"


def snake_case(name: str) -> str:
    """The name of a tool as Amplifier has it: `readFile` and `read-file` become `read_file`."""
    return re.sub(r"[^a-z0-9]", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
