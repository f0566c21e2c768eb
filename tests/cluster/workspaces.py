"""Workspaces of a gateway, with the calls at workers."""

from __future__ import annotations

import asyncio
import json
import signal
import urllib.error
import urllib.request

from cases import TOKEN, case, token_file
from machines import Gateway, Machines, Reply, wait_until


def content(gateway: Gateway, path: str, workspace: str = "default") -> list[str] | None:
    url = f"http://127.0.0.1:{gateway.port}/v1/workspaces/{workspace}/files/{path}"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKEN}"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read().decode().splitlines()
    except urllib.error.HTTPError as error:
        assert error.code == 404, error
        return None


def line(text: str, wait_ms: int = 0) -> dict:
    return {"path": "/workspace/lines", "text": text, "wait_ms": wait_ms}


@case
def files_go_to_the_worker_and_come_back(machines: Machines) -> None:
    machines.nats()
    gateway = machines.gateway("gateway", token_file(machines), "--workspace")
    machines.worker("one", [gateway])
    machines.worker("two", [gateway])
    for text in "abcd":
        done = gateway.call("append", line(text), token=TOKEN)
        assert done.status == 200, done
        assert "lines" in json.dumps(done.body["workspace"]), done.body["workspace"]
    assert content(gateway, "lines") == list("abcd")

    async def at_once() -> list[Reply]:
        return await asyncio.gather(*(gateway.begin("append", line(f"n{at}", 50), token=TOKEN) for at in range(8)))

    # They take turns, so that none loses what another wrote.
    assert all(reply.status == 200 for reply in asyncio.run(at_once()))
    assert sorted(content(gateway, "lines")[4:]) == [f"n{at}" for at in range(8)]


@case
def a_worker_that_is_gone_changes_no_workspace(machines: Machines) -> None:
    machines.nats()
    gateway = machines.gateway("gateway", token_file(machines), "--workspace")
    worker = machines.worker("worker", [gateway])
    assert gateway.call("append", line("before"), token=TOKEN).status == 200

    async def during() -> Reply:
        call = asyncio.create_task(gateway.begin("append", line("lost", 1_000), token=TOKEN))
        await asyncio.sleep(1.5)
        worker.send(signal.SIGSTOP)
        return await call

    lost = asyncio.run(during())
    assert lost.code == "worker_lost", lost
    assert content(gateway, "lines") == ["before"]
    worker.send(signal.SIGCONT)
    wait_until("word on the late result", lambda: worker.says("this result is thrown away"))
    assert gateway.call("append", line("after"), token=TOKEN).status == 200
    assert content(gateway, "lines") == ["before", "after"]
    # What was fetched is gone.
    left = worker.folder / "workspaces"
    wait_until("end of the files", lambda: not left.exists() or not any(left.rglob("lines")), 10)


@case
def the_worker_bounds_what_files_of_a_gateway_take(machines: Machines) -> None:
    machines.nats()
    gateway = machines.gateway("gateway", token_file(machines), "--workspace")
    machines.worker("worker", [gateway], more='\n[workspace]\nquota = "2KiB"\n')
    assert gateway.call("append", line("small"), token=TOKEN).body["is_error"] is False
    large = gateway.call("append", line("x" * 4_096), token=TOKEN)
    assert large.body["is_error"] and large.code == "workspace_full", large
