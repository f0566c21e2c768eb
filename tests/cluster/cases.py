"""The cases, and what they share."""

from __future__ import annotations

import hashlib
from pathlib import Path

from machines import Machines, Process

# Those of LONG wait most of the time, and run while the others do.
CASES, LONG = [], []


def case(test):
    CASES.append(test)
    return test


def long_case(test):
    LONG.append(test)
    return test


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def write_grant(folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    return f"--allow-write={folder}"


TOKEN = "token-of-ada-0123456789"


def principal(name: str) -> str:
    """A `[[principal]]` with that token."""
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    return f'\n[[principal]]\nname = "{name}"\ntokens = ["sha256:{digest}"]\n'


def token_file(machines: Machines) -> str:
    """A caller that every gateway knows as the same one."""
    tokens = machines.folder / "tokens"
    tokens.write_text(f"ada {TOKEN}\n")
    tokens.chmod(0o600)
    return f"--token-file={tokens}"


def ended(machines: Machines, of: Process | None = None) -> bool:
    """Nothing waits or runs, and no message is left."""
    status = machines.status(of)
    return status["calls"] == [] and status["queued"] == 0


def started(machines: Machines, calls: int = 1) -> bool:
    stages = [call["stage"]["stage"] for call in machines.status()["calls"]]
    return stages == ["started"] * calls
