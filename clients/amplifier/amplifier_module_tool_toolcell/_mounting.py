"""The tools of one toolcell, mounted in one coordinator."""

import asyncio
import contextlib
import hashlib
import logging
from typing import Any

from amplifier_core import ToolResult

from ._options import Options
from ._result import answered, failed, refused, snake_case
from ._server import RequestError, Server, ServerError

_log = logging.getLogger(__name__)

# Loops that call a process which ends each time must not start processes without end.
_RESTARTS_MAX = 1
_CALL_ID = "_tool_call_id"


class ToolcellTool:
    """One tool of toolcell as a tool of Amplifier."""

    def __init__(self, mounting: "Mounting", name: str, listed: dict[str, Any]) -> None:
        self._mounting = mounting
        self._listed_name: str = listed["name"]
        self.name = name
        self.description: str = listed.get("description") or listed.get("title") or name
        self.input_schema: dict[str, Any] = listed.get("inputSchema") or {"type": "object"}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Calls the tool. Every outcome is a result; only the cancellation of the task is raised."""
        if not isinstance(input, dict):
            return failed("cannot call the tool: the input is not an object", "validation")
        arguments = {key: value for key, value in input.items() if key != _CALL_ID}
        return await self._mounting.call(self._listed_name, arguments, input.get(_CALL_ID))


class Mounting:
    def __init__(self, coordinator: Any, options: Options) -> None:
        self._coordinator = coordinator
        self._options = options
        self._server: Server | None = None
        self._restarts = 0
        self._stopped = False
        self._starting = asyncio.Lock()
        self._tools: dict[str, ToolcellTool] = {}
        self._refreshing: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, coordinator: Any, options: Options) -> "Mounting":
        """Starts toolcell and mounts its tools. Raises OSError or ServerError, and leaves nothing behind."""
        mounting = cls(coordinator, options)
        try:
            mounting._server = await Server.start(options, mounting._changed)
            await mounting._mount(await mounting._list())
        except RequestError as error:
            await mounting.cleanup()
            raise ServerError(f"toolcell did not list its tools: {error}") from None
        except BaseException:
            await mounting.cleanup()
            raise
        return mounting

    async def cleanup(self) -> None:
        """Unmounts the tools, and stops toolcell. Calls that run are canceled."""
        self._stopped = True
        if self._refreshing is not None:
            self._refreshing.cancel()
        for name in list(self._tools):
            await self._unmount(name)
        async with self._starting:
            if self._server is not None:
                await self._server.stop()

    async def call(self, name: str, arguments: dict[str, Any], call_id: Any) -> ToolResult:
        try:
            server = await self._running()
            return answered(await server.request("tools/call", {"name": name, "arguments": arguments}, call_id))
        except RequestError as error:
            return refused(str(error), error.data)
        except ValueError as error:
            return failed(f"cannot send the input: {error}", "validation")
        except (OSError, ServerError) as error:
            return failed(f"cannot call the tool: {error}", "execution")

    async def _running(self) -> Server:
        """The server; a new one if it has ended. A call that it had not answered is not repeated."""
        async with self._starting:
            if self._server is None or self._stopped:
                raise ServerError("toolcell was stopped")
            if not self._server.has_ended:
                return self._server
            if self._restarts >= _RESTARTS_MAX:
                raise ServerError("toolcell has ended again; mount the module again")
            self._restarts += 1
            _log.warning("toolcell has ended; it is started again")
            await self._server.stop()
            self._server = await Server.start(self._options, self._changed)
            return self._server

    async def _list(self) -> list[dict[str, Any]]:
        if self._server is None:
            return []
        tools: list[dict[str, Any]] = []
        params: dict[str, Any] = {}
        while True:
            page = await self._server.request("tools/list", params)
            if not isinstance(page, dict) or not isinstance(page.get("tools"), list):
                raise ServerError("toolcell answered with what is not a list of tools")
            tools.extend(page["tools"])
            if not page.get("nextCursor"):
                return tools
            params = {"cursor": page["nextCursor"]}

    async def _mount(self, listed: list[dict[str, Any]]) -> None:
        """Mounts what is listed, and unmounts what is not any more."""
        names = _names([tool["name"] for tool in listed])
        for gone in set(self._tools) - set(names):
            await self._unmount(gone)
        for name, tool in zip(names, listed, strict=True):
            # A name that another module has stays with it.
            if name not in self._tools and name in (self._coordinator.get("tools") or {}):
                _log.error("cannot mount the tool %s of toolcell: the name is taken", name)
                continue
            mounted = ToolcellTool(self, name, tool)
            await self._coordinator.mount("tools", mounted, name=name)
            self._tools[name] = mounted

    async def _unmount(self, name: str) -> None:
        mounted = self._tools.pop(name, None)
        if mounted is not None and (self._coordinator.get("tools") or {}).get(name) is mounted:
            await self._coordinator.unmount("tools", name=name)

    def _changed(self) -> None:
        if not self._stopped:
            before, self._refreshing = self._refreshing, None
            self._refreshing = asyncio.create_task(self._refresh(before))

    async def _refresh(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await before
        try:
            await self._mount(await self._list())
        except (RequestError, ServerError) as error:
            _log.warning("cannot list the tools of toolcell: %s", error)


def _names(listed: list[str]) -> list[str]:
    """The names under which tools are mounted: snake_case, and each of them once."""
    # Names that stay as they are come first, so that a tool cannot lose its own to another tool's changed name.
    taken = {name for name in listed if snake_case(name) == name}
    names = []
    for name in listed:
        short = snake_case(name)
        if short != name:
            if short in taken:
                short = f"{short[:57]}_{hashlib.sha256(name.encode()).hexdigest()[:6]}"
            taken.add(short)
        names.append(short)
    return names
