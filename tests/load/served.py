"""A server that is started for a mark, and its clients: HTTP/1.1 on connections that stay open."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 60.0
TOOLCELL = os.environ["TOOLCELL"]
TOOLS = os.environ["TOOLS"].split()
APPROVER = "token-of-the-approver-0123"
OLD, NEW = "2025-11-25", "2026-07-28"


def token(principal: str) -> str:
    return f"token-of-{principal}-0123456789"


def principals(names: list[str], **fields: str) -> str:
    """`[[principal]]` of a `toolcell.toml`; `fields` are lines of each."""
    lines = []
    for name in names:
        digest = hashlib.sha256(token(name).encode()).hexdigest()
        lines += ["[[principal]]", f'name = "{name}"', f'tokens = ["sha256:{digest}"]']
        lines += [f"{field} = {value}" for field, value in fields.items()]
    return "\n".join(lines) + "\n"


def at(samples: list[float], percent: float) -> float:
    """Milliseconds."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] * 1e3


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict:
        return json.loads(self.body)


def expect(reply: Reply, *statuses: int) -> Reply:
    assert reply.status in statuses, reply
    return reply


class Client:
    """One connection. `reconnects` says whether it is opened again once the server has closed it between two requests."""

    def __init__(self, port: int, bearer: str, reconnects: bool = True):
        self.port, self.bearer, self.reconnects = port, bearer, reconnects
        self.reader: asyncio.StreamReader | None = None
        self.opened = 0

    async def open(self) -> None:
        assert self.reconnects or self.opened == 0, "the server closed a connection that was to stay"
        self.opened += 1
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)

    def close(self) -> None:
        if self.reader is not None:
            self.writer.close()
            self.reader = None

    async def send(self, line: str, body: bytes, headers: dict[str, str]) -> Reply:
        """Sends a request, and reads the head of its answer."""
        if self.reader is None or self.reader.at_eof():
            self.close()
            await self.open()
        shown = {"Host": f"127.0.0.1:{self.port}", "Authorization": f"Bearer {self.bearer}", "Content-Type": "application/json",
                 "Accept": "application/json, text/event-stream", "Content-Length": str(len(body)), **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in shown.items())
        self.writer.write(f"{line} HTTP/1.1\r\n{head}\r\n".encode() + body)
        said = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = (field.split(": ", 1) for field in said[1:] if field)
        return Reply(int(said[0].split()[1]), {name.lower(): value for name, value in fields}, b"")

    async def chunk(self) -> bytes:
        size = int((await self.reader.readline()).split(b";")[0] or b"0", 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def whole(self, line: str, body: bytes, headers: dict[str, str]) -> Reply:
        reply = await self.send(line, body, headers)
        if "content-length" in reply.headers:
            reply.body = await self.reader.readexactly(int(reply.headers["content-length"]))
        elif reply.headers.get("transfer-encoding") == "chunked":
            while part := await self.chunk():
                reply.body += part
        if reply.headers.get("connection") == "close":
            self.close()
        return reply

    async def request(self, line: str, body: bytes | dict | list = b"", **headers: str) -> Reply:
        """`headers` have `_` in place of `-`. An answer that does not come is an error."""
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            return await asyncio.wait_for(self.whole(line, sent, named), PATIENCE)
        except BaseException:
            self.close()
            raise

    async def call(self, tool: str, arguments: dict, **headers: str) -> Reply:
        return await self.request("POST /v1/calls", {"tool": tool, "input": arguments}, **headers)

    async def mcp(self, method: str, params: dict, **headers: str) -> Reply:
        """A request of the revision without sessions, or of the session in `headers`."""
        if "Mcp_Session_Id" not in headers and method != "initialize":
            protocol = "io.modelcontextprotocol"
            meta = {f"{protocol}/protocolVersion": NEW, f"{protocol}/clientCapabilities": {},
                    f"{protocol}/clientInfo": {"name": "load", "version": "1"}}
            params = {**params, "_meta": meta}
            headers = {"MCP_Protocol_Version": NEW, "Mcp_Method": method, "Mcp_Name": params.get("name", ""), **headers}
        number = {} if method.startswith("notifications/") else {"id": 1}
        return await self.request("POST /mcp", {"jsonrpc": "2.0", **number, "method": method, "params": params}, **headers)

    async def session(self) -> dict[str, str]:
        """Begins a session, and returns its headers."""
        hello = {"protocolVersion": OLD, "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}}
        begun = await self.mcp("initialize", hello)
        assert begun.status == 200, begun
        headers = {"Mcp_Session_Id": begun.headers["mcp-session-id"], "MCP_Protocol_Version": OLD}
        assert (await self.mcp("notifications/initialized", {}, **headers)).status == 202
        return headers


class Server:
    """`toolcell serve` in a home of its own, with a file of settings that may be changed."""

    def __init__(self, folder: Path, settings: str, *options: str, first=None):
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        self.settings(settings)
        approvers = folder / "approvers"
        approvers.write_text(f"approver {APPROVER}\n")
        approvers.chmod(0o600)
        command = [TOOLCELL, "serve", *TOOLS, "--listen=127.0.0.1:0", f"--approver-token-file={approvers}", "--log-level=warning"]
        self.log = folder / "log"
        environment = {"TOOLCELL_HOME": str(self.home), "PATH": "/usr/bin:/bin", "HOME": str(folder)}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([*command, *options], stdin=subprocess.DEVNULL, stderr=log, env=environment,
                                            cwd=folder, preexec_fn=first)
        end = time.monotonic() + PATIENCE
        while "\nMCP at " not in self.log.read_text():
            assert self.process.poll() is None and time.monotonic() < end, self.log.read_text()
            time.sleep(0.05)
        # Behind a proxy, the addresses are those of the proxy, and a line before them has the server's own.
        self.port = int(re.search(r"(?:Listening|API) at (?:http://)?127\.0\.0\.1:(\d+)", self.log.read_text())[1])

    def settings(self, text: str) -> None:
        new = self.home / "toolcell.new"
        new.write_text(text)
        new.rename(self.home / "toolcell.toml")

    def reload(self, text: str) -> None:
        self.settings(text)
        self.process.send_signal(signal.SIGHUP)

    def client(self, principal: str, reconnects: bool = True) -> Client:
        return Client(self.port, token(principal), reconnects)

    def approver(self) -> Client:
        return Client(self.port, APPROVER)

    def status(self, field: str) -> int:
        """A number of `/proc/PID/status`, such as `VmRSS` in KiB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"^{field}:\s+(\d+)", text, re.MULTILINE)[1])

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *failed: object) -> None:
        alive = self.process.poll() is None
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
        if failed[0] is not None:
            print(self.log.read_text()[-4_000:])
        else:
            assert alive, f"the server had ended: {self.log.read_text()[-4_000:]}"
            assert self.process.returncode == 0, f"the server ended with {self.process.returncode}"
