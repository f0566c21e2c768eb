"""Functions become tools, and tools the short form of a toolkit."""

import dataclasses
import inspect

from . import _schema
from ._errors import ToolError
from ._output import Output

#: Every tool of the module that is built, in the order of their definition.
TOOLS = {}

_CLAIMS = ("read_only", "concurrency_safe", "destructive", "open_world")


class Declared:
    """A function, and what it declares."""

    def __init__(self, function, options):
        self.function = function
        self.check = None
        self.preflight = None
        self.classify = None
        self.name = options.pop("name", None) or function.__name__
        signature, hints = inspect.signature(function), _schema.hints(function)
        self.parameters = []
        for name, parameter in signature.parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise TypeError(f"{self.name}: the parameter {name} has no name that a caller could use")
            if name not in hints:
                raise TypeError(f"{self.name}: the parameter {name} has no type: write one, such as {name}: str")
            self.parameters.append((name, hints[name], parameter.default))
        self.entry = self._entry(hints.get("return", type(None)), options)

    def _entry(self, returned, options):
        text, texts = _schema.docs_of_parameters(self.function.__doc__)
        if not text:
            raise TypeError(f"{self.name}: the function has no docstring, which tells a model what the tool does")
        found = {"name": self.name, "description": text}
        found["input"] = _schema.schema_of_arguments(self.parameters, texts)
        if inspect.iscoroutinefunction(self.function):
            raise TypeError(f"{self.name}: an async function cannot be a tool: call asyncio.run in a plain one")
        if returned is str:
            found["content_types"] = ["text"]
        elif returned not in (type(None), None, Output, inspect.Parameter.empty):
            output = _schema.schema(returned)
            found.update({"output": output} if output else {})
        self._permissions(found, options)
        for claim in _CLAIMS:
            if claim in options:
                found[f"is_{claim}"] = options.pop(claim)
        return {**found, **options}

    def _permissions(self, found, options):
        marks = {}
        for name, hint, _ in self.parameters:
            marks.update(_schema.marked(hint, f"/{name}"))
        access = list(options.pop("access", ()))
        hosts, secrets = options.pop("hosts", None), options.pop("secrets", None)
        paths = [place for place, mark in marks.items() if mark != "url"]
        urls = [place for place, mark in marks.items() if mark == "url"]
        if paths:
            found["paths"] = paths
            access.append("file_read")
        if "write" in marks.values():
            access.append("file_write")
        if urls:
            found["urls"] = urls
        if hosts:
            words = [hosts] if isinstance(hosts, str) else [*hosts]
            found["network_scope"] = ", ".join(words + (["argument"] if urls else []))
        if secrets:
            found["credential_refs"] = list(secrets)
        if urls or hosts:
            access.append("network")
        if access:
            found["access"] = list(dict.fromkeys(access))

    def run(self, arguments):
        return self.function(**self.values(arguments))

    def facts(self, arguments):
        """Returns what the tool says of a call."""
        return Facts() if self.classify is None else self.classify(**self.values(arguments))

    def values(self, arguments):
        try:
            return _schema.decode_arguments(self.parameters, arguments)
        except _schema.Unusable as error:
            raise ToolError(str(error), code="unusable_argument", kind="invalid_arguments") from None


def tool(function=None, **options):
    """Makes a function a tool. Its docstring is the description; `Args:` or `:param x:` describe the parameters.

    Options: `name`; `read_only`, `concurrency_safe`, `destructive` and `open_world`, claims about what the tool does;
    `hosts`, what it reaches besides its `Url` parameters; `secrets`, the names of those that its requests carry; and any
    other field of a tool that `toolcell schema show toolkit-short` has, such as `title`, `timeout_ms` or `environment`.
    """
    if function is None:
        return lambda function: tool(function, **options)
    declared = Declared(function, dict(options))
    if declared.name in TOOLS and TOOLS[declared.name].function.__qualname__ != function.__qualname__:
        raise TypeError(f"there are two tools named {declared.name}: give one another name=")
    TOOLS[declared.name] = declared
    # The function stays a plain function, so that a test calls it as it is.
    return function


def declared(function):
    """Returns the tool of a function, or of a name."""
    for found in TOOLS.values():
        if found.function is function or found.name == function:
            return found
    raise LookupError(f"{function!r} is no tool: decorate the function with @tool")


def check(function):
    """Makes a function check arguments of the tool `function`, before the call is decided on. It takes the same parameters,
    has no files and no network, and raises a `ToolError` or a `ValueError`.
    """

    def register(checking):
        declared(function).check = checking
        return checking

    return register


def preflight(function):
    """Makes a function say whether a call of the tool `function` could start: it raises what is missing. See `check`."""

    def register(checking):
        declared(function).preflight = checking
        return checking

    return register


@dataclasses.dataclass(frozen=True)
class Facts:
    """What one call would do; `None` is unstated. It may only narrow what the tool declares."""

    read_only: bool | None = None
    concurrency_safe: bool | None = None
    destructive: bool | None = None
    open_world: bool | None = None


def classify(function):
    """Makes a function say what a call of the tool `function` would do. It takes the same parameters, and returns `Facts`."""

    def register(classifying):
        declared(function).classify = classifying
        return classifying

    return register


def toolkit(namespace):
    """Returns the short form of a toolkit with all tools."""
    if not TOOLS:
        raise LookupError("the module defines no tool: decorate a function with @tool")
    return {"namespace": namespace, "tools": [found.entry for found in TOOLS.values()]}
