"""Sessions of the real coordinator, which finds the module by its entry point."""

import json
import subprocess
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import yaml
from amplifier_core import AmplifierSession, HookResult, ToolResult
from amplifier_core.message_models import ChatResponse, Message, ToolCall
from amplifier_core.validation.tool import ToolValidator

ROOT = Path(__file__).parents[3]
EVENTS = ("tool:pre", "tool:post", "tool:error")


def plan(config: dict[str, Any]) -> dict[str, Any]:
    return {
        "session": {"orchestrator": {"module": "loop-given"}, "context": {"module": "context-list"}},
        "providers": [{"module": "provider-none"}],
        "tools": [{"module": "tool-toolcell", "config": config}],
    }


async def converse(
    config: dict[str, Any], calls: list[dict[str, Any]], before: HookResult | None = None
) -> tuple[list[dict[str, Any]], list[tuple[str, dict[str, Any]]]]:
    """Makes the calls in a session; returns what the model reads, and the events."""
    events: list[tuple[str, dict[str, Any]]] = []

    async def observe(event: str, data: dict[str, Any]) -> HookResult:
        events.append((event, dict(data)))
        return before if before is not None and event == "tool:pre" else HookResult()

    async with AmplifierSession(plan(config)) as session:
        for event in EVENTS:
            session.coordinator.hooks.register(event, observe, name=f"observe-{event}")
        said = json.loads(await session.execute(json.dumps(calls)))
    assert not (session.coordinator.get("tools") or {}), "the tools are still mounted after the session"
    return said, events


def record(home: Path, invocation: str) -> dict[str, Any]:
    command = [str(home / "bin" / "toolcell"), "show", invocation, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def calls(home: Path) -> list[dict[str, Any]]:
    command = [str(home / "bin" / "toolcell"), "calls", "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["calls"]


async def test_a_call_has_its_events_once_each_however_it_ends(components: Path, home: Path) -> None:
    tools = [str(components / f"{name}.wasm") for name in ("ticker", "everything", "files")]
    said, events = await converse(
        {"tools": tools},
        [
            {"id": "call-works", "name": "ticker", "input": {"ticks": 2}},
            {"id": "call-fails", "name": "everything_test_error_handling", "input": {}},
            {"id": "call-denied", "name": "files_list", "input": {"path": "/etc"}},
        ],
    )
    assert [(event, data["tool_call_id"]) for event, data in events] == [
        ("tool:pre", "call-works"),
        ("tool:post", "call-works"),
        ("tool:pre", "call-fails"),
        ("tool:error", "call-fails"),
        ("tool:pre", "call-denied"),
        ("tool:error", "call-denied"),
    ]
    assert events[1][1]["tool_result"]["output"] == "2 of 2 ticks"
    failed, denied = events[3][1]["error"], events[5][1]["error"]
    assert (failed["class"], failed["code"], failed["type"]) == ("execution_failed", "intentional", "execution")
    assert (denied["class"], denied["code"]) == ("permission_denied", "not_granted")
    assert said[0] == {"success": True, "text": "2 of 2 ticks"}
    assert "[execution_failed/intentional]" in said[1]["text"], said[1]
    assert "--allow-read" in said[2]["text"] and "[permission_denied/not_granted]" in said[2]["text"], said[2]

    # The same calls are on record, with the ids of the framework and the same decisions.
    recorded = [record(home, call["invocation_id"]) for call in calls(home)[:3]]
    outcomes = {one["invocation"]["native_call_id"]: one["invocation"]["status"] for one in recorded}
    assert outcomes == {"call-works": "succeeded", "call-fails": "failed", "call-denied": "denied"}
    inputs = {one["invocation"]["native_call_id"]: one["invocation"]["model_input"] for one in recorded}
    assert inputs["call-works"] == {"ticks": 2}, "the id of the call is no argument"


async def test_the_program_answers_a_response_in_the_words_of_the_framework(components: Path, home: Path) -> None:
    asked = [
        ToolCall(id="call-works", name="ticker", arguments={"ticks": 2}),
        ToolCall(id="call-unknown", name="no_such_tool", arguments={}),
    ]
    response = ChatResponse(content=[], tool_calls=asked).model_dump_json()
    command = [str(home / "bin" / "toolcell"), "respond", str(components / "ticker.wasm"), "--dialect=amplifier"]
    ran = subprocess.run(command, input=response, capture_output=True, text=True)
    messages = [Message(**message) for message in json.loads(ran.stdout)]
    assert [(message.role, message.tool_call_id) for message in messages] == [("tool", call.id) for call in asked], ran
    for message, names in zip(messages, (["tool:pre", "tool:post"], ["tool:pre", "tool:error"]), strict=True):
        told = (message.metadata or {})["tool_result"]
        read = ToolResult(**{key: told.get(key) for key in ("success", "output", "error", "content")})
        assert read.get_serialized_output() == message.content, message
        events = (message.metadata or {})["events"]
        assert [event["event"] for event in events] == names and set(names) <= set(EVENTS)
        assert all(event["data"]["tool_call_id"] == message.tool_call_id for event in events)


async def test_a_hook_that_denies_keeps_the_call_from_toolcell(components: Path, home: Path) -> None:
    before = len(calls(home))
    denial = HookResult(action="deny", reason="not now")
    call = {"id": "call-1", "name": "ticker", "input": {"ticks": 1}}
    said, events = await converse({"tools": [str(components / "ticker.wasm")]}, [call], denial)
    assert [event for event, _ in events] == ["tool:pre", "tool:error"]
    assert said == [{"success": False, "text": "not now"}]
    assert len(calls(home)) == before


async def test_a_session_goes_on_without_toolcell() -> None:
    async with AmplifierSession(plan({"program": "/nowhere/toolcell"})) as session:
        assert not (session.coordinator.get("tools") or {})
        assert await session.execute("[]") == "[]"


async def test_the_book_says_what_works(components: Path, tmp_path: Path) -> None:
    """The configuration of the page about Amplifier, in a folder that has what it names."""
    section = (ROOT / "docs/dialects/amplifier.md").read_text()
    told = yaml.safe_load(section.split("```yaml\n")[1].split("```")[0])["tools"]
    assert [tool["module"] for tool in told] == ["tool-toolcell"]
    config = told[0]["config"]
    for source in config["tools"]:
        (tmp_path / source).mkdir(parents=True)
        (tmp_path / source / "tool.wasm").write_bytes((components / f"{Path(source).name}.wasm").read_bytes())
    for folder in config["grants"]["read"]:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "note.txt").write_text("here")
    granted = str(tmp_path / config["grants"]["read"][0] / "note.txt")
    said, events = await converse(
        {**config, "folder": str(tmp_path)}, [{"id": "call-1", "name": "files_read", "input": {"path": granted}}]
    )
    assert [event for event, _ in events] == ["tool:pre", "tool:post"], events
    assert "here" in said[0]["text"], said


async def test_the_framework_finds_and_accepts_the_module(components: Path) -> None:
    import amplifier_module_tool_toolcell as module

    found = [point for point in entry_points(group="amplifier.modules") if point.name == "tool-toolcell"]
    assert [point.load() for point in found] == [module.mount]
    config = {"tools": [str(components / "ticker.wasm")]}
    checked = await ToolValidator().validate("amplifier_module_tool_toolcell", config=config)
    assert checked.passed and not checked.warnings, checked
    assert any("'ticker'" in check.message for check in checked.checks), checked
