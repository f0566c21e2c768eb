"""Commands of WASI preview 1: what they draw and print is in the results of calls."""

import json
import os
import struct
import tempfile
from pathlib import Path

from program import call, canceled, toolcell

PROGRAMS = Path(os.environ["PROGRAMS"])

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"><rect width="40" height="30" fill="red"/></svg>'
# Noise of so many octaves takes minutes to compute.
ENDLESS = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="400" height="300">'
    '<filter id="f"><feTurbulence baseFrequency="0.05" numOctaves="1000000"/></filter>'
    '<rect width="400" height="300" filter="url(#f)"/></svg>'
)


def program(name: str) -> Path:
    found = sorted(PROGRAMS.glob(f"lib/python*/site-packages/**/{name}*.wasm"))
    assert len(found) == 1, found
    return found[0]


def draws(module: str) -> None:
    """Renders an SVG to a PNG."""
    files = {"in.svg": SVG}
    record = call(module, {"args": ["in.svg", "out.png"], "files": files}, "--fuel=5000000000")
    (made,) = record["artifact_refs"]
    assert (made["name"], made["media_type"]) == ("out.png", "image/png"), made
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "out.png"
        toolcell("artifact", made["uri"], "--output", str(image))
        head = image.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n", head
    assert struct.unpack(">II", head[16:]) == (40, 30), head


def reads(module: str) -> None:
    """A file of this machine is there if its folder was granted, and only then."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder).resolve() / "in.svg"
        source.write_text(SVG)
        arguments = {"args": [str(source), "out.png"]}
        absent = call(module, arguments, code=1)
        assert absent["error"]["error_code"].startswith("exit_") and not absent["artifact_refs"], absent
        drawn = call(module, arguments, f"--allow-read={source.parent}")
        assert [made["name"] for made in drawn["artifact_refs"]] == ["out.png"], drawn


def resvg() -> None:
    module = str(program("resvg"))
    described = json.loads(toolcell("describe", module, "--json"))
    assert described["declarations"][0]["namespace"] == "command", described
    assert described["permission_profiles"][0]["write_effects"] == ["local_draft"], described
    draws(module)
    reads(module)
    endless = {"args": ["in.svg", "out.png"], "files": {"in.svg": ENDLESS}}
    starved = call(module, endless, "--fuel=1000000000", code=4)
    assert starved["error"]["error_code"] == "fuel_exhausted", starved
    canceled(module, endless)


resvg()
print("foreign commands: 1 program ran")
