"""Measures how soon a spinning tool stops when nobody wants its answer any more, and prints a table.

    measure.py TOOLCELL COMPONENT [RUNS]

A tool has stopped when its record is in the file of records: it is written after the sandbox is gone. The file is looked at
each half of a millisecond, and the clock starts before the client does anything.
"""

import json
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

RUNS = 50
AHEAD = 0.05
PATIENCE = 20.0
LOOK = 0.0005
GREETING = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "stops", "version": "1"}}


def frame(method: str, params: dict, wanted: int | None = None) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params,
                       **({} if wanted is None else {"id": wanted})}).encode()


def call(tool: str, arguments: dict, wanted: int) -> bytes:
    return frame("tools/call", {"name": tool, "arguments": arguments}, wanted)


def until(there, what: str):
    end = time.perf_counter() + PATIENCE
    while not (found := there()):
        if time.perf_counter() > end:
            raise RuntimeError(f"{what}: not in {PATIENCE:.0f} s")
        time.sleep(LOOK)
    return found


class Records:
    """The file of records of one server."""

    def __init__(self, folder: str):
        self.path = tempfile.mktemp(dir=folder)
        self.seen = 0

    def lines(self) -> list[bytes]:
        try:
            with open(self.path, "rb") as file:
                return file.read().splitlines(keepends=True)
        except FileNotFoundError:
            return []

    def forget(self) -> None:
        """What is there counts no more. Whoever has its answer has its record a moment later."""
        time.sleep(AHEAD)
        self.seen = len(self.lines())

    def stopped(self, began: float, how: str = "canceled") -> float:
        """Milliseconds until a record is there that says so."""
        def there() -> bool:
            new = [line for line in self.lines()[self.seen:] if line.endswith(b"\n")]
            return any(json.loads(line)["invocation"]["status"] == how for line in new)
        until(there, "a record")
        return (time.perf_counter() - began) * 1e3


class Streams:
    """A server on its standard streams, with a tool that spins."""

    def __init__(self, toolcell: str, component: str, folder: str):
        self.records = Records(folder)
        command = [toolcell, "mcp", component, f"--record-to={self.records.path}", "--timeout=10m"]
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.send(frame("initialize", GREETING, 0), frame("notifications/initialized", {}))
        self.answer(0)
        self.send(call("hello", {"name": "you"}, 1))
        self.answer(1)
        self.records.forget()
        self.send(call("spin", {}, 2))
        time.sleep(AHEAD)

    def send(self, *frames: bytes) -> None:
        os.write(self.child.stdin.fileno(), b"".join(frame + b"\n" for frame in frames))

    def answer(self, wanted: int) -> dict:
        while (said := json.loads(self.child.stdout.readline())).get("id") != wanted:
            pass
        return said

    def end(self) -> None:
        self.child.kill()
        self.child.wait()


def canceled(server: Streams) -> dict[str, float]:
    began = time.perf_counter()
    server.send(frame("notifications/cancelled", {"requestId": 2}), call("hello", {"name": "you"}, 3))
    answered = server.answer(3)
    assert not answered["result"].get("isError"), answered
    answered = (time.perf_counter() - began) * 1e3
    return {"canceled on standard streams: the tool": server.records.stopped(began),
            "canceled on standard streams: the next answer": answered}


def closed(server: Streams) -> dict[str, float]:
    began = time.perf_counter()
    server.child.stdin.close()
    took = server.records.stopped(began)
    server.child.wait()
    return {"standard input closed: the tool": took,
            "standard input closed: the server": (time.perf_counter() - began) * 1e3}


def killed(server: Streams) -> dict[str, float]:
    """Hands both ends to a process of their own, and kills it."""
    client = subprocess.Popen(["sleep", "600"], stdin=server.child.stdout, stdout=server.child.stdin)
    server.child.stdin.close()
    server.child.stdout.close()
    began = time.perf_counter()
    client.send_signal(signal.SIGKILL)
    client.wait()
    took = server.records.stopped(began)
    server.child.wait()
    return {"client killed, standard streams: the tool": took,
            "client killed, standard streams: the server": (time.perf_counter() - began) * 1e3}


class Http:
    """A server over HTTP."""

    def __init__(self, toolcell: str, component: str, folder: str):
        self.records = Records(folder)
        command = [toolcell, "serve", component, "--listen=127.0.0.1:0", "--no-token", "--timeout=10m",
                   f"--record-to={self.records.path}"]
        self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in self.child.stderr:
            if found := re.match(r"MCP at http://127\.0\.0\.1:(\d+)/mcp", line):
                self.port = int(found[1])
                break
        opened = self.whole(self.begin(frame("initialize", GREETING, 0)))
        self.session = re.search(r"(?i)mcp-session-id: (\S+)", opened)[1]
        self.whole(self.begin(frame("notifications/initialized", {}), self.session))
        self.whole(self.begin(call("hello", {"name": "you"}, 1), self.session))

    def begin(self, body: bytes, session: str | None = None) -> socket.socket:
        stream = socket.create_connection(("127.0.0.1", self.port))
        named = f"Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n" if session else ""
        stream.sendall((f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Type: application/json\r\n"
                        f"Accept: application/json, text/event-stream\r\nConnection: close\r\n{named}"
                        f"Content-Length: {len(body)}\r\n\r\n").encode() + body)
        return stream

    def whole(self, stream: socket.socket) -> str:
        parts = []
        while part := stream.recv(1 << 16):
            parts.append(part)
        stream.close()
        return b"".join(parts).decode()

    def spinning(self, wanted: int) -> socket.socket:
        self.records.forget()
        stream = self.begin(call("spin", {}, wanted), self.session)
        time.sleep(AHEAD)
        return stream

    def dropped(self, wanted: int) -> dict[str, float]:
        stream = self.spinning(wanted)
        began = time.perf_counter()
        stream.close()
        return {"connection dropped, HTTP: the tool": self.records.stopped(began)}

    def killed(self, wanted: int) -> dict[str, float]:
        stream = self.spinning(wanted)
        client = subprocess.Popen(["sleep", "600"], stdin=stream.fileno())
        stream.close()
        began = time.perf_counter()
        client.send_signal(signal.SIGKILL)
        client.wait()
        return {"client killed, HTTP: the tool": self.records.stopped(began)}

    def canceled(self, wanted: int) -> dict[str, float]:
        stream = self.spinning(wanted)
        began = time.perf_counter()
        self.whole(self.begin(frame("notifications/cancelled", {"requestId": wanted}), self.session))
        took = self.records.stopped(began)
        answered = self.whole(self.begin(call("hello", {"name": "you"}, wanted + 1), self.session))
        assert "Hello, you!" in answered, answered
        stream.close()
        return {"canceled over HTTP: the tool": took,
                "canceled over HTTP: the tool, and then the next answer": (time.perf_counter() - began) * 1e3}

    def end(self) -> None:
        self.child.kill()
        self.child.wait()
        self.child.stderr.close()


def at(samples: list[float], percent: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def main() -> None:
    toolcell, component = sys.argv[1:3]
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else RUNS
    before = os.getloadavg()[0]
    found: dict[str, list[float]] = {}

    def note(times: dict[str, float]) -> None:
        for what, took in times.items():
            found.setdefault(what, []).append(took)

    with tempfile.TemporaryDirectory(prefix="toolcell-stops-") as folder:
        for how in (canceled, closed, killed):
            for _ in range(runs):
                server = Streams(toolcell, component, folder)
                note(how(server))
                server.end()
        server = Http(toolcell, component, folder)
        for run in range(runs):
            for step, how in enumerate((server.dropped, server.killed, server.canceled)):
                note(how(10 + 10 * run + 2 * step))
        server.end()
    print(f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {platform.system()} {platform.release()}, "
          f"load {before:.1f} at the start, {runs} runs each; milliseconds\n")
    print("| | p50 | p99 | slowest |\n|---|---:|---:|---:|")
    for what, times in found.items():
        print(f"| {what} | {at(times, 50):.1f} | {at(times, 99):.1f} | {max(times):.1f} |")


main()
