# Promise: Tenants of a cluster do not meet.
"""Who may use which server: accounts, certificates, and what a start says that goes wrong."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import threading
import time
from pathlib import Path

from cases import case
from machines import LEDGER, TOOLCELL, Machines, Nats, Process, free_port, settings


def percentile(times: list[float], part: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * part))]


def times(gateway, calls: int) -> list[float]:
    taken = []
    for _ in range(calls):
        began = time.monotonic()
        reply = gateway.call("wait", {"ms": 0})
        taken.append(time.monotonic() - began)
        assert reply.status == 200, reply
    return taken


@case
def tenants_reach_no_worker_of_each_other_and_do_not_wait_for_each_other(machines: Machines) -> None:
    one, other = machines.login("one"), machines.login("other")
    accounts = ", ".join(f"{name}: {{ jetstream: enabled, users: [{{ nkey: {login.public} }}] }}"
                         for name, login in (("ONE", one), ("OTHER", other)))
    machines.nats(more=f"accounts {{ {accounts} }}")
    flooding = machines.gateway("flooding", nkey=one.file, wait="60s")
    quiet = machines.gateway("quiet", nkey=other.file, wait="2s")
    # It trusts both, and hears one.
    machines.worker("worker", [flooding, quiet], nkey=one.file, places=1)
    refused = quiet.call("wait", {"ms": 0})
    assert (refused.status, refused.code) == (504, "no_worker"), refused
    assert machines.status(quiet)["workers"] == [] and machines.status(quiet)["calls"] == []
    machines.worker("own", [quiet], nkey=other.file, places=1)
    alone = times(quiet, 30)

    async def flood() -> list[int]:
        return [reply.status for reply in await asyncio.gather(*(flooding.begin("wait", {"ms": 200}) for _ in range(24)))]

    statuses: list[int] = []
    flooder = threading.Thread(target=lambda: statuses.extend(asyncio.run(flood())))
    flooder.start()
    time.sleep(0.5)
    beside = times(quiet, 30)
    waits = machines.status(flooding)["queued"]
    flooder.join()
    assert statuses == [200] * 24, statuses
    own = max(times(flooding, 1))
    print(f"  p99 alone {percentile(alone, 0.99) * 1e3:.0f} ms, beside a flood {percentile(beside, 0.99) * 1e3:.0f} ms, "
          f"while {waits} calls of the other waited", flush=True)
    assert waits >= 10, waits
    assert percentile(beside, 0.99) < percentile(alone, 0.99) * 5 + 0.25
    assert own < 5


def command(machines: Machines, name: str, toml: str, *words: str) -> subprocess.CompletedProcess:
    """One that must end, and soon."""
    home = Process(machines.folder / name, [])
    (home.folder / "toolcell.toml").write_text(toml)
    said = subprocess.run([TOOLCELL, *words], env=home.environment, cwd=home.folder, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=15)
    return said


STARTS = {
    "gateway": ["serve", "--cluster", LEDGER, "--listen=127.0.0.1:0"],
    "worker": ["work", LEDGER],
    "status": ["cluster", "status"],
}


def refuses(machines: Machines, name: str, toml: str, *words: str, starts: tuple[str, ...] = tuple(STARTS)) -> None:
    for start in starts:
        began = time.monotonic()
        said = command(machines, f"{name}-{start}", toml, *STARTS[start])
        took = time.monotonic() - began
        told = said.stderr + said.stdout
        assert said.returncode not in (0, 70) and "panicked" not in told, (name, start, said)
        for word in words:
            assert word in told, (name, start, word, said)
        print(f"  {name}, {start}: exit {said.returncode}, {took:.1f} s: {told.strip().splitlines()[-1][:150]}", flush=True)


def certificates(folder: Path) -> None:
    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    folder.mkdir(exist_ok=True)
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=tests")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE")
    openssl("req", "-x509", *key, *signed, "-keyout", "server.key", "-out", "server.pem", "-subj", "/CN=server")


@case
def a_server_is_known_by_the_authority_that_signed_its_certificate(machines: Machines) -> None:
    folder = machines.folder / "certificates"
    certificates(folder)
    server = machines.nats(more=f'tls {{ cert_file: "{folder}/server.pem", key_file: "{folder}/server.key" }}')
    secure = {"servers": [f"tls://127.0.0.1:{server.port}"], "ca": str(folder / "ca.pem")}
    gateway = machines.gateway("gateway", **secure)
    machines.worker("worker", [gateway], **secure)
    assert gateway.call("wait", {"ms": 0}).status == 200
    refuses(machines, "no authority", settings([], servers=secure["servers"]), "cluster_unavailable", "certificate")
    # Its name is another one.
    elsewhere = [f"tls://localhost:{server.port}"]
    refuses(machines, "other name", settings([], **{**secure, "servers": elsewhere}), "cluster_unavailable", starts=("status",))
    missing = settings([], **{**secure, "ca": str(folder / "none.pem")})
    refuses(machines, "no file", missing, "none.pem", starts=("status",))
    # A server without a certificate gets no word of a process that wants one.
    plain = machines.add(Nats(machines.folder / "plain", free_port()).up())
    refuses(machines, "no tls", settings([], **{**secure, "servers": [f"tls://127.0.0.1:{plain.port}"]}), "cluster_unavailable",
            starts=("worker",))


@case
def a_start_that_goes_wrong_says_why_and_ends(machines: Machines) -> None:
    refuses(machines, "nobody", settings([free_port()]), "cluster_unavailable", "no server answers", "127.0.0.1", starts=("gateway", "status"))
    known, stranger = machines.login("known"), machines.login("stranger")
    server = machines.nats(more=f"authorization {{ users: [{{ nkey: {known.public} }}] }}")
    refuses(machines, "stranger", settings([server.port], nkey=stranger.file), "cluster_unavailable", "authorization")
    refuses(machines, "no login", settings([server.port]), "cluster_unavailable", "authorization", starts=("status",))
    plain = machines.add(Nats(machines.folder / "plain", free_port(), jetstream=False).up())
    refuses(machines, "no JetStream", settings([plain.port]), "cluster_unavailable", "jetstream", starts=("worker", "status"))
    refuses(machines, "silent", settings([silent()]), "cluster_unavailable", starts=("status",))
    loose = machines.folder / "loose"
    loose.write_text(Path(known.file).read_text())
    loose.chmod(0o644)
    for field in ("nkey", "credentials", "key"):
        starts = ("gateway",) if field == "key" else ("worker",)
        refuses(machines, f"loose {field}", settings([server.port], **{field: str(loose)}), "loose", starts=starts)
    wrong = machines.folder / "wrong"
    wrong.write_text("SUnoseed\n")
    wrong.chmod(0o600)
    for field, why in (("nkey", "no seed of an nkey"), ("credentials", "cannot read the credentials")):
        refuses(machines, f"wrong {field}", settings([server.port], **{field: str(wrong)}), why, starts=("worker",))
    refuses(machines, "wrong key", settings([server.port], nkey=known.file, key=str(wrong)), "no seed", starts=("gateway",))
    refuses(machines, "replicas", settings([server.port], nkey=known.file, replicas=3), "cluster_unavailable", starts=("status",))
    # Nothing was left behind that a right start would stumble over.
    gateway = machines.gateway("gateway", nkey=known.file)
    machines.worker("worker", [gateway], nkey=known.file)
    assert gateway.call("wait", {"ms": 0}).status == 200


def silent() -> int:
    """A port where somebody takes connections and says nothing."""
    listener = socket.create_server(("127.0.0.1", 0))
    SILENT.append(listener)
    return listener.getsockname()[1]


SILENT: list[object] = []
