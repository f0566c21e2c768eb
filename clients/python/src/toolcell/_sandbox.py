"""A workspace and the tool `shell`: what the sandboxes of agent frameworks have in common."""

from __future__ import annotations

import asyncio
import base64
import functools
import hashlib
import json
import os
import posixpath
import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Callable, Literal, Optional, TypeVar, Union

from ._aio import AsyncCall
from ._client import Call, Toolcell
from ._errors import ToolcellError
from ._options import PathLike
from ._questions import Approval, Decision
from ._requests import _FILES, Wanted
from ._result import Result
from ._workspace import AsyncWorkspace, Workspace

T = TypeVar("T")

ROOT = "/workspace"
Approve = Union[Callable[[Approval], Union[bool, Decision]], Literal["deny", "wait"]]

# Of each stream of a command. The call itself has the limits of toolcell.
OUTPUT_BYTES_MAX = 1 << 20
# Of a file, in one call: JSON can make six bytes of one, and the program reads lines of 16 MiB.
_PART_BYTES_MAX = 2 << 20
# The artifacts of the shell that hold whole streams.
_ARTIFACTS = {"stdout": "stdout.txt", "stderr": "stderr.txt"}
# What a command of bash ends with if it cannot run, if it is not bash, and if its time is up.
REFUSED, NOT_BASH, TIMED_OUT = 126, 2, 124
# What the scripts of this module end with.
NOT_FOUND, IS_FOLDER, IS_LINK, EXISTS, CHANGED, NOT_TEXT, NO_MATCH, AMBIGUOUS = range(66, 74)

# The old file stays until the new one is whole.
_BEGIN_FILE = 'mkdir -p -- "${1%/*}" || exit\n'
_END_FILE = f"""
trap 'rm -f -- "$2"' EXIT
[ -L "$1" ] && exit {IS_LINK}
[ -d "$1" ] && exit {IS_FOLDER}
[ -e "$1" ] && [ "$3" = new ] && exit {EXISTS}
[ -z "$4" ] || [ "$(sha256sum < "$2" | cut -d ' ' -f 1)" = "$4" ] || exit {CHANGED}
mv -f -- "$2" "$1"
"""
# The pairs of texts after the first two arguments are tried in their order. Prints how many places were replaced.
_EDIT_FILE = f"""
file=$1 all=$2 part=${{1%/*}}/.toolcell.part
[ -L "$file" ] && exit {IS_LINK}
[ -e "$file" ] || exit {NOT_FOUND}
[ -d "$file" ] && exit {IS_FOLDER}
text=$(cat -- "$file"; printf x)
text=${{text%x}}
# A variable holds no NUL, and only Unicode.
[ "$(printf %s "$text" | wc -c)" -eq "$(wc -c < "$file")" ] || exit {NOT_TEXT}
shift 2
while [ $# -gt 0 ]; do
  rest=${{text//"$1"/}}
  if [ ${{#rest}} -ne ${{#text}} ]; then
    count=$(( (${{#text}} - ${{#rest}}) / ${{#1}} ))
    [ "$count" -eq 1 ] || [ "$all" = all ] || exit {AMBIGUOUS}
    printf %s "${{text//"$1"/"$2"}}" > "$part" && mv -f -- "$part" "$file" || {{ rm -f -- "$part"; exit 1; }}
    echo "$count"
    exit
  fi
  shift 2
done
exit {NO_MATCH}
"""
_READ_FILE = f"""
[ -e "$1" ] || exit {NOT_FOUND}
[ -d "$1" ] && exit {IS_FOLDER}
cat -- "$1"
"""


@dataclass(frozen=True)
class Ran:
    """A script that came to its end."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    is_cut: bool = False
    """Whether a stream was longer than the limit, and only its beginning is here."""


@dataclass(frozen=True)
class Script:
    """A script to run, as one call."""

    script: str
    args: Sequence[str] = ()
    stdin: str = ""
    timeout: Optional[float] = None
    output_max: int = OUTPUT_BYTES_MAX

    @property
    def arguments(self) -> dict[str, Any]:
        return {"script": self.script, "args": list(self.args), "stdin": self.stdin}


@dataclass(frozen=True)
class OfWorkspace:
    """A method of `Workspace` to call. It is the caller's own: no rule of a policy is asked."""

    method: str
    arguments: tuple[Any, ...] = ()


Step = Union[Script, OfWorkspace]
Steps = Generator[Step, Any, T]
"""An operation, which threads and asyncio run alike: it gives its steps, and gets what came of each."""


class Sandbox:
    """A workspace, and the program in whose calls the scripts run. Safe to use from many threads and tasks."""

    def __init__(
        self,
        workspace: str,
        shell: PathLike,
        *,
        is_own: bool,
        program: Optional[PathLike],
        approve: Approve,
        settings: Mapping[str, Any],
    ) -> None:
        for name in ("workspace", "options"):
            if name in settings:
                raise TypeError(f"there is no option {name}")
        self.name = workspace
        self._is_own = is_own
        environment = settings.get("environment")
        self.workspace = Workspace(self.name, program=program, environment=environment)
        self._async_workspace = AsyncWorkspace(self.name, program=program, environment=environment)
        self._shell = os.fspath(shell)
        tool = self._shell if "#" in self._shell else f"{self._shell}#shell"
        asked = approve if isinstance(approve, str) else functools.partial(_asked, approve)
        self._cell = Toolcell(tool, program=program, approve=asked, workspace=self.name, **settings)
        self._opening = threading.Lock()
        self._tool: Optional[str] = None

    def run(self, steps: Steps[T]) -> T:
        """Runs an operation. Ctrl-C cancels its call."""
        outcome: Any = None
        while True:
            try:
                step = advanced(steps, outcome)
            except StopIteration as ended:
                return ended.value  # type: ignore[no-any-return]
            try:
                outcome = self._now(step)
            except ToolcellError as failed:
                outcome = failed

    async def run_async(self, steps: Steps[T]) -> T:
        """Runs an operation. Canceling the task cancels its call."""
        outcome: Any = None
        while True:
            try:
                step = advanced(steps, outcome)
            except StopIteration as ended:
                return ended.value  # type: ignore[no-any-return]
            try:
                outcome = await self._later(step)
            except ToolcellError as failed:
                outcome = failed

    def open(self) -> str:
        """Starts the program. Returns the name of the tool. Raises ToolcellError if it is not `shell`."""
        with self._opening:
            if self._tool is None:
                try:
                    tools = self._cell.tools()
                except ToolcellError as error:
                    if error.error_class == "canceled" or error.code == "program_not_found":
                        raise
                    raise self._no_shell(error.message) from None
                # toolcell may add tools of its own.
                names = [str(tool["name"]) for tool in tools if {"script", "args", "stdin"} <= set(_properties(tool))]
                if len(names) != 1:
                    raise self._no_shell("it is not one tool that takes `script`, `args` and `stdin`")
                self._tool = names[0]
            return self._tool

    async def open_async(self) -> None:
        """`open` for asyncio."""
        if self._tool is None:
            await asyncio.get_running_loop().run_in_executor(None, self.open)

    def close(self) -> None:
        """Cancels the calls that run, ends the program, and removes the workspace if it has no name that the caller gave."""
        self._cell.close()
        if not self._is_own:
            return
        try:
            self.workspace.remove()
        except ToolcellError as error:
            if error.code != "unknown_workspace":
                raise

    async def close_async(self) -> None:
        """`close` for asyncio."""
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, self.close))

    async def stop_async(self) -> None:
        """Cancels the calls that run, and ends the program."""
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, self._cell.close))

    async def exists_async(self) -> bool:
        """Whether there is the workspace."""
        try:
            await self._async_workspace.snapshots()
        except ToolcellError as error:
            if error.code != "unknown_workspace":
                raise
            return False
        return True

    def _now(self, step: Step) -> Any:
        if isinstance(step, OfWorkspace):
            return getattr(self.workspace, step.method)(*step.arguments)
        call = self._submit(step)
        try:
            result = call.result()
        except BaseException:
            call.cancel()
            raise
        needed = _needed(result)
        return _ran(result, step, {name: self._begin(_resource(uri)).result() for name, uri in needed.items()})

    async def _later(self, step: Step) -> Any:
        if isinstance(step, OfWorkspace):
            return await getattr(self._async_workspace, step.method)(*step.arguments)
        await self.open_async()
        result = await _awaitable(self._submit(step))
        needed = _needed(result)
        return _ran(result, step, {name: await _awaitable(self._begin(_resource(uri))) for name, uri in needed.items()})

    def _begin(self, wanted: Wanted[T]) -> Call[T]:
        return self._cell._start(wanted, None, None)

    def _submit(self, step: Script) -> Call[Result]:
        return self._cell.submit(self.open(), step.arguments, timeout=step.timeout or None)

    def _no_shell(self, why: str) -> ToolcellError:
        hint = (
            "the packages of toolcell bring `shell`; in a checkout, run `toolcell build example-tools/shell` and give the "
            "folder as `shell`"
        )
        message = f"cannot use {self._shell!r} as the shell of the sandbox: {why}"
        return ToolcellError("setup_required", "shell_unusable", message, hint=hint)


def advanced(steps: Steps[Any], outcome: Any) -> Any:
    """The next step, after the outcome of the one before: an answer, or a ToolcellError."""
    return steps.throw(outcome) if isinstance(outcome, ToolcellError) else steps.send(outcome)


class FileFault(ToolcellError):
    """A file that cannot be used as was asked."""

    fault: str
    """For the adapters, which have errors of their frameworks."""


def file_fault(fault: str, message: str) -> FileFault:
    error = FileFault("execution_failed", "file_unusable", message)
    error.fault = fault
    return error


def fault_of(error: ToolcellError) -> str:
    return error.fault if isinstance(error, FileFault) else ""


def place(path: Any) -> str:
    """The path below /workspace, without `.` and double slashes. Raises ToolcellError for one that leads elsewhere."""
    if not isinstance(path, str) or not path.startswith("/") or "\0" in path or ".." in path.split("/"):
        message = f"cannot use {path!r:.200} as a path: give an absolute one, without `..`"
        raise file_fault("invalid_path", message)
    try:
        path.encode()
    except UnicodeError:
        message = f"cannot use {path!r:.200} as a path: it is not Unicode text"
        raise file_fault("invalid_path", message) from None
    normal = "/" + posixpath.normpath(path).lstrip("/")
    if normal != ROOT and not normal.startswith(f"{ROOT}/"):
        message = f"{path!r:.200} is outside of {ROOT}: the sandbox keeps no other files"
        raise ToolcellError("permission_denied", "path_not_granted", message)
    return normal


def within(path: Any) -> str:
    """The path of a file, from the top of the workspace. Raises ToolcellError."""
    found = place(path)
    if found == ROOT:
        raise file_fault("is_folder", f"{ROOT} is a folder")
    return found[len(ROOT) + 1 :]


def read(path: str) -> Steps[bytes]:
    """The bytes of a file. A link is followed, within the sandbox."""
    return (yield from output(Script(_READ_FILE, [path], output_max=1 << 40), path))


def output(script: Script, path: str) -> Steps[bytes]:
    """What a script of this package prints. Raises ToolcellError if it fails, or prints more than there is room for."""
    ran: Ran = yield script
    if ran.exit_code != 0:
        raise failed(ran, path)
    if ran.is_cut:
        message = f"{path} has more than one call can answer with: ask for a part of it, or raise `max_artifact_bytes`"
        raise file_fault("too_large", message)
    return ran.stdout


def write(path: str, content: bytes, is_new: bool = False) -> Steps[None]:
    """Writes a file with the folders that hold it, whole or not at all. `is_new`: there must be no such file.

    The calls are the same each time, because one that was approved may be made again.
    """
    offsets = range(0, max(1, len(content)), _PART_BYTES_MAX)
    digest = hashlib.sha256(content).hexdigest() if len(offsets) > 1 else ""
    # Beside the file, so that the last step is a rename. Calls take turns, but those of two large files alternate.
    part = f"{posixpath.dirname(path)}/.toolcell{digest[:32]}.part"
    for at in offsets:
        stdin, decode = _as_text(content[at : at + _PART_BYTES_MAX])
        script = _BEGIN_FILE if at == 0 else ""
        script += f'{decode} {">" if at == 0 else ">>"} "$2" || {{ rm -f -- "$2"; exit 1; }}\n'
        if at == offsets[-1]:
            script += _END_FILE
        try:
            ran = yield Script(script, [path, part, "new" if is_new else "", digest], stdin)
        except ToolcellError as error:
            # A call that was refused left nothing.
            if error.workspace is not None or at > 0:
                yield Script('rm -f -- "$1"', [part])
            raise
        if ran.exit_code != 0:
            raise failed(ran, path)


def edit(path: str, pairs: Sequence[tuple[str, str]], is_all: bool) -> Steps[int]:
    """Replaces the first text of the first pair that is in the file, in one call. Returns the number of places."""
    texts = [text for pair in pairs for text in pair]
    return int((yield from output(Script(_EDIT_FILE, [path, "all" if is_all else "one", *texts]), path)))


def _as_text(content: bytes) -> tuple[str, str]:
    """The standard input that makes these bytes, and the command. Text stays text, for an approver to read."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return base64.b64encode(content).decode(), "base64 -d"
    return text, "cat"


def failed(ran: Ran, path: str) -> ToolcellError:
    """Why a script of this package did not do what it is for."""
    known = {
        NOT_FOUND: ("not_found", f"{path} not found"),
        IS_FOLDER: ("is_folder", f"{path} is a folder"),
        IS_LINK: ("is_link", f"{path} is a link, which is not written through: name the file itself"),
        EXISTS: ("exists", f"{path} already exists"),
        CHANGED: ("file_changed", f"{path} was written by another call at the same time: write it again"),
        NOT_TEXT: ("not_text", f"{path} is not a text file"),
        NO_MATCH: ("no_match", f"{path} does not have the text to replace"),
        AMBIGUOUS: ("ambiguous", f"{path} has the text to replace more than once"),
    }
    if ran.exit_code in known:
        return file_fault(*known[ran.exit_code])
    said = ran.stderr.decode("utf-8", "replace").strip() or f"exit code {ran.exit_code}"
    return file_fault("failed", said)


def refused(error: ToolcellError) -> Ran:
    """What a model sees of a script that did not come to its end. Raises the error if no other script could."""
    if error.error_class in ("setup_required", "canceled") or error.code in ("program_ended", "no_answer"):
        raise error
    code = TIMED_OUT if error.error_class == "timeout" else NOT_BASH if error.code == "script_invalid" else REFUSED
    return Ran(code, b"", f"toolcell: {error}\n".encode())


def _asked(approve: Callable[[Approval], Union[bool, Decision]], question: Approval) -> Union[bool, Decision]:
    """The answer about a call. The text of a question cuts long scripts and files, but the approver has all arguments, and
    the application itself gave the grants."""
    said = approve(question)
    if question.arguments is None or not (said is True or (isinstance(said, Decision) and said.approved is True)):
        return said
    return replace(said if isinstance(said, Decision) else Decision(True), accept_partial_view=True)


def _awaitable(call: Call[T]) -> AsyncCall[T]:
    return AsyncCall(call._connection, call._pending, call._read, call._deadline)


def _properties(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = tool.get("inputSchema")
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def _needed(result: Result) -> dict[str, str]:
    """The URIs of what the answer has only a part of: of a whole stream by its name, else of a long text."""
    found = result.structured if isinstance(result.structured, dict) else {}
    # The result links to the files that the script wrote, too; they can have the same names.
    links = {
        str(block.get("uri")): str(block.get("name"))
        for block in result.content
        if block.get("type") == "resource_link" and _FILES not in str(block.get("uri"))
    }
    artifacts = {name: uri for uri, name in links.items() if name in _ARTIFACTS.values()}
    is_short = any(f"{name}_bytes" in found and file not in artifacts for name, file in _ARTIFACTS.items())
    texts = {uri: uri for uri, name in links.items() if name not in artifacts} if is_short else {}
    return {**artifacts, **texts}


def _resource(uri: str) -> Wanted[bytes]:
    def read(answer: Any) -> bytes:
        try:
            [one] = answer["contents"]
            return one["text"].encode() if "text" in one else base64.b64decode(one["blob"], validate=True)
        except (KeyError, TypeError, ValueError) as error:
            message = f"toolcell answered with what is not an artifact: {error!r}"
            raise ToolcellError("execution_failed", "answer_unreadable", message) from None

    return Wanted("resources/read", {"uri": uri}, read)


def _ran(result: Result, step: Script, whole: Mapping[str, bytes]) -> Ran:
    found = result.structured if isinstance(result.structured, dict) else {}
    exit_code = found.get("exit_code")
    if not isinstance(exit_code, int):
        raise ToolcellError("execution_failed", "answer_unreadable", "the shell answered without an exit code")
    streams = {name: _stream(result, found, name, whole) for name in _ARTIFACTS}
    is_cut = any(
        len(stream) > step.output_max or found.get(f"{name}_bytes", 0) > len(stream) for name, stream in streams.items()
    )
    return Ran(exit_code, streams["stdout"][: step.output_max], streams["stderr"][: step.output_max], is_cut)


def _stream(result: Result, found: Mapping[str, Any], name: str, whole: Mapping[str, bytes]) -> bytes:
    """As much of a stream as there is: an artifact has all, else the text 100 KB, else the object 16 KB."""
    short = str(found.get(name) or "")
    if f"{name}_bytes" not in found:
        return short.encode()
    if _ARTIFACTS[name] in whole:
        return whole[_ARTIFACTS[name]]
    start = f"stderr:\n{short}" if name == "stderr" else short
    blocks = [*result.content, *(_block(content) for file, content in whole.items() if file not in _ARTIFACTS.values())]
    texts = [str(block.get("text")) for block in blocks if block.get("type") == "text"]
    text = max((text for text in texts if text.startswith(start)), key=len, default=start)
    return text[len(start) - len(short) :].encode()


def _block(content: bytes) -> Mapping[str, Any]:
    """A long text, which toolcell stores as the block that it was."""
    try:
        block = json.loads(content)
    except ValueError:
        return {}
    return block if isinstance(block, dict) else {}
