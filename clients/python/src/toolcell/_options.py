"""What a client says about its tools, as the command that starts the program."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Optional, Union

from ._errors import ToolcellError
from ._files import checked_name

PathLike = Union[str, "os.PathLike[str]"]

_LISTS = (
    "allow_read",
    "allow_write",
    "allow_env",
    "allow_net",
    "allow_secret",
    "allow_tool",
    "deny_read",
    "deny_write",
    "deny_net",
)
_VALUES = (
    "fuel",
    "memory",
    "max_output",
    "max_disk",
    "max_artifact_bytes",
    "memory_total",
    "mode",
    "tls_ca",
    "dns_server",
    "role",
    "max_listed",
    "record_to",
    "session",
)
_DURATIONS = ("timeout", "cpu", "approval_timeout")


@dataclass(frozen=True)
class Options:
    """Grants, limits and settings: the options of `toolcell mcp`, which its `--help` explains.

    Nothing is granted by default. A duration is a number of seconds, or a text such as `500ms`.
    """

    allow_read: Iterable[PathLike] = ()
    allow_write: Iterable[PathLike] = ()
    allow_env: Iterable[str] = ()
    allow_net: Iterable[str] = ()
    allow_secret: Iterable[str] = ()
    allow_tool: Iterable[str] = ()
    deny_read: Iterable[PathLike] = ()
    deny_write: Iterable[PathLike] = ()
    deny_net: Iterable[str] = ()
    timeout: Optional[Union[float, str]] = None
    """Wall time of a call."""
    fuel: Optional[int] = None
    cpu: Optional[Union[float, str]] = None
    """CPU time of a call, of a tool that is metered by it."""
    memory: Optional[Union[int, str]] = None
    max_output: Optional[Union[int, str]] = None
    max_disk: Optional[Union[int, str]] = None
    max_artifact_bytes: Optional[Union[int, str]] = None
    memory_total: Optional[Union[int, str]] = None
    mode: Optional[Literal["default", "non_interactive", "plan"]] = None
    approval_timeout: Optional[Union[float, str]] = None
    """How long a question about a call stays open."""
    tls_ca: Optional[PathLike] = None
    dns_server: Optional[str] = None
    config: Optional[Union[PathLike, Literal[False]]] = None
    """The `toolcell.toml` to read instead of the project's; False to read none."""
    role: Optional[str] = None
    max_listed: Optional[int] = None
    record_to: Optional[PathLike] = None
    session: Optional[str] = None
    workspace: Union[str, bool, None] = False
    """The files that tools keep between calls: the name of a workspace of the user, or True for a new one of this client.
    Tools have it as /workspace, where relative paths start."""
    workspace_rollback: bool = False
    """Restores the workspace if a call does not succeed."""
    folder: Optional[PathLike] = None
    """The folder in which the program starts, and which relative paths refer to."""
    environment: Optional[Mapping[str, str]] = None
    """Variables to set for the program, beside those of this process."""

    def __post_init__(self) -> None:
        # An iterator has its items once, and the program may be started twice: what is denied must not be lost.
        for name in _LISTS:
            object.__setattr__(self, name, tuple(_items(name, getattr(self, name))))

    def command(self, program: str, tools: Iterable[PathLike]) -> list[str]:
        """The command that starts the program. Raises ToolcellError for what it cannot say."""
        arguments = [program, "mcp"]
        for name in _LISTS:
            arguments += [f"{_option(name)}={_item(name, item)}" for item in getattr(self, name)]
        for name in _VALUES:
            value = getattr(self, name)
            if value is not None:
                arguments.append(f"{_option(name)}={_value(name, value)}")
        for name in _DURATIONS:
            value = getattr(self, name)
            if value is not None:
                arguments.append(f"{_option(name)}={_duration(name, value)}")
        if self.workspace is True:
            arguments.append("--workspace")
        elif self.workspace not in (None, False):
            arguments.append(f"--workspace={checked_name(self.workspace, 'workspace')}")
        if self.workspace_rollback:
            arguments.append("--workspace-rollback")
        if self.config is False:
            arguments.append("--no-config")
        elif self.config is not None:
            arguments.append(f"--config={_value('config', self.config)}")
        # A tool cannot be taken for an option.
        return [*arguments, "--", *(_value("tools", tool) for tool in tools)]

    def variables(self) -> dict[str, str]:
        """The environment of the program."""
        return variables(self.environment)


def of(options: Optional[Options], given: Mapping[str, Any]) -> Options:
    """The options, from an object or from keywords. A misspelt limit must not mean no limit."""
    if options is not None:
        if given:
            raise TypeError("give either options or keywords")
        return options
    unknown = sorted(set(given) - {field.name for field in fields(Options)})
    if unknown:
        raise TypeError(f"there is no option {', '.join(unknown)}")
    return Options(**given)


def variables(more: Optional[Mapping[str, str]]) -> dict[str, str]:
    """The environment of this process, and `more`."""
    return {**os.environ, **(more or {})}


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _items(name: str, items: Any) -> list[Any]:
    # The letters of a text would become one grant each.
    if isinstance(items, (str, bytes, os.PathLike)):
        raise _wrong(name, f"{items!r} is not a list")
    return list(items)


def _item(name: str, item: Any) -> str:
    text = _value(name, item)
    # The program separates values at commas: one folder would become two grants.
    if "," in text:
        raise _wrong(name, f"{text!r} has a comma")
    return text


def _value(name: str, value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str) or not value or "\0" in value:
        raise _wrong(name, f"{value!r} is not a value for it")
    return value


def _duration(name: str, value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not 0 < value < 1e9:
            raise _wrong(name, f"{value!r} is not a number of seconds")
        return f"{max(1, round(value * 1000))}ms"
    return _value(name, value)


def _wrong(name: str, why: str) -> ToolcellError:
    return ToolcellError("invalid_arguments", "option_invalid", f"cannot use `{name}`: {why}")
