"""Calls in the terms of a model's API. The program translates them; this module only tells which API it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Optional, cast

from ._errors import ToolcellError

Dialect = Literal["openai", "openai-responses", "anthropic"]
"""The API whose shapes a message has."""
Format = Literal["plain", "openai", "openai-responses", "anthropic"]
"""A format of tools; `plain` is that of MCP."""

_BY_TYPE: dict[str, Dialect] = {
    "function": "openai",
    "custom": "openai",
    "function_call": "openai-responses",
    "tool_use": "anthropic",
}


def plain(value: Any) -> Any:
    """The value as JSON has it: the packages of OpenAI and Anthropic make objects with `model_dump`."""
    try:
        return _plain(value)
    except RecursionError:
        raise unreadable("it is nested too deep, or holds itself") from None


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value


def of_call(call: Any) -> Optional[Dialect]:
    """The dialect of one call; None for a call with a name and arguments alone."""
    if not isinstance(call, Mapping):
        return None
    kind = call.get("type")
    if isinstance(kind, str) and kind in _BY_TYPE:
        return _BY_TYPE[kind]
    return "openai" if isinstance(call.get("function"), Mapping) else None


def of_message(message: Any) -> Optional[Dialect]:
    """The dialect of a message, a response, or a list of its parts; None for a list without calls."""
    if isinstance(message, list):
        return next((found for found in map(of_call, message) if found is not None), None)
    if not isinstance(message, Mapping):
        raise unreadable("it is neither an object nor a list")
    call = of_call(message)
    if call is not None:
        return call
    if "choices" in message or "tool_calls" in message:
        return "openai"
    if isinstance(message.get("output"), list):
        return "openai-responses"
    if isinstance(message.get("content"), list):
        return "anthropic"
    if "role" in message:
        return "openai"
    raise unreadable("it has the shape of none of the APIs")


def message_of(calls: Sequence[Any], dialect: Dialect) -> Any:
    """A message with these calls."""
    return {"role": "assistant", "tool_calls": list(calls)} if dialect == "openai" else list(calls)


def named(dialect: Any) -> Dialect:
    if dialect not in ("openai", "openai-responses", "anthropic"):
        raise ToolcellError("invalid_arguments", "dialect_unknown", f"there is no dialect {dialect!r}")
    return cast(Dialect, dialect)


def unreadable(why: str) -> ToolcellError:
    hint = "pass a response of the API, or one message of it; `dialect` says of which API"
    return ToolcellError("invalid_arguments", "message_unreadable", f"cannot read the message: {why}", hint=hint)
