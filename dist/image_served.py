"""Runs a server in the root of the image, as the compose file does: as its user, on a root that nobody can write, with a volume."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

TOKEN = "token-of-the-volume-0123456789"
LONG = {"tool": "jq", "input": {"filter": "last(range(30000000))", "input": None}}
# `$0` is the root, `$1` the volume, `$2` the user.
INSIDE = """
mount --bind "$0" "$0" && mount --bind "$1" "$0/var/lib/toolcell" && mount -t proc proc "$0/proc" && mount -t tmpfs tmpfs "$0/tmp" &&
chmod 1777 "$0/tmp" && mount -o remount,bind,ro "$0" && exec chroot --userspec="$2" "$0" "${@:3}"
"""


class Served:
    def __init__(self, root: Path, volume: Path, config: dict):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        options = ["serve", "--toolbox", f"--listen={self.address}", "--token-file=/var/lib/toolcell/tokens", "--drain=60s"]
        program = [*config["Entrypoint"], *options]
        environment = dict(word.split("=", 1) for word in config["Env"]) | {"PATH": os.environ["PATH"]}
        command = ["unshare", "--kill-child", "--mount", "--pid", "--fork", "bash", "-c", INSIDE, root, volume, config["User"], *program]
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while self.asks("GET", "/readyz")[0] != 200:
            assert self.process.poll() is None and time.monotonic() < end, "the image does not serve"
            time.sleep(0.1)

    def asks(self, method: str, path: str, body: bytes | dict | None = None) -> tuple[int, bytes]:
        sent = json.dumps(body).encode() if isinstance(body, dict) else body
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{self.address}{path}", sent, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read()
        except urllib.error.URLError:
            return 0, b""

    def end(self) -> None:
        """The server is the first process of its namespace, to which the kernel sends no signal that it does not handle."""
        (child,) = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGTERM)


def check(root: Path, config: dict) -> None:
    volume = root.parent / "volume"
    volume.mkdir(mode=0o700)
    (volume / "tokens").write_text(f"anna {TOKEN}\n")
    (volume / "toolcell.toml").write_text('[workspace]\nper = "principal"\n')
    for path in (volume, *volume.iterdir()):
        path.chmod(0o700 if path.is_dir() else 0o400)
        shutil.chown(path, *map(int, config["User"].split(":")))
    served = Served(root, volume, config)
    said: list[tuple[int, bytes]] = []
    slow = threading.Thread(target=lambda: said.append(served.asks("POST", "/v1/calls", LONG)), daemon=True)
    try:
        status, body = served.asks("POST", "/v1/calls", {"tool": "jq", "input": {"filter": ".+1", "input": 1}})
        assert status == 200, body
        call = json.loads(body)["invocation_id"]
        assert served.asks("PUT", "/v1/workspaces/default/files/a.txt", b"kept")[0] in (200, 201)
        slow.start()
        time.sleep(0.7)
        served.end()
        time.sleep(0.2)
        assert not said, "the call was too short to be drained"
        assert served.asks("GET", "/readyz")[0] == 503, "it does not tell that it ends"
        slow.join()
        assert said[0][0] == 200 and b"29999999" in said[0][1], said
        assert served.process.wait(30) == 0
        served = Served(root, volume, config)
        status, body = served.asks("GET", f"/v1/calls/{call}")
        assert status == 200 and json.loads(body)["result"]["status"] == "succeeded", (status, body)
        assert served.asks("GET", "/v1/workspaces/default/files/a.txt") == (200, b"kept")
        served.end()
        assert served.process.wait(30) == 0
    finally:
        served.process.kill()
    print("image: it serves as its user, drains on SIGTERM, and keeps calls and workspaces on its volume", flush=True)
