"""The client for asyncio."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Generator, Mapping, Sequence
from types import TracebackType
from typing import Any, Callable, Generic, Literal, Optional, TypeVar, Union, overload

from . import _requests
from ._client import _wanted
from ._connection import Connection
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
"""A function, or a coroutine function, which is awaited."""


class AsyncCall(Generic[T]):
    """A call that was started. Awaiting it gives its result; canceling that cancels the call."""

    def __init__(self, connection: Connection, pending: Pending, read: Callable[[Any], T], deadline: Deadline):
        self._connection = connection
        self._pending = pending
        self._read = read
        self._deadline = deadline
        self._changed = asyncio.Event()
        loop = asyncio.get_running_loop()
        pending.waken(functools.partial(_set, loop, self._changed))

    def __await__(self) -> Generator[Any, None, T]:
        return self.result().__await__()

    async def progress(self) -> AsyncIterator[Progress]:
        """What the tool says of its work, until the call ends; nothing unless the call was started with progress."""
        try:
            while True:
                self._changed.clear()
                updates, is_done = self._pending.take()
                for update in updates:
                    yield update
                if is_done:
                    return
                until = self._deadline.until
                left = None if until is None else until - time.monotonic()
                try:
                    await asyncio.wait_for(self._changed.wait(), left)
                except asyncio.TimeoutError:
                    self._deadline.passed(self._pending)
        except asyncio.CancelledError:
            self.cancel()
            raise

    async def result(self) -> T:
        """Waits for the result. Raises ToolcellError if the call failed or was canceled."""
        async for _ in self.progress():
            pass
        return self._read(self._pending.outcome())

    def done(self) -> bool:
        """Whether the call has ended."""
        return self._pending.is_done

    def cancel(self) -> None:
        """Asks the program to stop the call. Its result is then an error of the class `canceled`."""
        self._connection.cancel(self._pending, canceled())


class AsyncToolcell:
    """`Toolcell` for asyncio: the same methods, awaited. Canceling the task of a call cancels the call.

    `approve`, `fill`, `on_log` and `on_progress` are called in the event loop, and can be coroutine functions.
    """

    def __init__(
        self,
        *tools: PathLike,
        program: Optional[PathLike] = None,
        approve: Union[
            Callable[[Approval], Union[bool, Decision, Awaitable[Union[bool, Decision]]]],
            Literal["deny", "wait"],
            None,
        ] = None,
        fill: Optional[Callable[[Question], Any]] = None,
        on_log: Optional[Callable[[Log], Any]] = None,
        on_tools_changed: Optional[Callable[[], Any]] = None,
        start_timeout: float = 60.0,
        options: Optional[Options] = None,
        **settings: Any,
    ) -> None:
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        # Not bound to this object, which would then never be collected.
        here = weakref.ref(self)
        self._session = Session(
            tools,
            of(options, settings),
            program=program,
            approve=None if approve is None or is_policy(approve) else functools.partial(_asked, here, approve),
            waits=approve == "wait",
            undecided=approve is None,
            fill=None if fill is None else functools.partial(_asked, here, fill),
            on_log=None if on_log is None else functools.partial(_told, here, on_log),
            on_tools_changed=None if on_tools_changed is None else functools.partial(_told, here, on_tools_changed),
            start_timeout=start_timeout,
        )
        self._close = weakref.finalize(self, self._session.close)

    async def __aenter__(self) -> AsyncToolcell:
        await self._open()
        return self

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Cancels the calls that run, and stops the program. Returns when it has ended."""
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, self._session.close))

    @property
    def stderr(self) -> str:
        """The last lines of the program's standard error: what it tells its operator."""
        connection = self._session.connection
        return "" if connection is None else connection.stderr

    async def tools(self, format: Format = "plain") -> list[dict[str, Any]]:
        """The tools, as a request to a model takes them. `plain` is the format of MCP, with the names for `call`."""
        return await (await self._start(_requests.tools(format), None, None))

    @overload
    async def call(
        self,
        name: str,
        arguments: Optional[Mapping[str, Any]] = None,
        *,
        timeout: Optional[float] = None,
        on_progress: Optional[OnProgress] = None,
    ) -> Result: ...

    @overload
    async def call(
        self, name: Mapping[str, Any], *, timeout: Optional[float] = None, on_progress: Optional[OnProgress] = None
    ) -> dict[str, Any]: ...

    @overload
    async def call(
        self, name: Any, *, timeout: Optional[float] = None, on_progress: Optional[OnProgress] = None
    ) -> Any: ...

    async def call(
        self,
        name: Any,
        arguments: Optional[Mapping[str, Any]] = None,
        *,
        timeout: Optional[float] = None,
        on_progress: Optional[OnProgress] = None,
    ) -> Any:
        """Calls a tool, as `Toolcell.call` does."""
        return await waited(await self._start(_wanted(name, arguments), timeout, on_progress), on_progress)

    async def submit(
        self,
        name: Any,
        arguments: Optional[Mapping[str, Any]] = None,
        *,
        timeout: Optional[float] = None,
        progress: bool = False,
    ) -> AsyncCall[Any]:
        """Starts a call as `call` does, and returns before it has ended."""
        return await self._start(_wanted(name, arguments), timeout, progress or None)

    async def batch(
        self, calls: Sequence[Any], *, timeout: Optional[float] = None, on_progress: Optional[OnProgress] = None
    ) -> list[Any]:
        """Makes at most 128 calls, as `Toolcell.batch` does."""
        if not calls:
            return []
        return await waited(await self._start(_requests.batch(calls), timeout, on_progress), on_progress)

    async def run(
        self,
        message: Any,
        *,
        dialect: Optional[Dialect] = None,
        timeout: Optional[float] = None,
        on_progress: Optional[OnProgress] = None,
    ) -> list[dict[str, Any]]:
        """Makes the calls in a message of a model, or in a response of its API. Returns the messages that answer it."""
        wanted = _requests.run(message, dialect)
        return await waited(await self._start(wanted, timeout, on_progress), on_progress)

    async def list_files(self) -> list[WorkspaceFile]:
        """The files of the workspace, as `Toolcell.list_files` lists them."""
        return await waited(await self._start(_requests.files(), None, None), None)

    async def read_file(self, path: str) -> bytes:
        """A file of the workspace, as `Toolcell.read_file` reads it."""
        uri: Optional[str] = _requests.file_uri(self._session.workspace, path)
        parts = []
        while uri is not None:
            parts.append(await waited(await self._start(_requests.part(uri), None, None), None))
            uri = parts[-1].next
        return _requests.joined(path, parts)

    async def _open(self) -> Connection:
        self._loop = asyncio.get_running_loop()
        return await opened(self._session)

    async def _start(self, wanted: Wanted[T], timeout: Optional[float], progress: Any) -> AsyncCall[T]:
        return begun(await self._open(), wanted, timeout, progress)


async def opened(session: Session) -> Connection:
    """The connection of a client; the first call starts the program."""
    connection = session.connection
    if connection is not None:
        # It says by itself that it has ended.
        return connection
    opening = asyncio.get_running_loop().run_in_executor(None, session.open)
    # A start whose caller was canceled goes on, and ends with its client.
    return await asyncio.shield(opening)


def begun(connection: Connection, wanted: Wanted[T], timeout: Optional[float], progress: Any) -> AsyncCall[T]:
    """A request that was sent."""
    wall = millis(timeout)
    pending = connection.begin(wanted.method, wanted.params, progress=progress is not None, timeout_ms=wall)
    return AsyncCall(connection, pending, wanted.read, Deadline(connection, timeout, wanted.calls))


async def waited(call: AsyncCall[T], on_progress: Optional[OnProgress]) -> T:
    """The result of a call, which is canceled with the task that waits for it."""
    try:
        async for update in call.progress():
            if on_progress is not None:
                said = on_progress(update)
                if inspect.isawaitable(said):
                    await said
        return await call.result()
    except BaseException:
        call.cancel()
        raise


def _set(loop: asyncio.AbstractEventLoop, changed: asyncio.Event) -> None:
    try:
        loop.call_soon_threadsafe(changed.set)
    except RuntimeError:
        # The loop is closed, and nothing waits.
        pass


def _asked(here: weakref.ref[AsyncToolcell], function: Any, question: Any) -> Any:
    """The answer of a function of the caller, which runs in the caller's loop."""

    async def answer() -> Any:
        said = function(question)
        return await said if inspect.isawaitable(said) else said

    client = here()
    if client is None or client._loop is None:
        return None
    return asyncio.run_coroutine_threadsafe(answer(), client._loop).result()


def _told(here: weakref.ref[AsyncToolcell], function: Any, *news: Any) -> None:
    async def tell() -> None:
        said = function(*news)
        if inspect.isawaitable(said):
            await said

    client = here()
    if client is not None and client._loop is not None:
        asyncio.run_coroutine_threadsafe(tell(), client._loop)
