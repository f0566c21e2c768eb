"""A thousand connections with a call each, of ten principals, behind nginx: of one of them while nine are idle, and of all, in turns.

Every request is answered: with 200, or beyond the limits with 429 or 503 and a `Retry-After`, which the clients heed. All of them
together get within ten percent of what one alone does, and none of them starves.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

from served import Client, Server, expect, principals, token

NAMES = [f"p{number}" for number in range(10)]
CONNECTIONS = 1_000
TURNS = 6
LEAST = 0.9
NGINX = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.log notice; worker_processes 1; worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; keepalive_requests 1000000;
  upstream toolcell {{ server 127.0.0.1:{port}; keepalive 64; }}
  server {{
    listen 127.0.0.1:{outer} backlog=4096;
    location / {{ proxy_pass http://toolcell; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
                  proxy_next_upstream off; proxy_read_timeout 120s; }}
  }}
}}
"""


class Crowd:
    def __init__(self, port: int):
        self.port = port
        self.until = 0.0
        self.statuses: Counter = Counter()
        self.served: Counter = Counter()

    async def client(self, client: Client, name: str) -> None:
        client.bearer = token(name)
        while time.monotonic() < self.until:
            reply = await client.call("hello", {"name": name})
            self.statuses[reply.status] += 1
            if reply.status == 200:
                self.served[name] += 1
                continue
            assert reply.status in (429, 503) and reply.headers.get("retry-after", "").isdigit(), reply
            # Not all at once.
            await asyncio.sleep(int(reply.headers["retry-after"]) * random.uniform(1, 2))

    async def turn(self, clients: list[Client], names: list[str], seconds: float) -> float:
        """Calls that succeed a second."""
        before, begun = self.served.total(), time.monotonic()
        self.until = begun + seconds
        async with asyncio.TaskGroup() as group:
            for number, client in enumerate(clients):
                group.create_task(self.client(client, names[number % len(names)]))
        return (self.served.total() - before) / (time.monotonic() - begun)

    async def run(self, minutes: float) -> None:
        clients = [Client(self.port, token("p0")) for _ in range(CONNECTIONS)]
        for client in clients:
            await client.open()
        seconds = minutes * 60 / TURNS / 2
        rates: dict[int, list[float]] = {1: [], len(NAMES): []}
        for _ in range(TURNS):
            for names in (NAMES[:1], NAMES):
                rates[len(names)].append(await self.turn(clients, names, seconds))
                if len(names) > 1:
                    least = min(self.served[name] for name in NAMES[1:])
                    most = max(self.served[name] for name in NAMES[1:])
        one, all_of_them = (sum(rates[number]) / TURNS for number in (1, len(NAMES)))
        again = sum(client.opened - 1 for client in clients)
        print(f"answers {dict(self.statuses)}; {again} connections opened again")
        print(f"calls a second: {one:.0f} of one, {all_of_them:.0f} of ten ({all_of_them / one:.2f}); the ten had {least} to {most}")
        assert all_of_them > LEAST * one, "ten principals get less than one"
        assert least > most / 2, "a principal starves"


def main(minutes: float) -> None:
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        outer = free_port()
        with Server(folder, principals(NAMES), f"--public-url=http://127.0.0.1:{outer}") as server:
            config = folder / "nginx.conf"
            config.write_text(NGINX.format(folder=folder, port=server.port, outer=outer))
            proxy = subprocess.Popen([nginx, "-c", config, "-e", folder / "nginx.log"])
            try:
                asyncio.run(arrives(outer))
                asyncio.run(Crowd(outer).run(minutes))
            finally:
                proxy.terminate()
                proxy.wait()
                print((folder / "nginx.log").read_text()[-200000:], end="")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


async def arrives(port: int) -> None:
    for _ in range(100):
        try:
            client = Client(port, token("p0"))
            expect(await client.request("GET /v1/tools"), 200)
            return client.close()
        except OSError:
            await asyncio.sleep(0.05)
    raise AssertionError("nginx does not listen")
