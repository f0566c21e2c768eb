"""Asks the caller's user something in the middle of a call.

A question stops the tool. After the user has answered, the function is called again from its beginning with the same input, and
`ask` returns the answer at once: so ask before you change anything, or `remember` what was done.
"""

import json

from . import _host, _schema
from ._errors import NotAnswered, ToolError

_remembered = b""


def ask(key, message, answer=str):
    """Asks for an `answer`: a flat dataclass of strings, numbers, booleans and choices, or one of these types alone.

    `key` identifies the question within the call. Raises `NotAnswered` if the user declines or closes the question.
    """
    global _remembered
    form = _schema.schema(answer)
    is_plain = form.get("type") != "object"
    if is_plain:
        form = {"type": "object", "properties": {"answer": form}, "required": ["answer"]}
    form.pop("additionalProperties", None)
    answers = json.loads(_host.current().responses())
    if key not in answers:
        state, _remembered = _remembered, b""
        _host.current().ask(key, message, json.dumps(form), state)
        raise AssertionError("a question was asked, and the call went on")
    found = answers[key]
    if found["action"] != "accept":
        declined = found["action"] == "decline"
        raise NotAnswered("the user did not want to answer" if declined else "the user closed the question")
    try:
        return _schema.decode(answer, found["content"]["answer"] if is_plain else found["content"])
    except (_schema.Unusable, KeyError) as error:
        raise ToolError(
            f"the answer cannot be used: {error}", code="unusable_answer", kind="invalid_arguments"
        ) from None


def remember(state):
    """Keeps bytes (at most 64 KiB) for the next run of the function, if the tool asks a question after this call."""
    global _remembered
    _remembered = bytes(state)


def remembered():
    """Returns what the previous run remembered when it asked; empty in the first run."""
    return _host.current().resume_state()
