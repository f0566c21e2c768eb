"""The sandbox for deepagents, with the real program."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deepagents import create_deep_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from support import ASK, SETTINGS, TOOLS, ruled

from toolcell import Approval, ToolcellError, Workspace
from toolcell.deepagents import ToolcellSandbox


@pytest.fixture(scope="module")
def sandbox() -> Iterator[ToolcellSandbox]:
    with ToolcellSandbox(**SETTINGS) as sandbox:
        yield sandbox


class Script(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **kwargs: Any) -> "Script":
        return self


def agent(sandbox: ToolcellSandbox, *calls: tuple[str, dict[str, Any]]) -> Any:
    steps = [AIMessage("", tool_calls=[{"id": str(at), "name": name, "args": args}]) for at, (name, args) in enumerate(calls)]
    model = Script(messages=iter([*steps, AIMessage("done")]))
    return create_deep_agent(model=model, backend=sandbox, checkpointer=InMemorySaver())


THREAD: Any = {"configurable": {"thread_id": "1"}}
GO = {"messages": [("user", "go")]}


def outputs(answer: Any) -> list[str]:
    return [message.text for message in answer["messages"] if isinstance(message, ToolMessage)]


def test_a_command_has_both_streams_and_its_exit_code(sandbox: ToolcellSandbox) -> None:
    ran = sandbox.execute("pwd; echo out; echo err >&2; exit 3")
    assert (ran.output, ran.exit_code, ran.truncated) == ("/workspace\nout\nerr\n", 3, False)


async def test_large_output_is_whole_and_larger_output_is_cut(sandbox: ToolcellSandbox) -> None:
    # As the standard tests ask for it with Python.
    five = await asyncio.gather(*(sandbox.aexecute("yes x | tr -d '\\n' | head -c 512000") for _ in range(5)))
    assert [(len(ran.output), ran.exit_code, ran.truncated) for ran in five] == [(512000, 0, False)] * 5
    ran = sandbox.execute("yes 123456789 | head -c 3000000")
    assert (len(ran.output), ran.exit_code, ran.truncated) == (1 << 20, 0, True)
    # Between the limits of the object and of the text that the shell answers with.
    ran = sandbox.execute("yes ä | head -c 60000; yes ö | head -c 60000 >&2")
    assert ran.output == "ä\n" * 20000 + "ö\n" * 20000
    # The result links to this file too; it is not the output.
    ran = sandbox.execute("seq 3 > stdout.txt; echo real")
    assert ran.output == "real\n"
    sandbox.delete("/workspace/stdout.txt")


def test_a_file_is_read_whole_or_not_at_all() -> None:
    with ToolcellSandbox(**SETTINGS, max_artifact_bytes="1MiB") as sandbox:
        sandbox.upload_files([("/workspace/large.png", b"\xff" * (2 << 20))])
        result = sandbox.read("/workspace/large.png")
        assert result.file_data is None and "artifact" in (result.error or ""), result


def test_a_command_has_the_limits_of_the_call(sandbox: ToolcellSandbox) -> None:
    ran = sandbox.execute("while :; do :; done", timeout=1)
    assert ran.exit_code == 124 and "timeout" in ran.output, ran
    assert sandbox.execute("if").exit_code == 2
    with ToolcellSandbox(**SETTINGS, fuel=20_000_000) as small:
        ran = small.execute("while :; do :; done")
        assert ran.exit_code == 124 and "fuel" in ran.output, ran


async def test_canceling_the_task_cancels_the_call(sandbox: ToolcellSandbox) -> None:
    began = time.monotonic()
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(sandbox.aexecute("sleep 60; touch late"), 1)
    # The workspace is free at once, so the call is over.
    assert (await sandbox.aexecute("ls late")).exit_code != 0
    assert time.monotonic() - began < 20


def test_glob_and_write_are_those_of_the_protocol(sandbox: ToolcellSandbox) -> None:
    for name in ("g/a.py", "g/.github/b.py", "g/d/.c.py", "g/d/e.txt"):
        assert sandbox.write(f"/workspace/{name}", "x = 1\n").error is None
    sandbox.execute("mkdir g/folder.py; ln -s a.py g/link.py")

    def found(pattern: str, path: Any = "/workspace/g") -> list[str]:
        result = sandbox.glob(pattern, path)
        assert result.matches is not None, result.error
        return [match["path"] for match in result.matches]

    assert found("*.py") == ["/workspace/g/.github/b.py", "/workspace/g/a.py"]
    assert found("**/*.py") == found("/*.py") == ["/workspace/g/a.py"]
    assert found(".*.py") == ["/workspace/g/d/.c.py"]
    assert found("**/*.{txt,md}", None) == ["/workspace/g/d/e.txt"]
    assert sandbox.glob("../*").matches is None
    assert sandbox.glob("*", "/workspace/none").error == "Path '/workspace/none': /workspace/none not found"
    assert sandbox.write("/workspace/g/a.py", "y = 2\n").error is None
    assert sandbox.execute("cat g/a.py; ls -A g").output == "y = 2\n.github\na.py\nd\nfolder.py\nlink.py\n"
    assert sandbox.grep("x = 1", "/workspace/g", "none/*").matches == []
    result = sandbox.grep("x = 1", "/workspace/g", max_count=1)
    assert result.truncated and result.matches is not None and len(result.matches) == 1
    result = sandbox.grep("x =", "/", "*.txt")
    assert result.matches == [{"path": "/workspace/g/d/e.txt", "line": 1, "text": "x = 1"}]
    assert [entry["path"] for entry in sandbox.ls("/").entries or []] == ["/workspace"]
    assert sandbox.delete("/workspace/g").error is None
    assert sandbox.delete("/workspace/g").error == "Error deleting file '/workspace/g': /workspace/g not found"


def test_pages_of_a_file(sandbox: ToolcellSandbox) -> None:
    sandbox.upload_files([("/workspace/crlf.txt", b"one\r\ntwo\r\nthree"), ("/workspace/latin.txt", b"\xe4\n")])
    page = sandbox.read("/workspace/crlf.txt", offset=1, limit=1)
    assert page.file_data == {"content": "two", "encoding": "utf-8"}
    assert (page.total_lines, page.start_line, page.end_line, page.next_offset) == (3, 2, 2, 2)
    assert sandbox.read("/workspace/crlf.txt").next_offset is None
    assert sandbox.read("/workspace/latin.txt").file_data == {"content": "5Ao=", "encoding": "base64"}
    # `read` shows no carriage returns; the file keeps them.
    assert sandbox.edit("/workspace/crlf.txt", "one\ntwo", "1\n2").occurrences == 1
    assert sandbox.download_files(["/workspace/crlf.txt"])[0].content == b"1\r\n2\r\nthree"
    sandbox.write("/workspace/wide.txt", ("ä" * 300 + "\n") * 2000)
    page = sandbox.read("/workspace/wide.txt")
    assert page.next_offset == page.end_line and page.end_line is not None and 800 < page.end_line < 900
    more = sandbox.read("/workspace/wide.txt", offset=page.end_line, limit=1)
    assert more.file_data is not None and more.file_data["content"] == "ä" * 300


def test_an_edit_is_exact(sandbox: ToolcellSandbox) -> None:
    text = "a & b \\1 $x `y` [a-z]* \"q\" 'r' \\\n\tend\n\n"
    sandbox.write("/workspace/exact.txt", text)
    for old, new in ((" & ", " && & \\& "), ("[a-z]*", "[0-9]+?*"), ("\\1", "\\2\\\\"), ("\n\n", "\n")):
        assert sandbox.edit("/workspace/exact.txt", old, new).error is None, old
        text = text.replace(old, new)
        assert sandbox.download_files(["/workspace/exact.txt"])[0].content == text.encode()
    sandbox.upload_files([("/workspace/nul.txt", b"a\0b"), ("/workspace/latin.txt", b"a\xe4b")])
    for name in ("nul", "latin"):
        path = f"/workspace/{name}.txt"
        assert sandbox.edit(path, "a", "c").error == f"Error: File '{path}' is not a text file"


async def test_edits_at_once_are_all_kept(sandbox: ToolcellSandbox) -> None:
    sandbox.write("/workspace/many.txt", "".join(f"<{at}>\n" for at in range(6)))
    edits = [sandbox.aedit("/workspace/many.txt", f"<{at}>", f"[{at}]") for at in range(6)]
    assert [result.error for result in await asyncio.gather(*edits)] == [None] * 6
    assert sandbox.execute("cat many.txt").output == "".join(f"[{at}]\n" for at in range(6))


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/workspace/../etc/passwd", "/workspace/a/../../etc/passwd", "/tmp/x", "x", "/workspace\0"]
)
def test_no_path_leads_out_of_the_workspace(sandbox: ToolcellSandbox, path: str) -> None:
    [down] = sandbox.download_files([path])
    [up] = sandbox.upload_files([(path, b"x")])
    assert down.content is None and down.error in ("invalid_path", "permission_denied")
    assert up.error == down.error
    for result in (
        sandbox.read(path), sandbox.write(path, "x"), sandbox.edit(path, "root", "x"), sandbox.delete(path),
        sandbox.ls(path), sandbox.glob("*", path), sandbox.grep("root", path),
    ):
        assert result.error, result


def test_a_link_is_read_and_not_written(sandbox: ToolcellSandbox) -> None:
    sandbox.execute("echo text > file; ln -s file link; mkdir folder; ln -s folder to")
    page = sandbox.read("/workspace/link")
    assert page.file_data is not None and page.file_data["content"] == "text"
    assert "is a link" in (sandbox.write("/workspace/link", "x").error or "")
    assert "is a link" in (sandbox.edit("/workspace/link", "text", "x").error or "")
    assert sandbox.write("/workspace/to/inner", "x").error is None
    assert sandbox.execute("cat file link folder/inner; ls -A | grep -c part").output == "text\ntext\nx0\n"


def test_links_of_the_shell_lead_nowhere(sandbox: ToolcellSandbox, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of this machine")
    # What a link to a file of this machine can be made of.
    sandbox.execute(f"ln -s {tmp_path} out; ln -s ../../../../..{tmp_path} far; ln -s {tmp_path}/secret leaf; ln -s /etc etc")
    for path in ("out/secret", "far/secret", "leaf", "etc/passwd", "etc/hostname"):
        assert sandbox.download_files([f"/workspace/{path}"])[0].content is None
        assert sandbox.read(f"/workspace/{path}").file_data is None
        sandbox.upload_files([(f"/workspace/{path}", b"changed")])
        sandbox.write(f"/workspace/{path}", "changed")
    assert (tmp_path / "secret").read_text() == "of this machine"
    assert [entry.name for entry in tmp_path.iterdir()] == ["secret"]
    ran = sandbox.execute("cat out/secret far/secret leaf; cat /etc/shadow; rm -rf out far leaf etc")
    assert "of this machine" not in ran.output


def test_what_needs_an_approval_asks(tmp_path: Path) -> None:
    asked: list[Any] = []

    def approve(question: Approval) -> bool:
        asked.append(question.arguments)
        return question.arguments["script"] == "echo yes"

    with ToolcellSandbox(**ruled(tmp_path, ASK), approve=approve) as sandbox:
        assert sandbox.execute("echo yes").output == "yes\n"
        ran = sandbox.execute("echo no")
        assert ran.exit_code == 126 and "not approved" in ran.output, ran
        assert (sandbox.write("/workspace/a", "text").error or "").startswith("Failed to write file")
        # A person can read what would be written.
        assert asked[-1]["stdin"] == "text"


@pytest.mark.parametrize("is_async", [False, True])
async def test_an_approval_interrupts_the_graph(tmp_path: Path, is_async: bool) -> None:
    with ToolcellSandbox(**ruled(tmp_path, ASK), approve="interrupt") as sandbox:
        first, second = "echo one >> log; cat log", "echo two >> log"
        graph = agent(sandbox, ("execute", {"command": first}), ("execute", {"command": second}))

        async def invoke(given: Any) -> Any:
            return await graph.ainvoke(given, THREAD) if is_async else graph.invoke(given, THREAD)

        answer = await invoke(GO)
        [question] = answer["__interrupt__"]
        action = question.value
        assert action["args"]["script"] == first and "shell" in action["description"]
        answer = await invoke(Command(resume={"type": "approve"}))
        # It ran once, and the second call asks by itself.
        assert outputs(answer)[0].startswith("one\n\n[Command succeeded"), outputs(answer)
        assert len(answer["__interrupt__"]) == 1
        answer = await invoke(Command(resume={"type": "reject", "message": "not now"}))
        assert "denied: not now" in outputs(answer)[1], outputs(answer)
        assert [file.path for file in Workspace(sandbox.id).files()] == ["log"]
        assert Workspace(sandbox.id).get("log") == b"one\n"


def test_an_approved_call_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ToolcellSandbox(**ruled(tmp_path, ASK), approve="interrupt") as sandbox:
        made: list[str] = []
        submit = sandbox._sandbox._submit
        monkeypatch.setattr(sandbox._sandbox, "_submit", lambda step: (made.append(step.stdin[:1]), submit(step))[1])
        # Two calls write it, so its task is executed three times.
        large = "a" * (2 << 20) + "b"
        graph = agent(sandbox, ("write_file", {"file_path": "/workspace/large", "content": large}))
        graph.invoke(GO, THREAD)
        answer = graph.invoke(Command(resume={"type": "approve"}), THREAD)
        assert answer["__interrupt__"][0].value["args"]["stdin"] == "b"
        graph.invoke(Command(resume={"type": "approve"}), THREAD)
        assert Workspace(sandbox.id).get("large") == large.encode()
        # Each once to ask, and once with the answer.
        assert made == ["a", "a", "b", "b"]
    # Outside of a graph, nothing can be interrupted.
    with ToolcellSandbox(**ruled(tmp_path, ASK), approve="interrupt") as sandbox:
        assert "not approved" in sandbox.execute("echo").output


def test_a_rule_holds_for_each_operation(tmp_path: Path) -> None:
    with ToolcellSandbox(**ruled(tmp_path, 'behavior = "deny"\npath = "**/.env"')) as sandbox:
        sandbox.upload_files([("/workspace/.env", b"KEY=1\n")])
        assert "KEY" not in sandbox.execute("cat .env").output
        assert sandbox.read("/workspace/.env").file_data is None
        assert sandbox.write("/workspace/.env", "KEY=2\n").error is not None
        assert sandbox.download_files(["/workspace/.env"])[0].content == b"KEY=1\n"


def test_a_named_workspace_stays_and_an_own_one_goes() -> None:
    kept = Workspace("sandbox-test")
    try:
        with ToolcellSandbox("sandbox-test", **SETTINGS) as sandbox:
            sandbox.execute("echo kept > a")
        assert kept.get("a") == b"kept\n"
    finally:
        kept.remove()
    with ToolcellSandbox(**SETTINGS) as sandbox:
        sandbox.execute("echo gone > a")
    with pytest.raises(ToolcellError) as failed:
        Workspace(sandbox.id).get("a")
    assert failed.value.code == "unknown_workspace"


def test_a_wrong_shell_says_what_to_do() -> None:
    for shell in ("no-such-tool", TOOLS / "files/target/toolcell/files.wasm"):
        with pytest.raises(ToolcellError) as failed, ToolcellSandbox(shell=shell, config=False):
            pass
        assert failed.value.code == "shell_unusable"
        assert "toolcell build example-tools/shell" in str(failed.value)
