"""Plain functions in Python and JavaScript, made into components by componentize-py and componentize-qjs alone."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TOOLCELL = os.environ["TOOLCELL"]
SOURCES = Path(__file__).parent / "wit"
SPIN = "{}"


def run(*arguments: str, code: int = 0, **options: Any) -> str:
    ran = subprocess.run(arguments, capture_output=True, text=True, timeout=600, **options)
    assert ran.returncode == code, ran
    return ran.stdout


def call(tool: str, arguments: Any, *options: str, code: int = 0) -> Any:
    return json.loads(run(TOOLCELL, "call", tool, json.dumps(arguments), "--json", "--no-config", *options, code=code))


def python(folder: Path) -> Path:
    program = Path(sys.executable).parent / "componentize-py"
    wit = ["--wit-path", str(SOURCES / "world.wit"), "--world", "tables"]
    made = folder / "python.wasm"
    run(str(program), *wit, "componentize", "app", "--python-path", str(SOURCES), "--output", str(made), cwd=folder)
    return made


def javascript(folder: Path) -> Path:
    program = Path(os.environ["JAVASCRIPT"]) / "componentize-qjs" / "cli.mjs"
    wit = ["--wit", str(SOURCES / "world.wit"), "--world", "tables"]
    made = folder / "javascript.wasm"
    run("node", str(program), *wit, "--js", str(SOURCES / "app.js"), "--sync", "--output", str(made), cwd=folder)
    return made


def canceled(component: Path) -> None:
    """A call that never ends is interrupted, and its result is there."""
    command = [TOOLCELL, "call", f"{component}#spin", SPIN, "--json", "--no-config", "--timeout=5m", "--fuel=1000000000000000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        time.sleep(2)
        assert running.poll() is None, running.communicate()
        running.send_signal(signal.SIGINT)
        written, _ = running.communicate(timeout=60)
    assert json.loads(written)["error"]["error_class"] == "canceled", written


def limited(component: Path) -> None:
    described = json.loads(run(TOOLCELL, "describe", str(component), "--json"))
    names = [declaration["name"] for declaration in described["declarations"]]
    assert names == ["add", "lines", "spin"], names
    assert call(f"{component}#add", {"a": 40, "b": 2})["structured_content"] == 42
    starved = call(f"{component}#spin", {}, "--fuel=100000000", code=4)
    assert starved["error"]["error_code"] == "fuel_exhausted", starved
    late = call(f"{component}#spin", {}, "--timeout=1s", code=4)
    assert late["error"]["error_code"] == "deadline_exceeded", late
    canceled(component)


def granted(component: Path, folder: Path) -> None:
    """A component does not say which arguments are paths: a profile does."""
    (folder / "profile.json").write_text(json.dumps({"tools": {"lines": {"read_only": True, "paths": ["path"]}}}))
    wrapped = folder / "wrapped.wasm"
    run(TOOLCELL, "wrap", str(component), f"--profile={folder / 'profile.json'}", "-o", str(wrapped))
    text = folder / "text"
    text.write_text("a\nb\n")
    refused = call(f"{wrapped}#lines", {"path": str(text)}, code=3)
    assert refused["error"]["error_class"] == "permission_denied", refused
    read = call(f"{wrapped}#lines", {"path": str(text)}, f"--allow-read={folder}")
    assert read["structured_content"] == 2, read


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        in_python, in_javascript = python(folder), javascript(folder)
        limited(in_python)
        granted(in_python, folder)
        limited(in_javascript)
    print("foreign components: 2 ran")


main()
