"""What operators see of a cluster, and tell it."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

from cases import TOKEN, case, principal, started, write_grant
from machines import LEASE, TOOLCELL, Gateway, Machines, Process, Reply, free_port, wait_until


def said(home: Process, *words: str) -> tuple[int, str]:
    """How a command with the home of a process ended, and what it said."""
    ran = subprocess.run([TOOLCELL, *words], env=home.environment, cwd=home.folder, capture_output=True, text=True, timeout=60)
    return ran.returncode, ran.stdout + ran.stderr


@case
def a_worker_that_is_drained_takes_no_more_and_ends_after_its_calls(machines: Machines) -> None:
    machines.nats()
    gateway = machines.gateway()
    worker = machines.worker("old.1", [gateway])

    async def during() -> tuple[Reply, Reply]:
        call = asyncio.create_task(gateway.begin("wait", {"ms": 12_000}))
        await asyncio.to_thread(wait_until, "start", lambda: started(machines))
        drained = json.loads(await asyncio.to_thread(gateway.run, "cluster", "drain", "old.1", "--json"))
        assert drained == {"worker": "old.1", "gone": False, "busy": 1}, drained
        [state] = machines.status()["workers"]
        assert state["drains"], state
        later = asyncio.create_task(gateway.begin("wait", {"ms": 0}))
        await asyncio.sleep(1)
        stages = sorted(call["stage"]["stage"] for call in machines.status(gateway)["calls"])
        assert stages == ["queued", "started"], stages
        # Another process of that name is not told what this one was.
        await asyncio.to_thread(worker.process.wait, 30)
        await asyncio.to_thread(worker.up)
        return await call, await later

    one, other = asyncio.run(during())
    assert one.status == other.status == 200, (one, other)
    time.sleep(6)
    assert worker.process.poll() is None and not machines.status()["workers"][0]["drains"]
    assert gateway.run("cluster", "drain", "old.1").startswith("old.1 ")
    assert worker.process.wait(10) == 0


@case
def a_worker_that_is_not_there_is_not_drained(machines: Machines) -> None:
    machines.nats()
    gateway = machines.gateway()
    code, text = said(gateway, "cluster", "drain", "nobody")
    assert code != 0 and "no worker nobody is there" in text, text
    code, text = said(gateway, "cluster", "drain", "nobody", "--json")
    assert code != 0 and json.loads(text[text.index("{"):])["error"]["error_code"] == "unknown_request", text


@case
def open_calls_are_listed_with_the_time_for_which_they_did_not_change(machines: Machines) -> None:
    machines.nats()
    gateway = machines.gateway()
    assert gateway.run("cluster", "calls") == "no call is open\n"
    machines.worker("one", [gateway], places=1)

    async def during() -> None:
        calls = [asyncio.create_task(gateway.begin("wait", {"ms": 5_000})) for _ in range(2)]
        await asyncio.sleep(LEASE + 1)
        listed = await asyncio.to_thread(gateway.run, "cluster", "calls")
        runs, waits = sorted(listed.splitlines(), key=lambda line: "runs at" not in line)
        assert "ledger.wait runs at one, unchanged for " in runs, runs
        # Whoever runs a call says so all the time; who waits does not.
        age = [int(line.split()[-2]) for line in (runs, waits)]
        assert "ledger.wait waits, unchanged for " in waits and age[0] < LEASE < age[1] + 2, listed
        of_one = json.loads(await asyncio.to_thread(gateway.run, "cluster", "calls", "--on=one", "--json"))["calls"]
        assert [call["stage"]["stage"] for call in of_one] == ["started"], of_one
        assert json.loads(await asyncio.to_thread(gateway.run, "cluster", "calls", "--on=two", "--json")) == {"calls": []}
        assert [reply.status for reply in await asyncio.gather(*calls)] == [200, 200]

    asyncio.run(during())


def checks(home: Process) -> dict[str, dict]:
    code, text = said(home, "doctor", "--json")
    found = {check["subject"]: check for check in json.loads(text)["checks"] if check["subject"].startswith("cluster")}
    is_wrong = any(check["state"] == "missing" for check in found.values())
    assert not is_wrong or code == 1, code
    return found


@case
def the_doctor_looks_at_the_servers(machines: Machines) -> None:
    server = machines.nats()
    gateway = machines.gateway()
    address = f"cluster nats://127.0.0.1:{server.port}"
    found = checks(gateway)
    assert set(found) == {address, "cluster JetStream", "cluster replicas", "cluster clock", "cluster key"}, found
    assert {check["state"] for check in found.values()} == {"ready"}, found
    assert found["cluster key"]["detail"] == gateway.key and found[address]["detail"].startswith("NATS 2."), found
    # It makes nothing where nothing is.
    alone = Process(machines.folder / "alone", [])
    assert checks(alone) == {}
    config = alone.folder / "toolcell.toml"
    config.write_text(f'[cluster]\nservers = ["nats://127.0.0.1:{server.port}"]\nreplicas = 3\n')
    found = checks(alone)
    assert found["cluster key"]["state"] == "absent" and not (alone.folder / "keys" / "cluster").exists(), found
    assert found["cluster replicas"]["state"] == "missing" and "start more servers" in found["cluster replicas"]["fix"], found


@case
def the_doctor_names_servers_that_cannot_be_used(machines: Machines) -> None:
    silent = free_port()
    server = machines.nats(jetstream=False, more="max_payload: 65536")
    home = Process(machines.folder / "home", [])
    listening = socket.create_server(("127.0.0.1", 0))
    mute = listening.getsockname()[1]
    addresses = [f"nats://127.0.0.1:{port}" for port in (silent, server.port, mute)]
    (home.folder / "toolcell.toml").write_text(f"[cluster]\nservers = {json.dumps(addresses)}\n")
    began = time.monotonic()
    found = checks(home)
    assert time.monotonic() - began < 10
    fixes = [found[f"cluster {address}"].get("fix", "") for address in addresses]
    assert fixes[0].startswith("start it") and "max_payload" in fixes[1] and fixes[2].startswith("start it"), found
    assert found["cluster JetStream"]["state"] == "missing", found


class Collector(http.server.ThreadingHTTPServer):
    """Takes what a process sends of itself."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Taken)
        self.metrics: dict[str, dict] = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Taken(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for resource in body.get("resourceMetrics", []):
            for metric in resource["scopeMetrics"][0]["metrics"]:
                self.server.metrics[metric["name"]] = metric
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def numbers(gateway: Gateway) -> dict[str, float]:
    port = re.search(r"Metrics at http://127\.0\.0\.1:(\d+)", gateway.text())[1]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line.startswith("toolcell_cluster"))}


@case
def calls_of_a_cluster_are_counted_by_their_ends(machines: Machines) -> None:
    machines.nats()
    shared = machines.folder / "shared"
    gateway = machines.gateway("gateway", "--metrics-listen=127.0.0.1:0", wait="2s")
    assert gateway.call("wait", {"ms": 0}).code == "no_worker"
    collector = Collector()
    more = f'[telemetry]\nexport = true\nendpoint = "http://127.0.0.1:{collector.server_port}"\n'
    worker = machines.worker("one", [gateway], write_grant(shared), more=more)
    assert gateway.call("wait", {"ms": 300}).status == 200

    async def lost() -> Reply:
        line = {"path": str(shared / "lines"), "text": "late", "wait_ms": 1_500}
        call = asyncio.create_task(gateway.begin("append", line))
        await asyncio.to_thread(wait_until, "start", lambda: started(machines))
        # A scrape sees it.
        assert numbers(gateway)['toolcell_cluster_calls_open{stage="started"}'] == 1
        worker.send(signal.SIGSTOP)
        return await call

    assert asyncio.run(lost()).code == "worker_lost"
    worker.send(signal.SIGCONT)
    wait_until("word on the late result", lambda: worker.says("this result is thrown away"))
    found = numbers(gateway)
    ends = {end: found.get(f'toolcell_cluster_calls_total{{end="{end}"}}') for end in ("expired", "result", "worker_lost")}
    assert ends == {"expired": 1, "result": 1, "worker_lost": 1}, found
    assert found["toolcell_cluster_leases_lost_total"] == 1 and found["toolcell_cluster_call_start_seconds_count"] == 2, found
    assert found["toolcell_cluster_call_duration_seconds_count"] == 3, found
    assert 2.3 < found["toolcell_cluster_call_duration_seconds_sum"] < 60, found
    assert found['toolcell_cluster_calls_open{stage="started"}'] == 0, found
    # A worker sends its numbers, the last ones at its end.
    assert worker.end() == 0
    sent = {name: metric["sum"]["dataPoints"][0]["asInt"] for name, metric in collector.metrics.items() if name.startswith("toolcell_cluster") and "sum" in metric}
    assert sent["toolcell_cluster_superseded"] == "1" and int(sent["toolcell_cluster_deliveries"]) >= 2, sent


@contextlib.contextmanager
def page(home: Process):
    """What the page of the user of a home answers."""
    program = subprocess.Popen([TOOLCELL, "inspect"], env=home.environment, cwd=home.folder, stderr=subprocess.PIPE, text=True)
    try:
        url = next(line for line in program.stderr if line.startswith("Page at ")).split()[-1]
        address, _ = url.split("/enter")
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        browser.open(url, timeout=10).close()

        def opened(path: str, status: int = 200) -> str:
            try:
                with browser.open(address + path, timeout=30) as answer:
                    assert answer.status == status, answer.status
                    return answer.read().decode()
            except urllib.error.HTTPError as error:
                assert error.code == status, error.code
                return error.read().decode()

        yield opened
    finally:
        program.kill()
        program.wait()


@case
def the_page_of_its_user_shows_the_machines(machines: Machines) -> None:
    server = machines.nats()
    gateway = machines.gateway()
    for name in ("one", "two<b>"):
        machines.worker(name, [gateway])
    with page(gateway) as opened:
        text = opened("/machines")
        assert '<a href="/machines" aria-current="page">Machines</a>' in text and 'href="/machines"' in opened("/"), text
        assert text.count("0 of 8") == 2 and "All workers have the same tools." in text and "No call is open." in text, text
        assert "two&lt;b&gt;" in text and "<b>" not in text, text
        server.kill()
        assert "no server answers" in opened("/machines", 409)
    alone = Process(machines.folder / "alone", [])
    with page(alone) as opened:
        assert "/machines" not in opened("/")
        opened("/machines", 404)


@case
def the_page_of_a_server_shows_no_machines(machines: Machines) -> None:
    machines.nats()
    gateway = machines.gateway(more=principal("ada") + "page = true\n")
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    address = f"http://127.0.0.1:{gateway.port}"
    browser.addheaders = [("Origin", address)]
    with browser.open(f"{address}/enter", f"token={TOKEN}".encode(), timeout=10) as answer:
        text = answer.read().decode()
    assert 'href="/workspaces"' in text and "/machines" not in text, text
    try:
        browser.open(f"{address}/machines", timeout=10)
        raise AssertionError("a principal sees the machines")
    except urllib.error.HTTPError as error:
        assert error.code == 404, error.code


@case
def the_doctor_counts_copies(machines: Machines) -> None:
    machines.three()
    gateway = machines.gateway(replicas=1)
    found = checks(gateway)["cluster replicas"]
    assert found["state"] == "warning" and "replicas = 3" in found["fix"], found
    config = gateway.folder / "toolcell.toml"
    config.write_text(config.read_text().replace("replicas = 1", "replicas = 3"))
    found = checks(gateway)["cluster replicas"]
    assert found["state"] == "warning" and "has 1, and [cluster] says 3" in found["detail"], found


@case
def calls_of_dead_machines_are_ended_by_the_command(machines: Machines) -> None:
    machines.nats()
    shared = machines.folder / "shared"
    gateway = machines.gateway()
    worker = machines.worker("worker", [gateway], write_grant(shared))
    assert json.loads(gateway.run("cluster", "sweep", "--json")) == {"calls": []}
    line = {"path": str(shared / "lines"), "text": "half", "wait_ms": 30_000}

    def lost() -> None:
        try:
            gateway.call("append", line)
        except OSError:
            pass

    asking = threading.Thread(target=lost)
    asking.start()
    wait_until("start", lambda: started(machines))
    worker.kill()
    gateway.kill()
    asking.join()
    assert len(machines.status(gateway)["calls"]) == 1
    assert gateway.run("cluster", "sweep") == "no call is open\n"
