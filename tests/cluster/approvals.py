# Promise: An approver of another machine answers one question.
"""Questions about calls that wait at a worker, answered from another machine."""

from __future__ import annotations

import asyncio
import json
import subprocess

from cases import TOKEN, case, ended, lines, token_file, write_grant
from machines import TOOLCELL, Machines, Process, Reply, Worker, settings, wait_until

ASK = '\n[[rule]]\nbehavior = "ask"\ntool = "ledger.append"\n'


class Person(Process):
    """A home on another machine, with a key of its own."""

    def __init__(self, machines: Machines, name: str):
        folder = machines.folder / name
        super().__init__(folder, [])
        (folder / "toolcell.toml").write_text(settings(machines.servers))
        self.key = self.run("key").stdout.strip()

    def run(self, *arguments: str) -> subprocess.CompletedProcess:
        command = [TOOLCELL, "cluster", *arguments]
        return subprocess.run(command, env=self.environment, cwd=self.folder, capture_output=True, text=True)

    def open(self) -> list[dict]:
        return json.loads(self.run("approvals", "--json").stdout)["approvals"]


def asking(machines: Machines, gateway, approvers: dict[str, str]) -> Worker:
    shared = machines.folder / "shared"
    names = "\n[cluster.approvers]\n" + "".join(f'{name} = "{key}"\n' for name, key in approvers.items())
    return machines.worker("worker", [gateway], write_grant(shared), more=names + ASK)


def one(person: Person) -> dict:
    wait_until("question", lambda: len(person.open()) == 1)
    return person.open()[0]


@case
def an_approver_of_another_machine_edits_and_approves(machines: Machines) -> None:
    machines.nats()
    gateway = machines.gateway("gateway", token_file(machines))
    bert, stranger, ada = (Person(machines, name) for name in ("bert", "stranger", "ada"))
    asking(machines, gateway, {"bert": bert.key, "ada": ada.key})
    shared = machines.folder / "shared"
    line = {"path": str(shared / "lines"), "text": "asked", "wait_ms": 0}

    async def story() -> Reply:
        call = asyncio.create_task(gateway.begin("append", line, token=TOKEN))
        question = await asyncio.to_thread(one, bert)
        assert question["worker"] == "worker" and str(shared / "lines") in question["prompt"], question
        name = question["invocation_id"]
        # Neither a key that the worker does not know, nor the caller, nor arguments that the tool does not take.
        for who, options, why in (
            (stranger, [], "not of an approver that this worker knows"),
            (ada, [], "cannot approve it"),
            (bert, ['--edit={"text": 1}'], "cannot run"),
        ):
            said = await asyncio.to_thread(who.run, "approve", name, *options)
            assert said.returncode == 3 and why in said.stderr, said
        assert lines(shared / "lines") == [] and not call.done()
        edited = json.dumps({**line, "text": "approved"})
        said = await asyncio.to_thread(bert.run, "approve", name, f"--edit={edited}")
        assert said.returncode == 0, said
        late = await asyncio.to_thread(bert.run, "approve", name)
        assert late.returncode != 0 and "no question" in late.stderr, late
        return await call

    reply = asyncio.run(story())
    assert reply.status == 200 and reply.text == "approved", reply
    assert lines(shared / "lines") == ["approved"]
    record = gateway.record(reply.body["invocation_id"])
    assert "approver:bert" in json.dumps(record), record
    wait_until("end", lambda: ended(machines) and bert.open() == [])


@case
def a_call_that_is_denied_or_canceled_asks_no_more(machines: Machines) -> None:
    machines.nats()
    gateway = machines.gateway("gateway", token_file(machines))
    bert = Person(machines, "bert")
    asking(machines, gateway, {"bert": bert.key})
    shared = machines.folder / "shared"
    line = {"path": str(shared / "lines"), "text": "asked", "wait_ms": 0}

    async def denied() -> Reply:
        call = asyncio.create_task(gateway.begin("append", line, token=TOKEN))
        question = await asyncio.to_thread(one, bert)
        said = await asyncio.to_thread(bert.run, "deny", question["invocation_id"], "--feedback=not today")
        assert said.returncode == 0, said
        return await call

    reply = asyncio.run(denied())
    assert reply.body["status"] == "rejected" and "not today" in json.dumps(reply.body), reply
    try:
        gateway.call("append", line, token=TOKEN, patience=2)
    except (TimeoutError, OSError):
        pass
    wait_until("end", lambda: ended(machines) and bert.open() == [])
    assert lines(shared / "lines") == []
