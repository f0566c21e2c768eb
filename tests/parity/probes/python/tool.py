import dataclasses
import os
import typing
from pathlib import Path

from toolcell import (
    Facts, Output, ToolError, Url, acknowledge, artifact, ask, ask_all, call_tool, callable_tools, check, classify, configuration,
    configured, context, fetch as send, log, modify_context, partial_result, preflight, progress, remember, remembered, text, tool,
    wait as wait_for,
)


@dataclasses.dataclass
class Part:
    label: str
    weight: typing.Annotated[float, {"minimum": 0}]


@dataclasses.dataclass
class Place:
    street: str
    floor: int = 0


@dataclasses.dataclass
class Order:
    """
    Attributes:
        name: Who orders.
    """

    name: typing.Annotated[str, {"pattern": "^[a-z]+$"}]
    tags: list[str]
    parts: list[Part]
    place: Place
    labels: dict[str, int]
    extra: typing.Any
    note: str | None
    size: typing.Literal["small", "large"] = "small"
    count: typing.Annotated[int, {"minimum": 1, "maximum": 10}] = 1
    ratio: typing.Annotated[float, {"minimum": 0, "maximum": 1}] = 0.5
    urgent: bool = False
    hint: str | None = None


@tool
def order(
    name: typing.Annotated[str, {"pattern": "^[a-z]+$"}],
    tags: list[str],
    parts: list[Part],
    place: Place,
    labels: dict[str, int],
    extra: typing.Any,
    note: str | None,
    size: typing.Literal["small", "large"] = "small",
    count: typing.Annotated[int, {"minimum": 1, "maximum": 10}] = 1,
    ratio: typing.Annotated[float, {"minimum": 0, "maximum": 1}] = 0.5,
    urgent: bool = False,
    hint: str | None = None,
) -> Order:
    """Answers an order.

    Args:
        name: Who orders.
    """
    return Order(name, tags, parts, place, labels, extra, note, size, count, ratio, urgent, hint)


@tool(name="say")
def answer(text: str) -> dict:
    """Answers JSON."""
    return {"text": text, "list": [1, 2.5, True, None], "inner": {'a"b': "c\\d"}}


@tool
def blocks(half: bool = False) -> Output:
    """Answers blocks."""
    missing = ToolError("the rest is missing", code="rest_missing", kind="partial_failure") if half else None
    return Output(text("block"), structured={"a": 1}, summary="one line", missing=missing)


@tool
def fail() -> str:
    """Fails."""
    raise ToolError("slow down", code="slow_down", kind="rate_limited", detail="why", retry_after=60)


@tool(access=["file_write"], write_effects=["local_draft"])
def look(path: Path) -> dict:
    """Reads a file."""
    call = context()
    draft = call.scratch / "draft"
    draft.write_text(path.read_text())
    cwd = None if call.cwd is None else str(call.cwd)
    return {"text": path.read_text(), "draft": draft.read_text(), "cwd": cwd, "attempt": call.attempt}


@tool(environment=["PARITY"])
def variable() -> str:
    """Reads a variable."""
    return os.environ.get("PARITY", "")


@tool
def report() -> str:
    """Reports."""
    progress("half", 50)
    progress("all", 100, step="last", total_steps=2, bytes_read=3, bytes_written=4, lines=5)
    partial_result("early")
    log("warn", "odd", n=1)
    return "reported"


@tool
def wait() -> dict:
    """Waits for a stop."""
    reason = wait_for(60)
    if reason is not None:
        acknowledge()
    return {"stopped": reason}


@dataclasses.dataclass
class Who:
    name: str


@dataclasses.dataclass
class Sure:
    yes: bool


@dataclasses.dataclass
class Last:
    n: int


@tool(name="ask")
def questions() -> str:
    """Asks."""
    state = remembered().decode()
    remember(b"one")
    who, sure = ask_all(("who", "Who?", Who), ("sure", "Sure?", Sure))
    remember(f"{state} two".encode())
    last = ask("last", "How many?", Last)
    return f"{who.name} {str(sure.yes).lower()} {last.n} {state}"


@tool
def keep() -> Output:
    """Keeps a file."""
    with artifact("rows.csv", "text/csv") as file:
        for chunk in ("a,b\n", "x" * 1_500_000, "\nend\n"):
            file.write(chunk)
    return Output(file.block)


@tool
def mark() -> str:
    """Changes the context."""
    modify_context("branch", {"name": "fix"})
    return "marked"


@tool(write_effects=["remote_mutation"])
def fetch(url: Url) -> dict:
    """Sends a request."""
    response = send(url, method="POST", headers={"x-probe": "yes"}, body="ping")
    return {"status": response.status, "body": response.text}


@tool(tool_calls=["*"])
def relay(tool: str, input: typing.Any) -> dict:
    """Calls a tool."""
    return {"answer": call_tool(tool, **input).structured, "callable": bool(callable_tools())}


@configuration
@dataclasses.dataclass
class Settings:
    unit: str = "none"


@tool
def setting() -> str:
    """Says its setting."""
    return configured(Settings).unit


@tool
def even(n: int) -> str:
    """Takes even numbers."""
    return str(n)


@check(even)
def is_even(n):
    if n % 2:
        raise ToolError(f"{n} is odd", code="odd", kind="invalid_arguments")


@preflight(even)
def is_ready(n):
    if n == 0:
        raise ToolError("not for 0", code="not_ready", kind="setup_required")


@tool(access=["file_read", "file_write"])
def touch(change: bool) -> str:
    """Says whether it changes things."""
    return "touched"


@classify(touch)
def facts(change):
    return Facts(read_only=not change)
