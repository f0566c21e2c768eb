"""What others who may write to the server put into the queue and the buckets: everybody lives and goes on."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import time
from pathlib import Path

import nats
import nkeys

from cases import case, ended, started
from cuts import Asking
from machines import Gateway, Machines, wait_until

QUEUE, CALLS, WORKERS = "toolcell.1.queue", "toolcell-1-calls", "toolcell-workers"


def signed(gateway: Gateway, question: bytes) -> dict[str, str]:
    pair = nkeys.from_seed((gateway.folder / "keys" / "cluster").read_bytes().strip())
    signature = base64.urlsafe_b64encode(pair.sign(question)).rstrip(b"=").decode()
    return {"Toolcell-Key": gateway.key, "Toolcell-Signature": signature}


def question(call: str, **fields: object) -> bytes:
    spec = {"inline": {"tool": "ledger.wait", "input": {"ms": 0}}}
    deadline = int(time.time() * 1e3) + 60_000
    return json.dumps({"call": call, "request": "r", "deadline": deadline, "spec": spec, **fields}).encode()


async def connected(machines: Machines):
    client = await nats.connect(f"nats://127.0.0.1:{machines.servers[0]}")
    return client, client.jetstream()


def go_on(gateway: Gateway, calls: int = 10) -> None:
    for _ in range(calls):
        reply = gateway.call("wait", {"ms": 0}, patience=15)
        assert reply.status == 200, reply


@case
def foreign_messages_in_the_queue_are_thrown_away(machines: Machines) -> None:
    machines.nats()
    gateway = machines.gateway()
    worker = machines.worker("worker", [gateway], places=2)
    forged = question("forged")
    other = nkeys.from_seed(Path(machines.login("other").file).read_bytes().strip())
    foreign = base64.urlsafe_b64encode(other.sign(forged)).rstrip(b"=").decode()
    odd = [question(call) for call in ("a.b", "../x", ">", "*", "a b", "", "\u0000", "x" * 100_000, "$KV", "ä")]
    deep = b"[" * 100_000
    twice = b'{"call":"a","call":"b","request":"r","deadline":1,"spec":{"inline":{}}}'
    messages = [
        (b"", {}),
        (b"no question", {}),
        (b"x" * 900_000, {}),
        (b"x" * 900_000, signed(gateway, b"x" * 900_000)),
        (forged, {"Toolcell-Key": gateway.key, "Toolcell-Signature": foreign}),
        (forged, {"Toolcell-Key": gateway.key, "Toolcell-Signature": "%" * 50_000}),
        (forged, {"Toolcell-Key": "U" * 56, "Toolcell-Signature": foreign}),
        # Of the gateway itself, which may be another version, or broken.
        *((text, signed(gateway, text)) for text in [*odd, deep, twice, b"\xff\xfe", question("nosuchcall"), question("a", spec={})]),
        *((text, signed(gateway, text)) for text in [question("b", spec={"object": "../../x"}), question("c", deadline=-1)]),
    ]

    async def send() -> None:
        client, stream = await connected(machines)
        for text, headers in messages:
            await stream.publish(QUEUE, text, headers=headers or None)
        await client.close()

    asyncio.run(send())
    go_on(gateway)
    wait_until("empty queue", lambda: ended(machines), 20)
    # None made it say so again and again.
    assert worker.text().count("warning") < 2 * len(messages), worker.text()
    assert worker.process.poll() is None and gateway.process.poll() is None


@case
def foreign_values_in_the_buckets_end_what_they_replace_and_nothing_else(machines: Machines) -> None:
    machines.nats()
    gateway = machines.gateway(wait="20s")
    worker = machines.worker("worker", [gateway], places=4)
    text = question("unread")
    request = hashlib.sha256(b"r").hexdigest()
    huge = {"request": "r" * 900_000, "tool": "ledger.wait", "deadline": 1 << 62, "epoch": 0, "stage": {"stage": "queued"}}
    late = {"request": request, "tool": "x", "deadline": (1 << 64) - 1, "epoch": (1 << 32) - 1,
            "stage": {"stage": "claimed", "holder": {"worker": "gone", "attempt": "a"}}}
    values = {"unread": b"no claim", "list": b"[]", "binary": bytes(range(256)), "large": b"x" * 900_000, "odd.key": b"{}",
              "huge": json.dumps(huge).encode(), "late": json.dumps(late).encode(), "deep": b"[" * 100_000}

    async def write() -> None:
        client, stream = await connected(machines)
        calls, workers = [await stream.key_value(bucket) for bucket in (CALLS, WORKERS)]
        for key, value in values.items():
            await calls.put(key, value)
        for key in ("list", "large"):
            await workers.put(key, values[key])
        # A question whose call cannot be read.
        await stream.publish(QUEUE, text, headers=signed(gateway, text))
        await client.close()

    asyncio.run(write())
    go_on(gateway)
    assert [one["name"] for one in machines.status()["workers"]] == ["worker"]
    wait_until("empty queue", lambda: machines.status()["queued"] == 0, 20)

    async def overwrite(end: bytes) -> None:
        client, stream = await connected(machines)
        calls = await stream.key_value(CALLS)
        mine = next(call["call"] for call in machines.status()["calls"] if call["tool"] == "ledger.wait" and call["call"] not in values)
        for event in (b"", b"no event", b"{}", b"x" * 900_000):
            await client.publish(f"toolcell.1.events.{mine}", event)
        await client.flush()
        await calls.put(mine, end)
        await client.close()

    # The caller of a call that somebody overwrites is told, and its worker is free again.
    for end in (b"no claim", b'{"stage":{"stage":"ended"}}'):
        call = Asking(gateway, "wait", {"ms": 3_000})
        wait_until("start", lambda: any(one["stage"]["stage"] == "started" for one in machines.status()["calls"]))
        asyncio.run(overwrite(end))
        reply = call.reply(20)
        assert reply.code == "cluster_result_lost", reply
    wait_until("free places", lambda: machines.status()["workers"][0]["busy"] == 0, 20)
    go_on(gateway)
    assert worker.process.poll() is None and gateway.process.poll() is None
