"""NATS servers, gateways and workers, each a process of its own in a folder of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import ctypes
import functools
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

TOOLCELL, NATS_SERVER, LEDGER = (os.environ[name] for name in ("TOOLCELL", "NATS_SERVER", "LEDGER"))
PATIENCE = 60.0
LEASE = 2
# As many calls at once; asyncio's own threads are few.
CALLERS = concurrent.futures.ThreadPoolExecutor(64)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until(what: str, is_so, patience: float = PATIENCE) -> None:
    end = time.monotonic() + patience
    while not is_so():
        assert time.monotonic() < end, f"no {what} in {patience} s"
        time.sleep(0.05)


class Network:
    """A network of its own with one link to this machine, which can be cut. Needs root."""

    numbers = itertools.count()

    def __init__(self):
        number = next(Network.numbers)
        self.name, self.link = f"toolcell{os.getpid()}-{number}", f"tcl{os.getpid()}-{number}"
        net = f"198.18.{os.getpid() % 256}"
        self.address, own = f"{net}.{4 * number + 1}", f"{net}.{4 * number + 2}"
        ip("netns", "add", self.name)
        ip("link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        ip("addr", "add", f"{self.address}/30", "dev", self.link)
        ip("link", "set", self.link, "up")
        ip("-n", self.name, "addr", "add", f"{own}/30", "dev", "eth0")
        ip("-n", self.name, "link", "set", "eth0", "up")
        ip("-n", self.name, "link", "set", "lo", "up")

    def cut(self) -> None:
        """Packets vanish; no connection is told."""
        ip("link", "set", self.link, "down")

    def mend(self) -> None:
        ip("link", "set", self.link, "up")

    def enter(self) -> None:
        """The calling thread is in this network from now on."""
        with open(f"/run/netns/{self.name}") as file:
            assert ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0x40000000) == 0, os.strerror(ctypes.get_errno())

    def remove(self) -> None:
        ip("netns", "delete", self.name)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


class Proxy(threading.Thread):
    """Between a process and its NATS server. It passes what the process says until it has passed `word`, and then nothing more in
    either direction until it is told to."""

    def __init__(self, server: int, word: bytes):
        super().__init__(daemon=True)
        self.server, self.word = server, word
        self.passes = threading.Event()
        self.passes.set()
        self.heard = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self) -> None:
        while True:
            client = self.listener.accept()[0]
            server = socket.create_connection(("127.0.0.1", self.server))
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self.copy, args=(one, other, one is client), daemon=True).start()

    def copy(self, one: socket.socket, other: socket.socket, is_client: bool) -> None:
        try:
            while data := one.recv(1 << 16):
                is_it = is_client and not self.heard.is_set() and self.word in data
                self.passes.wait()
                if is_it:
                    self.passes.clear()
                    self.heard.set()
                other.sendall(data)
        except OSError:
            pass
        one.close()
        other.close()


class Process:
    """A process whose standard error is a file."""

    network: Network | None = None

    def __init__(self, folder: Path, command: list[str], home: Path | None = None):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.words = folder, command
        self.log = folder / "log"
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TOOLCELL_HOME": str(home or folder)}
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        entry = ["nsenter", f"--net=/run/netns/{self.network.name}"] if self.network else []
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(entry + self.words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                                            env=self.environment)

    def says(self, text: str, after: int = 0) -> bool:
        assert self.process.poll() is None, f"{self.words[1]} ended: {self.text()[-3_000:]}"
        return text in self.text()[after:]

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def run(self, *words: str) -> str:
        """What a command with the same home prints."""
        said = subprocess.run([TOOLCELL, *words], env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE)
        assert said.returncode == 0, said
        return said.stdout

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
    def __init__(self, folder: Path, port: int, others: tuple[int, list[int]] | None = None, name: str = "one",
                 host: str = "127.0.0.1", jetstream: bool = True, more: str = ""):
        self.port = port
        folder.mkdir(parents=True, exist_ok=True)
        settings = f'server_name: {name}\nlisten: "{host}:{port}"\n{more}\n'
        if jetstream:
            settings += f'jetstream {{ store_dir: "{folder}/store", sync_interval: always }}\n'
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


def settings(ports: list[int], **fields: object) -> str:
    addresses = [f"nats://127.0.0.1:{port}" for port in ports]
    fields = {"servers": addresses, "lease": f"{LEASE}s", **fields}
    lines = ["[cluster]", *(f"{name} = {json.dumps(value)}" for name, value in fields.items())]
    return "\n".join(lines) + "\n"


@dataclass
class Login:
    """A user of NATS: a public nkey, and the file with its seed."""

    public: str
    file: str


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
    def __init__(self, folder: Path, ports: list[int], *options: str, more: str = "", **fields: object):
        folder.mkdir(parents=True)
        (folder / "toolcell.toml").write_text(settings(ports, **fields) + more)
        command = [TOOLCELL, "serve", "--cluster", LEDGER, "--listen=127.0.0.1:0", *options]
        super().__init__(folder, command)

    @property
    def key(self) -> str:
        return self.run("cluster", "key").strip()

    def up(self) -> Gateway:
        before = len(self.text())
        self.start()
        wait_until("gateway", lambda: self.says("MCP at ", before))
        text = self.text()[before:]
        self.port = int(re.search(r"MCP at http://127\.0\.0\.1:(\d+)", text)[1])
        told = re.search(r"Bearer (\S+)", text)
        self.token = told[1] if told else None
        return self

    def call(self, *arguments: object, **named: object) -> Reply:
        if self.network is None:
            return self.ask(*arguments, **named)
        with concurrent.futures.ThreadPoolExecutor(1, initializer=self.network.enter) as inside:
            return inside.submit(self.ask, *arguments, **named).result()

    def ask(self, tool: str, arguments: dict, **named: object) -> Reply:
        return self.post("/v1/calls", {"tool": f"ledger.{tool}", "input": arguments}, **named)

    def post(self, route: str, body: object, key: str | None = None, token: str | None = None, patience: float = PATIENCE) -> Reply:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token or self.token}"}
        if key is not None:
            headers["Idempotency-Key"] = key
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{route}", json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=patience) as answer:
                return Reply(answer.status, json.load(answer))
        except urllib.error.HTTPError as error:
            return Reply(error.code, json.load(error))

    def payload(self, reference: str) -> bytes:
        return self.run("artifact", reference).encode()

    def command(self, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run([TOOLCELL, *words], env=self.environment, cwd=self.folder, capture_output=True, text=True)

    def record(self, call: str) -> dict:
        said = subprocess.run([TOOLCELL, "show", call, "--json"], env=self.environment, cwd=self.folder, capture_output=True, check=True)
        return json.loads(said.stdout)

    async def begin(self, *arguments: object, **named: object) -> Reply:
        call = functools.partial(self.call, *arguments, **named)
        return await asyncio.get_running_loop().run_in_executor(CALLERS, call)


class Worker(Process):
    def __init__(self, folder: Path, ports: list[int], gateways: list[str], *options: str, more: str = "", **fields: object):
        folder.mkdir(parents=True)
        fields.setdefault("name", folder.name)
        (folder / "toolcell.toml").write_text(settings(ports, gateways=gateways, **fields) + more)
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
    networks: list[Network] = field(default_factory=list)

    def nats(self, **options: object) -> Nats:
        server = self.add(Nats(self.folder / "nats", free_port(), **options).up())
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

    def network(self) -> Network:
        network = Network()
        self.networks.append(network)
        return network

    def gateway(self, name: str = "gateway", *options: str, network: Network | None = None, **fields: object) -> Gateway:
        return self.up(Gateway(self.folder / name, self.servers, *options, **self.at(network, fields)), network)

    def worker(self, name: str, gateways: list[Gateway], *options: str, network: Network | None = None, **fields: object) -> Worker:
        keys = [gateway.key for gateway in gateways]
        return self.up(Worker(self.folder / name, self.servers, keys, *options, **self.at(network, fields)), network)

    def at(self, network: Network | None, fields: dict) -> dict:
        servers = {"servers": [f"nats://{network.address}:{port}" for port in self.servers]} if network else {}
        return {**servers, **fields}

    def up(self, one, network: Network | None):
        one.network = network
        return self.add(one).up()

    def login(self, name: str) -> Login:
        home = Process(self.folder / f"login-{name}", [])
        return Login(home.run("cluster", "key").strip(), str(home.folder / "keys" / "cluster"))

    def status(self, of: Process | None = None) -> dict:
        homes = (one for one in self.all if isinstance(one, (Gateway, Worker)) and one.network is None)
        home = of or next(one for one in homes if one.process.poll() is None)
        return json.loads(home.run("cluster", "status", "--json"))

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
        for network in self.networks:
            network.remove()
