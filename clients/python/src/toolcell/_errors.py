"""The one exception of this package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from ._files import WorkspaceChanges

# Of JSON-RPC.
_INTERNAL_ERROR = -32603


class ToolcellError(Exception):
    """A call that failed, or a program that cannot be used.

    `error_class` is one of the classes of toolcell's records, `code` is finer, and `message` may be shown to a model.
    """

    def __init__(
        self,
        error_class: str,
        code: str,
        message: str,
        *,
        hint: Optional[str] = None,
        retry_after: Optional[float] = None,
        retry_safe: bool = False,
        invocation_id: Optional[str] = None,
        content: Optional[list[dict[str, Any]]] = None,
        workspace: Optional[WorkspaceChanges] = None,
    ) -> None:
        super().__init__(error_class, code, message)
        self.error_class = error_class
        self.code = code
        self.message = message
        self.hint = hint
        """What the caller can do."""
        self.retry_after = retry_after
        """Seconds after which the same call may succeed."""
        self.retry_safe = retry_safe
        """Whether the call changed nothing, so that it can be repeated without harm."""
        self.invocation_id = invocation_id
        """The id with which `toolcell show` finds the record of the call."""
        self.content = content or []
        """What the tool returned nevertheless, as blocks of MCP."""
        self.workspace = workspace
        """Changes that the call left in its workspace; None without a workspace."""

    def __str__(self) -> str:
        hint = f"\n{self.hint}" if self.hint else ""
        return f"{self.message} [{self.error_class}/{self.code}]{hint}"


def of_facts(
    facts: Mapping[str, Any],
    *,
    message: str,
    invocation_id: Optional[str] = None,
    content: Optional[list[dict[str, Any]]] = None,
    workspace: Optional[WorkspaceChanges] = None,
) -> ToolcellError:
    """The error of a call, from `toolcell/error` in the metadata of its result."""
    return ToolcellError(
        str(facts.get("class") or "execution_failed"),
        str(facts.get("code") or "unknown"),
        str(facts.get("message") or message),
        hint=facts.get("hint"),
        retry_after=facts.get("retry_after"),
        retry_safe=facts.get("retry_safe") is True,
        invocation_id=invocation_id,
        content=content,
        workspace=workspace,
    )


def of_response(error: Mapping[str, Any]) -> ToolcellError:
    """The error of a request that the program refused. Its data is the record of a result, if there was a call."""
    message = str(error.get("message") or "toolcell refused the request")
    data = error.get("data")
    record: Mapping[str, Any] = data if isinstance(data, dict) else {}
    facts = record.get("error")
    if not isinstance(facts, dict):
        if error.get("code") == _INTERNAL_ERROR:
            return ToolcellError("execution_failed", "host_fault", message)
        if record.get("state"):
            # The code of a resource that cannot be read.
            return ToolcellError("invalid_arguments", str(record["state"]), message)
        return ToolcellError("invalid_arguments", "request_refused", message)
    return of_record(facts, message=message, invocation_id=record.get("invocation_id"))


def of_record(facts: Mapping[str, Any], *, message: str, invocation_id: Optional[str] = None) -> ToolcellError:
    """The error in a record, or in what a command of the program prints."""
    retry = facts.get("retry")
    return ToolcellError(
        str(facts.get("error_class") or "invalid_arguments"),
        str(facts.get("error_code") or "request_refused"),
        message,
        retry_after=facts.get("retry_after"),
        retry_safe=isinstance(retry, dict) and retry.get("safe") is True,
        invocation_id=invocation_id,
    )
