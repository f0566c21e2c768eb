"""Mounts the tools of toolcell, WebAssembly components in a sandbox, in Amplifier."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from ._mounting import Mounting
from ._options import Options
from ._server import ServerError

__amplifier_module_type__ = "tool"
__all__ = ["mount"]

_log = logging.getLogger(__name__)


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], Awaitable[None]] | None:
    """Starts toolcell and mounts each of its tools; returns what unmounts them and stops it.

    Returns None, and mounts nothing, if toolcell cannot be started: the other tools of the session keep working.
    """
    try:
        options = Options.read(config or {})
        mounting = await Mounting.start(coordinator, options)
    except (OSError, ValueError, ServerError) as error:
        _log.error("cannot mount the tools of toolcell: %s", error)
        return None
    return mounting.cleanup
