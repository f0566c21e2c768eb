"""One principal's flood, of each kind in turn, beside the single calls of another: its 99th percentile moves by less than 20 ms.

Calls with and without the flood take turns, so that what the machine does otherwise is in both. The flood is a process that yields
the processors to the others, as a client on another machine would: it sends as much as the server takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import multiprocessing
import os
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from served import Client, Server, at, principals, token

BOUND = 20.0
FLOODS = 64
SETTINGS = '[workspace]\nper = "principal"\n[[rule]]\nbehavior = "ask"\ntool = "files.write"\n'
Once = Callable[[Client, int], Awaitable[int]]


async def calls(client: Client, turn: int) -> int:
    return (await client.call("hello", {"name": "you"})).status


async def work(client: Client, turn: int) -> int:
    """Calls that compute."""
    return (await client.call("busy", {"ms": 50})).status


async def connections(client: Client, turn: int) -> int:
    """Opens another connection for each request; a third never sends one, and a third has a wrong token."""
    client.close()
    if turn % 3 == 0:
        await client.open()
        return 0
    bearer = token("flood") if turn % 3 == 1 else "a-token-of-nobody"
    other = Client(client.port, bearer)
    reply = await other.request("GET /v1/tools")
    other.close()
    return reply.status


async def sent(client: Client, turn: int) -> int:
    """A megabyte of arguments, which comes back."""
    return (await client.call("hello", {"name": "x" * (1 << 20)})).status


async def workspaces(client: Client, turn: int) -> int:
    path = f"/v1/workspaces/w{id(client) % 50}"
    lines = [f"PUT {path}/files/a.txt", f"PUT {path}/files/b/c.txt", f"POST {path}/snapshots", f"GET {path}", f"DELETE {path}"]
    line = lines[turn % len(lines)]
    body = {} if line.startswith("POST") else b"x" * 65_536 if line.startswith("PUT") else b""
    return (await client.request(line, body)).status


async def approvals(client: Client, turn: int) -> int:
    begun = await client.call("files.write", {"path": "a.txt", "text": "x"}, Prefer="respond-async")
    if begun.status != 202:
        return begun.status
    return (await client.request(f"DELETE /v1/calls/{begun.json()['invocation_id']}")).status


KINDS: list[Once] = [calls, work, connections, sent, workspaces, approvals]


def flood(kind: int, port: int, on: multiprocessing.synchronize.Event, counts: multiprocessing.Queue) -> None:
    os.nice(19)
    said: Counter = Counter()

    async def client() -> None:
        connection, turn = Client(port, token("flood")), 0
        while True:
            if not on.is_set():
                connection.close()
                await asyncio.sleep(0.02)
                continue
            turn += 1
            try:
                said[await KINDS[kind](connection, turn)] += 1
            except (OSError, EOFError) as error:
                said[type(error).__name__] += 1
                await asyncio.sleep(0.01)

    async def run() -> None:
        tasks = [asyncio.create_task(client()) for _ in range(FLOODS)]
        while not counts.full():
            await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()

    asyncio.run(run())
    counts.get()
    counts.put(said)


async def single(client: Client, calls: int) -> list[float]:
    """Every tenth call is on a connection of its own."""
    taken = []
    for number in range(calls):
        if number % 10 == 0:
            client.close()
        begun = time.perf_counter()
        reply = await client.call("hello", {"name": "you"})
        taken.append(time.perf_counter() - begun)
        assert reply.status == 200, reply
        await asyncio.sleep(0.002)
    return taken


async def beside(server: Server, kind: int, rounds: int, calls: int) -> bool:
    on, counts = multiprocessing.Event(), multiprocessing.Queue(1)
    process = multiprocessing.Process(target=flood, args=(kind, server.port, on, counts))
    process.start()
    client = server.client("quiet")
    alone: list[float] = []
    flooded: list[float] = []
    await single(client, 20)
    seconds = 0.0
    for _ in range(rounds):
        alone += await single(client, calls)
        on.set()
        begun = time.perf_counter()
        await asyncio.sleep(0.5)
        flooded += await single(client, calls)
        on.clear()
        seconds += time.perf_counter() - begun
        await asyncio.sleep(0.5)
    counts.put(None)
    await asyncio.sleep(0.5)
    said = counts.get(timeout=30)
    process.join()
    answered = sum(count for status, count in said.items() if isinstance(status, int))
    change = at(flooded, 99) - at(alone, 99)
    print(f"{KINDS[kind].__name__:<12}{at(alone, 50):>8.2f}{at(alone, 99):>8.2f}{at(flooded, 50):>10.2f}{at(flooded, 99):>8.2f}"
          f"{change:>10.2f}{answered / seconds:>10.0f}  {dict(said)}", flush=True)
    assert answered, said
    return change < BOUND


def main(short: bool, only: list[str]) -> None:
    rounds, count = (2, 100) if short else (10, 200)
    gc.disable()
    print(f"{'(ms)':<12}{'alone p50':>8}{'p99':>8}{'flood p50':>10}{'p99':>8}{'change':>10}{'flood/s':>10}")
    with tempfile.TemporaryDirectory() as folder:
        with Server(Path(folder), SETTINGS + principals(["flood", "quiet"])) as server:
            chosen = [kind for kind, once in enumerate(KINDS) if not only or once.__name__ in only]
            held = [asyncio.run(beside(server, kind, rounds, count)) for kind in chosen]
    assert all(held), f"the 99th percentile moves by {BOUND:.0f} ms or more"
