"""Requests to the program, and how their answers are read."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, Generic, Optional, TypeVar, Union
from urllib.parse import quote

from . import _shapes
from ._errors import ToolcellError
from ._files import WorkspaceFile
from ._result import Result, result_of
from ._shapes import Dialect, Format

T = TypeVar("T")

# The program makes no more in one request.
_CALLS_MAX = 128
_FILES = "toolcell://workspace/"
# Name of the workspace of a session.
_OF_SESSION = "default"


@dataclass(frozen=True)
class Wanted(Generic[T]):
    """A request, and how its answer is read."""

    method: str
    params: dict[str, Any]
    read: Callable[[Any], T]
    calls: int = 1
    """How many calls it makes at most."""


def tools(format: Format) -> Wanted[list[dict[str, Any]]]:
    """The list of tools."""
    if format == "plain":
        return Wanted("tools/list", {}, lambda answer: _list(answer, "tools"))
    dialect = _shapes.named(format)
    return Wanted("toolcell/export", {"dialect": dialect}, lambda answer: _list(answer, "tools"))


def call(name: str, arguments: Optional[Mapping[str, Any]]) -> Wanted[Result]:
    """A call by the name of its tool."""
    return Wanted("tools/call", {"name": name, "arguments": _arguments(arguments)}, result_of)


def shaped(given: Any) -> Wanted[dict[str, Any]]:
    """A call of a model."""
    written = _shapes.plain(given)
    dialect = _shapes.of_call(written)
    if dialect is None:
        raise _shapes.unreadable("it is not a call of OpenAI's or Anthropic's API")
    params = {"dialect": dialect, "form": "results", "arguments": _shapes.message_of([written], dialect)}
    return Wanted("toolcell/respond", params, lambda answer: _count(_list(answer, "results"), 1)[0])


def batch(calls: Sequence[Any]) -> Wanted[list[Any]]:
    """Many calls: all by name, or all in the terms of one API."""
    written = [_shapes.plain(one) for one in calls]
    dialects = {_shapes.of_call(one) for one in written}
    if len(dialects) > 1:
        message = "cannot make the batch: its calls have different shapes; make one batch for each"
        raise ToolcellError("invalid_arguments", "batch_invalid", message)
    dialect = next(iter(dialects), None)
    count = len(written)
    if dialect is not None:
        params = {"dialect": dialect, "form": "results", "arguments": _shapes.message_of(written, dialect)}
        return Wanted("toolcell/respond", params, lambda answer: _count(_list(answer, "results"), count), count)
    params = {"dialect": "mcp", "form": "results", "arguments": [_named(one) for one in written]}

    def ended(answer: Any) -> list[Any]:
        return [_ended(one) for one in _count(_list(answer, "results"), count)]

    return Wanted("toolcell/respond", params, ended, count)


def run(message: Any, dialect: Optional[Dialect]) -> Wanted[list[dict[str, Any]]]:
    """All calls of a message."""
    written = _shapes.plain(message)
    # A list without calls has no answer in any dialect.
    spoken = _shapes.named(dialect) if dialect is not None else _shapes.of_message(written) or "openai-responses"
    params = {"dialect": spoken, "form": "messages", "arguments": written}
    return Wanted("toolcell/respond", params, lambda answer: _list(answer, "messages"), _CALLS_MAX)


def files() -> Wanted[list[WorkspaceFile]]:
    """The files of the workspace."""

    def read(answer: Any) -> list[WorkspaceFile]:
        listed = [one for one in _list(answer, "resources") if str(one.get("uri")).startswith(_FILES)]
        return [WorkspaceFile(str(one.get("name")), int(one.get("size") or 0)) for one in listed]

    return Wanted("resources/list", {}, read)


def file_uri(workspace: Union[str, bool, None], path: str) -> str:
    """The URI of the first part of a file. A whole file can make a line longer than a client reads."""
    try:
        named = quote(path)
    except (TypeError, UnicodeError):
        message = f"cannot use {path!r:.100} as the path of a file: it is not Unicode text"
        raise ToolcellError("invalid_arguments", "workspace_path_invalid", message) from None
    return f"{_FILES}{workspace if isinstance(workspace, str) else _OF_SESSION}/{named}?offset=0"


@dataclass(frozen=True)
class Part:
    """A part of a file."""

    content: bytes
    size: int
    """Bytes of the whole file."""
    next: Optional[str]
    """The URI of the next part."""


def part(uri: str) -> Wanted[Part]:
    """A part of a file of the workspace."""
    return Wanted("resources/read", {"uri": uri}, _part)


def _part(answer: Any) -> Part:
    try:
        [one] = answer["contents"]
        about = one["_meta"]["toolcell/part"]
        content = one["text"].encode() if "text" in one else base64.b64decode(one["blob"], validate=True)
        return Part(content, int(about["size"]), about.get("next"))
    except (KeyError, TypeError, ValueError) as error:
        message = f"toolcell answered with what is not a part of a file: {error!r}"
        raise ToolcellError("execution_failed", "answer_unreadable", message) from None


def joined(path: str, parts: Sequence[Part]) -> bytes:
    """The whole file."""
    content = b"".join(part.content for part in parts)
    if any(part.size != len(content) for part in parts):
        message = f"{path} was changed while it was read; read it again"
        raise ToolcellError("execution_failed", "file_changed", message, retry_safe=True)
    return content


def _named(one: Any) -> dict[str, Any]:
    if isinstance(one, dict) and isinstance(one.get("name"), str):
        return {"name": one["name"], "arguments": _arguments(one.get("arguments"))}
    if isinstance(one, list) and len(one) == 2 and isinstance(one[0], str):
        return {"name": one[0], "arguments": _arguments(one[1])}
    message = f"cannot make the batch: {one!r} is neither (name, arguments) nor a call of a model"
    raise ToolcellError("invalid_arguments", "batch_invalid", message)


def _arguments(arguments: Any) -> dict[str, Any]:
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        message = f"the arguments are not a mapping: {type(arguments).__name__}"
        raise ToolcellError("invalid_arguments", "arguments_not_an_object", message)
    return dict(arguments)


def _ended(answer: Any) -> Union[Result, ToolcellError]:
    try:
        return result_of(answer)
    except ToolcellError as error:
        return error


def _list(answer: Any, key: str) -> list[dict[str, Any]]:
    found = answer.get(key) if isinstance(answer, dict) else None
    if not isinstance(found, list):
        raise ToolcellError("execution_failed", "answer_unreadable", f"toolcell answered without {key}")
    return found


def _count(found: list[dict[str, Any]], wanted: int) -> list[dict[str, Any]]:
    if len(found) != wanted:
        message = f"toolcell answered with {len(found)} results for {wanted} calls"
        raise ToolcellError("execution_failed", "answer_unreadable", message)
    return found
