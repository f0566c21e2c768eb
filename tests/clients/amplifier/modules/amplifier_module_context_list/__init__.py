"""A context that is a list."""

from typing import Any

from amplifier_core.testing import MockContextManager

__amplifier_module_type__ = "context"


async def mount(coordinator: Any, config: dict[str, Any]) -> None:
    await coordinator.mount("context", MockContextManager())
