"""One process of `toolcell mcp`, and JSON-RPC on its standard streams."""

from __future__ import annotations

import json
import logging
import math
import os
import queue
import subprocess
import threading
import time
from collections.abc import Mapping
from typing import IO, Any, Callable, Optional, cast

from ._errors import ToolcellError, of_response
from ._pending import Pending
from ._result import progress_of

_log = logging.getLogger("toolcell")

_REVISION = "2025-11-25"
# The program discards a longer line without an answer.
_REQUEST_BYTES_MAX = 16 << 20
# More than the program writes in one line: a payload of 32 MiB in base64, and what is around it.
_ANSWER_BYTES_MAX = 64 << 20
# What is kept of the program's standard error, for messages.
_STDERR_BYTES_MAX = 16 << 10
_STDERR_SHOWN_MAX = 2 << 10
# How long the program gets to end by itself after its input closed, and then after SIGTERM.
_STOP_S = 3.0
_METHOD_NOT_FOUND = -32601


class Handlers:
    """What a connection tells its owner, from threads of its own."""

    def question(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Answers `elicitation/create`. May take long."""
        return {"action": "decline"}

    def log(self, params: Mapping[str, Any]) -> None:
        """Receives a log message. Must not block."""

    def tools_changed(self) -> None:
        """Hears that the list of tools has changed. Must not block."""


class Connection:
    """A running program. It is not started again: a call that it did not answer may have had an effect."""

    def __init__(
        self,
        command: list[str],
        folder: Optional[str],
        environment: Mapping[str, str],
        handlers: Handlers,
        waits: bool,
    ) -> None:
        self._handlers = handlers
        self._waits = waits
        # Reentrant, because a client that is collected is closed wherever a thread of the connection is.
        self._lock = threading.RLock()
        self._pending: dict[int, Pending] = {}
        # The questions that are not answered. The program takes back those that do not matter any more.
        self._questions: set[Any] = set()
        self._settled = -math.inf
        self._number = 0
        self._ended: Optional[ToolcellError] = None
        self._closing = threading.Lock()
        self._stderr = bytearray()
        self._owner = os.getpid()
        self._process = _started(command, folder, environment)
        # The lines to write. A thread of its own writes them, so that a program that does not read blocks no caller.
        self._lines: queue.SimpleQueue[Optional[bytes]] = queue.SimpleQueue()
        # First, because the end of the program is reported with what it said.
        self._hearing = self._thread(self._read_stderr)
        self._threads = [self._hearing, self._thread(self._write), self._thread(self._read)]
        for thread in self._threads:
            thread.start()

    def greet(self, capabilities: dict[str, Any], version: str, within_s: float) -> None:
        """Greets the program. Raises ToolcellError, and stops the program, if it does not answer as toolcell does."""
        client = {"name": "toolcell-python", "version": version}
        greeting = {"protocolVersion": _REVISION, "capabilities": capabilities, "clientInfo": client}
        try:
            pending = self.begin("initialize", greeting)
            if not pending.wait(time.monotonic() + within_s):
                message = f"toolcell did not answer within {within_s:g} s"
                raise ToolcellError("timeout", "start_timeout", message)
            answer = pending.outcome()
            server = answer.get("serverInfo") if isinstance(answer, dict) else None
            if not isinstance(server, dict) or server.get("name") != "toolcell":
                raise ToolcellError("execution_failed", "answer_unreadable", "the program is not toolcell")
            self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        except BaseException:
            self.close()
            raise

    def begin(
        self, method: str, params: Mapping[str, Any], *, progress: bool = False, timeout_ms: Optional[int] = None
    ) -> Pending:
        """Sends a request. Raises ToolcellError if it cannot be sent."""
        if self.is_foreign:
            # The threads that write and read are not in a fork: its request would wait for ever.
            message = "the program belongs to the process that started it; make a client in this one, after the fork"
            raise ToolcellError("setup_required", "client_forked", message)
        with self._lock:
            self._number += 1
            pending = Pending(self._number)
        meta: dict[str, Any] = dict(params.get("_meta") or {})
        if progress:
            meta["progressToken"] = pending.number
        if timeout_ms is not None:
            meta["toolcell/timeout_ms"] = timeout_ms
        whole = {**params, "_meta": meta} if meta else dict(params)
        line = _line({"jsonrpc": "2.0", "id": pending.number, "method": method, "params": whole})
        with self._lock:
            if self._ended is not None:
                # Another object, because an exception that is raised again collects tracebacks.
                raise ToolcellError(self._ended.error_class, self._ended.code, self._ended.message)
            self._pending[pending.number] = pending
            self._lines.put(line)
        return pending

    def cancel(self, pending: Pending, error: ToolcellError) -> None:
        """Ends a request with `error`, and asks the program to stop its call. A request that has ended stays as it is."""
        with self._lock:
            was_open = self._pending.pop(pending.number, None) is not None
        if was_open:
            self._cancel(pending.number, error.message)
        pending.fail(error)

    def forget(self, pending: Pending) -> None:
        """Does not wait for the answer to a request any more."""
        with self._lock:
            self._pending.pop(pending.number, None)

    def _cancel(self, number: int, reason: str) -> None:
        params = {"requestId": number, "reason": reason}
        self._send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def close(self) -> None:
        """Cancels the calls that run, and stops the program. Returns when it has ended."""
        if self.is_foreign:
            return
        error = ToolcellError("canceled", "client_closed", "the client was closed")
        with self._lock:
            left = list(self._pending)
        for number in left:
            self._cancel(number, error.message)
        self._end(error)
        with self._closing:
            self._lines.put(None)
            for force in (None, self._process.terminate, self._process.kill):
                if force is not None:
                    force()
                try:
                    self._process.wait(_STOP_S)
                    break
                except subprocess.TimeoutExpired:
                    continue
            else:
                self._process.wait()
            # Another process may hold the streams open.
            for thread in self._threads:
                if thread is not threading.current_thread():
                    thread.join(_STOP_S)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_foreign(self) -> bool:
        """Whether this process is a fork of the one that started the program."""
        return os.getpid() != self._owner

    @property
    def asks(self) -> bool:
        """Whether a call may be waiting for a person, which no timeout of a call counts."""
        with self._lock:
            return self._waits or bool(self._questions)

    @property
    def settled(self) -> float:
        """When a question ended last, of time.monotonic(); minus infinity before the first end."""
        with self._lock:
            return self._settled

    @property
    def stderr(self) -> str:
        """The last lines of the program's standard error."""
        with self._lock:
            return self._stderr.decode("utf-8", "replace")

    def _thread(self, work: Callable[[], None]) -> threading.Thread:
        return threading.Thread(target=work, name=f"toolcell{work.__name__}", daemon=True)

    def _send(self, message: dict[str, Any]) -> None:
        self._lines.put(_line(message))

    def _write(self) -> None:
        stdin = cast("IO[bytes]", self._process.stdin)
        try:
            while True:
                line = self._lines.get()
                if line is None:
                    break
                stdin.write(line)
                if self._lines.empty():
                    stdin.flush()
        except (OSError, ValueError):
            # The program has ended: the thread that reads notices, and says why.
            pass
        finally:
            try:
                stdin.close()
            except OSError:
                pass

    def _read(self) -> None:
        stdout = cast("IO[bytes]", self._process.stdout)
        why = ""
        try:
            while True:
                line = stdout.readline(_ANSWER_BYTES_MAX + 1)
                if not line:
                    break
                if len(line) > _ANSWER_BYTES_MAX:
                    raise ValueError(f"a line has more than {_ANSWER_BYTES_MAX} bytes")
                self._receive(json.loads(line))
        except (OSError, ValueError, TypeError, RecursionError) as error:
            why = f"toolcell wrote what cannot be read: {error}"
            self._process.kill()
        finally:
            stdout.close()
            self._end(self._end_of_program(why))

    def _end_of_program(self, why: str) -> ToolcellError:
        """The error of all requests that the program did not answer."""
        try:
            code: Optional[int] = self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = None
        self._hearing.join(_STOP_S)
        ended = why or f"toolcell has ended{'' if code is None else f' with exit code {code}'}"
        return ToolcellError("execution_failed", "program_ended", self._with_stderr(ended))

    def _with_stderr(self, message: str) -> str:
        """The message, and why: what the operator of the program is told, who is the caller here."""
        said = self.stderr.strip()[-_STDERR_SHOWN_MAX:]
        return f"{message}; it said:\n{said}" if said else message

    def _read_stderr(self) -> None:
        stderr = cast("IO[bytes]", self._process.stderr)
        try:
            for line in iter(lambda: stderr.readline(_STDERR_BYTES_MAX), b""):
                _log.debug("%s", line.decode("utf-8", "replace").rstrip())
                with self._lock:
                    self._stderr += line
                    del self._stderr[:-_STDERR_BYTES_MAX]
        except (OSError, ValueError):
            pass
        finally:
            stderr.close()

    def _receive(self, message: Any) -> None:
        if not isinstance(message, dict):
            raise ValueError("a message is not an object")
        method, number = message.get("method"), message.get("id")
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        if isinstance(method, str) and number is not None:
            self._asked(method, number, params)
        elif isinstance(method, str):
            self._told(method, params)
        elif number is None:
            _log.warning("toolcell refused a message: %s", message.get("error"))
        else:
            with self._lock:
                pending = self._pending.pop(number, None)
            if pending is None:
                return
            error = message.get("error")
            if isinstance(error, dict):
                failed = of_response(error)
                if failed.code == "host_fault":
                    failed.message = self._with_stderr(failed.message)
                pending.fail(failed)
            else:
                pending.answer(message.get("result"))

    def _told(self, method: str, params: Mapping[str, Any]) -> None:
        try:
            if method == "notifications/progress":
                self._update(params)
            elif method == "notifications/message":
                self._handlers.log(params)
            elif method == "notifications/tools/list_changed":
                self._handlers.tools_changed()
            elif method == "notifications/cancelled":
                self._settle(params.get("requestId"))
        except Exception:
            # A function of the caller: it must not end the connection.
            _log.exception("cannot pass on %s", method)

    def _update(self, params: Mapping[str, Any]) -> None:
        # The calls of a message have the tokens NUMBER/INDEX.
        number, _, index = str(params.get("progressToken")).partition("/")
        with self._lock:
            pending = self._pending.get(int(number))
        if pending is not None:
            pending.update(progress_of(params, int(index or 0)))

    def _asked(self, method: str, number: Any, params: Mapping[str, Any]) -> None:
        if method == "elicitation/create":
            with self._lock:
                self._questions.add(number)
            # A person may take long, and other answers must not wait. Each call has one open question at most.
            threading.Thread(target=self._answer, args=(number, params), name="toolcell_question", daemon=True).start()
        elif method == "ping":
            self._send({"jsonrpc": "2.0", "id": number, "result": {}})
        else:
            error = {"code": _METHOD_NOT_FOUND, "message": f"this client does not know {method}"}
            self._send({"jsonrpc": "2.0", "id": number, "error": error})

    def _answer(self, number: Any, params: Mapping[str, Any]) -> None:
        try:
            line = _line({"jsonrpc": "2.0", "id": number, "result": self._handlers.question(params)})
        except Exception:
            _log.exception("cannot answer a question of toolcell; the answer is no")
            line = _line({"jsonrpc": "2.0", "id": number, "result": {"action": "decline"}})
        if self._settle(number):
            self._lines.put(line)

    def _settle(self, number: Any) -> bool:
        """Ends a question. Returns whether it was open."""
        with self._lock:
            was_open = number in self._questions
            if was_open:
                self._questions.discard(number)
                self._settled = time.monotonic()
        return was_open

    def _end(self, error: ToolcellError) -> None:
        with self._lock:
            if self._ended is None:
                self._ended = error
            left, self._pending = list(self._pending.values()), {}
        for pending in left:
            pending.fail(error)


def _started(command: list[str], folder: Optional[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            cwd=folder,
            env=environment,
            # Ctrl-C is for this process, which then cancels its calls.
            start_new_session=os.name == "posix",
        )
    except (OSError, ValueError) as error:
        message = f"cannot start {command[0]}: {error}"
        raise ToolcellError("setup_required", "program_not_started", message) from None


def _line(message: dict[str, Any]) -> bytes:
    """A message as one line. Raises ToolcellError for what JSON or UTF-8 cannot hold."""
    try:
        line = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        why = f"cannot send the arguments as JSON: {error}"
        raise ToolcellError("invalid_arguments", "arguments_not_json", why) from None
    if len(line) > _REQUEST_BYTES_MAX:
        text = f"the request has {len(line)} bytes; at most {_REQUEST_BYTES_MAX} can be sent"
        raise ToolcellError("invalid_arguments", "request_too_large", text)
    return line
