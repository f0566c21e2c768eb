"""What both clients share: how the program is started, and what becomes of its questions and logs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import Any, Callable, Optional, Union

from . import _program
from ._connection import Connection, Handlers
from ._errors import ToolcellError
from ._options import Options, PathLike
from ._pending import Pending
from ._questions import Approval, Question, asked, decided, filled
from ._result import Log

VERSION = "0.1.0"
# How much longer the client waits than the program, which ends a call in time by itself.
GRACE_S = 5.0


class Session(Handlers):
    """The settings of a client, and its connection once it is open."""

    def __init__(
        self,
        tools: tuple[PathLike, ...],
        options: Options,
        *,
        program: Optional[PathLike],
        approve: Optional[Callable[[Approval], Any]],
        waits: bool,
        undecided: bool,
        fill: Optional[Callable[[Question], Any]],
        on_log: Optional[Callable[[Log], Any]],
        on_tools_changed: Optional[Callable[[], Any]],
        start_timeout: float,
    ) -> None:
        self._tools = tools
        self._options = options
        self._program = program
        self._approve = approve
        self._waits = waits
        self._undecided = undecided
        self._fill = fill
        self._on_log = on_log
        self._on_tools_changed = on_tools_changed
        self._start_timeout = start_timeout
        self._opening = threading.RLock()
        self._connection: Optional[Connection] = None
        # One that has not answered yet, so that `close` need not wait for it.
        self._starting: Optional[Connection] = None
        self._is_closed = False

    def open(self) -> Connection:
        """The connection; the first call starts the program. Raises ToolcellError."""
        with self._opening:
            if self._is_closed:
                raise ToolcellError("canceled", "client_closed", "the client was closed; make another one")
            if self._connection is None:
                command = self._options.command(_program.find(self._program), self._tools)
                folder = None if self._options.folder is None else os.fspath(self._options.folder)
                connection = Connection(command, folder, self._options.variables(), self, self._waits)
                self._starting = connection
                if self._is_closed:
                    connection.close()
                # Without forms, the program leaves approvals to `toolcell approvals`.
                capabilities: dict[str, Any] = {} if self._waits else {"elicitation": {"form": {}}}
                try:
                    connection.greet(capabilities, VERSION, self._start_timeout)
                finally:
                    self._starting = None
                self._connection = connection
            return self._connection

    @property
    def undecided(self) -> bool:
        """Whether nothing answers approvals, so that an adapter can ask in the way of its framework."""
        return self._undecided

    @property
    def workspace(self) -> Union[str, bool, None]:
        return self._options.workspace

    @property
    def connection(self) -> Optional[Connection]:
        return self._connection

    def close(self) -> None:
        self._is_closed = True
        starting = self._starting or self._connection
        if starting is not None:
            if starting.is_foreign:
                # A fork, which ends: the program is not its own, and a thread that is not there may hold the lock.
                return
            starting.close()
        with self._opening:
            if self._connection is not None:
                self._connection.close()

    def question(self, params: Mapping[str, Any]) -> dict[str, Any]:
        question = asked(params)
        if isinstance(question, Approval):
            return decided(self._approve(question) if self._approve is not None else False)
        return filled(self._fill(question) if self._fill is not None else None)

    def log(self, params: Mapping[str, Any]) -> None:
        if self._on_log is not None:
            logger = params.get("logger")
            level = str(params.get("level") or "info")
            self._on_log(Log(level, logger if isinstance(logger, str) else None, params.get("data")))

    def tools_changed(self) -> None:
        if self._on_tools_changed is not None:
            self._on_tools_changed()


def millis(timeout: Optional[float]) -> Optional[int]:
    """A timeout in milliseconds, for the program."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < 1e9:
        message = f"cannot use the timeout {timeout!r}: it is not a number of seconds"
        raise ToolcellError("invalid_arguments", "option_invalid", message)
    return max(1, round(timeout * 1000))


class Deadline:
    """When a client gives up on a program that does not end its calls in time by itself."""

    def __init__(self, connection: Connection, timeout: Optional[float], calls: int) -> None:
        self._connection = connection
        # The program can make the calls of a request one after the other, and each has the time.
        self._after = None if timeout is None else timeout * calls + GRACE_S
        self.until = None if self._after is None else time.monotonic() + self._after
        self._ping: Optional[Pending] = None

    def passed(self, pending: Pending) -> None:
        """Gives up, unless a user is being asked, because the time of a call begins after its approval.

        Meanwhile the program has as much time for the answer to a ping: it may hang.
        """
        if self._after is None:
            return
        now = time.monotonic()
        if self._connection.asks:
            if self._ping is None or self._ping.is_done:
                self._ping = self._connection.begin("ping", {})
                self.until = now + self._after
                return
        elif self._connection.settled + self._after > now:
            self.until = self._connection.settled + self._after
            return
        if self._ping is not None:
            self._connection.forget(self._ping)
        message = f"toolcell did not answer within {self._after:g} s; the call was canceled"
        self._connection.cancel(pending, ToolcellError("timeout", "no_answer", message))


def canceled() -> ToolcellError:
    return ToolcellError("canceled", "canceled_by_client", "the client canceled the call")

