"""What a tool returns if a plain value is not enough."""

import base64
import json
import re

from . import _schema
from ._errors import ToolError


_SURROGATES = re.compile("[\ud800-\udfff]")


def clean(words):
    """Returns a text that UTF-8 has, with U+FFFD for each lone surrogate: one of those would end the call as a crash.

    File names and bytes that were decoded with `surrogateescape` have them.
    """
    try:
        words.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", words)
    return words


def text(words):
    """A block of text for the model."""
    return {"type": "text", "text": words}


def image(media_type, data):
    """An image from its bytes; `media_type` such as `image/png`."""
    return _media("image", media_type, data)


def audio(media_type, data):
    """Sound from its bytes; `media_type` such as `audio/wav`."""
    return _media("audio", media_type, data)


def file(name, media_type, data):
    """A small file from its bytes. A large one is an `artifact`."""
    return {**_media("file", media_type, data), "name": name}


def link(uri, name):
    """A link to a resource that the caller can fetch."""
    return {"type": "resource_link", "uri": uri, "name": name}


def diff(path, words):
    """A unified diff of the file `path`."""
    return {"type": "diff", "path": str(path), "diff": words}


def _media(kind, media_type, data):
    return {"type": kind, "media_type": media_type, "data": base64.b64encode(data).decode("ascii")}


class Output:
    """Content blocks (a `str` is a block of text), a structured value, one line for a person, and the part that failed."""

    def __init__(self, *blocks, structured=None, summary=None, missing=None):
        self.blocks = [text(block) if isinstance(block, str) else block for block in blocks]
        self.structured = structured
        self.summary = summary
        if missing is not None and not isinstance(missing, ToolError):
            raise TypeError("missing is a ToolError that says what is missing, and why")
        self.missing = missing


def dumps(value):
    # Numbers that JSON does not have are an error here, where the traceback shows who made them.
    return clean(json.dumps(_schema.encode(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def outcome(value):
    """Returns the outcome of a returned value, as `(case, payload)`."""
    if isinstance(value, str):
        return "text", clean(value)
    if value is None:
        value = Output()
    if not isinstance(value, Output):
        return "json", dumps(value)
    structured = None if value.structured is None else dumps(value.structured)
    summary = None if value.summary is None else clean(value.summary)
    found = {"content": dumps(value.blocks), "structured": structured, "ui_summary": summary}
    return ("success", found) if value.missing is None else ("partial", (found, value.missing))
