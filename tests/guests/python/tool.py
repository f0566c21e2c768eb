import logging
import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from toolcell import (
    Output, ToolError, WritablePath, artifact, ask, check, checkpoint, configuration, configured, modify_context, progress, tool,
)

logger = logging.getLogger(__name__)


@configuration
@dataclass
class Settings:
    unit: str = "lines"


@dataclass
class Lines:
    """What was counted."""

    lines: int
    unit: str


@tool
def scan(path: Path) -> Lines:
    """Counts the lines of a file.

    Args:
        path: The file.
    """
    lines = path.read_text().splitlines()
    logger.info("read %s", path.name, extra={"lines": len(lines)})
    for n, line in enumerate(lines, 1):
        checkpoint()
        progress(line, 100 * n / len(lines))
    return Lines(len(lines), configured(Settings).unit)


@tool
def fail(how: Literal["bug", "own", "exit", "deep", "bytes", "text"]) -> str:
    """Fails."""
    match how:
        case "bug":
            return {}["missing"]
        case "own":
            raise ToolError("there is none", code="not_found", kind="invalid_arguments")
        case "deep":
            return fail(how)
        case "bytes":
            raise ToolError(b"a\xe4o".decode(errors="surrogateescape"), code="broken", detail={"a": 1}, retry_after=-1)
        case "text":
            return b"a\xe4o".decode(errors="surrogateescape")
    raise SystemExit(3)


@tool
def write(path: WritablePath, words: list[str]) -> None:
    """Writes words."""
    path.write_text("\n".join(words))


@check(write)
def words_are_words(path, words):
    if "" in words:
        raise ValueError("a word is empty")


@tool
def luck() -> list[str]:
    """Says random numbers."""
    return [str(random.random()), os.urandom(8).hex()]


@tool
def greet() -> str:
    """Asks for a name."""
    return f"Hello, {ask('who', 'Who are you?')}!"


@tool
def report(rows: int) -> Output:
    """Makes a table."""
    with artifact("report.csv", "text/csv") as file:
        for n in range(rows):
            file.write(f"{n},{n * n}\n")
    modify_context("rows", rows)
    return Output("done", file.block, missing=ToolError("half of it", code="half") if rows == 1 else None)
