"""A workspace of toolcell as the sandbox of an agent of `deepagents`.

    from deepagents import create_deep_agent
    from toolcell.deepagents import ToolcellSandbox

    with ToolcellSandbox() as sandbox:
        agent = create_deep_agent(model=model, backend=sandbox)
"""

from __future__ import annotations

import base64
import json
import posixpath
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Optional, TypeVar, Union

try:
    import deepagents
except ImportError as error:
    message = "toolcell.deepagents needs the package deepagents: pip install 'toolcell[deepagents]'"
    raise ImportError(message) from error

from deepagents.backends.protocol import (
    FILE_NOT_FOUND,
    INVALID_PATH,
    IS_DIRECTORY,
    PERMISSION_DENIED,
    DeleteResult,
    EditResult,
    ExecuteResponse,
    FileData,
    FileDownloadResponse,
    FileInfo,
    FileUploadResponse,
    GlobResult,
    GrepMatch,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)
from deepagents.backends.sandbox import MAX_BINARY_BYTES, MAX_OUTPUT_BYTES, TRUNCATION_MSG, BaseSandbox
from deepagents.backends.utils import (
    EMPTY_OLD_STRING_ERROR,
    _get_backend_read_file_type,
    compile_grep_include_glob,
    normalize_read_bounds,
)
from langgraph.config import get_config
from langgraph.types import interrupt

from . import _sandbox
from ._errors import ToolcellError
from ._options import PathLike
from ._questions import Approval, Decision
from ._sandbox import ROOT, OfWorkspace, Ran, Sandbox, Script, Steps, place, within

T = TypeVar("T")

_EMPTY = "System reminder: File exists but has empty contents"
_GREP_BYTES_MAX = 8 << 20
# Calls of tasks that interrupted their graph.
_CALLS_MAX = 256
# How a file is told from a folder and a link, for `ls` and `glob`; names can have any other character.
_LS = f"""
[ -e "$1" ] || exit {_sandbox.NOT_FOUND}
[ -d "$1" ] || {{ echo "not a folder" >&2; exit 1; }}
find "$1" -mindepth 1 -maxdepth 1 -printf '%y %s %f\\0'
"""
_GLOB = f"""
[ -e "$1" ] || exit {_sandbox.NOT_FOUND}
[ -d "$1" ] || {{ echo "not a folder" >&2; exit 1; }}
find "$1" -type f -printf '%P\\0'
"""
_PAGE = f"""
[ -e "$1" ] || exit {_sandbox.NOT_FOUND}
[ -f "$1" ] || exit {_sandbox.IS_FOLDER}
echo "$(wc -c < "$1") $(wc -l < "$1") $(tail -c 1 -- "$1" | wc -l)"
tail -n "+$2" -- "$1" | head -n "$3" | head -c "$4"
"""
_GREP = f"""
[ -e "$1" ] || exit {_sandbox.NOT_FOUND}
root=$1 text=$2
shift 2
grep -rHnFZI "$@" -e "$text" -- "$root"
[ $? -le 1 ]
"""
_DELETE = f"""
[ -e "$1" ] || [ -L "$1" ] || exit {_sandbox.NOT_FOUND}
rm -rf -- "$1"
"""

Approve = Union[_sandbox.Approve, Literal["interrupt"]]


class ToolcellSandbox(BaseSandbox):
    """A sandbox without processes: `execute` is a call of the tool `shell`, and the files are those of a workspace.

    The workspace is `/workspace`, where commands start, and the only place whose files stay. `workspace` names one of the
    user; without it, the sandbox has a new one, which `close` removes. `shell` is the name, file or source folder of the
    tool. Keywords are the fields of `toolcell.Options`: grants and limits. What an agent does is a call, with the limits,
    rules and record of toolcell; `upload_files` and `download_files` are the application's own.

    `approve` answers about calls that need an approval, as for `Toolcell`. With `interrupt`, the graph is interrupted, as by
    LangChain's HumanInTheLoopMiddleware for each call: resume it with {"type": "approve"}. It needs a checkpointer.
    """

    def __init__(
        self,
        workspace: Optional[str] = None,
        *,
        shell: PathLike = "shell",
        program: Optional[PathLike] = None,
        approve: Approve = "deny",
        **settings: Any,
    ) -> None:
        self._interrupts: Optional[_Interrupts] = None
        if approve == "interrupt":
            self._interrupts = _Interrupts()
            asked: _sandbox.Approve = self._interrupts.asked
        else:
            asked = approve
        self._sandbox = Sandbox(
            workspace if workspace is not None else f"deepagents-{uuid.uuid4().hex}",
            shell,
            is_own=workspace is None,
            program=program,
            approve=asked,
            settings=settings,
        )

    def __enter__(self) -> ToolcellSandbox:
        self._sandbox.open()
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the program, and removes the workspace if it is the sandbox's own."""
        self._sandbox.close()

    @property
    def id(self) -> str:
        """The name of the workspace."""
        return self._sandbox.name

    def execute(self, command: str, *, timeout: Optional[int] = None) -> ExecuteResponse:
        """Runs a bash script. Its working directory is /workspace; `timeout` is in seconds."""
        return self._run(_execute(command, timeout))

    async def aexecute(self, command: str, *, timeout: Optional[int] = None) -> ExecuteResponse:
        """`execute` for asyncio. Canceling the task cancels the call."""
        return await self._run_async(_execute(command, timeout))

    def ls(self, path: str) -> LsResult:
        """Lists a folder."""
        return self._run(_ls(path))

    async def als(self, path: str) -> LsResult:
        """Lists a folder."""
        return await self._run_async(_ls(path))

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Reads lines of a text file, or a whole binary file as base64."""
        return self._run(_read(file_path, offset, limit))

    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Reads lines of a text file, or a whole binary file as base64."""
        return await self._run_async(_read(file_path, offset, limit))

    def write(self, file_path: str, content: str) -> WriteResult:
        """Writes a file, whole or not at all, with the folders that hold it."""
        return self._run(_write(file_path, content))

    async def awrite(self, file_path: str, content: str) -> WriteResult:
        """Writes a file, whole or not at all, with the folders that hold it."""
        return await self._run_async(_write(file_path, content))

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """Replaces a part of a text file. A change by another call meanwhile is not lost."""
        return self._run(_edit(file_path, old_string, new_string, replace_all))

    async def aedit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """Replaces a part of a text file. A change by another call meanwhile is not lost."""
        return await self._run_async(_edit(file_path, old_string, new_string, replace_all))

    def delete(self, file_path: str) -> DeleteResult:
        """Removes a file, or a folder with its content."""
        return self._run(_delete(file_path))

    async def adelete(self, file_path: str) -> DeleteResult:
        """Removes a file, or a folder with its content."""
        return await self._run_async(_delete(file_path))

    def glob(self, pattern: str, path: Optional[str] = None) -> GlobResult:
        """Finds files by a pattern."""
        return self._run(_glob(pattern, path))

    async def aglob(self, pattern: str, path: Optional[str] = None) -> GlobResult:
        """Finds files by a pattern."""
        return await self._run_async(_glob(pattern, path))

    def grep(
        self, pattern: str, path: Optional[str] = None, glob: Optional[str] = None, *, max_count: Optional[int] = None
    ) -> GrepResult:
        """Finds the lines that contain a text."""
        return self._run(_grep(pattern, path, glob, max_count, self.grep_exclude_dirs))

    async def agrep(
        self, pattern: str, path: Optional[str] = None, glob: Optional[str] = None, *, max_count: Optional[int] = None
    ) -> GrepResult:
        """Finds the lines that contain a text."""
        return await self._run_async(_grep(pattern, path, glob, max_count, self.grep_exclude_dirs))

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Writes files of the application, each in one step. No rule of a policy is asked."""
        return [self._sandbox.run(_upload(path, content)) for path, content in files]

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Writes files of the application, each in one step. No rule of a policy is asked."""
        return [await self._sandbox.run_async(_upload(path, content)) for path, content in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Reads files for the application. No rule of a policy is asked."""
        return [self._sandbox.run(_download(path)) for path in paths]

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Reads files for the application. No rule of a policy is asked."""
        return [await self._sandbox.run_async(_download(path)) for path in paths]

    def _run(self, steps: Steps[T]) -> T:
        return self._sandbox.run(steps if self._interrupts is None else self._interrupts.asking(steps))

    async def _run_async(self, steps: Steps[T]) -> T:
        return await self._sandbox.run_async(steps if self._interrupts is None else self._interrupts.asking(steps))


@dataclass
class _Call:
    """A call that interrupted its graph."""

    question: Approval
    ran: Optional[Ran] = None
    """What came of it, so that it is not made again when its task is executed again."""


class _Interrupts:
    """Takes the questions about calls to the graph. A call that needs an answer fails, and is made again with the answer.

    LangGraph executes the task of a tool call again from its start once an interrupt is answered. The calls of a task are the
    same each time, so that an answer is about the same arguments.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._questions: dict[str, Approval] = {}
        self._answers: dict[str, list[Decision]] = {}
        self._calls: dict[tuple[str, str], _Call] = {}
        self._running: list[str] = []

    def asked(self, approval: Approval) -> Decision:
        """Answers about a call, in a thread of the connection, where no graph can be interrupted."""
        with self._lock:
            # A question shows no long arguments, and then no call but one must run to know which one it is about.
            key = _key(approval.arguments)
            if approval.arguments is None and len(self._running) == 1:
                key = self._running[0]
            answers = self._answers.get(key)
            if answers:
                return answers.pop()
            self._questions[key] = approval
        return Decision(False, note="the graph is interrupted to ask; the call is made again with the answer")

    def asking(self, steps: Steps[T]) -> Steps[T]:
        """Passes on the steps; one whose call asks interrupts the graph, which runs in this thread or task."""
        outcome: Any = None
        while True:
            try:
                step = _sandbox.advanced(steps, outcome)
            except StopIteration as ended:
                return ended.value  # type: ignore[no-any-return]
            try:
                outcome = (yield from self._script(step)) if isinstance(step, Script) else (yield step)
            except ToolcellError as failed:
                outcome = failed

    def _script(self, step: Script) -> Steps[Ran]:
        key, task = _key(step.arguments), _task()
        if task is None:
            return (yield from self._made(step, key))
        with self._lock:
            call = self._calls.get((task, key))
        if call is None:
            try:
                return (yield from self._made(step, key))
            except ToolcellError:
                with self._lock:
                    question = self._questions.pop(key, None)
                    if question is None:
                        raise
                    call = self._calls[task, key] = _Call(question)
                    if len(self._calls) > _CALLS_MAX:
                        del self._calls[next(iter(self._calls))]
        # Each execution of the task makes the same interrupts. The first one ends here.
        decision = _decision(interrupt(_request(step, call.question)))
        if not decision.approved:
            message = f"the call was denied: {decision.note}" if decision.note else "the call was denied"
            raise ToolcellError("approval_rejected", "approval_rejected", message)
        if call.ran is None:
            call.ran = yield from self._answered(step, key, decision)
        return call.ran

    def _answered(self, step: Script, key: str, decision: Decision) -> Steps[Ran]:
        with self._lock:
            self._answers.setdefault(key, []).append(decision)
        try:
            return (yield from self._made(step, key))
        finally:
            # Not for a later call, if this one did not ask.
            with self._lock:
                self._answers[key] = [one for one in self._answers[key] if one is not decision]
                if not self._answers[key]:
                    del self._answers[key]

    def _made(self, step: Script, key: str) -> Steps[Ran]:
        with self._lock:
            self._running.append(key)
        try:
            ran: Ran = yield step
            return ran
        finally:
            with self._lock:
                self._running.remove(key)


def _task() -> Optional[str]:
    """The task of a graph, the same in each of its executions; None outside of a graph."""
    try:
        facts = get_config().get("configurable") or {}
    except RuntimeError:
        return None
    namespace = facts.get("checkpoint_ns")
    return f"{facts.get('thread_id')}/{namespace}" if namespace else None


def _key(arguments: Any) -> str:
    return json.dumps(arguments, sort_keys=True)


def _request(step: Script, question: Approval) -> dict[str, Any]:
    return {"type": "tool_approval", "name": "shell", "args": step.arguments, "description": question.message}


def _decision(said: Any) -> Decision:
    """Anything but a clear yes is a no."""
    answer: Mapping[str, Any] = said if isinstance(said, Mapping) else {}
    note = answer.get("message")
    is_yes = answer.get("type") == "approve"
    # The interrupt has all arguments, also where the description has a part of them.
    return Decision(is_yes, note=note if isinstance(note, str) else None, accept_partial_view=is_yes)


def _execute(command: str, timeout: Optional[int]) -> Steps[ExecuteResponse]:
    try:
        ran = yield Script(command, timeout=timeout)
    except ToolcellError as error:
        ran = _sandbox.refused(error)
    output = ran.stdout.decode("utf-8", "replace")
    if ran.stderr:
        output += "\n" if output and not output.endswith("\n") else ""
        output += ran.stderr.decode("utf-8", "replace")
    return ExecuteResponse(output=output, exit_code=ran.exit_code, truncated=ran.is_cut)


def _ls(path: str) -> Steps[LsResult]:
    # Agents begin at the top.
    if path == "/":
        return LsResult(entries=[FileInfo(path=ROOT, is_dir=True)])
    try:
        folder = place(path)
        output = yield from _sandbox.output(Script(_LS, [folder]), folder)
    except ToolcellError as error:
        return LsResult(error=f"Path '{path}': {_said(error)}")
    entries: list[FileInfo] = []
    for line in _records(output):
        kind, size, name = line.split(" ", 2)
        entry = FileInfo(path=f"{folder}/{name}", is_dir=kind == "d")
        if kind == "f":
            entry["size"] = int(size)
        entries.append(entry)
    return LsResult(entries=sorted(entries, key=lambda entry: entry["path"]))


def _read(file_path: str, offset: int, limit: int) -> Steps[ReadResult]:
    offset, limit = normalize_read_bounds(offset, limit)
    try:
        path = place(file_path)
        if _get_backend_read_file_type(path) != "text":
            return (yield from _read_binary(path))
        # A page that is one byte too long was cut.
        script = Script(_PAGE, [path, str(offset + 1), str(limit), str(MAX_OUTPUT_BYTES + 1)])
        about, _, page = (yield from _sandbox.output(script, path)).partition(b"\n")
        size, newlines, ended = map(int, about.split())
        if size == 0:
            return ReadResult(file_data=FileData(content=_EMPTY, encoding="utf-8"))
        try:
            text = page[: MAX_OUTPUT_BYTES + 1].decode()
        except UnicodeDecodeError as error:
            if len(page) <= MAX_OUTPUT_BYTES or error.end < len(page):
                return (yield from _read_binary(path))
            text = page[: error.start].decode()
        return _page(file_path, text, offset, limit, newlines + 1 - ended, len(page) > MAX_OUTPUT_BYTES)
    except ToolcellError as error:
        return ReadResult(error=f"File '{file_path}': {_said(error)}")


def _read_binary(path: str) -> Steps[ReadResult]:
    content = yield from _sandbox.read(path)
    if not content:
        return ReadResult(file_data=FileData(content=_EMPTY, encoding="utf-8"))
    if len(content) > MAX_BINARY_BYTES:
        message = f"Binary file exceeds maximum preview size of {MAX_BINARY_BYTES} bytes"
        raise _sandbox.file_fault("too_large", message)
    return ReadResult(file_data=FileData(content=base64.b64encode(content).decode(), encoding="base64"))


def _page(file_path: str, text: str, offset: int, limit: int, total: int, is_cut: bool) -> ReadResult:
    """Lines of a text, numbered as `read_file` shows them."""
    if limit == 0:
        return ReadResult(file_data=FileData(content="", encoding="utf-8"), no_lines_requested=True)
    if offset >= total:
        return ReadResult(error=f"File '{file_path}': Line offset {offset} exceeds file length ({total} lines)")
    end = min(offset + limit, total)
    if is_cut:
        text = text.encode()[: MAX_OUTPUT_BYTES - len(TRUNCATION_MSG)].decode("utf-8", "ignore")
        # A line that is not whole is read again, unless it is the only one.
        end = offset + max(1, text.count("\n"))
    text = text.replace("\r\n", "\n")
    content = text + TRUNCATION_MSG if is_cut else text[:-1] if text.endswith("\n") else text
    return ReadResult(
        file_data=FileData(content=content, encoding="utf-8"),
        total_lines=total,
        start_line=offset + 1,
        end_line=end,
        next_offset=end if end < total else None,
    )


def _write(file_path: str, content: str) -> Steps[WriteResult]:
    try:
        within(file_path)
        yield from _sandbox.write(place(file_path), _encoded(content))
    except ToolcellError as error:
        return WriteResult(error=f"Failed to write file '{file_path}': {_said(error)}")
    return WriteResult(path=file_path)


def _edit(file_path: str, old: str, new: str, replace_all: bool) -> Steps[EditResult]:
    if not old:
        return EditResult(error=EMPTY_OLD_STRING_ERROR)
    # `read` shows no carriage returns, so a model gives none.
    plain = (old.replace("\r\n", "\n"), new.replace("\r\n", "\n"))
    windows = (plain[0].replace("\n", "\r\n"), plain[1].replace("\n", "\r\n"))
    try:
        within(file_path)
        count = yield from _sandbox.edit(place(file_path), [(old, new), windows, plain], replace_all)
    except ToolcellError as error:
        known = {
            "not_found": f"Error: File '{file_path}' not found",
            "not_text": f"Error: File '{file_path}' is not a text file",
            "no_match": f"Error: String not found in file: '{old}'",
            "ambiguous": f"Error: String '{old}' appears multiple times. Use replace_all=True to replace all occurrences.",
        }
        return EditResult(error=known.get(_sandbox.fault_of(error), f"Error editing file '{file_path}': {_said(error)}"))
    return EditResult(path=file_path, occurrences=count)


def _delete(file_path: str) -> Steps[DeleteResult]:
    try:
        within(file_path)
        yield from _sandbox.output(Script(_DELETE, [place(file_path)]), file_path)
    except ToolcellError as error:
        return DeleteResult(error=f"Error deleting file '{file_path}': {_said(error)}")
    return DeleteResult(path=file_path)


def _glob(pattern: str, path: Optional[str]) -> Steps[GlobResult]:
    root = _root(path)
    try:
        matches = compile_grep_include_glob(pattern)
        found = yield from _sandbox.output(Script(_GLOB, [place(root)]), root)
    except (ToolcellError, ValueError) as error:
        return GlobResult(error=f"Path '{root}': {_said(error)}")
    paths = [f"{root.rstrip('/')}/{name}" for name in sorted(_records(found)) if matches(name)]
    return GlobResult(matches=[FileInfo(path=one, is_dir=False) for one in paths])


def _grep(
    pattern: str, path: Optional[str], glob: Optional[str], max_count: Optional[int], exclude_dirs: Sequence[str]
) -> Steps[GrepResult]:
    root = _root(path)
    try:
        folder = place(root)
        includes = compile_grep_include_glob(glob) if glob else None
        # A search that begins in such a folder is for it.
        excluded = [f"--exclude-dir={name}" for name in exclude_dirs if name != posixpath.basename(folder)]
        ran: Ran = yield Script(_GREP, [folder, pattern, *excluded], output_max=_GREP_BYTES_MAX)
        # Files that cannot be read do not hide what others hold.
        if ran.exit_code != 0 and not ran.stdout:
            raise _sandbox.failed(ran, root)
    except (ToolcellError, ValueError) as error:
        return GrepResult(error=f"Path '{root}': {_said(error)}")
    matches: list[GrepMatch] = []
    for line in ran.stdout.decode("utf-8", "replace").split("\n")[:-1]:
        file, _, rest = line.partition("\0")
        number, _, text = rest.partition(":")
        if number.isdecimal() and (includes is None or file == folder or includes(file[len(folder) + 1 :])):
            matches.append(GrepMatch(path=file, line=int(number), text=text))
    matches.sort(key=lambda match: (match["path"], match["line"]))
    is_more = max_count is not None and len(matches) > max_count
    return GrepResult(matches=matches[:max_count], truncated=is_more or ran.is_cut)


def _root(path: Optional[str]) -> str:
    """Where a search starts: the workspace, because no other files stay."""
    return ROOT if path in (None, "", "/", ".") else str(path)


def _upload(path: str, content: bytes) -> Steps[FileUploadResponse]:
    try:
        yield OfWorkspace("put", (within(path), content))
    except ToolcellError as error:
        return FileUploadResponse(path=path, error=_transfer_error(error))
    return FileUploadResponse(path=path)


def _download(path: str) -> Steps[FileDownloadResponse]:
    try:
        content = yield OfWorkspace("get", (within(path),))
    except ToolcellError as error:
        return FileDownloadResponse(path=path, error=_transfer_error(error))
    return FileDownloadResponse(path=path, content=content)


def _transfer_error(error: ToolcellError) -> str:
    known = {
        "unknown_workspace_file": FILE_NOT_FOUND,
        "unknown_workspace": FILE_NOT_FOUND,
        "invalid_path": INVALID_PATH,
        "workspace_path_invalid": INVALID_PATH,
        "path_not_granted": PERMISSION_DENIED,
        "is_folder": IS_DIRECTORY,
    }
    return known.get(_sandbox.fault_of(error) or error.code, str(error))


def _records(output: bytes) -> list[str]:
    return output.decode("utf-8", "replace").split("\0")[:-1]


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeError:
        message = "the content is not Unicode text"
        raise _sandbox.file_fault("failed", message) from None


def _said(error: Exception) -> str:
    return error.message if isinstance(error, ToolcellError) else str(error)
