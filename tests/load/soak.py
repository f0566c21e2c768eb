"""A day of a small team's use in twenty minutes: as many calls, sessions, questions and reloads, and nothing grows.

Several principals call over both interfaces, on connections that stay and on new ones; sessions and workspaces come and go; an approver
answers; the settings change every three seconds. No request gets another answer than the one it has to, no connection that stays is
closed, and memory, descriptors, threads and what is on disk are the same in the last third as in the middle one.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from served import APPROVER, Client, Server, expect, principals

TEAM = ["anna", "bert", "cleo", "dora"]
CALLS_OF_DAY, DAY = 86_400, 20 * 60.0
RELOAD, SAMPLE = 3.0, 1.0
GROWTH = 1.1
# Small, so that the bounds are reached in the first third.
SETTINGS = """
[log]
max = "32MiB"
payloads = "8MiB"
[workspace]
per = "principal"
[[rule]]
behavior = "ask"
tool = "files.edit"
"""
FULL = principals([*TEAM, "guest"])
# Without the guest, and Dora may not compute.
LESS = principals(TEAM) + '[[principal.rule]]\nbehavior = "deny"\ntool = "peer.busy"\n'


class Load:
    def __init__(self, server: Server, seconds: float):
        self.server = server
        self.end = time.monotonic() + seconds
        self.done: Counter = Counter()

    def goes_on(self) -> bool:
        return time.monotonic() < self.end

    async def every(self, interval: float, act: Callable[[int], Awaitable[None]]) -> None:
        due = time.monotonic()
        for number in itertools.count():
            if not self.goes_on():
                return
            await act(number)
            self.done[act.__name__] += 1
            due = max(due + interval, time.monotonic() - 1)
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    def acts(self, name: str) -> list[Awaitable[None]]:
        kept, new, mcp, other = (self.server.client(name, reconnects=stays) for stays in (False, True, False, False))

        async def stays(number: int) -> None:
            reply = await kept.call("hello", {"name": f"{name} {number}"})
            assert reply.status == 200 and f"{name} {number}".encode() in reply.body, reply

        async def stateless(number: int) -> None:
            reply = await mcp.mcp("tools/call", {"name": "peer_hello", "arguments": {"name": f"{number}"}})
            assert reply.status == 200 and f"Hello, {number}!".encode() in reply.body, reply

        async def connects(number: int) -> None:
            """Larger arguments, wrong ones, timeouts, calls whose client leaves."""
            new.close()
            sent, status = [({"name": "x" * 200_000}, 200), ({"nme": ""}, 422), ({"name": number}, 422)][number % 3]
            expect(await new.call("hello", sent), status)
            late = {"tool": "peer.spin", "input": {}, "timeout_ms": 20}
            expect(await new.request("POST /v1/calls", late), 504)
            try:
                await asyncio.wait_for(new.call("spin", {}), 0.02)
            except TimeoutError:
                self.done["left"] += 1

        async def sessions(number: int) -> None:
            client = self.server.client(name)
            session = await client.session()
            for call in range(3):
                reply = await client.mcp("tools/call", {"name": "peer_hello", "arguments": {"name": f"{call}"}}, **session)
                assert reply.status == 200 and f"Hello, {call}!".encode() in reply.body, reply
            # One that is left ends by itself, after ten minutes; there may be 64.
            if number % 40:
                expect(await client.request("DELETE /mcp", **session), 204)
            client.close()

        async def files(number: int) -> None:
            path = f"/v1/workspaces/w{number % 8}"
            expect(await other.request(f"PUT {path}/files/a.txt", b"%d" % number * 1_000), 200, 201)
            reply = await other.call("files.read", {"path": "a.txt"}, Toolcell_Workspace=f"w{number % 8}")
            assert reply.status == 200 and f"{number}".encode() in reply.body, reply
            expect(await other.request(f"POST {path}/snapshots", {}), 201)
            if number % 16 >= 8:
                expect(await other.request(f"DELETE {path}"), 204)

        async def asked(number: int) -> None:
            edit = {"path": "a.txt", "edits": [{"old": "a", "new": "b"}]}
            begun = expect(await other_asks.call("files.edit", edit, Prefer="respond-async"), 202)
            path = f"/v1/calls/{(id := begun.json()['invocation_id'])}"
            # A question is void if the settings change meanwhile, and then the call has ended.
            while (shown := (await other_asks.request(f"GET {path}")).json())["status"] != "awaiting_approval" and "result" not in shown:
                await asyncio.sleep(0.05)
            answer = {"approved": True} if number % 2 else {"approved": False, "feedback": "no"}
            expect(await approver.request(f"POST /v1/approvals/{id}", answer), 200, 404, 409)
            events = expect(await other_asks.request(f"GET {path}/events"), 200)
            assert events.body.count(b"\nid:") + events.body.startswith(b"id:") >= 2, events

        other_asks, approver = self.server.client(name), Client(self.server.port, APPROVER)
        return [self.every(0.1, stays), self.every(0.1, stateless), self.every(0.5, connects), self.every(1.0, sessions),
                self.every(1.0, files), self.every(8.0, asked)]

    async def stream(self) -> None:
        """A stream of MCP that is open all the time."""
        asks, hears = self.server.client("anna", False), self.server.client("anna", False)
        session = await asks.session()
        named = {name.replace("_", "-"): value for name, value in session.items()} | {"Accept": "text/event-stream"}
        expect(await hears.send("GET /mcp", b"", named), 200)
        coming = asyncio.ensure_future(hears.chunk())
        while self.goes_on():
            done, _ = await asyncio.wait([coming], timeout=5)
            if done:
                assert coming.result(), "the stream has ended"
                self.done["streamed"] += 1
                coming = asyncio.ensure_future(hears.chunk())
            expect(await asks.mcp("tools/list", {}, **session), 200)
        coming.cancel()

    async def reloads(self) -> None:
        """Each change is noticed by the connections that were there before."""
        dora, guest = self.server.client("dora", False), self.server.client("guest")

        async def reload(number: int) -> None:
            is_less = number % 2 == 0
            self.server.reload(SETTINGS + (LESS if is_less else FULL))
            wanted = (403, 401) if is_less else (200, 200)
            end = time.monotonic() + 5
            while (found := ((await dora.call("busy", {"ms": 1})).status, (await guest.call("hello", {"name": "you"})).status)) != wanted:
                assert time.monotonic() < end, f"{found} after a reload, not {wanted}"
                await asyncio.sleep(0.1)

        await self.every(RELOAD, reload)

    async def samples(self) -> list[dict[str, int]]:
        taken = []
        while self.goes_on():
            await asyncio.sleep(SAMPLE)
            taken.append(await asyncio.to_thread(self.sample))
        return taken

    def sample(self) -> dict[str, int]:
        server, journal = self.server, self.server.home / "journal"
        return {"memory, KiB": server.status("VmRSS"), "descriptors": server.descriptors(), "threads": server.status("Threads"),
                "journal, KiB": space(journal), "other files, KiB": space(server.home) - space(journal)}


def space(folder: Path) -> int:
    """KiB of all files below it; some may go meanwhile."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                size += os.lstat(os.path.join(place, name)).st_size
            except FileNotFoundError:
                continue
    return size >> 10


async def run(server: Server, seconds: float) -> None:
    load = Load(server, seconds)
    acts = [act for name in TEAM for act in load.acts(name)]
    async with asyncio.TaskGroup() as group:
        sampling = group.create_task(load.samples())
        for act in (*acts, load.stream(), load.reloads()):
            group.create_task(act)
    taken, third = sampling.result(), len(sampling.result()) // 3
    print(dict(load.done))
    grown = []
    print(f"{'medians of thirds':<20}{'first':>10}{'middle':>10}{'last':>10}")
    for name in taken[0]:
        first, middle, last = (statistics.median(sample[name] for sample in taken[at * third:][:third]) for at in range(3))
        print(f"{name:<20}{first:>10.0f}{middle:>10.0f}{last:>10.0f}")
        if last > middle * GROWTH:
            grown.append(name)
    done = load.done
    calls = done["stays"] + done["stateless"] + 3 * done["connects"] + 3 * done["sessions"] + done["files"] + done["asked"]
    print(f"{calls} calls in {seconds:.0f} s: {calls / CALLS_OF_DAY * DAY / seconds:.2f} of a day's in {DAY:.0f} s")
    assert not grown, f"these grow: {grown}"
    assert calls > CALLS_OF_DAY * seconds / DAY, "the machine is too slow for a day in this time"


def main(minutes: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with Server(Path(folder), SETTINGS + FULL) as server:
            asyncio.run(run(server, minutes * 60))
