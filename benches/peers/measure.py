"""Measures two MCP servers over standard streams with one client, in turns, and prints a table.

    measure.py TOOLCELL COMPONENT ACT COMPONENT [--short]

`--short` runs everything once or twice: it shows that the bench works, and measures nothing.

The client is a thin one on purpose: requests are encoded beforehand, and an answer is looked at after the clock stopped.
"""

import json
import os
import platform
import select
import shutil
import subprocess
import sys
import tempfile
import time

WARM_ROUNDS, WARM_CALLS, WARM_UP = 20, 100, 200
COLD_STARTS = 20
BUSY_MS, BUSY_RUNS, BUSY_AHEAD = 1000, 5, 0.1
CANCEL_RUNS, CANCEL_AHEAD, CANCEL_PATIENCE = 5, 0.3, 5.0
PATIENCE = 60.0
TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    """A server as a child process, spoken to line by line."""

    def __init__(self, command: list[str], environment: dict[str, str]):
        self.started = time.perf_counter()
        pipe, self.said = subprocess.PIPE, tempfile.TemporaryFile()
        self.child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self.said, env=environment)
        self.reading, self.writing = self.child.stdout.fileno(), self.child.stdin.fileno()
        self.rest = b""
        self.next_id = 0
        self.request("initialize", {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "peers", "version": "1"},
        })
        self.notify("notifications/initialized", {})

    def encode(self, method: str, params: dict) -> tuple[int, bytes]:
        self.next_id += 1
        frame = {"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}
        return self.next_id, json.dumps(frame).encode() + b"\n"

    def send(self, frame: bytes) -> None:
        os.write(self.writing, frame)

    def notify(self, method: str, params: dict) -> None:
        self.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n")

    def line(self, patience: float = PATIENCE) -> bytes | None:
        """The next line, or nothing when none comes in time."""
        end = time.perf_counter() + patience
        while b"\n" not in self.rest:
            left = end - time.perf_counter()
            if left <= 0 or not select.select([self.reading], [], [], left)[0]:
                return None
            read = os.read(self.reading, 1 << 16)
            if not read:
                ended = self.child.wait()
                self.said.seek(0)
                raise RuntimeError(f"the server ended with {ended}: {self.said.read().decode(errors='replace')}")
            self.rest += read
        line, self.rest = self.rest.split(b"\n", 1)
        return line

    def answer(self, wanted: int, patience: float = PATIENCE) -> dict | None:
        end = time.perf_counter() + patience
        while (line := self.line(max(0.0, end - time.perf_counter()))) is not None:
            frame = json.loads(line)
            if frame.get("id") == wanted:
                return frame
        return None

    def request(self, method: str, params: dict) -> dict:
        wanted, frame = self.encode(method, params)
        self.send(frame)
        return self.answer(wanted)

    def call(self, tool: str, arguments: dict) -> tuple[int, bytes]:
        return self.encode("tools/call", {"name": tool, "arguments": arguments})

    def timed_hello(self) -> float:
        """Seconds from the request to its answer."""
        wanted, frame = self.call("hello", {"name": "you"})
        begin = time.perf_counter()
        self.send(frame)
        line = self.line()
        took = time.perf_counter() - begin
        said = json.loads(line)
        assert said["id"] == wanted and said["result"]["content"][0]["text"] == "Hello, you!", said
        return took

    def cpu_seconds(self) -> float:
        with open(f"/proc/{self.child.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory_mib(self) -> float:
        with open(f"/proc/{self.child.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024

    def end(self) -> None:
        self.child.kill()
        self.child.wait()
        self.child.stdin.close()
        self.child.stdout.close()
        self.said.close()


class Peer:
    def __init__(self, name: str, command: list[str], home: str):
        self.name, self.command = name, command
        folders = {"TOOLCELL_HOME": f"{home}/state", "XDG_CACHE_HOME": f"{home}/cache", "XDG_DATA_HOME": f"{home}/data"}
        self.environment = {**os.environ, **folders}
        self.found: dict[str, float | str | None] = {}

    def start(self) -> Server:
        return Server(self.command, self.environment)


def at(samples: list[float], percent: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def cold(peers: list[Peer]) -> None:
    for peer in peers:
        server = peer.start()
        server.timed_hello()
        peer.found["first start ever, to first answer (ms)"] = (time.perf_counter() - server.started) * 1e3
        server.end()
    times = {peer.name: [] for peer in peers}
    for _ in range(COLD_STARTS):
        for peer in peers:
            server = peer.start()
            server.timed_hello()
            times[peer.name].append((time.perf_counter() - server.started) * 1e3)
            server.end()
    for peer in peers:
        peer.found["cold start to first answer, p50 (ms)"] = at(times[peer.name], 50)


def warm(peers: list[Peer]) -> None:
    servers = {peer.name: peer.start() for peer in peers}
    times = {peer.name: [] for peer in peers}
    for server in servers.values():
        for _ in range(WARM_UP):
            server.timed_hello()
    for _ in range(WARM_ROUNDS):
        for peer in peers:
            times[peer.name] += [servers[peer.name].timed_hello() * 1e6 for _ in range(WARM_CALLS)]
    for peer in peers:
        for percent in (50, 95, 99):
            peer.found[f"warm call, p{percent} (µs)"] = at(times[peer.name], percent)
        peer.found["memory after the warm calls (MiB)"] = servers[peer.name].memory_mib()
        servers[peer.name].end()


def beside_a_busy_call(peer: Peer) -> None:
    server = peer.start()
    server.timed_hello()
    times = []
    for _ in range(BUSY_RUNS):
        busy, frame = server.call("busy", {"ms": BUSY_MS})
        server.send(frame)
        time.sleep(BUSY_AHEAD)
        hello, frame = server.call("hello", {"name": "you"})
        begin = time.perf_counter()
        server.send(frame)
        order = []
        while len(order) < 2:
            said = json.loads(server.line())
            if said.get("id") == hello:
                times.append((time.perf_counter() - begin) * 1e3)
            if said.get("id") in (busy, hello):
                assert not said["result"].get("isError"), said
                order.append(said["id"])
    server.end()
    peer.found["trivial call beside one that is busy for 1 s, p50 (ms)"] = at(times, 50)
    peer.found["the same, the slowest (ms)"] = max(times)


def cancel(peer: Peer) -> None:
    """Cancels a call that spins, and asks at once for another: the next call has to be answered, and the guest to stop."""
    after, burnt = [], []
    for _ in range(CANCEL_RUNS):
        server = peer.start()
        server.timed_hello()
        spin, frame = server.call("spin", {})
        server.send(frame)
        time.sleep(CANCEL_AHEAD)
        server.notify("notifications/cancelled", {"requestId": spin, "reason": "enough"})
        begin = time.perf_counter()
        hello, frame = server.call("hello", {"name": "you"})
        server.send(frame)
        answered = server.answer(hello, CANCEL_PATIENCE)
        after.append((time.perf_counter() - begin) * 1e3 if answered else None)
        # Whoever did not stop by now goes on for good.
        time.sleep(max(0.0, 0.25 - (time.perf_counter() - begin)))
        cpu, since = server.cpu_seconds(), time.perf_counter()
        time.sleep(0.5)
        burnt.append(100 * (server.cpu_seconds() - cpu) / (time.perf_counter() - since))
        server.end()
        if not answered:
            break
    lost = None in after
    peer.found["next call after the cancel of a spinning one, slowest (ms)"] = (
        f"no answer in {CANCEL_PATIENCE:.0f} s" if lost else max(after))
    peer.found["CPU of the canceled call 250 ms later (% of a core)"] = max(burnt)


def shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def table(ours: Peer, theirs: Peer) -> None:
    print(f"| | {ours.name} | {theirs.name} | ratio |\n|---|---:|---:|---:|")
    for what, value in ours.found.items():
        other = theirs.found[what]
        numbers = isinstance(value, float) and isinstance(other, float) and other > 0
        print(f"| {what} | {shown(value)} | {shown(other)} | {f'{value / other:.2f}' if numbers else ''} |")


def version(program: str) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    toolcell, ours, act, theirs, *short = sys.argv[1:]
    if short == ["--short"]:
        global WARM_ROUNDS, WARM_CALLS, WARM_UP, COLD_STARTS, BUSY_RUNS, CANCEL_RUNS, CANCEL_PATIENCE
        WARM_ROUNDS, WARM_CALLS, WARM_UP, COLD_STARTS, BUSY_RUNS, CANCEL_RUNS, CANCEL_PATIENCE = 1, 2, 1, 1, 1, 1, 1.0
    elif short:
        sys.exit(f"measure.py: unknown option {short[0]}")
    before = os.getloadavg()[0]
    homes = tempfile.mkdtemp(prefix="toolcell-peers-")
    try:
        peers = [
            Peer(version(toolcell), [toolcell, "mcp", ours], f"{homes}/toolcell"),
            Peer(version(act), [act, "run", "--mcp", theirs], f"{homes}/act"),
        ]
        cold(peers)
        warm(peers)
        for peer in peers:
            beside_a_busy_call(peer)
            cancel(peer)
    finally:
        shutil.rmtree(homes, ignore_errors=True)
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "?")
    print(f"{time.strftime('%Y-%m-%d')}, {model}, {os.cpu_count()} cores, {platform.system()} {platform.release()}, "
          f"load {before:.1f} at the start, {WARM_ROUNDS * WARM_CALLS} warm calls and {COLD_STARTS} cold starts each\n")
    table(*peers)


main()
