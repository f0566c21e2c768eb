"""A provider that is never asked: a session does not run without one."""

from typing import Any

__amplifier_module_type__ = "provider"


class NoProvider:
    name = "none"


async def mount(coordinator: Any, config: dict[str, Any]) -> None:
    await coordinator.mount("providers", NoProvider(), name="none")
