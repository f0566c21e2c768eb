"""What both clients share: how the program is started, and what becomes of its questions and logs."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any, Callable, Optional

from . import _program
from ._connection import Connection, Handlers
from ._errors import ToolcellError
from ._options import Options, PathLike
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
        self._fill = fill
        self._on_log = on_log
        self._on_tools_changed = on_tools_changed
        self._start_timeout = start_timeout
        self._opening = threading.Lock()
        self._connection: Optional[Connection] = None
        self._is_closed = False

    def open(self) -> Connection:
        """The connection; the first call starts the program. Raises ToolcellError."""
        with self._opening:
            if self._is_closed:
                raise ToolcellError("canceled", "client_closed", "the client was closed; make another one")
            if self._connection is None:
                command = self._options.command(_program.find(self._program), self._tools)
                folder = None if self._options.folder is None else os.fspath(self._options.folder)
                connection = Connection(command, folder, self._options.variables(), self)
                # Without forms, the program leaves approvals to `toolcell approvals`.
                capabilities: dict[str, Any] = {} if self._waits else {"elicitation": {"form": {}}}
                connection.greet(capabilities, VERSION, self._start_timeout)
                self._connection = connection
            return self._connection

    @property
    def connection(self) -> Optional[Connection]:
        return self._connection

    def close(self) -> None:
        with self._opening:
            self._is_closed = True
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


def late(timeout: float) -> ToolcellError:
    message = f"toolcell did not answer within {timeout:g} s; the call was canceled"
    return ToolcellError("timeout", "no_answer", message)


def canceled() -> ToolcellError:
    return ToolcellError("canceled", "canceled_by_client", "the client canceled the call")

