"""The client for threads."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Callable, Generic, Literal, Optional, TypeVar, Union, overload

from . import _requests
from ._connection import Connection
from ._errors import ToolcellError
from ._files import WorkspaceFile
from ._options import Options, PathLike, of
from ._pending import Pending
from ._questions import Approval, Decision, Question, is_policy
from ._requests import Wanted
from ._result import Log, Progress, Result
from ._session import Deadline, Session, canceled, millis
from ._shapes import Dialect, Format

T = TypeVar("T")

OnProgress = Callable[[Progress], Any]


class Call(Generic[T]):
    """A call that was started, and that need not be waited for."""

    def __init__(self, connection: Connection, pending: Pending, read: Callable[[Any], T], deadline: Deadline):
        self._connection = connection
        self._pending = pending
        self._read = read
        self._deadline = deadline

    def progress(self) -> Iterator[Progress]:
        """What the tool says of its work, until the call ends; nothing unless the call was started with progress."""
        while True:
            if not self._pending.wait(self._deadline.until):
                self._deadline.passed(self._pending)
            updates, is_done = self._pending.take()
            yield from updates
            if is_done:
                return

    def result(self) -> T:
        """Waits for the result. Raises ToolcellError if the call failed or was canceled."""
        for _ in self.progress():
            pass
        return self._read(self._pending.outcome())

    def done(self) -> bool:
        """Whether the call has ended."""
        return self._pending.is_done

    def cancel(self) -> None:
        """Asks the program to stop the call. Its result is then an error of the class `canceled`."""
        self._connection.cancel(self._pending, canceled())


class Toolcell:
    """Tools in a sandbox: a process of `toolcell mcp`, which ends with this object. Safe to use from many threads.

    `tools` are .wasm files, folders of such files, or source folders of tools that are built, each with #NAME for one of
    its tools; none stands for those of `toolcell.toml`. Keywords are the fields of `Options`: without a grant, a tool
    reaches nothing. `approve` answers about calls that need an approval: a function, `deny`, or `wait` for an answer
    through `toolcell approvals`. Without it they are denied, unless an adapter asks in the way of its framework.
    `fill` answers forms of tools. Both are called in threads of their own.
    """

    def __init__(
        self,
        *tools: PathLike,
        program: Optional[PathLike] = None,
        approve: Union[Callable[[Approval], Union[bool, Decision]], Literal["deny", "wait"], None] = None,
        fill: Optional[Callable[[Question], Optional[Mapping[str, Any]]]] = None,
        on_log: Optional[Callable[[Log], None]] = None,
        on_tools_changed: Optional[Callable[[], None]] = None,
        start_timeout: float = 60.0,
        options: Optional[Options] = None,
        **settings: Any,
    ) -> None:
        self._session = Session(
            tools,
            of(options, settings),
            program=program,
            approve=None if is_policy(approve) else approve,  # type: ignore[arg-type]
            waits=approve == "wait",
            undecided=approve is None,
            fill=fill,
            on_log=on_log,
            on_tools_changed=on_tools_changed,
            start_timeout=start_timeout,
        )
        # Also at the end of the interpreter.
        self._close = weakref.finalize(self, self._session.close)

    def __enter__(self) -> Toolcell:
        self._session.open()
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def close(self) -> None:
        """Cancels the calls that run, and stops the program. Returns when it has ended."""
        self._session.close()

    @property
    def stderr(self) -> str:
        """The last lines of the program's standard error: what it tells its operator."""
        connection = self._session.connection
        return "" if connection is None else connection.stderr

    def tools(self, format: Format = "plain") -> list[dict[str, Any]]:
        """The tools, as a request to a model takes them. `plain` is the format of MCP, with the names for `call`."""
        return self._start(_requests.tools(format), None, None).result()

    @overload
    def call(
        self,
        name: str,
        arguments: Optional[Mapping[str, Any]] = None,
        *,
        timeout: Optional[float] = None,
        on_progress: Optional[OnProgress] = None,
    ) -> Result: ...

    @overload
    def call(
        self, name: Mapping[str, Any], *, timeout: Optional[float] = None, on_progress: Optional[OnProgress] = None
    ) -> dict[str, Any]: ...

    @overload
    def call(
        self, name: Any, *, timeout: Optional[float] = None, on_progress: Optional[OnProgress] = None
    ) -> Any: ...

    def call(
        self,
        name: Any,
        arguments: Optional[Mapping[str, Any]] = None,
        *,
        timeout: Optional[float] = None,
        on_progress: Optional[OnProgress] = None,
    ) -> Any:
        """Calls a tool.

        By its name: returns a Result, and raises ToolcellError if the call failed. With a call of a model (a tool call of
        OpenAI's APIs, or a tool_use block of Anthropic's): returns what answers it there, also if the call failed, because
        that is for the model to read. The program stops the call after `timeout` seconds, in which no approval counts.
        `on_progress` is called in this thread.
        """
        wanted: Wanted[Any] = _wanted(name, arguments)
        return self._wait(self._start(wanted, timeout, on_progress), on_progress)

    def submit(
        self,
        name: Any,
        arguments: Optional[Mapping[str, Any]] = None,
        *,
        timeout: Optional[float] = None,
        progress: bool = False,
    ) -> Call[Any]:
        """Starts a call as `call` does, and returns at once."""
        return self._start(_wanted(name, arguments), timeout, progress or None)

    def batch(
        self, calls: Sequence[Any], *, timeout: Optional[float] = None, on_progress: Optional[OnProgress] = None
    ) -> list[Any]:
        """Makes at most 128 calls: at once where they cannot disturb each other, the others in their order.

        `timeout` is that of each call.
        A call is (name, arguments), or a call of a model. The results have the order of the calls; that of a call by name
        is a Result, or a ToolcellError, which is not raised.
        """
        if not calls:
            return []
        return self._wait(self._start(_requests.batch(calls), timeout, on_progress), on_progress)

    def run(
        self,
        message: Any,
        *,
        dialect: Optional[Dialect] = None,
        timeout: Optional[float] = None,
        on_progress: Optional[OnProgress] = None,
    ) -> list[dict[str, Any]]:
        """Makes the calls in a message of a model, or in a response of its API. Returns the messages that answer it."""
        return self._wait(self._start(_requests.run(message, dialect), timeout, on_progress), on_progress)

    def list_files(self) -> list[WorkspaceFile]:
        """The files of the workspace: the first 1000, sorted by path. `Workspace.files` lists all of a named one."""
        return self._wait(self._start(_requests.files(), None, None), None)

    def read_file(self, path: str) -> bytes:
        """A file of the workspace. Large ones are read in parts. Raises ToolcellError if there is none."""
        uri: Optional[str] = _requests.file_uri(self._session.workspace, path)
        parts = []
        while uri is not None:
            parts.append(self._wait(self._start(_requests.part(uri), None, None), None))
            uri = parts[-1].next
        return _requests.joined(path, parts)

    def _start(self, wanted: Wanted[T], timeout: Optional[float], progress: Any) -> Call[T]:
        wall = millis(timeout)
        connection = self._session.open()
        pending = connection.begin(wanted.method, wanted.params, progress=progress is not None, timeout_ms=wall)
        return Call(connection, pending, wanted.read, Deadline(connection, timeout, wanted.calls))

    def _wait(self, call: Call[T], on_progress: Optional[OnProgress]) -> T:
        try:
            for update in call.progress():
                if on_progress is not None:
                    on_progress(update)
            return call.result()
        except BaseException:
            # Such as Ctrl-C, or an error of `on_progress`: the caller does not wait for the call any more.
            call.cancel()
            raise


def _wanted(name: Any, arguments: Optional[Mapping[str, Any]]) -> Wanted[Any]:
    if isinstance(name, str):
        return _requests.call(name, arguments)
    if arguments is not None:
        message = "a call of a model has its arguments in itself; pass it alone"
        raise ToolcellError("invalid_arguments", "arguments_twice", message)
    return _requests.shaped(name)
