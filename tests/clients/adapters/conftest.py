"""Clients of the real program, with the example tools."""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from toolcell import Toolcell

REPOSITORY = Path(__file__).parents[3]
DOCS = REPOSITORY / "docs/dialects/frameworks.md"
LONG = {"ticks": 1000, "interval_ms": 1000}
WORDS = {"filter": "length", "input": [1, 2, 3]}

Make = Callable[..., Toolcell]


def component(name: str) -> str:
    return str(REPOSITORY / "example-tools" / name / "target/toolcell" / f"{name}.wasm")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Make]:
    """Makes a client of example tools. Without `config`, it reads none."""
    made: list[Toolcell] = []

    def make(*names: str, **options: Any) -> Toolcell:
        options = {"config": False, "record_to": tmp_path / "records", **options}
        made.append(Toolcell(*map(component, names), **options))
        return made[-1]

    yield make
    for cell in made:
        cell.close()


@pytest.fixture
def asking(client: Make, tmp_path: Path) -> Make:
    """The same, with a rule that asks before each call of jq."""
    config = tmp_path / "toolcell.toml"
    config.write_text('[[rule]]\nbehavior = "ask"\ntool = "jq.*"\n')
    return lambda **options: client("jq", config=config, **options)


@pytest.fixture
def statuses(tmp_path: Path) -> Callable[[int], list[str]]:
    """Waits for so many records, and returns how their calls ended."""

    def read(count: int) -> list[str]:
        until = time.monotonic() + 30
        while True:
            path = tmp_path / "records"
            lines = path.read_text().splitlines() if path.exists() else []
            if len(lines) >= count or time.monotonic() > until:
                return [json.loads(line)["invocation"]["status"] for line in lines]
            time.sleep(0.05)

    return read


def run_snippet(title: str, names: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Runs the first Python block below a title of the documentation."""
    section = DOCS.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found, title
    (folder / "jq.wasm").symlink_to(component("jq"))
    monkeypatch.chdir(folder)
    exec(compile(found[1], f"{DOCS.name}, {title}", "exec"), names)
    return names
