"""Measures one tool over MCP on HTTP and over the plain HTTP API of one server, in turns, and prints a table.

    measure.py TOOLCELL COMPONENT [--short]

Each door has one connection that stays open. Requests are encoded beforehand, and an answer is looked at after the clock
stopped.
"""

import http.client
import json
import re
import subprocess
import sys
import tempfile
import time

WARM_ROUNDS, WARM_CALLS, WARM_UP = 20, 100, 200


def rpc(method: str, params: dict, number: int | None) -> bytes:
    numbered = {} if number is None else {"id": number}
    return json.dumps({"jsonrpc": "2.0", **numbered, "method": method, "params": params}).encode()


class Door:
    """A connection that stays open."""

    def __init__(self, port: int):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

    def post(self, path: str, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        self.connection.request("POST", path, body, self.headers)
        answer = self.connection.getresponse()
        return answer, answer.read()


class Mcp(Door):
    name = "MCP over HTTP"

    def __init__(self, port: int):
        super().__init__(port)
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "doors", "version": "1"}}
        answer, _ = self.post("/mcp", rpc("initialize", hello, 0))
        self.headers |= {"Mcp-Session-Id": answer.headers["Mcp-Session-Id"], "MCP-Protocol-Version": "2025-11-25"}
        self.post("/mcp", rpc("notifications/initialized", {}, None))
        self.number = 0

    def hello(self) -> float:
        self.number += 1
        body = rpc("tools/call", {"name": "hello", "arguments": {"name": "you"}}, self.number)
        begin = time.perf_counter()
        _, said = self.post("/mcp", body)
        took = time.perf_counter() - begin
        assert b"Hello, you!" in said, said
        return took


class Plain(Door):
    name = "POST /v1/calls"
    body = json.dumps({"tool": "hello", "input": {"name": "you"}}).encode()

    def hello(self) -> float:
        begin = time.perf_counter()
        _, said = self.post("/v1/calls", self.body)
        took = time.perf_counter() - begin
        assert b"Hello, you!" in said, said
        return took


def port_of(server: subprocess.Popen) -> int:
    for line in server.stderr:
        if found := re.match(r"MCP at http://127\.0\.0\.1:(\d+)/mcp", line):
            return int(found[1])
    raise RuntimeError(f"the server ended with {server.wait()}")


def at(samples: list[float], percent: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] * 1e6


def main() -> None:
    toolcell, component, *rest = sys.argv[1:]
    rounds, calls, warm_up = (1, 2, 1) if "--short" in rest else (WARM_ROUNDS, WARM_CALLS, WARM_UP)
    with tempfile.TemporaryDirectory() as home:
        command = [toolcell, "serve", component, "--listen=127.0.0.1:0", "--no-token"]
        environment = {"TOOLCELL_HOME": f"{home}/state", "PATH": "/usr/bin:/bin", "HOME": home}
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
        try:
            port = port_of(server)
            doors = [Mcp(port), Plain(port)]
            times = {door.name: [] for door in doors}
            for door in doors:
                for _ in range(warm_up):
                    door.hello()
            for _ in range(rounds):
                for door in doors:
                    times[door.name] += [door.hello() for _ in range(calls)]
        finally:
            server.kill()
            server.wait()
    print(f"{'warm call (µs)':<24}{'p50':>8}{'p95':>8}{'p99':>8}")
    for name, taken in times.items():
        print(f"{name:<24}" + "".join(f"{at(taken, percent):>8.0f}" for percent in (50, 95, 99)))
    print(f"p50 of {Plain.name} over that of {Mcp.name}: {at(times[Plain.name], 50) / at(times[Mcp.name], 50):.2f}")


main()
