"""The component: the host's imports, and what the host calls. Only the build's entry imports this module."""

import contextlib
import gc
import importlib
import json
import linecache
import logging
import os
import random

from . import _configuration, _context, _declare, _host, _output
from ._errors import CLASSES, ToolError, failure
from ._http import unsent
from ._schema import Unusable

# Of the component model's runtime, not of PyPI.
from componentize_py_types import Err, Ok
from wit_world.exports import guest as wit
from wit_world.imports import types


def _import(name):
    """An import, if the sources use it."""
    try:
        return importlib.import_module(f"wit_world.imports.{name}")
    except ImportError:
        return None


_progress, _log, _cancellation = _import("progress"), _import("log"), _import("cancellation")
_interaction, _artifacts, _tools = _import("interaction"), _import("artifacts"), _import("tools")
_modifiers, _http = _import("context_modifiers"), _import("http_types")
_handler, _streams = _import("outgoing_handler"), _import("streams")
_signal, _clock, _poll = _import("cancellation_signal"), _import("monotonic_clock"), _import("poll")
_classification = None
try:
    from wit_world.exports import classification as _classification
except ImportError:
    pass


def _camel(word):
    return "".join(part.capitalize() for part in word.split("_"))


def _to_wit(error):
    kind = getattr(types, f"ErrorClass_{_camel(error.kind)}")() if error.kind in CLASSES else None
    after = None if error.retry_after is None else max(0, int(error.retry_after * 1000))
    kind = kind or types.ErrorClass_Other(error.kind)
    detail = None if error.detail is None else _output.clean(str(error.detail))
    return types.ToolError(kind, _output.clean(str(error.code)), _output.clean(error.message), detail, after)


def _from_wit(error):
    kind = getattr(error.class_, "value", None)
    if kind is None:
        name = type(error.class_).__name__.removeprefix("ErrorClass_")
        kind = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
    after = None if error.retry_after_ms is None else error.retry_after_ms / 1000
    return ToolError(error.message, code=error.code, kind=kind, detail=error.detail, retry_after=after)


def _checked(call):
    """Runs a function of the host, whose errors carry a sentence for the tool's author."""
    try:
        return call()
    except Err as error:
        kind = type(error.value).__name__.rsplit("_", 1)[-1].lower()
        raise ToolError(str(getattr(error.value, "value", error.value)), code=f"host_{kind}") from None


class _Artifact:
    def __init__(self, handle):
        self._handle = handle

    def write(self, chunk):
        _checked(lambda: self._handle.write(chunk))

    def finish(self):
        return _checked(lambda: _artifacts.Artifact.finish(self._handle))


class Host:
    """What `_host.current()` is in a component."""

    def progress(self, *update):
        _progress.report(_progress.Update(*(_output.clean(part) if isinstance(part, str) else part for part in update)))

    def partial_result(self, content):
        return _progress.partial_result(content)

    def log(self, level, message, fields):
        _log.log(_log.Level[level.upper()], _output.clean(message), fields and _output.clean(fields))

    def cancellation_requested(self):
        reason = _cancellation.requested()
        return None if reason is None else reason.name.lower()

    def acknowledge(self):
        _cancellation.acknowledge()

    def wait(self, seconds):
        with _signal.subscribe() as stop, _clock.subscribe_duration(int(seconds * 1e9)) as pause:
            _poll.poll([stop, pause])

    def modify_context(self, key, value):
        _checked(lambda: _modifiers.modify(key, value))

    def create_artifact(self, name, media_type):
        return _Artifact(_checked(lambda: _artifacts.create(_output.clean(name), media_type)))

    def responses(self):
        return _interaction.responses()

    def resume_state(self):
        return _interaction.resume_state()

    def ask(self, questions, state):
        _interaction.ask([_interaction.InputRequest(key, _output.clean(words), form) for key, words, form in questions], state)

    def list_tools(self):
        return [(found.name, found.description) for found in _tools.list()]

    def call_tool(self, name, arguments):
        try:
            answer = _tools.call(name, arguments)
        except Err as error:
            raise _from_wit(error.value) from None
        missing = None if answer.missing is None else _from_wit(answer.missing)
        return answer.invocation_id, answer.content, answer.structured, missing

    def send(self, method, scheme, authority, target, headers, body):
        try:
            return _send(method, scheme, authority, target, headers, body)
        except Err as error:
            name = type(error.value).__name__.removeprefix("ErrorCode_")
            more = getattr(error.value, "value", None)
            raise unsent(f"{scheme}://{authority}", name, f" ({more})" if more else "") from None


def _send(method, scheme, authority, target, headers, body):
    fields = _http.Fields.from_list([(name, str(value).encode("latin-1")) for name, value in headers.items()])
    request = _http.OutgoingRequest(fields)
    known = getattr(_http, f"Method_{method.capitalize()}", None)
    request.set_method(known() if known else _http.Method_Other(method))
    request.set_scheme(getattr(_http, f"Scheme_{scheme.capitalize()}", getattr(_http, f"Scheme_{scheme.upper()}", None))())
    request.set_authority(authority)
    request.set_path_with_query(target)
    outgoing = request.body()
    future = _handler.handle(request, None)
    # A server may answer before it has read everything, or not be there: the answer says which.
    with contextlib.suppress(Err):
        if body:
            with outgoing.write() as stream:
                # The host takes at most 4096 bytes at a time here.
                for start in range(0, len(body), 4096):
                    stream.blocking_write_and_flush(body[start:start + 4096])
        _http.OutgoingBody.finish(outgoing, None)
    with future.subscribe() as ready:
        ready.block()
    found = future.get()
    while isinstance(found, Ok):
        found = found.value
    if isinstance(found, Err):
        raise found
    with found.headers() as fields:
        received = {name.lower(): value.decode("latin-1") for name, value in fields.entries()}
    return found.status(), received, _body(found)


def _body(response):
    content = bytearray()
    with response.consume() as body, body.stream() as stream:
        while True:
            try:
                content += stream.blocking_read(1 << 16)
            except Err as error:
                if isinstance(error.value, _streams.StreamError_Closed):
                    return bytes(content)
                raise


class _ToHost(logging.Handler):
    """Leads the module `logging` to the host's log."""

    _own = set(vars(logging.makeLogRecord({}))) | {"message", "asctime"}

    def emit(self, record):
        level = "error" if record.levelno >= logging.ERROR else record.levelname.lower().replace("warning", "warn")
        level = level if level in ("debug", "info", "warn", "error") else "info"
        fields = {name: value for name, value in vars(record).items() if name not in self._own}
        try:
            fields = json.dumps(fields, default=repr, ensure_ascii=False) if fields else None
            _host.current().log(level, self.format(record), fields)
        except Exception:
            self.handleError(record)


def _outcome(value):
    case, payload = _output.outcome(value)
    if case == "text":
        return wit.Outcome_Text(payload)
    if case == "json":
        return wit.Outcome_Json(payload)
    if case == "success":
        return wit.Outcome_Success(wit.Output(**payload))
    output, missing = payload
    return wit.Outcome_Partial(wit.PartialOutput(wit.Output(**output), _to_wit(missing)))


def _run(found, call):
    """Runs a tool. No exception leaves it: one that did would stop the call as a crash, without its reason."""
    try:
        fields = json.loads(call.context)
        _context.enter(call.invocation_id, call.attempt, fields)
        if fields.get("cwd"):
            os.chdir(fields["cwd"])
        return _outcome(found.run(json.loads(call.input)))
    except (Exception, SystemExit) as error:
        return wit.Outcome_Failure(_to_wit(failure(error)))


def _check(tool, text, name):
    found = _declare.declared(tool)
    function = getattr(found, name)
    if function is None:
        return
    try:
        function(**found.values(json.loads(text)))
    except ToolError as error:
        raise Err(_to_wit(error)) from None
    except (Unusable, ValueError) as error:
        error = ToolError(str(error), code="unusable_value", kind="invalid_arguments")
        raise Err(_to_wit(error)) from None
    except Exception as error:
        raise Err(_to_wit(failure(error))) from None


def component(namespace):
    """Returns the classes that a component exports: `Guest`, `Validation`, `Configuration` and `Classification`."""
    described = json.dumps(_declare.toolkit(namespace), ensure_ascii=False)

    class Guest:
        def describe(self):
            return described

        def invoke(self, call):
            # The snapshot has the state of this generator from the build, the same for each call.
            random.seed()
            return _run(_declare.TOOLS[call.tool], call)

    class Validation:
        def validate_values(self, tool, input):
            _check(tool, input, "check")

        def preflight(self, tool, input):
            _check(tool, input, "preflight")

    class Classification:
        def classify(self, tool, input):
            facts = _declare.declared(tool).facts(json.loads(input))
            claims = (facts.read_only, facts.concurrency_safe, facts.destructive, facts.open_world)
            words = {None: "UNSTATED", False: "NO", True: "YES"}
            return _classification.Facts(*(_classification.Claim[words[claim]] for claim in claims))

    class Configuration:
        def configure(self, config):
            try:
                _configuration.configure(config)
            except ToolError as error:
                raise Err(_to_wit(error)) from None

    _host.replace(Host())
    if _log is not None:
        logging.basicConfig(handlers=[_ToHost()], level=logging.DEBUG, format="%(message)s")
    _warm(Guest, described)
    return Guest, Validation, Configuration, Classification


def _warm(guest, described):
    """Does once, while the component is built, what each call would do: the snapshot keeps what it made."""

    def count(text: str) -> str:
        """Warms."""
        return text

    def fail() -> dict:
        """Warms."""
        raise ValueError("warm")

    call = wit.Call("", "count", '{"text": "a"}', 1, "{}")
    assert guest().describe() is described
    assert isinstance(_run(_declare.Declared(count, {}), call), wit.Outcome_Text)
    assert isinstance(_run(_declare.Declared(fail, {}), wit.Call("", "fail", "{}", 1, "{}")), wit.Outcome_Failure)
    # The files of the sources are not there when the tool runs: tracebacks read their lines from the cache.
    linecache.checkcache = lambda filename=None: None
    _context.enter("", 1, {})
    gc.collect()
    gc.freeze()
