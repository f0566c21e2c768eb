"""Cut networks, servers that were away, and processes that slept: what was accepted ends once."""

from __future__ import annotations

import asyncio
import signal
import threading
import time

from cases import TOKEN, case, ended, lines, long_case, started, token_file, write_grant
from machines import LEASE, Gateway, Machines, Proxy, Reply, wait_until


class Asking(threading.Thread):
    """A call whose reply comes later."""

    def __init__(self, gateway: Gateway, *arguments: object, **named: object):
        super().__init__(daemon=True)
        self.began, self.seconds = time.monotonic(), 0.0
        self.ask = lambda: gateway.call(*arguments, **named)
        self.failed: OSError | None = None
        self.start()

    def run(self) -> None:
        try:
            self.answer = self.ask()
        except OSError as failed:
            self.failed = failed
        self.seconds = time.monotonic() - self.began

    def reply(self, patience: float = 60) -> Reply:
        self.join(patience)
        assert not self.is_alive(), f"no reply in {patience} s"
        assert self.failed is None, self.failed
        return self.answer


def line(machines: Machines, text: str, wait_ms: int) -> dict:
    return {"path": str(machines.folder / "shared" / text), "text": text, "wait_ms": wait_ms}


def written(machines: Machines) -> list[str]:
    return sorted(text for file in (machines.folder / "shared").iterdir() for text in lines(file))


@case
def a_worker_that_was_cut_off_has_lost_its_call_and_goes_on(machines: Machines) -> None:
    machines.nats(host="0.0.0.0")
    network = machines.network()
    shared = machines.folder / "shared"
    gateway = machines.gateway()
    far = machines.worker("far", [gateway], write_grant(shared), network=network)
    call = Asking(gateway, "append", line(machines, "far", 1_500))
    wait_until("start", lambda: started(machines))
    network.cut()
    # This one must not run it.
    near = machines.worker("near", [gateway], write_grant(shared))
    reply = call.reply(LEASE * 5)
    assert (reply.status, reply.code) == (200, "worker_lost") and call.seconds > LEASE, (reply, call.seconds)
    # Calls go on: the server soon knows no more of what the other one asked for.
    assert gateway.call("append", line(machines, "near", 0), patience=12).status == 200
    network.mend()
    wait_until("word on the late result", lambda: far.says("this result is thrown away"), 30)
    assert near.end() == 0
    # Only the one that was away is left.
    assert gateway.call("append", line(machines, "again", 0), patience=30).status == 200
    wait_until("end of all", lambda: ended(machines))
    assert written(machines) in (["again", "near"], ["again", "far", "near"])


@case
def a_gateway_that_was_cut_off_has_the_result_once_it_is_back(machines: Machines) -> None:
    machines.nats(host="0.0.0.0")
    network = machines.network()
    shared = machines.folder / "shared"
    gateway = machines.gateway(network=network)
    machines.worker("worker", [gateway], write_grant(shared))
    call = Asking(gateway, "append", line(machines, "once", 1_500))
    wait_until("start", lambda: started(machines))
    network.cut()
    # The worker needs no gateway.
    wait_until("end of all", lambda: ended(machines), 15)
    time.sleep(LEASE * 2)
    assert call.is_alive()
    network.mend()
    reply = call.reply(30)
    assert reply.status == 200 and reply.code is None, reply
    assert gateway.call("wait", {"ms": 0}, patience=30).status == 200
    assert written(machines) == ["once"]


@long_case
def a_gateway_that_sees_no_server_any_more_says_that_the_result_is_lost(machines: Machines) -> None:
    server = machines.nats(host="0.0.0.0")
    network, proxy = machines.network(), Proxy(server.port, b"PUB toolcell.1.queue")
    shared = machines.folder / "shared"
    running = machines.gateway("running", network=network)
    # It never hears that the queue has its question.
    asking = machines.gateway("asking", servers=[f"nats://127.0.0.1:{proxy.port}"], wait="12s")
    worker = machines.worker("worker", [running, asking], write_grant(shared))
    calls = [Asking(running, "wait", {"ms": 3_000}, patience=150)]
    wait_until("start", lambda: started(machines))
    network.cut()
    calls.append(Asking(asking, "append", line(machines, "once", 0), patience=150))
    assert proxy.heard.wait(10)
    wait_until("end of all", lambda: ended(machines, worker), 15)
    for call in calls:
        reply = call.reply(150)
        assert reply.code == "cluster_result_lost" and call.seconds < 130, (reply, call.seconds)
    print(f"  lost after {calls[0].seconds:.0f} s, and after {calls[1].seconds:.0f} s", flush=True)
    assert written(machines) == ["once"]


@case
def no_call_of_a_healthy_worker_is_lost_while_the_server_is_away(machines: Machines) -> None:
    server = machines.nats()
    shared = machines.folder / "shared"
    gateway = machines.gateway(wait="60s")
    worker = machines.worker("worker", [gateway], write_grant(shared))
    running = [Asking(gateway, "append", line(machines, "running", 2_500))]
    running += [Asking(gateway, "wait", {"ms": 5_000}) for _ in range(3)]
    wait_until("start", lambda: started(machines, 4))
    server.kill()
    # It comes while nobody can take it.
    later = Asking(gateway, "append", line(machines, "later", 0))
    time.sleep(LEASE * 3)
    server.up()
    for call in [*running, later]:
        reply = call.reply(30)
        assert reply.status == 200 and reply.code is None, reply
    assert written(machines) == ["later", "running"]
    wait_until("end of all", lambda: ended(machines), 10)
    assert "thrown away" not in worker.text()


@case
def free_places_ask_again_when_the_server_is_back(machines: Machines) -> None:
    server = machines.nats()
    gateway = machines.gateway(wait="60s")
    machines.worker("worker", [gateway])
    assert gateway.call("wait", {"ms": 0}).status == 200
    server.kill()
    server.up()
    call = Asking(gateway, "wait", {"ms": 0})
    assert call.reply().status == 200 and call.seconds < 10, call.seconds
    print(f"  the first call took {call.seconds:.1f} s", flush=True)


@case
def a_call_that_was_claimed_and_never_published_runs_at_another_gateway(machines: Machines) -> None:
    mute = machines.login("mute")
    full = machines.login("full")
    users = f'{{ nkey: {mute.public}, permissions: {{ publish: {{ deny: ["toolcell.1.queue"] }} }} }}, {{ nkey: {full.public} }}'
    machines.nats(more=f"authorization {{ users: [{users}] }}")
    shared = machines.folder / "shared"
    option = token_file(machines)
    lost, waits = (machines.gateway(name, option, nkey=mute.file, wait="6s") for name in ("lost", "waits"))
    gateway = machines.gateway("gateway", option, nkey=full.file)
    worker = machines.worker("worker", [lost, waits, gateway], write_grant(shared), nkey=full.file)
    named = {"key": "k", "token": TOKEN}
    once = line(machines, "once", 100)
    killed = Asking(lost, "append", once, **named)
    wait_until("claim", lambda: machines.status(gateway)["calls"])
    status = machines.status(gateway)
    assert status["queued"] == 0 and status["calls"][0]["stage"]["stage"] == "queued", status
    lost.kill()
    killed.join()
    other = Asking(waits, "append", once, **named)
    time.sleep(0.5)
    found = gateway.call("append", once, **named)
    assert found.status == 200 and found.code is None, found
    # A gateway that cannot publish sees that the call went on without it.
    reply = other.reply(30)
    assert reply.status == 200 and reply.body["result_id"] == found.body["result_id"], reply
    assert written(machines) == ["once"]
    assert worker.process.poll() is None


@case
def a_gateway_that_did_not_hear_that_the_queue_has_its_question_has_the_result(machines: Machines) -> None:
    server = machines.nats()
    proxy = Proxy(server.port, b"PUB toolcell.1.queue")
    shared = machines.folder / "shared"
    gateway = machines.gateway(servers=[f"nats://127.0.0.1:{proxy.port}"], wait="3s")
    machines.worker("worker", [gateway], write_grant(shared))
    call = Asking(gateway, "append", line(machines, "once", 0))
    assert proxy.heard.wait(10)
    wait_until("line", lambda: written(machines) == ["once"], 10)
    # Until it may not ask any more.
    time.sleep(5)
    proxy.passes.set()
    reply = call.reply()
    assert reply.status == 200 and reply.code is None, reply
    assert written(machines) == ["once"]


@case
def a_stale_worker_takes_nothing_from_the_one_that_came_after_it(machines: Machines) -> None:
    machines.nats()
    gateway = machines.gateway()
    first = machines.worker("first", [gateway], places=1)
    call = Asking(gateway, "wait", {"ms": 4_000})
    wait_until("start", lambda: started(machines))
    first.send(signal.SIGSTOP)
    second = machines.worker("second", [gateway], places=1)

    def at_the_second() -> bool:
        return any(call["stage"].get("holder", {}).get("worker") == "second" for call in machines.status()["calls"])

    wait_until("another attempt", at_the_second, LEASE * 6)
    # While the second one runs it: an acknowledgement of the first one would remove the message.
    first.send(signal.SIGCONT)
    wait_until("word on the late result", lambda: first.says("this result is thrown away"), 15)
    assert call.is_alive(), "the first one's result came through"
    reply = call.reply(30)
    assert reply.status == 200 and reply.text == "done", reply
    assert "thrown away" not in second.text()
    wait_until("end of all", lambda: ended(machines), 10)

    async def two() -> list[Reply]:
        return await asyncio.gather(*(gateway.begin("wait", {"ms": 300}) for _ in range(2)))

    assert [reply.text for reply in asyncio.run(two())] == ["done", "done"]
