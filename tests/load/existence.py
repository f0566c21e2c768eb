"""How long an answer takes does not tell whether what is asked for exists: another principal's call, task, workspace, or nothing."""

from __future__ import annotations

import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from served import Client, Reply, Server, expect, principals

NEVER = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
# Of the median, beside the noise.
BOUND = 0.05
Ask = Callable[[Client, str], Awaitable[Reply]]


async def compare(client: Client, there: str, absent: str, ask: Ask, rounds: int) -> tuple[float, float, float]:
    """Medians for what is there and what is not, and the noise between two halves of the latter; in turns, in seconds."""
    taken: dict[str, list[float]] = {"there": [], "absent": [], "again": []}
    for number in range(rounds):
        # The order changes, because an answer can leave work to the next request.
        order = [("there", there), ("absent", absent), ("again", absent)]
        for kind, name in order[number % 3:] + order[:number % 3]:
            begun = time.perf_counter()
            reply = await ask(client, name)
            taken[kind].append(time.perf_counter() - begun)
            assert reply.status in (400, 404) or b'"error"' in reply.body, reply
    found, absent_median, again = (statistics.median(taken[kind]) for kind in ("there", "absent", "again"))
    return found, absent_median, abs(absent_median - again)


async def run(server: Server, rounds: int) -> None:
    anna, bert = server.client("anna"), server.client("bert")
    small = expect(await anna.call("hello", {"name": "you"}, Prefer="respond-async"), 202).json()["invocation_id"]
    large = expect(await anna.call("hello", {"name": "x" * (2 << 20)}, Prefer="respond-async"), 202).json()["invocation_id"]
    waits = expect(await anna.call("files.write", {"path": "a", "text": "a"}, Prefer="respond-async"), 202).json()["invocation_id"]
    expect(await anna.request("PUT /v1/workspaces/hers/files/a.txt", b"x" * 1_000_000), 200, 201)
    await asyncio.sleep(3)
    plain = lambda line: lambda client, name: client.request(line.format(name))
    calls = {"call": plain("GET /v1/calls/{}"), "events": plain("GET /v1/calls/{}/events"), "cancel": plain("DELETE /v1/calls/{}"),
             "artifact": plain("GET /v1/calls/{}/artifacts/a"), "task": lambda client, name: client.mcp("tasks/get", {"taskId": name})}
    asks = [(f"{name} ({of})", id, NEVER, ask) for name, ask in calls.items()
            for of, id in (("small", small), ("large", large), ("waiting", waits))]
    asks += [(name, "hers", "none", plain(line)) for name, line in (
        ("workspace", "GET /v1/workspaces/{}"), ("file", "GET /v1/workspaces/{}/files/a.txt"),
        ("archive", "GET /v1/workspaces/{}/archive"))]
    told = []
    print(f"{'(µs)':<20}{'there':>8}{'absent':>8}{'noise':>8}")
    for name, there, absent, ask in asks:
        for _ in range(3):
            found, not_found, noise = await compare(bert, there, absent, ask, rounds)
            is_alike = abs(found - not_found) < BOUND * not_found + 3 * noise
            print(f"{name:<20}{found * 1e6:>8.0f}{not_found * 1e6:>8.0f}{noise * 1e6:>8.1f}{'' if is_alike else '  differs'}", flush=True)
            # What the machine does otherwise can hit one more than the other, but not again and again.
            if is_alike:
                break
        else:
            told.append(name)
    assert not told, f"the time tells whether it exists: {told}"


def main() -> None:
    gc.disable()
    settings = '[workspace]\nper = "principal"\n[[rule]]\nbehavior = "ask"\ntool = "files.write"\n'
    with tempfile.TemporaryDirectory() as folder:
        with Server(Path(folder), settings + principals(["anna", "bert"])) as server:
            asyncio.run(run(server, 600))
