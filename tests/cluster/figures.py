"""What a cluster costs, and what it gives: printed, not judged. `cluster.py figures` runs it, on a machine that does nothing else."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from machines import LEDGER, TOOLCELL, Gateway, Machines, Process

CALLS, ROUNDS, IDLE = 50, 6, 20
TICKS = os.sysconf("SC_CLK_TCK")


class Local(Gateway):
    """A server without a cluster."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True)
        Process.__init__(self, folder, [TOOLCELL, "serve", LEDGER, "--listen=127.0.0.1:0"])


def milliseconds(gateway: Gateway, calls: int) -> list[float]:
    taken = []
    for _ in range(calls):
        began = time.perf_counter()
        assert gateway.call("wait", {"ms": 0}).status == 200
        taken.append((time.perf_counter() - began) * 1e3)
    return taken


def at(times: list[float], part: float) -> float:
    return sorted(times)[int((len(times) - 1) * part)]


def latency(local: Gateway, gateway: Gateway) -> None:
    taken: dict[str, list[float]] = {"local": [], "cluster": []}
    for one in (local, gateway):
        milliseconds(one, 10)
    for _ in range(ROUNDS):
        taken["local"] += milliseconds(local, CALLS)
        taken["cluster"] += milliseconds(gateway, CALLS)
    print("| wait 0, one after the other | p50 | p99 |\n|---|---|---|")
    for name, times in taken.items():
        print(f"| {name} | {at(times, 0.5):.2f} ms | {at(times, 0.99):.2f} ms |")
    print(f"| added | {at(taken['cluster'], 0.5) - at(taken['local'], 0.5):.2f} ms | |", flush=True)


async def rate(gateway: Gateway, seconds: float) -> float:
    end = time.monotonic() + seconds
    done = 0

    async def caller() -> None:
        nonlocal done
        while time.monotonic() < end:
            reply = await gateway.begin("wait", {"ms": 50})
            assert reply.status == 200, reply
            done += 1

    began = time.monotonic()
    await asyncio.gather(*(caller() for _ in range(16)))
    return done / (time.monotonic() - began)


def throughput(machines: Machines, gateway: Gateway) -> None:
    print("| workers of one place, wait 50 | calls a second | of linear |\n|---|---|---|")
    first, workers = 0.0, 0
    for wanted in (1, 2, 4, 8):
        while workers < wanted:
            workers += 1
            machines.worker(f"one{workers}", [gateway], places=1)
        # The first call of a worker compiles its tool.
        asyncio.run(rate(gateway, 1))
        calls = asyncio.run(rate(gateway, 5))
        first = first or calls
        print(f"| {wanted} | {calls:.1f} | {calls / first / wanted:.2f} |", flush=True)


def used(process: Process) -> tuple[float, float]:
    """Its resident memory in MB, and the seconds of a processor that it used."""
    folder = Path(f"/proc/{process.process.pid}")
    resident = next(line for line in (folder / "status").read_text().splitlines() if line.startswith("VmRSS"))
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    return int(resident.split()[1]) / 1024, (int(fields[11]) + int(fields[12])) / TICKS


def idle(processes: dict[str, Process]) -> None:
    print(f"| idle for {IDLE} s | RSS | CPU |\n|---|---|---|")
    before = {name: used(process)[1] for name, process in processes.items()}
    time.sleep(IDLE)
    for name, process in processes.items():
        resident, seconds = used(process)
        print(f"| {name} | {resident:.1f} MB | {(seconds - before[name]) / IDLE * 100:.2f} % |", flush=True)


def figures(machines: Machines) -> None:
    machines.nats()
    local = machines.up(Local(machines.folder / "local"), None)
    gateway = machines.gateway()
    worker = machines.worker("worker", [gateway])
    # Before any call, so that all are alike.
    idle({"server without a cluster": local, "gateway": gateway, "worker": worker})
    latency(local, gateway)
    assert worker.end() == 0
    throughput(machines, gateway)
