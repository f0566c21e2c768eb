"""What the adapters for agent frameworks share: tools, calls that stop at their approval, and results for models."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, Generic, Optional, TypeVar, Union, cast

from . import _requests
from ._aio import begun, opened, waited
from ._client import Toolcell
from ._errors import ToolcellError
from ._questions import Approval, Decision, asked, decided
from ._requests import Wanted
from ._result import Progress, Result, result_of
from ._session import VERSION

T = TypeVar("T")

_log = logging.getLogger("toolcell")

# In it, a call that needs an answer ends with the question, and the same call with the answer goes on.
_META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "toolcell-python", "version": VERSION},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}
# The APIs of models refuse a request with an image of another type.
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
# Questions whose application never answers. The program holds 32.
_KEPT_MAX = 256

OnProgress = Callable[[Progress], Any]


@dataclass(frozen=True)
class Tool:
    """A tool, as its framework lists it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of an object."""
    output: Optional[dict[str, Any]]
    """JSON Schema of the structured output."""


@dataclass(frozen=True)
class Asked:
    """A call that waits for its approval in the program."""

    name: str
    arguments: Mapping[str, Any]
    approval: Approval
    state: str
    key: str


@dataclass(frozen=True)
class Filling:
    """A call whose tool asks its user something."""

    name: str
    arguments: Mapping[str, Any]
    requests: Mapping[str, Any]
    state: str


@dataclass(frozen=True)
class Image:
    """A part of a result; the other parts are texts."""

    media_type: str
    data: str
    """Base64."""


class Calls:
    """The calls of a framework. They ask through it unless the client has `approve`.

    A question has a part of long arguments only. `accept_partial_view` approves such calls too, for an application that
    shows what its framework has of the call.
    """

    def __init__(self, cell: Toolcell, accept_partial_view: bool = False) -> None:
        self._cell = cell
        self._accepts = accept_partial_view
        self._session = cell._session

    @property
    def stops(self) -> bool:
        """Whether calls stop at their approval, because nothing answers it."""
        return self._session.undecided

    def tools(self) -> list[Tool]:
        return [_tool(one) for one in self._cell.tools()]

    async def tools_async(self) -> list[Tool]:
        call = begun(await opened(self._session), _requests.tools("plain"), None, None)
        return [_tool(one) for one in await waited(call, None)]

    def call(self, name: str, arguments: Mapping[str, Any], on_progress: Optional[OnProgress]) -> Union[Result, Asked]:
        return self._ended(self._wanted(name, arguments), on_progress)

    async def call_async(
        self, name: str, arguments: Mapping[str, Any], on_progress: Optional[OnProgress]
    ) -> Union[Result, Asked]:
        return await self._ended_async(self._wanted(name, arguments), on_progress)

    def answer(self, question: Asked, decision: Decision, on_progress: Optional[OnProgress]) -> Union[Result, Asked]:
        return self._ended(self._decided(question, decision), on_progress)

    async def answer_async(
        self, question: Asked, decision: Decision, on_progress: Optional[OnProgress]
    ) -> Union[Result, Asked]:
        return await self._ended_async(self._decided(question, decision), on_progress)

    async def decline_async(self, question: Asked) -> None:
        """For a call that the framework gave up: an open question could still be answered elsewhere."""
        try:
            await self.answer_async(question, Decision(False), None)
        except ToolcellError:
            # The end of every call that was declined.
            pass

    def _wanted(self, name: str, arguments: Mapping[str, Any]) -> Wanted[Any]:
        if self.stops:
            return _stopping(name, arguments, {})
        return _requests.call(name, arguments)

    def _decided(self, question: Asked, decision: Decision) -> Wanted[Any]:
        decision = dataclasses.replace(decision, accept_partial_view=self._accepts)
        return _again(question, {question.key: decided(decision)})

    def _ended(self, wanted: Wanted[Any], on_progress: Optional[OnProgress]) -> Union[Result, Asked]:
        while True:
            outcome = self._cell._wait(self._cell._start(wanted, None, on_progress), on_progress)
            if not isinstance(outcome, Filling):
                return cast("Union[Result, Asked]", outcome)
            wanted = self._filled(outcome)

    async def _ended_async(self, wanted: Wanted[Any], on_progress: Optional[OnProgress]) -> Union[Result, Asked]:
        connection = await opened(self._session)
        while True:
            outcome = await waited(begun(connection, wanted, None, on_progress), on_progress)
            if not isinstance(outcome, Filling):
                return cast("Union[Result, Asked]", outcome)
            wanted = await asyncio.get_running_loop().run_in_executor(None, self._filled, outcome)

    def _filled(self, question: Filling) -> Wanted[Any]:
        return _again(question, {key: self._fill(one) for key, one in question.requests.items()})

    def _fill(self, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._session.question(request.get("params") or {})
        except Exception:
            # A function of the caller: the call ends as if there were none.
            _log.exception("cannot answer a question of toolcell; the answer is no")
            return {"action": "decline"}


class Kept(Generic[T]):
    """What waits for a later call of the framework. The oldest is dropped."""

    def __init__(self) -> None:
        self._kept: dict[str, T] = {}

    def keep(self, key: str, one: T) -> None:
        while len(self._kept) >= _KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = one

    def get(self, key: str) -> Optional[T]:
        return self._kept.get(key)

    def take(self, key: str) -> Optional[T]:
        return self._kept.pop(key, None)

    def keys(self) -> list[str]:
        return list(self._kept)


def _tool(listed: Mapping[str, Any]) -> Tool:
    schema = dict(listed.get("inputSchema") or {"type": "object"})
    # Frameworks look for it.
    schema.setdefault("properties", {})
    description = str(listed.get("description") or listed.get("title") or "")
    return Tool(str(listed["name"]), description, schema, listed.get("outputSchema"))


def _stopping(name: str, arguments: Mapping[str, Any], more: Mapping[str, Any]) -> Wanted[Any]:
    """A call that stops at its questions."""

    def read(answer: Any) -> Union[Result, Asked, Filling]:
        if not isinstance(answer, dict) or answer.get("resultType") != "input_required":
            return result_of(answer)
        requests: Mapping[str, Any] = answer.get("inputRequests") or {}
        state = str(answer.get("requestState"))
        for key, request in requests.items():
            question = asked(request.get("params") or {})
            if isinstance(question, Approval):
                return Asked(name, arguments, question, state, key)
        return Filling(name, arguments, requests, state)

    params = {"name": name, "arguments": dict(arguments), "_meta": _META, **more}
    return Wanted("tools/call", params, read)


def _again(question: Union[Asked, Filling], responses: Mapping[str, Any]) -> Wanted[Any]:
    """The same call, with answers."""
    more = {"requestState": question.state, "inputResponses": responses}
    return _stopping(question.name, question.arguments, more)


def parts(result: Union[Result, ToolcellError]) -> list[Union[str, Image]]:
    """What a model reads of a result, which is untrusted data. At least one part."""
    found = [_part(block) for block in result.content]
    if isinstance(result, ToolcellError):
        found.insert(0, str(result))
    elif not found and result.structured is not None:
        found.append(json.dumps(result.structured, ensure_ascii=False, separators=(",", ":")))
    return [part for part in found if part != ""] or ["(no output)"]


def text(result: Union[Result, ToolcellError]) -> str:
    """The same, for an API that takes texts alone."""
    found = parts(result)
    return "\n".join(part if isinstance(part, str) else _note("image", {"mimeType": part.media_type}) for part in found)


def facts(result: Result) -> dict[str, Any]:
    """What a program reads of a result, as JSON."""
    changes = None if result.workspace is None else dataclasses.asdict(result.workspace)
    return {
        "structured_content": result.structured,
        "content": result.content,
        "invocation_id": result.invocation_id,
        "workspace": changes,
    }


def _part(block: Mapping[str, Any]) -> Union[str, Image]:
    kind = str(block.get("type"))
    if kind == "text":
        return str(block.get("text", ""))
    if kind == "image" and block.get("mimeType") in _IMAGES and block.get("data"):
        return Image(str(block["mimeType"]), str(block["data"]))
    if kind == "resource":
        inner = block.get("resource")
        block = inner if isinstance(inner, dict) else {}
        if "text" in block:
            return str(block["text"])
    return _note(kind, block)


def _note(kind: str, block: Mapping[str, Any]) -> str:
    """What is not shown to a model, such as `[audio: audio/wav]`."""
    labels = [str(block[name]) for name in ("name", "uri", "mimeType") if block.get(name)]
    return f"[{kind}: {', '.join(labels)}]" if labels else f"[{kind}]"
