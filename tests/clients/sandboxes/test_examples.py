"""The examples of the package, as a user runs them."""

import os
import subprocess
import sys

import pytest
from support import REPOSITORY, SHELL

_PRINTED = {
    "deepagents_sandbox.py": (
        "7\n\n[Command succeeded with exit code 0]\n"
        "cat: /etc/shadow: No such file or directory\n\n[Command failed with exit code 1]\n"
        "The sum is 7.\nb'7\\n'\n"
    ),
    "openai_sandbox.py": "The sum is 7.\nb'7\\n'\n",
}


@pytest.mark.parametrize("name", _PRINTED)
def test_an_example_prints_its_answer(name: str) -> None:
    environment = {**os.environ, "TOOLCELL_SHELL": str(SHELL)}
    command = [sys.executable, str(REPOSITORY / "clients/python/examples" / name)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert (ran.stdout, ran.returncode) == (_PRINTED[name], 0), ran.stderr
