"""Workspaces of the user, managed with the command `toolcell workspace`: no server runs."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, Generic, Optional, TypeVar, Union

from . import _program
from ._errors import ToolcellError, of_record
from ._files import (
    Snapshot,
    WorkspaceChanges,
    WorkspaceFile,
    WorkspaceInfo,
    changes_of,
    checked_name,
    file_of,
    info_of,
    snapshot_of,
)
from ._options import PathLike, variables

T = TypeVar("T")

Content = Union[bytes, bytearray, memoryview, "os.PathLike[str]"]
"""The bytes, or the path of a file that holds them. A text is neither."""

# Exit code of an invalid request.
_BAD_REQUEST = 2
_ERROR = b'{"error":'


@dataclass(frozen=True)
class _Action(Generic[T]):
    """A command, and how its output is read."""

    arguments: list[str]
    read: Callable[[bytes], T]
    stdin: bytes = b""


class _Actions:
    """The commands of a workspace, which each client runs in its own way."""

    def __init__(self, name: str, program: Optional[PathLike], environment: Optional[Mapping[str, str]]) -> None:
        self.name = checked_name(name, "workspace")
        self.program = program
        self.environment = environment

    def put(self, path: str, content: Content) -> _Action[WorkspaceFile]:
        file, stdin = _source(content)
        return _Action(["put", "--json", "--", self.name, file, _text(path)], _json(file_of), stdin)

    def put_archive(self, content: Content) -> _Action[WorkspaceChanges]:
        file, stdin = _source(content)
        return _Action(["put", "--json", "--tar", "--", self.name, file], self._changes(), stdin)

    def get(self, path: str) -> _Action[bytes]:
        return _Action(["get", "--json", "--", self.name, _text(path)], bytes)

    def get_archive(self) -> _Action[bytes]:
        return _Action(["get", "--json", "--tar", "--", self.name], bytes)

    def files(self) -> _Action[list[WorkspaceFile]]:
        return _Action(["show", "--json", "--", self.name], _json(lambda shown: list(map(file_of, shown["files"]))))

    def snapshots(self) -> _Action[list[Snapshot]]:
        return _Action(["show", "--json", "--", self.name], _json(lambda shown: list(map(snapshot_of, shown["snapshots"]))))

    def remove_file(self, path: str) -> _Action[None]:
        return _Action(["rm", "--json", "--", self.name, _text(path)], _nothing)

    def diff(self, start: str, end: Optional[str]) -> _Action[WorkspaceChanges]:
        ids = [start] if end is None else [start, end]
        return _Action(["diff", "--json", "--", self.name, *map(_id, ids)], self._changes())

    def snapshot(self, id: Optional[str]) -> _Action[Snapshot]:
        ids = [] if id is None else [_id(id)]
        return _Action(["snapshot", "--json", "--", self.name, *ids], _json(snapshot_of))

    def restore(self, id: str) -> _Action[WorkspaceChanges]:
        return _Action(["restore", "--json", "--", self.name, _id(id)], self._changes())

    def fork(self, name: str) -> _Action[None]:
        return _Action(["fork", "--json", "--", self.name, checked_name(name, "workspace")], _nothing)

    def remove(self) -> _Action[None]:
        return _Action(["remove", "--json", "--", self.name], _nothing)

    def _changes(self) -> Callable[[bytes], WorkspaceChanges]:
        return _json(lambda facts: changes_of(self.name, facts))


class Workspace:
    """A named tree of files that tools keep between calls: `Toolcell(.., workspace=NAME)`.

    It belongs to the user, and `put` creates it. Each method runs `toolcell workspace`, which waits up to a minute for a call
    that uses the workspace. Paths are relative to its top folder. Methods raise ToolcellError.
    """

    def __init__(
        self, name: str, *, program: Optional[PathLike] = None, environment: Optional[Mapping[str, str]] = None
    ) -> None:
        self._actions = _Actions(name, program, environment)

    @property
    def name(self) -> str:
        return self._actions.name

    def put(self, path: str, content: Content) -> WorkspaceFile:
        """Writes a file, in one step, with the folders that hold it."""
        return self._run(self._actions.put(path, content))

    def put_archive(self, content: Content) -> WorkspaceChanges:
        """Adds all files of a tar archive, or none."""
        return self._run(self._actions.put_archive(content))

    def get(self, path: str) -> bytes:
        """Reads a file."""
        return self._run(self._actions.get(path))

    def get_archive(self) -> bytes:
        """Reads all files, as a tar archive without links."""
        return self._run(self._actions.get_archive())

    def files(self) -> list[WorkspaceFile]:
        """All files, sorted by path. Links and folders are not listed."""
        return self._run(self._actions.files())

    def snapshots(self) -> list[Snapshot]:
        """The snapshots."""
        return self._run(self._actions.snapshots())

    def remove_file(self, path: str) -> None:
        """Removes a file, or a folder with its content."""
        self._run(self._actions.remove_file(path))

    def diff(self, start: str, end: Optional[str] = None) -> WorkspaceChanges:
        """Changes from the snapshot `start` to the snapshot `end`, by default to the files as they are."""
        return self._run(self._actions.diff(start, end))

    def snapshot(self, id: Optional[str] = None) -> Snapshot:
        """Keeps the files as they are now. Without `id`, the snapshot is named s1, s2 and so on."""
        return self._run(self._actions.snapshot(id))

    def restore(self, id: str) -> WorkspaceChanges:
        """Makes the files those of a snapshot, in one step."""
        return self._run(self._actions.restore(id))

    def fork(self, name: str) -> Workspace:
        """Makes a new workspace with these files, without the snapshots."""
        self._run(self._actions.fork(name))
        return Workspace(name, program=self._actions.program, environment=self._actions.environment)

    def remove(self) -> None:
        """Removes the workspace with its snapshots."""
        self._run(self._actions.remove())

    def _run(self, action: _Action[T]) -> T:
        return _run(action, self._actions.program, self._actions.environment)


class AsyncWorkspace:
    """`Workspace` for asyncio: the same methods, awaited. Canceling the task of a method ends its command."""

    def __init__(
        self, name: str, *, program: Optional[PathLike] = None, environment: Optional[Mapping[str, str]] = None
    ) -> None:
        self._actions = _Actions(name, program, environment)

    @property
    def name(self) -> str:
        return self._actions.name

    async def put(self, path: str, content: Content) -> WorkspaceFile:
        """Writes a file, as `Workspace.put` does."""
        return await self._run(self._actions.put(path, content))

    async def put_archive(self, content: Content) -> WorkspaceChanges:
        """Adds all files of a tar archive, or none."""
        return await self._run(self._actions.put_archive(content))

    async def get(self, path: str) -> bytes:
        """Reads a file."""
        return await self._run(self._actions.get(path))

    async def get_archive(self) -> bytes:
        """Reads all files, as a tar archive without links."""
        return await self._run(self._actions.get_archive())

    async def files(self) -> list[WorkspaceFile]:
        """All files, sorted by path."""
        return await self._run(self._actions.files())

    async def snapshots(self) -> list[Snapshot]:
        """The snapshots."""
        return await self._run(self._actions.snapshots())

    async def remove_file(self, path: str) -> None:
        """Removes a file, or a folder with its content."""
        await self._run(self._actions.remove_file(path))

    async def diff(self, start: str, end: Optional[str] = None) -> WorkspaceChanges:
        """Changes from the snapshot `start` to the snapshot `end`, by default to the files as they are."""
        return await self._run(self._actions.diff(start, end))

    async def snapshot(self, id: Optional[str] = None) -> Snapshot:
        """Keeps the files as they are now, as `Workspace.snapshot` does."""
        return await self._run(self._actions.snapshot(id))

    async def restore(self, id: str) -> WorkspaceChanges:
        """Makes the files those of a snapshot, in one step."""
        return await self._run(self._actions.restore(id))

    async def fork(self, name: str) -> AsyncWorkspace:
        """Makes a new workspace with these files, without the snapshots."""
        await self._run(self._actions.fork(name))
        return AsyncWorkspace(name, program=self._actions.program, environment=self._actions.environment)

    async def remove(self) -> None:
        """Removes the workspace with its snapshots."""
        await self._run(self._actions.remove())

    async def _run(self, action: _Action[T]) -> T:
        return await _run_async(action, self._actions.program, self._actions.environment)


def list_workspaces(
    *, program: Optional[PathLike] = None, environment: Optional[Mapping[str, str]] = None
) -> list[WorkspaceInfo]:
    """The workspaces of the user."""
    return _run(_LIST, program, environment)


async def list_workspaces_async(
    *, program: Optional[PathLike] = None, environment: Optional[Mapping[str, str]] = None
) -> list[WorkspaceInfo]:
    """The workspaces of the user, for asyncio."""
    return await _run_async(_LIST, program, environment)


def _run(action: _Action[T], program: Optional[PathLike], environment: Optional[Mapping[str, str]]) -> T:
    command = [_program.find(program), "workspace", *action.arguments]
    try:
        ran = subprocess.run(command, input=action.stdin, capture_output=True, env=variables(environment))
    except (OSError, ValueError) as error:
        raise _not_started(command[0], error) from None
    return _outcome(action, ran.returncode, ran.stdout, ran.stderr)


async def _run_async(action: _Action[T], program: Optional[PathLike], environment: Optional[Mapping[str, str]]) -> T:
    command = [_program.find(program), "workspace", *action.arguments]
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=pipe, env=variables(environment)
        )
    except (OSError, ValueError) as error:
        raise _not_started(command[0], error) from None
    try:
        stdout, stderr = await process.communicate(action.stdin)
    except BaseException:
        # Safe, because each command makes its change in one step.
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    return _outcome(action, process.returncode or 0, stdout, stderr)


def _outcome(action: _Action[T], code: int, stdout: bytes, stderr: bytes) -> T:
    if code == 0:
        return action.read(stdout)
    # The error can follow the first part of an archive.
    at = stdout.rfind(_ERROR)
    if at >= 0:
        raise _json(lambda said: of_record(said["error"], message=str(said["error"].get("message"))))(stdout[at:])
    said = stderr.decode("utf-8", "replace").strip()
    message = (said[len("error: ") :] if said.startswith("error: ") else said) or f"toolcell has ended with exit code {code}"
    if code == _BAD_REQUEST:
        raise ToolcellError("invalid_arguments", "request_refused", message)
    raise ToolcellError("execution_failed", "command_failed", message)


def _json(read: Callable[[dict[str, Any]], T]) -> Callable[[bytes], T]:
    def parse(output: bytes) -> T:
        try:
            return read(json.loads(output))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            message = f"toolcell printed what cannot be read: {error!r}"
            raise ToolcellError("execution_failed", "answer_unreadable", message) from None

    return parse


def _nothing(output: bytes) -> None:
    """Ignores the output."""


_LIST = _Action(["list", "--json"], _json(lambda said: list(map(info_of, said["workspaces"]))))


def _source(content: Content) -> tuple[str, bytes]:
    """The argument FILE of the command, and its standard input."""
    if isinstance(content, (bytes, bytearray, memoryview)):
        return "-", bytes(content)
    if isinstance(content, os.PathLike):
        # Absolute, because `-` is the standard input.
        return os.path.abspath(content), b""
    message = f"cannot write a {type(content).__name__}: it is neither bytes nor the pathlib.Path of a file"
    raise ToolcellError("invalid_arguments", "option_invalid", message)


def _text(path: str) -> str:
    """A path that a command line can hold."""
    try:
        if b"\0" not in path.encode():
            return path
    except (AttributeError, UnicodeError):
        pass
    message = f"cannot use {path!r:.100} as the path of a file: it is not Unicode text without NUL"
    raise ToolcellError("invalid_arguments", "workspace_path_invalid", message)


def _id(id: str) -> str:
    return checked_name(id, "snapshot")


def _not_started(program: str, error: Exception) -> ToolcellError:
    return ToolcellError("setup_required", "program_not_started", f"cannot start {program}: {error}")
