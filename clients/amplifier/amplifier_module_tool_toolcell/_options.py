"""What the configuration of the module says, as the command that starts toolcell."""

from dataclasses import dataclass
from typing import Any

_KEYS: dict[str, type | tuple[type, ...]] = {
    "program": str,
    "tools": list,
    "config": str,
    "folder": str,
    "grants": dict,
    "deny": dict,
    "limits": dict,
    "mode": str,
    "if_client_cannot_ask": str,
    "environment": dict,
    "start_timeout": (int, float),
}
_GRANTS = {"read", "write", "env", "net", "secret", "tool"}
_DENY = {"read", "write", "net"}
_LIMITS = {"timeout", "fuel", "cpu", "memory", "max_output", "max_disk", "max_artifact_bytes", "memory_total"}
_START_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Options:
    command: list[str]
    folder: str | None
    environment: dict[str, str]
    start_timeout_s: float

    @classmethod
    def read(cls, config: dict[str, Any]) -> "Options":
        """Reads the configuration.

        Raises ValueError for what it does not know: a misspelt limit must not mean no limit.
        """
        _known(config, set(_KEYS), "the configuration")
        for key, value in config.items():
            if not isinstance(value, _KEYS[key]) or isinstance(value, bool):
                raise ValueError(f"cannot use `{key}`: {value!r} is not of the right type")
        options = [
            *_lists(config.get("grants", {}), _GRANTS, "grants", "--allow-"),
            *_lists(config.get("deny", {}), _DENY, "deny", "--deny-"),
            *_limits(config.get("limits", {})),
        ]
        for key in ("config", "mode", "if_client_cannot_ask"):
            if key in config:
                options.append(f"--{key.replace('_', '-')}={config[key]}")
        tools = [_text(tool, "tools") for tool in config.get("tools", [])]
        environment = {name: _text(value, "environment") for name, value in config.get("environment", {}).items()}
        return cls(
            command=[config.get("program", "toolcell"), "mcp", *options, "--", *tools],
            folder=config.get("folder"),
            environment=environment,
            start_timeout_s=float(config.get("start_timeout", _START_TIMEOUT_S)),
        )


def _lists(given: dict[str, Any], known: set[str], where: str, prefix: str) -> list[str]:
    _known(given, known, f"`{where}`")
    options = []
    for key, values in given.items():
        if not isinstance(values, list):
            raise ValueError(f"cannot use `{where}.{key}`: {values!r} is not a list")
        for value in values:
            text = _text(value, f"{where}.{key}")
            # toolcell separates values at commas: one folder would become two grants.
            if "," in text:
                raise ValueError(f"cannot use `{where}.{key}`: {text!r} has a comma")
            options.append(f"{prefix}{key}={text}")
    return options


def _limits(given: dict[str, Any]) -> list[str]:
    _known(given, _LIMITS, "`limits`")
    options = []
    for key, value in given.items():
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            raise ValueError(f"cannot use `limits.{key}`: {value!r} is neither a text nor a whole number")
        options.append(f"--{key.replace('_', '-')}={value}")
    return options


def _known(given: dict[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(str(key) for key in given if key not in known)
    if unknown:
        raise ValueError(f"cannot use {where}: unknown {', '.join(unknown)}; there are {', '.join(sorted(known))}")


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"cannot use `{where}`: {value!r} is not a text")
    return value
