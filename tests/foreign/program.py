"""The program under test, and what every foreign component must show in it."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

TOOLCELL = os.environ["TOOLCELL"]


def run(*arguments: str, code: int = 0, **options: Any) -> str:
    ran = subprocess.run(arguments, capture_output=True, text=True, timeout=600, **options)
    assert ran.returncode == code, (ran.returncode, ran.args, ran.stdout[:3000], ran.stderr[:3000])
    return ran.stdout


def toolcell(*arguments: str, code: int = 0) -> str:
    return run(TOOLCELL, *arguments, code=code)


def call(tool: str, arguments: Any, *options: str, code: int = 0) -> Any:
    return json.loads(toolcell("call", tool, json.dumps(arguments), "--json", "--no-config", *options, code=code))


def canceled(tool: str, arguments: Any) -> None:
    """A call that would go on for minutes is interrupted, and its result is there."""
    options = ["--json", "--no-config", "--timeout=5m", "--fuel=1000000000000000"]
    command = [TOOLCELL, "call", tool, json.dumps(arguments), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        time.sleep(2)
        assert running.poll() is None, running.communicate()
        running.send_signal(signal.SIGINT)
        written, _ = running.communicate(timeout=60)
    assert json.loads(written)["error"]["error_class"] == "canceled", written


def granted(tool: str, file: Path, result: Any) -> None:
    """A call without its grant is refused, and with it reads the file."""
    refused = call(tool, {"path": str(file)}, code=3)
    assert refused["error"]["error_class"] == "permission_denied", refused
    read = call(tool, {"path": str(file)}, f"--allow-read={file.parent}")
    assert read["structured_content"] == result, read
