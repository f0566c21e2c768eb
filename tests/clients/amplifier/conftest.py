"""A folder of components, and a home of toolcell that lists them: what the module finds without a configuration."""

import logging
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_toolcell import mount

COMPONENTS = Path(os.environ["COMPONENTS"])
TOOLCELL = os.environ["TOOLCELL"]


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    listed = [f'[[tool]]\ncomponent = "{COMPONENTS / name}.wasm"\n' for name in ("ticker", "everything", "files")]
    (home / "toolcell.toml").write_text("\n".join(listed))
    (home / "toolcell.toml").chmod(0o600)
    os.environ["TOOLCELL_HOME"] = str(home)
    # The module starts the program by its bare name, unless it is configured.
    (home / "bin").mkdir()
    (home / "bin" / "toolcell").symlink_to(TOOLCELL)
    os.environ["PATH"] = f"{home / 'bin'}:{os.environ['PATH']}"
    return home


@pytest.fixture
def components() -> Path:
    return COMPONENTS


Mounted = Callable[..., Any]


@pytest_asyncio.fixture
async def mounted(caplog: pytest.LogCaptureFixture) -> AsyncIterator[Mounted]:
    """Mounts the module with a configuration; returns the coordinator and what unmounts."""
    caplog.set_level(logging.INFO)
    cleanups = []

    async def mounting(**config: Any) -> tuple[Any, Any]:
        coordinator = MockCoordinator()
        cleanup = await mount(coordinator, config)
        if cleanup is not None:
            cleanups.append(cleanup)
        return coordinator, cleanup

    yield mounting
    for cleanup in cleanups:
        await cleanup()
