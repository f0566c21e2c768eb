# Promise: The worker decides.
# Promise: A worker takes calls of known gateways.
# Promise: A call on many machines has one result.
# Promise: A call with effects starts once.
"""Calls over machines, each case with processes of its own: `cluster.py CASE..`, or all but the figures."""

from __future__ import annotations

import asyncio
import concurrent.futures
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import approvals
import batches
import cuts
import figures
import hostile
import operations
import tenants
import upgrade
import workspaces
from cases import CASES, LONG, TOKEN, case, lines, principal, token_file, write_grant
from machines import LEASE, LEDGER, Machines, Reply, Worker, free_port, wait_until


@case
def the_worker_decides_with_its_own_grants(machines: Machines) -> None:
    machines.nats()
    shared = machines.folder / "shared"
    # What a gateway grants counts for nothing.
    gateway = machines.gateway("gateway", write_grant(shared))
    worker = machines.worker("poor", [gateway])
    refused = gateway.call("append", {"path": str(shared / "lines"), "text": "a", "wait_ms": 0})
    assert refused.status == 403 and refused.body["status"] == "denied", refused
    assert worker.end() == 0
    machines.worker("rich", [gateway], write_grant(shared))
    done = gateway.call("append", {"path": str(shared / "lines"), "text": "a", "wait_ms": 0})
    assert done.status == 200 and lines(shared / "lines") == ["a"], done
    # The record that the worker made is the gateway's, too.
    status = machines.status()
    assert [worker["name"] for worker in status["workers"]] == ["rich"], status
    assert status["calls"] == [], status


@case
def a_worker_takes_calls_of_the_gateways_that_it_knows(machines: Machines) -> None:
    machines.nats()
    known = machines.gateway("known")
    impostor = machines.gateway("impostor", wait="2s")
    worker = machines.worker("worker", [known])
    assert known.call("wait", {"ms": 0}).status == 200
    refused = impostor.call("wait", {"ms": 0})
    assert (refused.status, refused.code) == (504, "no_worker"), refused
    assert "is not among those that this worker listens to" in worker.text()


@case
def a_call_of_the_command_line_runs_at_a_worker(machines: Machines) -> None:
    machines.nats()
    gateway = machines.gateway()
    machines.worker("worker", [gateway])
    said = gateway.command("call", "--cluster", LEDGER + "#repeat", '{"text": "ab", "times": 3}')
    assert said.returncode == 0 and said.stdout.strip() == "ababab", said
    address = f"--cluster=nats://127.0.0.1:{free_port()}"
    refused = gateway.command("call", address, LEDGER + "#repeat", '{"text": "ab", "times": 3}')
    assert refused.returncode == 1 and "cluster_unavailable" in refused.stderr, refused


@case
def without_a_worker_a_call_ends_at_its_deadline_and_a_full_queue_refuses(machines: Machines) -> None:
    machines.nats()
    gateway = machines.gateway("gateway", wait="3s", queue=2)

    async def three() -> list[Reply]:
        return await asyncio.gather(*(gateway.begin("wait", {"ms": 0}) for _ in range(3)))

    codes = sorted(reply.code for reply in asyncio.run(three()))
    assert codes == ["cluster_queue_full", "no_worker", "no_worker"], codes


@case
def large_arguments_and_results_cross(machines: Machines) -> None:
    machines.nats()
    gateway = machines.gateway("gateway", "--max-output=16MiB")
    machines.worker("worker", [gateway], "--max-output=16MiB")
    text = "x" * (3 << 20)
    done = gateway.call("repeat", {"text": text, "times": 1})
    assert done.status == 200, done.code
    # It is kept by reference, and the gateway has what it refers to.
    assert gateway.payload(done.body["resource_refs"][0]["uri"]) == text.encode()


@case
def one_key_is_one_call_at_every_gateway(machines: Machines) -> None:
    machines.nats()
    shared = machines.folder / "shared"
    option = token_file(machines)
    gateways = [machines.gateway(name, option) for name in ("one", "two")]
    machines.worker("worker", gateways, write_grant(shared))
    line = {"path": str(shared / "lines"), "text": "once", "wait_ms": 200}

    async def both() -> list[Reply]:
        return await asyncio.gather(*(gateway.begin("append", line, key="k1", token=TOKEN) for gateway in gateways))

    one, two = asyncio.run(both())
    assert one.status == two.status == 200 and one.body["result_id"] == two.body["result_id"], (one, two)
    assert lines(shared / "lines") == ["once"]
    other = gateways[0].call("append", {**line, "text": "other"}, key="k1", token=TOKEN)
    assert other.code == "idempotency_key_reused", other


@case
def a_call_of_a_gateway_that_was_killed_is_found_by_its_key(machines: Machines) -> None:
    machines.nats()
    shared = machines.folder / "shared"
    gateway, other = (machines.gateway(name, token_file(machines)) for name in ("one", "two"))
    machines.worker("worker", [gateway, other], write_grant(shared))
    line = {"path": str(shared / "lines"), "text": "once", "wait_ms": 700}

    def lost() -> None:
        try:
            gateway.call("append", line, key="k", token=TOKEN)
        except OSError:
            pass

    asking = threading.Thread(target=lost)
    asking.start()
    wait_until("start", lambda: any(call["stage"]["stage"] == "started" for call in machines.status()["calls"]))
    gateway.kill()
    asking.join()
    found = other.call("append", line, key="k", token=TOKEN)
    assert found.status == 200 and lines(shared / "lines") == ["once"], found


@case
def a_worker_that_is_told_to_end_ends_after_its_calls(machines: Machines) -> None:
    machines.nats()
    gateway = machines.gateway()
    worker = machines.worker("worker", [gateway])

    async def during() -> Reply:
        call = asyncio.create_task(gateway.begin("wait", {"ms": 1_500}))
        await asyncio.sleep(0.5)
        worker.send(signal.SIGTERM)
        return await call

    assert asyncio.run(during()).status == 200
    assert worker.process.wait(10) == 0


@case
def a_call_that_its_caller_cancels_stops_at_the_worker(machines: Machines) -> None:
    machines.nats()
    gateway = machines.gateway()
    machines.worker("worker", [gateway])
    began = time.monotonic()
    try:
        gateway.call("wait", {"ms": 60_000}, patience=2)
    except (TimeoutError, OSError):
        pass
    wait_until("end of the call", lambda: machines.status()["calls"] == [], 10)
    assert time.monotonic() - began < 15


@case
def a_worker_that_slept_past_its_lease_has_lost_its_call(machines: Machines) -> None:
    machines.nats()
    shared = machines.folder / "shared"
    gateway = machines.gateway()
    worker = machines.worker("worker", [gateway], write_grant(shared))
    line = {"path": str(shared / "lines"), "text": "late", "wait_ms": 1_000}

    async def during() -> Reply:
        call = asyncio.create_task(gateway.begin("append", line))
        await asyncio.sleep(0.5)
        worker.send(signal.SIGSTOP)
        return await call

    reply = asyncio.run(during())
    assert (reply.status, reply.code) == (200, "worker_lost"), reply
    worker.send(signal.SIGCONT)
    wait_until("word on the late result", lambda: worker.says("this result is thrown away"))
    # It goes on with other calls.
    assert gateway.call("append", {**line, "text": "next", "wait_ms": 0}).status == 200


@case
def a_call_without_effects_runs_again_after_its_worker_was_killed(machines: Machines) -> None:
    machines.nats()
    gateway = machines.gateway()
    first = machines.worker("first", [gateway])

    async def during() -> Reply:
        call = asyncio.create_task(gateway.begin("wait", {"ms": 1_500}))
        await asyncio.sleep(0.7)
        first.kill()
        await asyncio.to_thread(machines.worker, "second", [gateway])
        return await call

    reply = asyncio.run(during())
    assert reply.status == 200 and reply.text == "done", reply


@case
def rules_of_a_principal_are_the_workers(machines: Machines) -> None:
    machines.nats()
    shared = machines.folder / "shared"
    entry = principal("ada")
    gateway = machines.gateway("gateway", more=entry)
    line = {"path": str(shared / "lines"), "text": "a", "wait_ms": 0}
    without = machines.worker("without", [gateway], write_grant(shared))
    refused = gateway.call("append", line, token=TOKEN)
    assert refused.code == "unknown_principal" and lines(shared / "lines") == [], refused
    assert without.end() == 0
    narrowed = entry + 'tools = ["ledger.wait"]\n'
    machines.worker("with", [gateway], write_grant(shared), more=narrowed)
    refused = gateway.call("append", line, token=TOKEN)
    assert refused.body["is_error"] and lines(shared / "lines") == [], refused
    assert gateway.call("wait", {"ms": 0}, token=TOKEN).status == 200
    # Nor does a gateway that knows no principals give one more than it has.
    plain = machines.gateway("plain", token_file(machines))
    machines.worker("of-both", [gateway, plain], write_grant(shared), more=narrowed)
    refused = plain.call("append", line, token=TOKEN)
    assert (refused.body.get("is_error") or refused.status >= 400) and lines(shared / "lines") == [], refused
    assert plain.call("wait", {"ms": 0}, token=TOKEN).status == 200


def appended(machines: Machines, calls: int, seconds: float, disturb) -> None:
    """Appends lines with one key a call, and asks again after a failure that names no effect, while `disturb` runs."""
    shared = machines.folder / "shared"
    gateway = next(one for one in machines.all if type(one).__name__ == "Gateway")
    over = threading.Event()
    disturbing = threading.Thread(target=disturb, args=(over,))
    disturbing.start()
    gate = asyncio.Semaphore(16)
    lost = {"worker_lost"}

    async def one(number: int) -> str:
        line = {"path": str(shared / "lines"), "text": f"line {number}", "wait_ms": 40}
        async with gate:
            reply = await gateway.begin("append", line, key=f"call {number}", patience=200)
            await asyncio.sleep(0)
            assert reply.status == 200, reply
            return reply.code or "done"

    async def everything() -> list[str]:
        return await asyncio.wait_for(asyncio.gather(*(one(number) for number in range(calls))), seconds)

    try:
        ends = asyncio.run(everything())
    finally:
        over.set()
        disturbing.join()
    written = lines(shared / "lines")
    assert len(ends) == calls
    assert len(set(written)) == len(written), "a line was written twice"
    done = {f"line {number}" for number, end in enumerate(ends) if end == "done"}
    assert done <= set(written), done - set(written)
    others = {end for end in ends if end != "done"}
    assert others <= lost, others
    print(f"  {calls} calls, {len(done)} done, {len(ends) - len(done)} lost with their worker, {len(written)} lines", flush=True)


@case
def no_line_is_written_twice_while_workers_are_killed(machines: Machines) -> None:
    machines.nats()
    shared = machines.folder / "shared"
    gateway = machines.gateway("gateway", wait="60s")
    workers = [machines.worker(f"worker{at}", [gateway], write_grant(shared)) for at in range(3)]
    chance = random.Random(7)

    def kill_some(over: threading.Event) -> None:
        while not over.wait(chance.uniform(0.5, 1.5)):
            worker: Worker = chance.choice(workers)
            if chance.random() < 0.3:
                worker.send(signal.SIGSTOP)
                over.wait(LEASE * 2)
                worker.send(signal.SIGCONT)
            else:
                worker.kill()
                worker.up()

    appended(machines, CALLS, 600, kill_some)


@case
def no_call_is_lost_while_the_leader_of_three_servers_is_killed(machines: Machines) -> None:
    servers = machines.three()
    shared = machines.folder / "shared"
    gateway = machines.gateway("gateway", wait="2m", replicas=3)
    for at in range(2):
        machines.worker(f"worker{at}", [gateway], write_grant(shared), replicas=3)
    chance = random.Random(3)

    def kill_one(over: threading.Event) -> None:
        while not over.wait(3):
            server = chance.choice(servers)
            server.kill()
            over.wait(1)
            server.up()

    appended(machines, CALLS // 2, 600, kill_one)


CALLS = 300


def run(test) -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="toolcell-cluster-") as folder, Machines(Path(folder)) as machines:
        test(machines)
    print(f"  {test.__name__}: {time.monotonic() - began:.1f} s", flush=True)


def main(named: list[str]) -> None:
    known = {test.__name__: test for test in [*CASES, *LONG, figures.figures]}
    unknown = set(named) - set(known)
    assert not unknown, f"no such case: {unknown}; there are {list(known)}"
    chosen = [known[name] for name in named] or [*CASES, *LONG]
    with concurrent.futures.ThreadPoolExecutor(len(chosen)) as beside:
        long = [beside.submit(run, test) for test in chosen if test in LONG]
        for test in chosen:
            if test not in LONG:
                print(test.__name__, flush=True)
                run(test)
        for one in long:
            one.result()


main(sys.argv[1:])
