"""Commands of WASI preview 1: what they draw and print is in the results of calls."""

import json
import os
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import Any

TOOLCELL = os.environ["TOOLCELL"]
PROGRAMS = Path(os.environ["PROGRAMS"])

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"><rect width="40" height="30" fill="red"/></svg>'


def toolcell(*arguments: str, code: int = 0) -> str:
    ran = subprocess.run([TOOLCELL, *arguments], capture_output=True, text=True, timeout=600)
    assert ran.returncode == code, ran
    return ran.stdout


def call(module: Path, arguments: Any, *options: str, code: int = 0) -> Any:
    return json.loads(toolcell("call", str(module), json.dumps(arguments), "--json", "--no-config", *options, code=code))


def program(name: str) -> Path:
    found = sorted(PROGRAMS.glob(f"lib/python*/site-packages/**/{name}*.wasm"))
    assert len(found) == 1, found
    return found[0]


def resvg() -> None:
    """Renders an SVG to a PNG, under a limit on fuel."""
    module = program("resvg")
    described = json.loads(toolcell("describe", str(module), "--json"))
    assert described["declarations"][0]["namespace"] == "command", described
    assert described["permission_profiles"][0]["write_effects"] == ["local_draft"], described

    files = {"in.svg": SVG}
    record = call(module, {"args": ["in.svg", "out.png"], "files": files}, "--fuel=5000000000")
    (made,) = record["artifact_refs"]
    assert (made["name"], made["media_type"]) == ("out.png", "image/png"), made
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "out.png"
        toolcell("artifact", "get", made["uri"], "--output", str(image))
        head = image.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n", head
    assert struct.unpack(">II", head[16:]) == (40, 30), head

    starved = call(module, {"args": ["in.svg", "out.png"], "files": files}, "--fuel=1000", code=4)
    assert starved["error"]["error_code"] == "fuel_exhausted", starved
    # A file of this machine that was not granted is not there.
    absent = call(module, {"args": ["/etc/hostname", "out.png"]}, code=1)
    assert absent["error"]["error_code"].startswith("exit_"), absent


resvg()
print("foreign commands: 1 program ran")
