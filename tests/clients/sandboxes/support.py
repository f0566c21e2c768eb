"""What the tests of both frameworks need."""

from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[3]
TOOLS = REPOSITORY / "example-tools"
SHELL = TOOLS / "shell/target/toolcell/shell.wasm"
# The project's settings are not the tests'.
SETTINGS: dict[str, Any] = {"shell": SHELL, "config": False}


def ruled(folder: Path, rule: str) -> dict[str, Any]:
    """Settings with one rule."""
    config = folder / "toolcell.toml"
    config.write_text(f"[[rule]]\n{rule}\n")
    return {**SETTINGS, "config": config}


ASK = 'behavior = "ask"\ntool = "shell.*"'
