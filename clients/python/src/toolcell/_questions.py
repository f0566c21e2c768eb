"""Questions that a call asks its client's user: whether it may run, and forms of tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional, Union

from ._errors import ToolcellError

_RUN = "run once"
_RUN_ALWAYS = "run, and do not ask again this session"


@dataclass(frozen=True)
class Approval:
    """A call that runs only if it is approved."""

    message: str
    """The question, as it is to be shown: which tool, with which arguments, and what it may reach."""
    arguments: Any
    """The arguments; None if they are too long to be shown as a whole."""
    invocation_id: Optional[str]
    expires_at: Optional[str]
    is_cut: bool
    """Whether the message shows a part of the call only."""
    can_remember: bool
    """Whether the answer can count for the rest of the session."""


@dataclass(frozen=True)
class Decision:
    """An answer to an Approval. True and False are short for the first field."""

    approved: bool
    note: Optional[str] = None
    """What the caller should know."""
    arguments: Any = None
    """The arguments to run with instead."""
    remember: bool = False
    """Do not ask again this session."""
    accept_partial_view: bool = False
    """Has to be True to approve a call of which only a part was shown."""


@dataclass(frozen=True)
class Question:
    """A form that a tool wants filled in. Its words are the tool's, and the answer approves nothing."""

    message: str
    schema: dict[str, Any]
    """The JSON Schema of the answer, an object."""
    invocation_id: Optional[str]


def asked(params: Mapping[str, Any]) -> Union[Approval, Question]:
    """The question in `elicitation/create`. Only the program marks one as an approval."""
    meta: Mapping[str, Any] = params.get("_meta") or {}
    message = str(params.get("message") or "")
    schema: dict[str, Any] = params.get("requestedSchema") or {}
    approval = meta.get("toolcell/approval")
    if not isinstance(approval, dict):
        about = meta.get("toolcell/input")
        return Question(message, schema, about.get("invocation_id") if isinstance(about, dict) else None)
    known: Mapping[str, Any] = schema.get("properties") or {}
    choices = (known.get("decision") or {}).get("enum") or []
    return Approval(
        message=message,
        arguments=_arguments(known.get("arguments")),
        invocation_id=approval.get("invocation_id"),
        expires_at=approval.get("expires_at"),
        is_cut="accept_partial_view" in known,
        can_remember=_RUN_ALWAYS in choices,
    )


def _arguments(offered: Any) -> Any:
    try:
        return json.loads(offered["default"])
    except (TypeError, KeyError, ValueError):
        return None


def decided(said: Any) -> dict[str, Any]:
    """The answer to an approval. Anything but a clear yes is a no."""
    if said is True:
        said = Decision(True)
    if not isinstance(said, Decision):
        return {"action": "decline"}
    content: dict[str, Any] = {"note": said.note} if said.note else {}
    if said.approved is not True:
        return {"action": "decline", "content": content} if content else {"action": "decline"}
    content["decision"] = _RUN_ALWAYS if said.remember else _RUN
    content["accept_partial_view"] = said.accept_partial_view
    if said.arguments is not None:
        content["arguments"] = json.dumps(said.arguments, ensure_ascii=False, allow_nan=False)
    return {"action": "accept", "content": content}


def filled(said: Any) -> dict[str, Any]:
    """The answer to a form."""
    if isinstance(said, Mapping):
        return {"action": "accept", "content": dict(said)}
    return {"action": "decline"}


def is_policy(approve: Any) -> bool:
    """Whether approvals are denied, or left to `toolcell approvals`."""
    if isinstance(approve, str) and approve not in ("deny", "wait"):
        message = f"cannot use `approve`: {approve!r} is neither deny nor wait, and not a function"
        raise ToolcellError("invalid_arguments", "option_invalid", message)
    return isinstance(approve, str)
