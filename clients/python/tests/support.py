"""The real program, and the example tools."""

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
SOURCE = Path(__file__).parents[1] / "src"
if str(SOURCE) not in sys.path:
    sys.path.insert(0, str(SOURCE))


def example(name: str) -> str:
    """The component of an example tool, which is built if there is none."""
    component = REPOSITORY / "example-tools" / name / "target" / "toolcell" / f"{name}.wasm"
    if not component.exists():
        subprocess.run([os.environ["TOOLCELL"], "build", str(component.parents[2])], check=True, capture_output=True)
    return str(component)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process that has ended, and that nobody has waited for.
    return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
