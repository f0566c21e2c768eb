"""The client for the sandbox agents of the OpenAI Agents SDK, with the real program."""

import asyncio
import io
import json
import tarfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agents import RunConfig, Runner
from agents.sandbox import LocalSnapshotSpec, Manifest, SandboxAgent, SandboxRunConfig, User
from agents.sandbox.entries import Dir, File, GitRepo, S3Mount
from agents.sandbox.errors import (
    ConfigurationError,
    ExecNonZeroError,
    ExecTimeoutError,
    ExposedPortUnavailableError,
    GitMissingInImageError,
    InvalidManifestPathError,
    SandboxError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
    WorkspaceStartError,
)
from agents.sandbox.manifest import Environment
from agents.sandbox.session import SandboxSession
from agents.testing import ScriptedModel, assistant_message, function_call
from support import ASK, SETTINGS, TOOLS, ruled

from toolcell import Approval, ToolcellError, Workspace, list_workspaces
from toolcell.openai_sandbox import ToolcellSandboxClient


@pytest.fixture
async def session() -> AsyncIterator[SandboxSession]:
    client = ToolcellSandboxClient(**SETTINGS)
    session = await client.create(manifest=Manifest(entries={"a.txt": File(content=b"one\ntwo\n"), "d": Dir()}))
    async with session:
        yield session
    await client.delete(session)


async def content(session: SandboxSession, path: str) -> Any:
    with await session.read(Path(path)) as file:
        return file.read()


async def test_commands(session: SandboxSession) -> None:
    assert await session.running()
    ran = await session.exec("pwd; cat a.txt; echo err >&2; exit 3")
    assert (ran.stdout, ran.stderr, ran.exit_code) == (b"/workspace\none\ntwo\n", b"err\n", 3)
    # Without a shell, with the script of one, and with arguments that a shell would expand.
    assert (await session.exec("echo", "$HOME *", "it's", shell=False)).stdout == b"$HOME * it's\n"
    assert (await session.exec("sh", "-c", 'echo "$1-$2"', "sh", "a b", "c", shell=False)).stdout == b"a b-c\n"
    assert (await session.exec("printf", "%s", "x y")).stdout == b"x y"
    assert (await session.exec("head -c 300 | wc -c", shell=["bash", "-c"])).exit_code == 0
    assert (await session.exec("yes | head -c 400000")).stdout == b"y\n" * 200000
    assert (await session.exec("python3 -c 1")).exit_code == 127
    with pytest.raises(ExecTimeoutError):
        await session.exec("sleep 30", timeout=0.5)


async def test_canceling_the_task_cancels_the_call(session: SandboxSession) -> None:
    began = time.monotonic()
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(session.exec("sleep 60; touch late"), 1)
    assert (await session.exec("ls late")).exit_code != 0
    assert time.monotonic() - began < 20


async def test_files(session: SandboxSession) -> None:
    binary = bytes(range(256)) * 1024
    await session.write(Path("new/b.bin"), io.BytesIO(binary))
    assert await content(session, "/workspace/new/b.bin") == binary
    assert await session.read_bounded(Path("a.txt"), max_bytes=5) == b"one\nt"
    # More than one call writes it, and none shows a part of it.
    large = b"0123456789abcdef" * (9 << 16)
    await session.write(Path("large"), io.BytesIO(large))
    assert await content(session, "large") == large
    listed = {entry.path: (entry.kind.value, entry.size if entry.kind == "file" else 0) for entry in await session.ls(".")}
    assert listed == {
        "/workspace/a.txt": ("file", 8),
        "/workspace/d": ("directory", 0),
        "/workspace/large": ("file", len(large)),
        "/workspace/new": ("directory", 0),
    }
    await session.mkdir("x/y", parents=True)
    with pytest.raises(ExecNonZeroError):
        await session.mkdir("x")
    await session.mv("a.txt", "x/a.txt")
    with pytest.raises(ExecNonZeroError):
        await session.mv("x/a.txt", "d")
    with pytest.raises(ExecNonZeroError):
        await session.mv("x", "z")
    assert await content(session, "x/a.txt") == b"one\ntwo\n"
    await session.exec("ln x/a.txt x/b.txt || cp x/a.txt x/b.txt; ln -s a.txt x/link")
    assert await session.same_file("x/a.txt", "x/link")
    assert not await session.same_file("x/a.txt", "x/link", follow_symlinks=False)
    assert not await session.same_file("x/a.txt", "large")
    with pytest.raises(WorkspaceReadNotFoundError):
        await session.read(Path("none"))
    with pytest.raises(WorkspaceArchiveReadError):
        await session.read(Path("d"))
    with pytest.raises(WorkspaceArchiveWriteError):
        await session.write(Path("d"), io.BytesIO(b""))
    await session.rm("x", recursive=True)
    with pytest.raises(ExecNonZeroError):
        await session.rm("x")


async def test_patches_and_archives(session: SandboxSession) -> None:
    await session.apply_patch(
        [
            {"type": "update_file", "path": "a.txt", "diff": "@@\n one\n-two\n+2\n"},
            {"type": "create_file", "path": "n/new.txt", "diff": "+new\n"},
        ]
    )
    assert (await content(session, "a.txt"), await content(session, "n/new.txt")) == (b"one\n2\n", b"new")
    with pytest.raises((FileExistsError, SandboxError)):
        await session.apply_patch({"type": "create_file", "path": "a.txt", "diff": "+other\n"})
    await session.apply_patch({"type": "delete_file", "path": "n/new.txt"})
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        member = tarfile.TarInfo("in/side.txt")
        member.size = 4
        tar.addfile(member, io.BytesIO(b"side"))
    await session.extract(Path("e/archive.tar"), io.BytesIO(packed.getvalue()))
    assert await content(session, "e/in/side.txt") == b"side"
    member = tarfile.TarInfo("../out.txt")
    with tarfile.open(fileobj=(packed := io.BytesIO()), mode="w") as tar:
        tar.addfile(member)
    with pytest.raises(WorkspaceArchiveWriteError):
        await session.hydrate_workspace(io.BytesIO(packed.getvalue()))


@pytest.mark.parametrize("path", ["/etc/passwd", "../etc/passwd", "a/../../etc/passwd", "/tmp/x"])
async def test_no_path_leads_out_of_the_workspace(session: SandboxSession, path: str) -> None:
    for operation in (
        session.read(Path(path)), session.write(Path(path), io.BytesIO(b"x")), session.ls(path),
        session.rm(path), session.mkdir(path), session.mv("a.txt", path),
    ):
        with pytest.raises(InvalidManifestPathError):
            await operation


async def test_links_of_the_shell_lead_nowhere(session: SandboxSession, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of this machine")
    await session.exec(f"ln -s {tmp_path} out; ln -s ../../../..{tmp_path} far; ln -s {tmp_path}/secret leaf")
    for path in ("out/secret", "far/secret", "leaf"):
        with pytest.raises(SandboxError):
            await content(session, path)
        try:
            await session.write(Path(path), io.BytesIO(b"changed"))
        except SandboxError:
            pass
    assert (tmp_path / "secret").read_text() == "of this machine"
    assert b"of this machine" not in (await session.persist_workspace()).read()
    await session.exec("ln -s d to")
    await session.write(Path("to/x"), io.BytesIO(b"within"))
    assert await content(session, "d/x") == b"within"


async def test_what_it_has_not_is_the_sdks_error(session: SandboxSession) -> None:
    assert not session.supports_pty()
    with pytest.raises(NotImplementedError):
        await session.pty_exec_start("bash", tty=True)
    with pytest.raises(ExposedPortUnavailableError):
        await session.resolve_exposed_port(80)
    with pytest.raises(ConfigurationError, match="does not support users"):
        await session.exec("id", user="root")
    with pytest.raises(ConfigurationError, match="does not support users"):
        await session.read(Path("a.txt"), user="root")
    client = ToolcellSandboxClient(**SETTINGS)
    bucket = object.__new__(S3Mount)
    for manifest, what in (
        (Manifest(root="/other"), "the root /other"),
        (Manifest(users=[User(name="me")]), "users and groups"),
        (Manifest(environment=Environment(value={"KEY": "secret"})), "an environment"),
        (Manifest.model_construct(entries={"d": Dir.model_construct(children={"b": bucket}, group=None)}), "mounts"),
    ):
        with pytest.raises(ConfigurationError, match=f"does not support {what}"):
            await client.create(manifest=manifest)
    session = await client.create(manifest=Manifest(entries={"r": GitRepo(repo="o/r", ref="main")}))
    with pytest.raises((GitMissingInImageError, SandboxError)):
        await session.start()
    await client.delete(session)


async def test_a_session_is_resumed_in_its_workspace(tmp_path: Path) -> None:
    client = ToolcellSandboxClient(**SETTINGS)
    manifest = Manifest(entries={"a.txt": File(content=b"first"), "tmp.txt": File(content=b"t", ephemeral=True)})
    session = await client.create(manifest=manifest, snapshot=LocalSnapshotSpec(base_path=tmp_path))
    async with session:
        await session.exec("echo second > a.txt; ln -s a.txt link; mkdir empty")
    # What a session was stopped with is there again, whatever came after.
    state = client.deserialize_session_state(json.loads(json.dumps(client.serialize_session_state(session.state))))
    [name] = [one.name for one in list_workspaces() if one.name == f"openai-{state.session_id.hex}"]
    Workspace(name).put("a.txt", b"later")
    resumed = await client.resume(state)
    async with resumed:
        assert (await resumed.exec("cat a.txt link; ls -A")).stdout == b"second\nsecond\na.txt\nempty\nlink\ntmp.txt\n"
        await resumed.exec("echo third > a.txt")
    await client.delete(resumed)
    assert name not in [one.name for one in list_workspaces()]
    # Without the workspace, from the archive: it has no links, and nothing ephemeral.
    state = client.deserialize_session_state(client.serialize_session_state(resumed.state))
    again = await client.resume(state)
    async with again:
        assert (await again.exec("cat a.txt; ls -A")).stdout == b"third\na.txt\nempty\ntmp.txt\n"
    await client.delete(again)


async def test_a_run_keeps_its_files_for_the_next(tmp_path: Path) -> None:
    def agent(command: str) -> SandboxAgent[Any]:
        model = ScriptedModel([[function_call("exec_command", {"cmd": command}, call_id="1")], [assistant_message("done")]])
        return SandboxAgent(name="agent", model=model)

    client = ToolcellSandboxClient(**SETTINGS)
    snapshot = LocalSnapshotSpec(base_path=tmp_path)
    config = RunConfig(sandbox=SandboxRunConfig(client=client, snapshot=snapshot), tracing_disabled=True)
    answer = await Runner.run(agent("echo kept > a.txt; cat a.txt"), "go", run_config=config)
    assert "kept" in str(answer.new_items[1].output), answer.new_items  # type: ignore[union-attr]
    state = client.deserialize_session_state(answer.to_state()._sandbox["session_state"])  # type: ignore[index,arg-type]
    config = RunConfig(sandbox=SandboxRunConfig(client=client, session_state=state), tracing_disabled=True)
    answer = await Runner.run(agent("cat a.txt"), "go", run_config=config)
    assert "kept" in str(answer.new_items[1].output), answer.new_items  # type: ignore[union-attr]


async def test_what_needs_an_approval_asks(tmp_path: Path) -> None:
    asked: list[Any] = []

    def approve(question: Approval) -> bool:
        asked.append(question.arguments["script"])
        return question.arguments["script"] == "echo yes"

    client = ToolcellSandboxClient(**ruled(tmp_path, ASK), approve=approve)
    session = await client.create(manifest=Manifest(entries={"a": File(content=b"x"), "d": Dir()}))
    async with session:
        # The application's own files are put without a question.
        assert asked == []
        assert (await session.exec("echo yes")).stdout == b"yes\n"
        ran = await session.exec("echo no")
        assert ran.exit_code == 126 and b"not approved" in ran.stderr
        with pytest.raises(WorkspaceArchiveWriteError):
            await session.write(Path("a"), io.BytesIO(b"y"))
    await client.delete(session)


async def test_a_named_workspace_stays() -> None:
    kept = Workspace("openai-sandbox-test")
    client = ToolcellSandboxClient("openai-sandbox-test", **SETTINGS)
    session = await client.create()
    try:
        async with session:
            await session.exec("echo kept > a")
        await client.delete(session)
        assert kept.get("a") == b"kept\n"
    finally:
        kept.remove()


async def test_a_wrong_shell_says_what_to_do() -> None:
    client = ToolcellSandboxClient(shell=TOOLS / "files/target/toolcell/files.wasm", config=False)
    session = await client.create()
    with pytest.raises(WorkspaceStartError) as failed:
        await session.start()
    assert isinstance(failed.value.cause, ToolcellError)
    assert "toolcell build example-tools/shell" in str(failed.value.cause)
