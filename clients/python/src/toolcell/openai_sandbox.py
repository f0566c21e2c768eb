"""A workspace of toolcell as the sandbox of a sandbox agent of the OpenAI Agents SDK.

    from agents.run import RunConfig
    from agents.sandbox import SandboxRunConfig
    from toolcell.openai_sandbox import ToolcellSandboxClient

    config = RunConfig(sandbox=SandboxRunConfig(client=ToolcellSandboxClient()))
"""

from __future__ import annotations

import io
import shlex
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Optional, Union

try:
    import agents.sandbox
except ImportError as error:
    message = "toolcell.openai_sandbox needs the package openai-agents: pip install 'toolcell[openai-agents]'"
    raise ImportError(message) from error

from agents.sandbox.entries import BaseEntry, Dir, Mount
from agents.sandbox.errors import (
    ConfigurationError,
    ErrorCode,
    ExecNonZeroError,
    ExecTimeoutError,
    ExecTransportError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
    WorkspaceStartError,
    WorkspaceStopError,
)
from agents.sandbox.files import EntryKind, FileEntry
from agents.sandbox.manifest import Manifest
from agents.sandbox.session import (
    BaseSandboxClient,
    BaseSandboxClientOptions,
    BaseSandboxSession,
    Dependencies,
    Instrumentation,
    SandboxSession,
    SandboxSessionState,
)
from agents.sandbox.session.workspace_payloads import coerce_write_payload
from agents.sandbox.snapshot import NoopSnapshot, SnapshotBase, SnapshotSpec, resolve_snapshot
from agents.sandbox.types import ExecResult, Permissions, User
from agents.sandbox.util.tar_utils import should_skip_tar_member

from . import _sandbox
from ._errors import ToolcellError
from ._options import PathLike
from ._sandbox import ROOT, OfWorkspace, Ran, Sandbox, Script, Steps

# `ls -la` of the shell has other columns than the SDK reads.
_LS = f"""
[ -e "$1" ] || exit {_sandbox.NOT_FOUND}
if [ -d "$1" ]; then find "$1" -mindepth 1 -maxdepth 1 -printf '%y %s %p\\0'; else find "$1" -printf '%y %s %p\\0'; fi
"""
_READ_START = f"""
[ -e "$1" ] || exit {_sandbox.NOT_FOUND}
[ -d "$1" ] && exit {_sandbox.IS_FOLDER}
head -c "$2" -- "$1"
"""
_MV = f"""
[ -L "$1" ] || [ -f "$1" ] || {{ echo 'Move source must be a regular file or symlink' >&2; exit 1; }}
[ -d "$2" ] && [ ! -L "$2" ] && {{ echo 'Move destination is a folder' >&2; exit 1; }}
[ -L "$2" ] && rm -f -- "$2"
mv -f -- "$1" "$2"
"""
# `-ef` of the shell follows no links.
_SAME = """
[ -e "$1" ] && [ -e "$2" ] || exit 1
if [ "$3" = no ]; then [ ! -L "$1" ] && [ ! -L "$2" ] || exit 1; fi
[ "$1" -ef "$2" ] || [ "$(readlink -f -- "$1")" = "$(readlink -f -- "$2")" ]
"""
_KINDS = {"f": EntryKind.FILE, "d": EntryKind.DIRECTORY, "l": EntryKind.SYMLINK}
_SHELLS = ("sh", "bash", "/bin/sh", "/bin/bash")


class ToolcellSandboxSessionState(SandboxSessionState):
    """What a session is resumed from. It names no workspace and no grant: those are the client's."""

    type: Literal["toolcell"] = "toolcell"
    saved: Optional[str] = None
    """The snapshot of the workspace that `stop` made last."""


class ToolcellSandboxSession(BaseSandboxSession):
    """A session without processes: `exec` is a call of the tool `shell`, and the files are those of a workspace.

    There is no PTY, no port, no user, and no program that a command installs.
    """

    state: ToolcellSandboxSessionState

    def __init__(self, state: ToolcellSandboxSessionState, sandbox: Sandbox) -> None:
        self.state = state
        self._sandbox = sandbox
        self._is_running = False
        # The files of the manifest are the application's own, and not written by calls.
        self._is_starting = False

    async def running(self) -> bool:
        """Whether commands can run."""
        return self._is_running

    async def read(self, path: Path, *, user: Union[str, User, None] = None) -> io.IOBase:
        """Reads a file, in one call."""
        return io.BytesIO(await self._read(path, _sandbox.read(self._place(path, user))))

    async def write(self, path: Path, data: io.IOBase, *, user: Union[str, User, None] = None) -> None:
        """Writes a file, whole or not at all, with the folders that hold it."""
        await self._write(path, data, user, False)

    async def ls(self, path: Union[Path, str], *, user: Union[str, User, None] = None) -> list[FileEntry]:
        """Lists a folder."""
        folder = self._place(path, user)
        ran = await self._checked(Script(_LS, [folder]), ("ls", folder))
        entries = []
        for line in ran.stdout.decode("utf-8", "replace").split("\0")[:-1]:
            kind, size, name = line.split(" ", 2)
            is_folder = kind == "d"
            entries.append(
                FileEntry(
                    path=name,
                    # WASI has no modes and no owners.
                    permissions=Permissions(owner=7 if is_folder else 6, group=5, other=5, directory=is_folder),
                    owner="user",
                    group="user",
                    size=int(size),
                    kind=_KINDS.get(kind, EntryKind.OTHER),
                )
            )
        return entries

    async def rm(
        self, path: Union[Path, str], *, recursive: bool = False, user: Union[str, User, None] = None
    ) -> None:
        """Removes a file, or a folder with its content."""
        found = self._place(path, user)
        script = 'rm -rf -- "$1"' if recursive else 'rm -- "$1"'
        await self._checked(Script(script, [found]), ("rm", found))

    async def mkdir(
        self, path: Union[Path, str], *, parents: bool = False, user: Union[str, User, None] = None
    ) -> None:
        """Makes a folder."""
        found = self._place(path, user)
        if self._is_starting:
            try:
                return await self._sandbox.run_async(_make_folder(found))
            except ToolcellError as error:
                raise WorkspaceArchiveWriteError(path=Path(found), cause=error, message=str(error)) from error
        script = 'mkdir -p -- "$1"' if parents else 'mkdir -- "$1"'
        await self._checked(Script(script, [found]), ("mkdir", found))

    async def mv(
        self, source: Union[Path, str], destination: Union[Path, str], *, user: Union[str, User, None] = None
    ) -> None:
        """Renames a file or a link."""
        paths = [self._place(source, user), self._place(destination, user)]
        await self._checked(Script(_MV, paths), ("mv", *paths))

    async def same_file(
        self,
        left: Union[Path, str],
        right: Union[Path, str],
        *,
        follow_symlinks: bool = True,
        user: Union[str, User, None] = None,
    ) -> bool:
        """Whether two paths lead to one file."""
        paths = [self._place(left, user), self._place(right, user)]
        ran = await self._ran(Script(_SAME, [*paths, "yes" if follow_symlinks else "no"]), ("test", *paths))
        if ran.exit_code not in (0, 1):
            raise _nonzero(ran, ("test", *paths))
        return ran.exit_code == 0

    async def persist_workspace(self) -> io.IOBase:
        """All files as a tar archive, without links and what is ephemeral."""
        try:
            packed = await self._sandbox.run_async(_archive())
        except ToolcellError as error:
            raise WorkspaceArchiveReadError(path=Path(ROOT), cause=error) from error
        skipped = self._persist_workspace_skip_relpaths()
        return io.BytesIO(_without(packed, skipped) if skipped else packed)

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        """Adds all files of a tar archive, or none."""
        try:
            await self._sandbox.run_async(_unpack(_packed(data)))
        except (ToolcellError, tarfile.TarError) as error:
            raise WorkspaceArchiveWriteError(path=Path(ROOT), cause=error, message=str(error)) from error

    async def _exec_internal(self, *command: Union[str, Path], timeout: Optional[float] = None) -> ExecResult:
        words = [str(word) for word in command]
        ran = await self._ran(_script(words, timeout), words)
        return ExecResult(stdout=ran.stdout, stderr=ran.stderr, exit_code=ran.exit_code)

    async def _ran(self, script: Script, words: Sequence[str]) -> Ran:
        """Runs a script. What toolcell refused is an answer, for the model to read."""
        try:
            return await self._sandbox.run_async(_one(script))
        except ToolcellError as error:
            if error.error_class == "timeout" and script.timeout is not None:
                raise ExecTimeoutError(command=words, timeout_s=script.timeout, cause=error) from error
            try:
                return _sandbox.refused(error)
            except ToolcellError:
                raise ExecTransportError(
                    command=words, cause=error, message=str(error), retryable=error.retry_safe
                ) from error

    async def _exec_checked_nonzero(self, *command: Union[str, Path]) -> ExecResult:
        if self._is_starting and command[0] == "chmod":
            # The SDK sets the mode of each file of a manifest. WASI has no modes.
            return ExecResult(stdout=b"", stderr=b"", exit_code=0)
        return await super()._exec_checked_nonzero(*command)

    async def _checked(self, script: Script, words: Sequence[str]) -> Ran:
        ran = await self._ran(script, words)
        if ran.exit_code != 0:
            raise _nonzero(ran, words)
        return ran

    async def _read(self, path: Path, steps: Steps[bytes]) -> bytes:
        try:
            return await self._sandbox.run_async(steps)
        except ToolcellError as error:
            if _sandbox.fault_of(error) == "not_found":
                raise WorkspaceReadNotFoundError(path=path, cause=error) from error
            context = {"reason": error.message}
            raise WorkspaceArchiveReadError(path=path, context=context, cause=error) from error

    async def _read_bounded(self, path: Path, *, max_bytes: int) -> bytes:
        return await self._read(path, _start(self._place(path, None), max_bytes))

    async def _write_new_file(
        self, path: Path, data: io.IOBase, *, user: Union[str, User, None] = None
    ) -> None:
        await self._write(path, data, user, True)

    async def _write(self, path: Path, data: io.IOBase, user: Union[str, User, None], is_new: bool) -> None:
        found = self._place(path, user)
        content = coerce_write_payload(path=path, data=data).stream.read()
        steps = _put(found, content) if self._is_starting else _sandbox.write(found, content, is_new)
        try:
            await self._sandbox.run_async(steps)
        except ToolcellError as error:
            if _sandbox.fault_of(error) == "exists":
                raise FileExistsError(found) from error
            raise WorkspaceArchiveWriteError(path=Path(found), cause=error, message=str(error)) from error

    def _place(self, path: Union[Path, str], user: Union[str, User, None]) -> str:
        """The path below /workspace. Raises the SDK's error for one that leads elsewhere."""
        if user is not None:
            raise _unsupported("users", "leave out `user` and `run_as`")
        return self.normalize_path(path).as_posix()

    def _prepare_exec_command(
        self, *command: Union[str, Path], shell: Union[bool, list[str]], user: Union[str, User, None]
    ) -> list[str]:
        if user is not None:
            raise _unsupported("users", "leave out `user` and `run_as`")
        return super()._prepare_exec_command(*command, shell=shell, user=None)

    async def _ensure_backend_started(self) -> None:
        await self._sandbox.open_async()

    async def _start_workspace(self) -> None:
        self._is_starting = True
        try:
            if self.state.saved in await self._sandbox.run_async(_snapshots()):
                await self._sandbox.run_async(_restore(str(self.state.saved)))
                await self._reapply_ephemeral_manifest_on_resume()
            else:
                await super()._start_workspace()
        finally:
            self._is_starting = False

    async def _after_start(self) -> None:
        self._is_running = True

    async def _after_start_failed(self) -> None:
        await self._sandbox.stop_async()

    def _wrap_start_error(self, error: Exception) -> Exception:
        return WorkspaceStartError(path=Path(ROOT), cause=error) if isinstance(error, ToolcellError) else error

    def _wrap_stop_error(self, error: Exception) -> Exception:
        return WorkspaceStopError(path=Path(ROOT), cause=error) if isinstance(error, ToolcellError) else error

    async def _persist_snapshot(self) -> None:
        if isinstance(self.state.snapshot, NoopSnapshot):
            return
        # The archive is for a workspace that is removed; while it is there, its own snapshot is exact.
        self.state.saved = await self._sandbox.run_async(_save(self.state.saved))
        await super()._persist_snapshot()

    def _should_compute_snapshot_fingerprint_on_persist(self) -> bool:
        return False

    async def _shutdown_backend(self) -> None:
        self._is_running = False
        await self._sandbox.stop_async()


class ToolcellSandboxClient(BaseSandboxClient[Optional[BaseSandboxClientOptions]]):
    """Makes sessions in workspaces of toolcell.

    `workspace` names one of the user, which all sessions use and `delete` keeps; without it, each session has its own,
    which `delete` removes. `shell` is the name, file or source folder of the tool `shell`. Keywords are the fields of
    `toolcell.Options`: grants and limits. What an agent does is a call, with the limits, rules and record of toolcell;
    the files of a manifest and snapshots are the application's own. `approve` answers about calls that need an approval,
    as for `Toolcell`.
    """

    backend_id = "toolcell"
    supports_default_options = True

    def __init__(
        self,
        workspace: Optional[str] = None,
        *,
        shell: PathLike = "shell",
        program: Optional[PathLike] = None,
        approve: _sandbox.Approve = "deny",
        instrumentation: Optional[Instrumentation] = None,
        dependencies: Optional[Dependencies] = None,
        **settings: Any,
    ) -> None:
        self._workspace = workspace
        self._shell = shell
        self._program = program
        self._approve = approve
        self._instrumentation = instrumentation if instrumentation is not None else Instrumentation()
        self._dependencies = dependencies
        self._settings = settings

    async def create(
        self,
        *,
        snapshot: Union[SnapshotSpec, SnapshotBase, None] = None,
        manifest: Optional[Manifest] = None,
        options: Optional[BaseSandboxClientOptions] = None,
    ) -> SandboxSession:
        """Makes a session, whose files and program begin with its start."""
        manifest = manifest if manifest is not None else Manifest()
        _check(manifest)
        self._validate_manifest_for_create(manifest)
        state = ToolcellSandboxSessionState(snapshot=NoopSnapshot(id="none"), manifest=manifest)
        state.snapshot = resolve_snapshot(snapshot, str(state.session_id))
        return self._session(state)

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        """Takes up a session: its workspace if that is still there, or else the archive of its snapshot."""
        if not isinstance(state, ToolcellSandboxSessionState):
            raise TypeError("ToolcellSandboxClient.resume expects a ToolcellSandboxSessionState")
        state.assert_path_grants_rebound()
        session = self._session(state)
        inner = session._inner
        assert isinstance(inner, ToolcellSandboxSession)
        inner._set_start_state_preserved(await inner._sandbox.exists_async())
        return session

    async def delete(self, session: SandboxSession) -> SandboxSession:
        """Ends the program of a session, and removes its workspace unless the client names it."""
        inner = session._inner
        if not isinstance(inner, ToolcellSandboxSession):
            raise TypeError("ToolcellSandboxClient.delete expects a ToolcellSandboxSession")
        await inner._sandbox.close_async()
        return session

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        """Reads what `serialize_session_state` wrote."""
        return self._deserialize_session_state_payload(payload, ToolcellSandboxSessionState)

    def _session(self, state: ToolcellSandboxSessionState) -> SandboxSession:
        _check(state.manifest)
        sandbox = Sandbox(
            # Not from the state, which a caller may have had: it must not name another workspace.
            self._workspace if self._workspace is not None else f"openai-{state.session_id.hex}",
            self._shell,
            is_own=self._workspace is None,
            program=self._program,
            approve=self._approve,
            settings=self._settings,
        )
        return self._wrap_session(ToolcellSandboxSession(state, sandbox), instrumentation=self._instrumentation)


def _nonzero(ran: Ran, words: Sequence[str]) -> ExecNonZeroError:
    result = ExecResult(stdout=ran.stdout, stderr=ran.stderr, exit_code=ran.exit_code)
    return ExecNonZeroError(result, command=words)


def _check(manifest: Manifest) -> None:
    """Refuses what a sandbox without processes and users does not have."""
    if manifest.root != ROOT:
        raise _unsupported(f"the root {manifest.root}", f"leave it out, or give {ROOT}")
    if manifest.extra_path_grants:
        raise _unsupported("extra_path_grants", "grant folders to the client: allow_read, allow_write")
    if manifest.users or manifest.groups:
        raise _unsupported("users and groups", "leave them out of the manifest")
    if manifest.environment.value:
        raise _unsupported("an environment, whose values would be in the record of calls", "`export` in the command")
    _check_entries(list(manifest.entries.values()))


def _check_entries(entries: list[BaseEntry]) -> None:
    for entry in entries:
        if isinstance(entry, Mount):
            raise _unsupported("mounts", "copy the files into the manifest")
        if entry.group is not None:
            raise _unsupported("users and groups", "leave out the group of the entry")
        if isinstance(entry, Dir):
            _check_entries(list(entry.children.values()))


def _unsupported(what: str, remedy: str) -> ConfigurationError:
    return ConfigurationError(
        message=f"the sandbox of toolcell does not support {what}: {remedy}",
        error_code=ErrorCode.SANDBOX_CONFIG_INVALID,
        op="start",
        context={"backend": "toolcell"},
        retryable=False,
    )


def _script(words: Sequence[str], timeout: Optional[float]) -> Script:
    """The script of a command. `sh -c SCRIPT NAME ARG ..` is what the SDK makes of most."""
    if len(words) > 2 and words[0] in _SHELLS and words[1] in ("-c", "-lc"):
        return Script(words[2], words[4:], timeout=timeout)
    return Script(shlex.join(words), timeout=timeout)


def _one(script: Script) -> Steps[Ran]:
    ran: Ran = yield script
    return ran


def _start(path: str, bytes_max: int) -> Steps[bytes]:
    return (yield from _sandbox.output(Script(_READ_START, [path, str(bytes_max)], output_max=bytes_max), path))


def _put(path: str, content: bytes) -> Steps[None]:
    yield OfWorkspace("put", (_sandbox.within(path), content))


def _make_folder(path: str) -> Steps[None]:
    if path == ROOT:
        return
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo(_sandbox.within(path))
        member.type = tarfile.DIRTYPE
        archive.addfile(member)
    yield OfWorkspace("put_archive", (packed.getvalue(),))


def _archive() -> Steps[bytes]:
    packed: bytes = yield OfWorkspace("get_archive")
    return packed


def _unpack(packed: bytes) -> Steps[None]:
    yield OfWorkspace("put_archive", (packed,))


def _snapshots() -> Steps[list[str]]:
    try:
        return [snapshot.id for snapshot in (yield OfWorkspace("snapshots"))]
    except ToolcellError as error:
        if error.code != "unknown_workspace":
            raise
        return []


def _restore(id: str) -> Steps[None]:
    yield OfWorkspace("restore", (id,))


def _save(last: Optional[str]) -> Steps[str]:
    """The id of a snapshot of the files; the last one if nothing was changed since."""
    if last in (yield from _snapshots()):
        changes = yield OfWorkspace("diff", (last,))
        if not changes.changes and changes.problem is None:
            return str(last)
    return str((yield OfWorkspace("snapshot")).id)


def _packed(data: io.IOBase) -> bytes:
    """The archive, without the folder `.` that other sandboxes put into theirs."""
    content = data.read()
    return _without(content.encode() if isinstance(content, str) else bytes(content), set())


def _without(packed: bytes, skipped: set[Path]) -> bytes:
    kept = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:*") as old, tarfile.open(fileobj=kept, mode="w") as new:
        for member in old:
            name = member.name.removeprefix("./")
            if name in ("", ".") or should_skip_tar_member(name, skip_rel_paths=skipped, root_name=None):
                continue
            member.name = name
            new.addfile(member, old.extractfile(member) if member.isreg() else None)
    return kept.getvalue()
