"""A server whose control group has 512 MiB: 32 small calls run at once, and no mix of arguments and results gets it killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from served import Server, principals

BYTES = 512 << 20
SMALL, SMALL_MS = 32, 3_000
# Each call reserves what it may take, and by default that is most of this memory.
SMALL_LIMITS = ["--memory=2MiB", "--max-output=128KiB", "--memory-total=304MiB"]
AT_ONCE = 150
NAMES = ["anna", "bert", "cleo"]
GROUPS = Path("/sys/fs/cgroup")


class Group:
    """A control group of either version; only root can make one."""

    def __init__(self) -> None:
        self.unified = (GROUPS / "cgroup.controllers").exists()
        self.folder = GROUPS / ("" if self.unified else "memory") / f"toolcell-load-{os.getpid()}"
        if self.unified:
            (GROUPS / "cgroup.subtree_control").write_text("+memory")
        self.folder.mkdir()
        (self.folder / ("memory.max" if self.unified else "memory.limit_in_bytes")).write_text(str(BYTES))
        swap = self.folder / ("memory.swap.max" if self.unified else "memory.memsw.limit_in_bytes")
        with contextlib.suppress(FileNotFoundError):
            swap.write_text("0" if self.unified else str(BYTES))

    def enter(self) -> None:
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def kills(self) -> int:
        lines = (self.folder / ("memory.events" if self.unified else "memory.oom_control")).read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def peak(self) -> int:
        """MiB, with the pages of files that the kernel would give back."""
        name = "memory.peak" if self.unified else "memory.max_usage_in_bytes"
        return int((self.folder / name).read_text()) >> 20


@contextlib.contextmanager
def small_group() -> Iterator[Group]:
    group = Group()
    try:
        yield group
    finally:
        group.folder.rmdir()


async def small_calls(server: Server) -> None:
    async def once(number: int) -> int:
        client = server.client(NAMES[number % len(NAMES)])
        reply = await client.call("busy", {"ms": SMALL_MS})
        client.close()
        return reply.status

    begun = time.monotonic()
    statuses = await asyncio.gather(*(once(number) for number in range(SMALL)))
    took = time.monotonic() - begun
    print(f"{SMALL} calls of {SMALL_MS} ms at once: {took:.1f} s, {dict(Counter(statuses))}")
    assert set(statuses) == {200}, statuses
    assert took < 1.8 * SMALL_MS / 1e3, "some had to wait for the others"


BIG = "x" * ((4 << 20) - 4_096)
NESTED = [[{"a": number, "b": [None] * 8}] for number in range(40_000)]
MIX = {
    "arguments of 4 MB": ("hello", {"nme": BIG}),
    "arguments of 4 MB, and as much back": ("hello", {"name": BIG}),
    "deep arguments": ("hello", {"name": "x", "rest": NESTED}),
    "escapes": ("hello", {"name": "\u0001" * 600_000}),
    "files": ("files.write", {"path": "a.txt", "text": BIG}),
}


async def storm(server: Server, kinds: list[str], mcp: bool) -> Counter:
    async def once(number: int) -> object:
        tool, arguments = MIX[kinds[number % len(kinds)]]
        client = server.client(NAMES[number % len(NAMES)])
        try:
            if mcp:
                name = tool.replace(".", "_") if "." in tool else f"peer_{tool}"
                reply = await client.mcp("tools/call", {"name": name, "arguments": arguments})
            else:
                reply = await client.call(tool, arguments)
            return reply.status
        except (OSError, EOFError, TimeoutError) as error:
            return type(error).__name__
        finally:
            client.close()

    return Counter(await asyncio.gather(*(once(number) for number in range(AT_ONCE))))


async def storms(server: Server, group: Group) -> None:
    for kinds in [*([kind] for kind in MIX), list(MIX)]:
        for mcp in (False, True):
            begun = time.monotonic()
            statuses = await storm(server, kinds, mcp)
            killed = f"the server was killed ({group.kills()}) at {group.peak()} MiB: {dict(statuses)}"
            assert server.process.poll() is None and not group.kills(), killed
            name = kinds[0] if len(kinds) == 1 else "all of them"
            print(f"{AT_ONCE} with {name}, over {'MCP' if mcp else '/v1'}: {dict(statuses)} in {time.monotonic() - begun:.1f} s; "
                  f"memory {server.status('VmRSS') >> 10} MiB, peak of the group {group.peak()} MiB", flush=True)
            assert all(isinstance(status, int) for status in statuses), "a request without an answer"
            assert statuses.keys() <= {200, 413, 422, 429, 503}, statuses


def main() -> None:
    settings = '[workspace]\nper = "principal"\n' + principals(NAMES)
    for limits, act in ([], storms), (SMALL_LIMITS, lambda server, group: small_calls(server)), (SMALL_LIMITS, storms):
        print(f"512 MiB, {' '.join(limits) or 'limits as they are by default'}", flush=True)
        with small_group() as group, tempfile.TemporaryDirectory() as folder:
            with Server(Path(folder), settings, *limits, first=group.enter) as server:
                asyncio.run(act(server, group))
