"""A call: runs the snippet of the input, and prints the answer as JSON."""

import base64
import io
import json
import random
import sys
import tempfile

import _toolcell_snippet as snippet

#: Maximum size of the figures that an answer shows, in bytes. With base64 and the rest, an answer stays within its limit.
FIGURES_BYTES_MAX = 512 << 10


def main():
    given = json.load(sys.stdin)
    # The memory that the call began with is that of every call.
    random.seed()
    sys.modules["numpy"].random.seed()
    tempfile.tempdir = None
    ran = snippet.run(given["code"], {"files": given.get("files", []), **given.get("inputs", {})})
    print(json.dumps(_answer(ran, _figures(ran.notes))))


def _answer(ran, figures):
    words, structured = ran.told()
    answer = {"content": [{"type": "text", "text": words}, *figures], "structured": structured}
    if ran.error is not None:
        answer["error"] = {"kind": ran.kind, "code": ran.code, "message": ran.summary}
    return answer


def _figures(notes):
    """Images of the figures that the snippet left open."""
    pyplot, shown, room = sys.modules["matplotlib.pyplot"], [], FIGURES_BYTES_MAX
    for number in pyplot.get_fignums():
        data = io.BytesIO()
        try:
            pyplot.figure(number).savefig(data, format="png")
        except Exception as error:
            notes.append(f"figure {number} cannot be drawn: {error}")
            continue
        if data.tell() > room:
            notes.append(f"figure {number} is not shown: it has {data.tell()} bytes; save it as a file")
            continue
        room -= data.tell()
        image = base64.b64encode(data.getvalue()).decode()
        shown.append({"type": "image", "data": image, "media_type": "image/png"})
    return shown
