"""One process of `toolcell mcp`, and JSON-RPC on its standard streams."""

import asyncio
import contextlib
import itertools
import json
import logging
import os
from collections.abc import Callable
from typing import Any, cast

from ._options import Options

_log = logging.getLogger(__name__)

_REVISION = "2025-11-25"
# toolcell discards a longer line without an answer.
_REQUEST_BYTES_MAX = 16 << 20
# More than toolcell writes in one line: a payload of 32 MiB in base64, and what is around it.
_ANSWER_BYTES_MAX = 64 << 20
_CALL_ID_CHARS_MAX = 128
_LOG_BYTES_MAX = 4096
# How long the process gets to end by itself after its standard input closed, and then after SIGTERM.
_STOP_S = 3.0


class ServerError(Exception):
    """The process cannot be started, ended, or does not speak the protocol."""


class RequestError(Exception):
    """The server refused a request."""

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.data = data


class Server:
    """A running process. It is not started again: that is what its owner does."""

    def __init__(self, process: asyncio.subprocess.Process, changed: Callable[[], None]) -> None:
        self._process = process
        # All three are pipes.
        self._stdin = cast(asyncio.StreamWriter, process.stdin)
        self._stdout = cast(asyncio.StreamReader, process.stdout)
        self._stderr = cast(asyncio.StreamReader, process.stderr)
        self._changed = changed
        self._pending: dict[int | str, asyncio.Future[Any]] = {}
        # Canceled requests may still be on their way: an id that is taken is refused.
        self._canceled: set[str] = set()
        self._numbers = itertools.count(1)
        self._ended = False
        self._reading = [asyncio.create_task(self._read_answers()), asyncio.create_task(self._read_log())]

    @classmethod
    async def start(cls, options: Options, changed: Callable[[], None]) -> "Server":
        """Starts the process and greets it. `changed` is called when the list of its tools changes."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *options.command,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            limit=_ANSWER_BYTES_MAX,
            cwd=options.folder,
            env={**os.environ, **options.environment},
        )
        server = cls(process, changed)
        try:
            async with asyncio.timeout(options.start_timeout_s):
                client = {"name": "amplifier-module-tool-toolcell", "version": "0.1.0"}
                greeting = {"protocolVersion": _REVISION, "capabilities": {}, "clientInfo": client}
                await server.request("initialize", greeting)
                server._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        except TimeoutError:
            await server.stop()
            raise ServerError(f"toolcell did not answer within {options.start_timeout_s:g} s") from None
        except RequestError as error:
            await server.stop()
            raise ServerError(f"toolcell refused to begin: {error}") from None
        except BaseException:
            await server.stop()
            raise
        return server

    @property
    def has_ended(self) -> bool:
        return self._ended

    async def request(self, method: str, params: dict[str, Any], call_id: str | None = None) -> Any:
        """Sends a request and waits for its result. If the task is canceled, the request is canceled, too.

        Raises RequestError, ServerError, or ValueError if the parameters cannot be sent as JSON.
        """
        if self._ended:
            raise ServerError("toolcell has ended")
        request_id = self._free_id(call_id)
        line = _line({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[request_id] = answer
        try:
            self._write(line)
            # The answer comes only after the request was read, and the process may end before.
            drained = asyncio.ensure_future(self._drain())
            try:
                return await answer
            finally:
                drained.cancel()
        except asyncio.CancelledError:
            if not answer.done() or answer.cancelled():
                if isinstance(request_id, str):
                    self._canceled.add(request_id)
                reason = {"requestId": request_id, "reason": "the task of the call was canceled"}
                self._send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": reason})
            raise
        finally:
            self._pending.pop(request_id, None)

    async def stop(self) -> None:
        """Stops the process; calls that it has not answered fail."""
        self._end("toolcell was stopped")
        for force in (self._process.terminate, self._process.kill):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_S):
                    await self._process.wait()
            if self._process.returncode is not None:
                break
            with contextlib.suppress(ProcessLookupError):
                force()
        await self._process.wait()
        # Up to the end of both streams, which closes them. Another process may hold them open.
        _, unfinished = await asyncio.wait(self._reading, timeout=_STOP_S)
        for task in unfinished:
            task.cancel()

    def _free_id(self, call_id: str | None) -> int | str:
        """The caller's own id, so that it is in the record of the call; another one if it is taken."""
        if isinstance(call_id, str) and 0 < len(call_id) <= _CALL_ID_CHARS_MAX:
            if call_id not in self._pending and call_id not in self._canceled:
                return call_id
        return next(self._numbers)

    def _send(self, message: dict[str, Any]) -> None:
        self._write(_line(message))

    def _write(self, line: bytes) -> None:
        if not self._stdin.is_closing():
            self._stdin.write(line)

    async def _drain(self) -> None:
        with contextlib.suppress(OSError):
            await self._stdin.drain()

    async def _read_answers(self) -> None:
        try:
            while line := await self._stdout.readline():
                self._receive(json.loads(line))
        except (OSError, ValueError) as error:
            self._end(f"toolcell wrote what cannot be read: {error}")
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            while await self._stdout.read(_LOG_BYTES_MAX):
                pass
        finally:
            self._end("toolcell has ended")

    def _receive(self, message: Any) -> None:
        if not isinstance(message, dict):
            raise ValueError("a message is not an object")
        if message.get("method") == "notifications/tools/list_changed":
            self._changed()
        if "method" in message:
            return
        request_id = message.get("id")
        if not isinstance(request_id, (int, str)):
            _log.warning("toolcell refused a message: %s", message.get("error"))
            return
        self._canceled.discard(request_id)
        answer = self._pending.get(request_id)
        if answer is None or answer.done():
            return
        error = message.get("error")
        if isinstance(error, dict):
            answer.set_exception(RequestError(str(error.get("message")), error.get("data")))
        else:
            answer.set_result(message.get("result"))

    async def _read_log(self) -> None:
        while said := await self._stderr.read(_LOG_BYTES_MAX):
            for line in said.decode("utf-8", "replace").splitlines():
                _log.info("toolcell: %s", line)

    def _end(self, why: str) -> None:
        self._ended = True
        self._stdin.close()
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(ServerError(why))


def _line(message: dict[str, Any]) -> bytes:
    """A message as one line.

    Raises ValueError for what JSON or UTF-8 cannot hold, because toolcell could not tell whose request it was.
    """
    try:
        text = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    line = text.encode() + b"\n"
    if len(line) > _REQUEST_BYTES_MAX:
        raise ValueError(f"the input is longer than {_REQUEST_BYTES_MAX} bytes")
    return line
