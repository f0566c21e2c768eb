"""A code interpreter: runs a snippet of Python, and returns what it printed, its last value, and the files that it made."""

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from toolcell import Output, ToolError, context, tool

import library
import made
import snippet

#: Maximum length of a snippet, in characters.
CODE_MAX = 100_000

_TEXT = {"type": "string"}
OUTPUT = {
    "type": "object",
    "properties": {
        "stdout": {**_TEXT, "description": "What the snippet printed."},
        "stderr": {**_TEXT, "description": "What it printed on standard error."},
        "value": {
            "type": "object",
            "description": "The value of the last line, if that is an expression and its value is not None.",
            "properties": {
                "type": _TEXT,
                "repr": _TEXT,
                "json": {"description": "The value as JSON, if it has one that is not too large."},
            },
            "required": ["type", "repr"],
            "additionalProperties": False,
        },
        "files": {
            "type": "array",
            "description": "The files that the snippet made in its working directory, each with its artifact.",
            "items": {
                "type": "object",
                "properties": {"path": _TEXT, "bytes": {"type": "integer"}, "reference": _TEXT},
                "required": ["path", "bytes", "reference"],
                "additionalProperties": False,
            },
        },
        "error": {
            "type": "object",
            "description": "The exception that ended the snippet, with the lines of the snippet that led to it.",
            "properties": {"type": _TEXT, "message": _TEXT, "traceback": _TEXT},
            "required": ["type", "message", "traceback"],
            "additionalProperties": False,
        },
        "notes": {"type": "array", "items": _TEXT, "description": "What was cut or left out."},
    },
    "required": ["stdout", "stderr", "files"],
    "additionalProperties": False,
}


@tool(
    access=["file_write"],
    write_effects=["local_draft"],
    output=OUTPUT,
    # A call has a folder of its own, and changes nothing else.
    concurrency_safe=True,
    destructive=False,
    title="Python",
    tool_kind="code_execution",
    search_hint="run Python code interpreter compute analyse data",
    content_types=["text", "artifact_ref"],
    examples=[{"code": "sum(n * n for n in range(10))"}],
)
def run(code: str, inputs: dict[str, Any] = {}, files: list[Path] = []) -> Output:
    """Runs Python 3 code and returns its output, the value of the last line if it is an expression, and the files it created.

    Each call starts fresh: variables and files from earlier calls do not exist. The working directory is empty, and
    files written there are returned. Read granted files by full path. Only the standard library is available: no other
    packages, no network, no subprocesses.

    Args:
        code: The snippet. If its last line is an expression, the answer has its value.
        inputs: Variables of the snippet, by name.
        files: Files or folders that the snippet reads, also in its variable `files`. The call gets no other ones; without
            any, it gets all folders that were granted.
    """
    if len(code) > CODE_MAX:
        message = f"the snippet has {len(code)} characters: it may have {CODE_MAX}"
        raise ToolError(message, code="code_too_long", kind="invalid_arguments")
    for name in inputs:
        if not name.isidentifier() or snippet.is_keyword(name):
            raise ToolError(f"inputs: {name!r} cannot name a variable", code="name_invalid", kind="invalid_arguments")
    folder = context().scratch or Path(tempfile.mkdtemp())
    before = os.getcwd()
    os.chdir(folder)
    try:
        ran = snippet.run(code, {"files": list(files), **inputs})
        kept, notes = made.keep(folder)
    finally:
        # In a sandbox without folders there is none to return to.
        with contextlib.suppress(OSError):
            os.chdir(before)
    ran.notes += notes
    return _output(ran, kept)


def _output(ran, kept):
    words, structured = ran.told([f"made {file.path} ({file.size} bytes)" for file in kept])
    structured["files"] = [file.entry() for file in kept]
    missing = None if ran.error is None else ToolError(ran.summary, code=ran.code, kind=ran.kind)
    return Output(words, *(file.block for file in kept), structured=structured, missing=missing)


if sys.platform == "wasi":
    # The standard library is not there during a call: what is to be importable is imported while the component is built.
    library.load()
    snippet.warm()
