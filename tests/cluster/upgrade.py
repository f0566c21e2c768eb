"""Machines that are upgraded one by one, to a program with the next version of the protocol."""

from __future__ import annotations

import asyncio

from cases import TOKEN, case, ended, lines, token_file, write_grant
from machines import Gateway, Machines, Worker, wait_until

NEXT = {"TOOLCELL_CLUSTER_PROTOCOL": "2"}


@case
def a_rolling_upgrade_loses_no_call(machines: Machines) -> None:
    machines.nats()
    shared = machines.folder / "shared"
    tokens = token_file(machines)
    old = machines.gateway("old-gateway", tokens)
    workers = [machines.worker(f"old{at}", [old], write_grant(shared)) for at in range(2)]
    gateways: list[Gateway] = [old]
    over = asyncio.Event()
    done: list[str] = []

    async def caller(number: int) -> None:
        at = 0
        while not over.is_set():
            text = f"{number}.{at}"
            line = {"path": str(shared / "lines"), "text": text, "wait_ms": 20}
            reply = await gateways[-1].begin("append", line, token=TOKEN)
            assert reply.status == 200 and not reply.body["is_error"], reply
            done.append(text)
            at += 1

    def begin(one: Gateway | Worker) -> Gateway | Worker:
        one.environment.update(NEXT)
        return machines.add(one).up()

    def protocols() -> list[int]:
        return sorted(worker["protocol"] for worker in machines.status()["workers"])

    async def upgrade() -> None:
        # Gateways last: they speak what all workers understand.
        known = [old.key]
        gateway = Gateway(machines.folder / "new-gateway", machines.servers, tokens)
        known.append(gateway.key)
        for at, worker in enumerate(workers):
            new = Worker(machines.folder / f"new{at}", machines.servers, known, write_grant(shared))
            await asyncio.to_thread(begin, new)
            await asyncio.sleep(1)
            assert await asyncio.to_thread(worker.end) == 0
            await asyncio.sleep(1)
        assert protocols() == [2, 2], protocols()
        gateways.append(await asyncio.to_thread(begin, gateway))
        await asyncio.sleep(2)
        over.set()

    async def everything() -> None:
        callers = [asyncio.create_task(caller(number)) for number in range(6)]
        await asyncio.gather(upgrade(), *callers)

    asyncio.run(everything())
    assert old.end() == 0
    assert sorted(lines(shared / "lines")) == sorted(done) and len(done) > 100, len(done)
    wait_until("end", lambda: ended(machines))


@case
def a_new_gateway_speaks_the_protocol_of_an_old_worker(machines: Machines) -> None:
    machines.nats()
    gateway = Gateway(machines.folder / "gateway", machines.servers)
    gateway.environment.update(NEXT)
    machines.add(gateway).up()
    machines.worker("old", [gateway])
    # It hears of the worker in a moment.
    wait_until("worker", lambda: [one["protocol"] for one in machines.status()["workers"]] == [1])
    assert gateway.call("wait", {"ms": 0}).status == 200
