"""Batches whose calls run on several machines."""

from __future__ import annotations

import json
import time

from cases import case, lines, write_grant
from machines import LEDGER, Machines


def append(name: str, path: str, **more: object) -> dict:
    return {"id": name, "tool": "ledger.append", "input": {"path": path, "text": name, "wait_ms": 100}, **more}


def wait(name: str, ms: int, **more: object) -> dict:
    return {"id": name, "tool": "ledger.wait", "input": {"ms": ms}, **more}


@case
def calls_of_a_batch_run_beside_each_other_and_changes_in_their_order(machines: Machines) -> None:
    machines.nats()
    shared = machines.folder / "shared"
    gateway = machines.gateway("gateway", write_grant(shared))
    for name in ("one", "two"):
        machines.worker(name, [gateway], write_grant(shared), places=4)
    path = str(shared / "lines")
    calls = [wait(f"wait{at}", 2_000) for at in range(6)] + [append(name, path) for name in "abc"]
    file = machines.folder / "calls.ndjson"
    file.write_text("".join(json.dumps(call) + "\n" for call in calls))
    began = time.monotonic()
    said = gateway.command("batch", "--cluster", f"--with={LEDGER}", "--max-parallel=16", str(file), "--print-record")
    taken = time.monotonic() - began
    assert said.returncode == 0, said
    records = [json.loads(line) for line in said.stdout.splitlines()]
    assert len(records) == len(calls), said.stdout
    # One after the other, they wait for 12 s.
    assert taken < 9, taken
    assert lines(shared / "lines") == ["a", "b", "c"]
    by_worker = {record["invocation"]["cluster"]["worker"] for record in records}
    assert len(by_worker) == 2, by_worker


@case
def a_batch_over_http_keeps_dependencies_and_says_what_did_not_run(machines: Machines) -> None:
    machines.nats()
    gateway = machines.gateway()
    # It grants no file.
    machines.worker("worker", [gateway])
    path = str(machines.folder / "lines")
    calls = [append("denied", path), wait("after", 0, depends_on=["denied"]), wait("free", 0)]
    answer = gateway.post("/v1/batches", calls)
    results = {result["id"]: result["result"] for result in answer.body["results"]}
    assert answer.status == 200 and list(results) == ["denied", "after", "free"], answer
    statuses = [results[name]["status"] for name in ("denied", "after", "free")]
    assert statuses == ["denied", "synthetic_error", "succeeded"], answer
    assert not (machines.folder / "lines").exists()
