"""NATS servers, gateways and workers, each a process of its own in a folder of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

TOOLCELL, NATS_SERVER, LEDGER = (os.environ[name] for name in ("TOOLCELL", "NATS_SERVER", "LEDGER"))
PATIENCE = 60.0
LEASE = 2


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until(what: str, is_so, patience: float = PATIENCE) -> None:
    end = time.monotonic() + patience
    while not is_so():
        assert time.monotonic() < end, f"no {what} in {patience} s"
        time.sleep(0.05)


class Process:
    """A process whose standard error is a file."""

    def __init__(self, folder: Path, command: list[str], home: Path | None = None):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.command = folder, command
        self.log = folder / "log"
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TOOLCELL_HOME": str(home or folder)}
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                                            env=self.environment)

    def says(self, text: str, after: int = 0) -> bool:
        assert self.process.poll() is None, f"{self.command[1]} ended: {self.text()[-3_000:]}"
        return text in self.text()[after:]

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(PATIENCE)


class Nats(Process):
    def __init__(self, folder: Path, port: int, others: tuple[int, list[int]] | None = None, name: str = "one"):
        self.port = port
        folder.mkdir(parents=True, exist_ok=True)
        settings = f'server_name: {name}\nlisten: "127.0.0.1:{port}"\njetstream {{ store_dir: "{folder}/store", sync_interval: always }}\n'
        if others is not None:
            own, ports = others
            routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
            settings += f'cluster {{ name: tests, listen: "127.0.0.1:{own}", routes: [{routes}] }}\n'
        (folder / "nats.conf").write_text(settings)
        super().__init__(folder, [NATS_SERVER, "-c", str(folder / "nats.conf")])

    def up(self) -> Nats:
        before = len(self.text())
        self.start()
        wait_until("NATS server", lambda: self.says("Server is ready", before))
        return self


def settings(servers: list[int], **fields: object) -> str:
    addresses = [f"nats://127.0.0.1:{port}" for port in servers]
    lines = ["[cluster]", f"servers = {json.dumps(addresses)}", f'lease = "{LEASE}s"']
    lines += [f"{name} = {json.dumps(value)}" for name, value in fields.items()]
    return "\n".join(lines) + "\n"


@dataclass
class Reply:
    status: int
    body: dict

    @property
    def code(self) -> str | None:
        error = self.body.get("error") or {}
        return error.get("error_code") or self.body.get("code")

    @property
    def text(self) -> str:
        return self.body["content"][0]["text"]


class Gateway(Process):
    def __init__(self, folder: Path, servers: list[int], *options: str, more: str = "", **fields: object):
        folder.mkdir(parents=True)
        (folder / "toolcell.toml").write_text(settings(servers, **fields) + more)
        command = [TOOLCELL, "serve", "--cluster", LEDGER, "--listen=127.0.0.1:0", *options]
        super().__init__(folder, command)

    @property
    def key(self) -> str:
        said = subprocess.run([TOOLCELL, "cluster", "key"], env=self.environment, cwd=self.folder, capture_output=True, check=True)
        return said.stdout.decode().strip()

    def up(self) -> Gateway:
        before = len(self.text())
        self.start()
        wait_until("gateway", lambda: self.says("MCP at ", before))
        text = self.text()[before:]
        self.port = int(re.search(r"MCP at http://127\.0\.0\.1:(\d+)", text)[1])
        told = re.search(r"Bearer (\S+)", text)
        self.token = told[1] if told else None
        return self

    def call(self, tool: str, arguments: dict, key: str | None = None, token: str | None = None, patience: float = PATIENCE) -> Reply:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token or self.token}"}
        if key is not None:
            headers["Idempotency-Key"] = key
        body = json.dumps({"tool": f"ledger.{tool}", "input": arguments}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/calls", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=patience) as answer:
                return Reply(answer.status, json.load(answer))
        except urllib.error.HTTPError as error:
            return Reply(error.code, json.load(error))

    def payload(self, reference: str) -> bytes:
        said = subprocess.run([TOOLCELL, "artifact", reference], env=self.environment, cwd=self.folder, capture_output=True, check=True)
        return said.stdout

    async def begin(self, *arguments: object, **named: object) -> Reply:
        return await asyncio.to_thread(self.call, *arguments, **named)


class Worker(Process):
    def __init__(self, folder: Path, servers: list[int], gateways: list[str], *options: str, more: str = "", **fields: object):
        folder.mkdir(parents=True)
        fields.setdefault("name", folder.name)
        (folder / "toolcell.toml").write_text(settings(servers, gateways=gateways, **fields) + more)
        super().__init__(folder, [TOOLCELL, "work", LEDGER, *options])

    def up(self) -> Worker:
        before = len(self.text())
        self.start()
        wait_until("worker", lambda: self.says("Working as ", before))
        return self


@dataclass
class Machines:
    """All processes of a case, which end with it."""

    folder: Path
    all: list[Process] = field(default_factory=list)
    servers: list[int] = field(default_factory=list)

    def nats(self) -> Nats:
        server = self.add(Nats(self.folder / "nats", free_port()).up())
        self.servers = [server.port]
        return server

    def three(self) -> list[Nats]:
        ports, routes = [free_port() for _ in range(3)], [free_port() for _ in range(3)]
        servers = [Nats(self.folder / f"nats{at}", ports[at], (routes[at], routes), f"n{at}") for at in range(3)]
        for server in servers:
            self.add(server).start()
        for server in servers:
            wait_until("NATS server", lambda: server.says("Server is ready"))
        wait_until("leader", lambda: any("JetStream cluster new metadata leader" in server.text() for server in servers))
        self.servers = ports
        return servers

    def gateway(self, name: str = "gateway", *options: str, **fields: object) -> Gateway:
        return self.add(Gateway(self.folder / name, self.servers, *options, **fields).up())

    def worker(self, name: str, gateways: list[Gateway], *options: str, **fields: object) -> Worker:
        keys = [gateway.key for gateway in gateways]
        return self.add(Worker(self.folder / name, self.servers, keys, *options, **fields).up())

    def status(self) -> dict:
        home = next(one for one in self.all if isinstance(one, (Gateway, Worker)) and one.process.poll() is None)
        said = subprocess.run([TOOLCELL, "cluster", "status", "--json"], env=home.environment, cwd=home.folder,
                              capture_output=True, check=True)
        return json.loads(said.stdout)

    def add(self, one):
        self.all.append(one)
        return one

    def __enter__(self) -> Machines:
        return self

    def __exit__(self, failed: type | None, *_: object) -> None:
        for one in self.all:
            if one.process is not None and one.process.poll() is None:
                one.send(signal.SIGCONT)
            one.kill()
            if failed is not None:
                print(f"--- {one.folder.name}\n{one.text()[-3_000:]}")
