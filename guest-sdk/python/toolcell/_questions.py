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
    return ask_all((key, message, answer))[0]


def ask_all(*questions):
    """Asks several questions at once, each a tuple of what `ask` takes. Returns the answers in their order."""
    global _remembered
    questions = [question if len(question) > 2 else (*question, str) for question in questions]
    answers = json.loads(_host.current().responses())
    asked = [(key, message, json.dumps(_form(answer)[0])) for key, message, answer in questions if key not in answers]
    if asked:
        state, _remembered = _remembered, b""
        _host.current().ask(asked, state)
        raise AssertionError("a question was asked, and the call went on")
    return [_answered(answer, answers[key]) for key, _, answer in questions]


def _form(answer):
    """Returns the schema of a form, and whether the answer is the one field of it."""
    form = _schema.schema(answer)
    is_plain = form.get("type") != "object"
    if is_plain:
        form = {"type": "object", "properties": {"answer": form}, "required": ["answer"]}
    form.pop("additionalProperties", None)
    return form, is_plain


def _answered(answer, found):
    is_plain = _form(answer)[1]
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
