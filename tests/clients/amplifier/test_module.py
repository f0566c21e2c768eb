"""What the module does with its process, and with what is not as it should be."""

import asyncio
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from amplifier_core import ToolResult
from amplifier_module_tool_toolcell import mount

PARALLEL = 20
PATIENCE_S = 20


def process(cleanup: Any) -> asyncio.subprocess.Process:
    return cleanup.__self__._server._process


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def until(is_so: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.02)


def canceled(home: Path) -> list[dict[str, Any]]:
    command = [str(home / "bin" / "toolcell"), "calls", "--json", "--status=canceled"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["calls"]


async def test_every_tool_is_described_and_answers(mounted: Any, components: Path) -> None:
    coordinator, _ = await mounted(tools=[str(components / "ticker.wasm"), str(components / "everything.wasm")])
    tools = coordinator.get("tools")
    ticker = tools["ticker"]
    assert ticker.input_schema["required"] == ["ticks"] and ticker.description.startswith("Ticks")
    assert all(name == tool.name for name, tool in tools.items())
    image = await tools["everything_test_image_content"].execute({})
    assert image.success and image.content[0].type == "image" and image.output.startswith("[image, image/png"), image
    mixed = await tools["everything_test_multiple_content_types"].execute({})
    assert [block.type for block in mixed.content] == ["text", "image", "text"], mixed
    counted = await ticker.execute({"ticks": 2})
    assert counted.output == "2 of 2 ticks" and counted.metadata["structured_content"] == {"ticks": 2, "of": 2}, counted
    wrong = await ticker.execute({"ticks": 0})
    assert (wrong.success, wrong.error["type"]) == (False, "validation"), wrong
    assert wrong.error["message"] in wrong.output and "[schema_validation_failed/" in wrong.output, wrong
    assert wrong.metadata["invocation_id"], wrong


async def test_what_json_cannot_hold_is_a_result(mounted: Any, components: Path) -> None:
    coordinator, _ = await mounted(tools=[str(components / "ticker.wasm")])
    ticker = coordinator.get("tools")["ticker"]
    endless: dict[str, Any] = {}
    endless["again"] = endless
    deep: Any = 1
    for _ in range(500):
        deep = [deep]
    unsendable = [None, [], {"ticks": float("nan")}, {"\ud800": 1}, {"ticks": object()}, endless]
    for at, given in enumerate([*unsendable, {"ticks": "x" * (17 << 20)}, {"ticks": deep}]):
        result = await ticker.execute(given)
        assert isinstance(result, ToolResult), at
        assert (result.success, result.error["type"]) == (False, "validation"), (at, result.error)
    assert (await ticker.execute({"ticks": 1})).success


async def test_calls_run_at_once_each_with_its_own_answer(mounted: Any, components: Path) -> None:
    coordinator, _ = await mounted(tools=[str(components / "ticker.wasm")])
    ticker = coordinator.get("tools")["ticker"]
    await ticker.execute({"ticks": 1})
    began = time.monotonic()
    # All with one id: the framework promises none that is unique.
    calls = [
        ticker.execute({"ticks": 1 + at % 3, "interval_ms": 300, "_tool_call_id": "same"}) for at in range(PARALLEL)
    ]
    results = await asyncio.gather(*calls)
    ticks = [result.metadata["structured_content"]["ticks"] for result in results]
    assert ticks == [1 + at % 3 for at in range(PARALLEL)]
    assert time.monotonic() - began < PARALLEL * 0.3, "the calls ran one after another"


async def test_a_canceled_task_cancels_the_call(mounted: Any, components: Path, home: Path) -> None:
    coordinator, _ = await mounted(tools=[str(components / "ticker.wasm")])
    ticker = coordinator.get("tools")["ticker"]
    await ticker.execute({"ticks": 1})
    before = len(canceled(home))
    task = asyncio.create_task(ticker.execute({"ticks": 60, "interval_ms": 1000, "_tool_call_id": "slow"}))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: len(canceled(home)) == before + 1)
    # Others go on, also with the same id.
    assert (await ticker.execute({"ticks": 1, "_tool_call_id": "slow"})).success


async def test_unmounting_stops_the_process_and_what_runs(mounted: Any, components: Path) -> None:
    coordinator, cleanup = await mounted(tools=[str(components / "ticker.wasm")])
    ticker = coordinator.get("tools")["ticker"]
    await ticker.execute({"ticks": 1})
    pid = process(cleanup).pid
    running = asyncio.create_task(ticker.execute({"ticks": 60, "interval_ms": 1000}))
    await asyncio.sleep(0.2)
    began = time.monotonic()
    await cleanup()
    assert time.monotonic() - began < 5
    assert not lives(pid) and "ticker" not in coordinator.get("tools")
    for result in (await running, await ticker.execute({"ticks": 1})):
        assert (result.success, result.error["type"]) == (False, "execution"), result
        assert "stopped" in result.output, result


async def test_a_process_that_ends_is_started_again_once(mounted: Any, components: Path) -> None:
    coordinator, cleanup = await mounted(tools=[str(components / "ticker.wasm")])
    ticker = coordinator.get("tools")["ticker"]

    async def killed() -> ToolResult:
        running = asyncio.create_task(ticker.execute({"ticks": 60, "interval_ms": 1000}))
        await asyncio.sleep(0.3)
        os.kill(process(cleanup).pid, signal.SIGKILL)
        return await running

    first = process(cleanup).pid
    result = await killed()
    assert (result.success, result.error["type"]) == (False, "execution") and "ended" in result.output, result
    results = await asyncio.gather(*(ticker.execute({"ticks": 1}) for _ in range(3)))
    assert all(result.success for result in results), results
    assert process(cleanup).pid != first
    await killed()
    result = await ticker.execute({"ticks": 1})
    assert not result.success and "ended again" in result.output, result


async def test_what_cannot_start_mounts_nothing_and_says_why(
    mounted: Any, components: Path, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    mute = tmp_path / "mute"
    mute.write_text("#!/bin/sh\nexec sleep 600\n")
    loud = tmp_path / "loud"
    loud.write_text("#!/bin/sh\nexec yes\n")
    for script in (mute, loud):
        script.chmod(0o700)
    ticker = str(components / "ticker.wasm")
    for config, why in [
        ({"program": "/nowhere/toolcell"}, "/nowhere/toolcell"),
        ({"tools": [str(components / "nothing.wasm")]}, "ended"),
        ({"program": str(mute), "start_timeout": 0.5}, "0.5 s"),
        ({"program": str(loud)}, "cannot be read"),
        ({"tools": [ticker], "folder": str(tmp_path / "nothing")}, "nothing"),
        ({"tools": [ticker], "limit": {"timeout": "1s"}}, "unknown limit"),
        ({"tools": [ticker], "limits": {"time_out": "1s"}}, "unknown time_out"),
        ({"tools": [ticker], "limits": {"timeout": True}}, "limits.timeout"),
        ({"tools": [ticker], "grants": {"reads": ["."]}}, "unknown reads"),
        ({"tools": [ticker], "grants": {"read": "."}}, "not a list"),
        ({"tools": [ticker], "grants": {"read": ["a,/etc"]}}, "a comma"),
        ({"tools": ticker}, "`tools`"),
        ({"tools": [1]}, "`tools`"),
    ]:
        caplog.clear()
        coordinator, cleanup = await mounted(**config)
        assert cleanup is None and not coordinator.get("tools"), config
        said = [entry.message for entry in caplog.records if entry.levelname == "ERROR"]
        assert len(said) == 1 and why in said[0], (config, said)


async def test_grants_limits_and_closed_paths_reach_toolcell(mounted: Any, components: Path, tmp_path: Path) -> None:
    (tmp_path / "note").write_text("here")
    (tmp_path / "private").write_text("hidden")
    coordinator, _ = await mounted(
        tools=[str(components / "files.wasm"), str(components / "ticker.wasm")],
        grants={"read": [str(tmp_path)]},
        deny={"read": [str(tmp_path / "private")]},
        limits={"timeout": "200ms"},
        mode="non_interactive",
    )
    tools = coordinator.get("tools")
    assert "here" in (await tools["files_read"].execute({"path": str(tmp_path / "note")})).get_serialized_output()
    closed = await tools["files_read"].execute({"path": str(tmp_path / "private")})
    assert not closed.success and closed.error["class"] == "permission_denied", closed
    slow = await tools["ticker"].execute({"ticks": 60, "interval_ms": 1000})
    assert (slow.error["type"], slow.error["class"]) == ("timeout", "timeout"), slow


async def test_a_name_that_is_taken_stays_with_its_owner(components: Path, caplog: pytest.LogCaptureFixture) -> None:
    from amplifier_core.testing import MockCoordinator, MockTool

    coordinator, other = MockCoordinator(), MockTool("ticker")
    await coordinator.mount("tools", other, name="ticker")
    cleanup = await mount(coordinator, {"tools": [str(components / f"{name}.wasm") for name in ("ticker", "files")]})
    assert coordinator.get("tools")["ticker"] is other and "files_list" in coordinator.get("tools")
    assert "the name is taken" in caplog.text
    await cleanup()
    assert list(coordinator.get("tools")) == ["ticker"]


async def test_the_tools_follow_their_component(mounted: Any, components: Path, tmp_path: Path) -> None:
    component = tmp_path / "changing.wasm"
    component.write_bytes((components / "files.wasm").read_bytes())
    coordinator, _ = await mounted(tools=[str(component)])
    assert "files_search" in coordinator.get("tools")
    # One that could ask for less: one that could ask for more is served after a restart.
    replaced = tmp_path / "new.wasm"
    replaced.write_bytes((components / "ticker.wasm").read_bytes())
    replaced.rename(component)
    await until(lambda: "ticker" in coordinator.get("tools") and "files_search" not in coordinator.get("tools"))


def test_every_option_is_one_of_the_program() -> None:
    from amplifier_module_tool_toolcell._options import _DENY, _GRANTS, _LIMITS, Options

    values = {"timeout": "5s", "fuel": 1}
    command = Options.read(
        {
            "config": "x.toml",
            "mode": "plan",
            "if_client_cannot_ask": "return",
            "grants": {name: ["x"] for name in _GRANTS},
            "deny": {name: ["x"] for name in _DENY},
            "limits": {name: values.get(name, "1MiB") for name in _LIMITS},
        }
    ).command
    program = os.environ.get("TOOLCELL", "toolcell")
    options = subprocess.run([program, "mcp", "--help"], capture_output=True, text=True, check=True).stdout
    for argument in command[2:-1]:
        assert f" {argument.partition('=')[0]} <" in options, argument


def test_names_are_those_of_the_program() -> None:
    """The table of `dialect/amplifier/tool.rs`."""
    from amplifier_module_tool_toolcell._mounting import _names

    assert _names(["readFile", "b__c.d", "HTTPGet", "x2Y"]) == ["read_file", "b__c_d", "httpget", "x2_y"]
    close = _names(["read-file", "readFile", "read_file", "read.file"])
    assert close[2] == "read_file" and len(set(close)) == 4 and len(close[0]) == len("read_file_") + 6, close
