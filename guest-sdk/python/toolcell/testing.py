"""Tests tools without a sandbox: a host that answers as a test says, and records what a tool did.

    with testing.host(canceled="timeout") as host:
        called = testing.call(scan, {"path": "a.txt"})
    assert called.error.kind == "canceled"
    assert host.progress[0].percent == 50
"""

import contextlib
import dataclasses
import json
import os
import typing

from . import _configuration, _context, _declare, _host, _output
from ._errors import ToolError, failure
from ._http import Response


@dataclasses.dataclass
class Progress:
    message: str | None = None
    percent: float | None = None
    step: str | None = None
    total_steps: int | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    lines: int | None = None


@dataclasses.dataclass
class Log:
    level: str
    message: str
    fields: dict


@dataclasses.dataclass
class Request:
    method: str
    url: str
    headers: dict
    body: bytes | None


@dataclasses.dataclass
class Called:
    """How a call ended: one of `error` alone, or `content` and `structured`, with an `error` if a part failed."""

    content: list = dataclasses.field(default_factory=list)
    structured: typing.Any = None
    summary: str | None = None
    error: ToolError | None = None
    #: The key and the message of the question that stopped the tool.
    question: tuple | None = None

    @property
    def text(self):
        return "\n".join(block["text"] for block in self.content if block.get("type") == "text")


class _Asked(BaseException):
    """Ends a tool that asked a question, as the host ends its instance."""


class _ArtifactOfTest:
    def __init__(self, host, name, media_type):
        self._host, self._name, self._data = host, name, bytearray()
        self._reference = f"artifact:{len(host.artifacts)}:{name}"
        self._media_type = media_type

    def write(self, chunk):
        self._data += chunk

    def finish(self):
        self._host.artifacts[self._name] = bytes(self._data)
        return self._reference


class Host:
    """A host of a test, and what the tool did there."""

    def __init__(self, *, answers=None, canceled=None, tools=None, fetch=None, settings=None, remembered=b""):
        self._answers, self._canceled, self._tools, self._fetch = answers or {}, canceled, tools or {}, fetch
        self.settings, self._remembered = settings, remembered
        self._progress, self._log, self.partial_results = [], [], []
        self.acknowledged, self.context, self.artifacts, self.calls, self.requests = False, {}, {}, [], []
        self.question, self.questions, self.state, self.waited = None, [], b"", 0

    @property
    def progress(self):
        """Takes an update; as a value, the list of updates."""
        return _Recorder(self._progress, Progress)

    @property
    def log(self):
        """Takes a line; as a value, the list of lines."""
        return _Recorder(self._log, lambda level, message, fields: Log(level, message, json.loads(fields or "{}")))

    def partial_result(self, content):
        self.partial_results.append(json.loads(content))
        return f"partial:{len(self.partial_results)}"

    def cancellation_requested(self):
        return self._canceled() if callable(self._canceled) else self._canceled

    def acknowledge(self):
        self.acknowledged = True

    def wait(self, seconds):
        self.waited += seconds

    def modify_context(self, key, value):
        self.context[key] = json.loads(value)

    def create_artifact(self, name, media_type):
        return _ArtifactOfTest(self, name, media_type)

    def responses(self):
        given = {}
        for key, answer in self._answers.items():
            if answer in (DECLINE, CANCEL):
                given[key] = {"action": answer.action}
            else:
                value = json.loads(_output.dumps(answer))
                given[key] = {"action": "accept", "content": value if isinstance(value, dict) else {"answer": value}}
        return json.dumps(given)

    def resume_state(self):
        return self._remembered

    def ask(self, questions, state):
        self.questions, self.state = [(key, message, json.loads(form)) for key, message, form in questions], state
        self.question = self.questions[0]
        key, message, _ = self.question
        raise _Asked(f"the tool asked {message!r}: answer it with testing.host(answers={{{key!r}: ..}})")

    def list_tools(self):
        return [(name, getattr(tool, "__doc__", None) or name) for name, tool in self._tools.items()]

    def call_tool(self, name, arguments):
        arguments = json.loads(arguments)
        self.calls.append((name, arguments))
        if name not in self._tools:
            raise ToolError(f"{name} cannot be called", code="tool_not_callable", kind="permission_denied")
        answer = self._tools[name](**arguments)
        case, found = _output.outcome(answer)
        content = _output.dumps([{"type": "text", "text": found}]) if case == "text" else "[]"
        return f"call-{len(self.calls)}", content, found if case == "json" else None, None

    def send(self, method, scheme, authority, target, headers, body):
        request = Request(method, f"{scheme}://{authority}{target}", headers, body)
        self.requests.append(request)
        if self._fetch is None:
            raise ToolError(f"no network in this test: answer {request.url} with testing.host(fetch=..)", code="denied")
        answer = self._fetch(request)
        return (answer.status, answer.headers, answer.body) if isinstance(answer, Response) else (200, {}, answer)


class _Recorder(list):
    """A list of what was recorded, which records when it is called."""

    def __init__(self, place, make):
        super().__init__(place)
        self._place, self._make = place, make

    def __call__(self, *parts):
        self._place.append(self._make(*parts))


class _Answer:
    def __init__(self, action):
        self.action = action


#: The user does not want to answer.
DECLINE = _Answer("decline")
#: The user closed the question.
CANCEL = _Answer("cancel")


@contextlib.contextmanager
def host(**options):
    """The host of the calls inside of it.

    `answers`: what the user answers, by the key of the question, or `DECLINE` or `CANCEL`. `canceled`: a reason, or a
    function that returns one or `None`. `tools`: functions by the names of the tools that can be called. `fetch`: a function that takes a
    `Request` and returns a `Response`, or bytes. `settings`: the operator's. `remembered`: what the previous run remembered.
    """
    made = Host(**options)
    before = _host.replace(made)
    try:
        if made.settings is not None:
            _configuration.configure(_output.dumps(made.settings))
        yield made
    finally:
        _configuration.reset()
        _host.replace(before)


def facts(function, arguments=None):
    """Returns what the tool says of a call."""
    return _declare.declared(function).facts(json.loads(json.dumps(arguments or {})))


def call(function, arguments=None, *, cwd=None, scratch=None, attempt=1):
    """Calls a tool as the host does: JSON arguments, and never an exception but an error."""
    declared = _declare.declared(function)
    arguments = json.loads(json.dumps(arguments or {}))
    missing = contextlib.nullcontext() if not isinstance(_host.current(), _host.NoHost) else host()
    before = os.getcwd()
    with missing:
        try:
            folders = {"cwd": cwd, "scratch": scratch}
            _context.enter("test", attempt, {name: str(place) for name, place in folders.items() if place is not None})
            if cwd is not None:
                os.chdir(cwd)
            for function in filter(None, (declared.check, declared.preflight)):
                function(**declared.values(arguments))
            case, found = _output.outcome(declared.run(arguments))
        except _Asked:
            return Called(question=_host.current().question[:2])
        except (Exception, SystemExit) as error:
            return Called(error=failure(error))
        finally:
            os.chdir(before)
            _context.enter("", 1, {})
    return _called(case, found)


def _called(case, found):
    if case == "text":
        return Called([{"type": "text", "text": found}])
    if case == "json":
        return Called(structured=json.loads(found))
    output, missing = found if case == "partial" else (found, None)
    structured = None if output["structured"] is None else json.loads(output["structured"])
    return Called(json.loads(output["content"]), structured, output["ui_summary"], missing)


def describe(namespace="test"):
    """Returns the short toolkit of all tools that were imported, as the host reads it."""
    return json.loads(json.dumps(_declare.toolkit(namespace)))
