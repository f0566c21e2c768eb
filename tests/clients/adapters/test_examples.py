"""Each example prints what its comment says."""

import subprocess
import sys

import pytest
from conftest import REPOSITORY, component

EXAMPLES = sorted((REPOSITORY / "clients/python/examples").glob("*_agent.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example) -> None:  # type: ignore[no-untyped-def]
    ran = subprocess.run([sys.executable, example, component("jq")], capture_output=True, text=True, timeout=300)
    assert (ran.returncode, ran.stdout) == (0, "The sum is 7.\n"), ran.stderr


def test_each_adapter_has_one() -> None:
    names = {"langchain_agent", "openai_agent", "pydantic_ai_agent", "smolagents_agent"}
    assert names == {path.stem for path in EXAMPLES}
