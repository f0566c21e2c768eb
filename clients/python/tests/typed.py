"""Not run: what the types of the package promise to a caller. mypy reads it with `warn_unused_ignores`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Union

from toolcell import (
    Approval,
    AsyncToolcell,
    AsyncWorkspace,
    Decision,
    FileChange,
    Progress,
    Question,
    Result,
    Toolcell,
    ToolcellError,
    Workspace,
    WorkspaceFile,
    list_workspaces,
    list_workspaces_async,
)


def approve(question: Approval) -> Union[bool, Decision]:
    return Decision(True, note="seen") if question.message else False


def fill(question: Question) -> dict[str, Any]:
    return {"name": question.message}


def calls() -> None:
    with Toolcell("jq.wasm", allow_read=["src"], timeout=5, config=False, approve=approve, fill=fill) as cell:
        result: Result = cell.call("jq", {"filter": "."}, timeout=1.5)
        tools: list[dict[str, Any]] = cell.tools("openai")
        answer: dict[str, Any] = cell.call({"type": "tool_use", "id": "a", "name": "jq", "input": {}})
        call = cell.submit("ticker", {"ticks": 3}, progress=True)
        updates: list[Progress] = list(call.progress())
        messages: list[dict[str, Any]] = cell.run({"role": "assistant"}, dialect="openai")
        print(result.text, tools, answer, updates, messages)
        cell.tools("latin")  # type: ignore[arg-type]
        cell.call("jq", "filter")  # type: ignore[call-overload]
    Toolcell(approve=7)  # type: ignore[arg-type]


async def async_calls() -> None:
    async def decide(question: Approval) -> bool:
        return question.is_cut

    async with AsyncToolcell("jq.wasm", approve=decide) as cell:
        result: Result = await cell.call("jq", {"filter": "."})
        running = await cell.submit("ticker", {"ticks": 3}, progress=True)
        messages: list[str | None] = [update.message async for update in running.progress()]
        try:
            print(result.text, messages, await running)
        except ToolcellError as error:
            print(error.error_class, error.code, error.retry_after)


def workspaces() -> None:
    with Toolcell("files.wasm", workspace=True, workspace_rollback=True) as cell:
        result: Result = cell.call("files_list")
        changes: list[FileChange] = [] if result.workspace is None else result.workspace.changes
        content: bytes = cell.read_file("a.txt")
        listed: list[WorkspaceFile] = cell.list_files()
        print(changes, content, listed, result.workspace.name)  # type: ignore[union-attr]
    workspace = Workspace("report", program="toolcell")
    file: WorkspaceFile = workspace.put("a.txt", b"a")
    fork: Workspace = workspace.fork("other")
    names: list[str] = [info.name for info in list_workspaces()]
    print(file.size, fork.put_archive(Path("a.tar")).changes, fork.snapshot().id, names)
    workspace.put("a.txt", "a")  # type: ignore[arg-type]


async def async_workspaces() -> None:
    async with AsyncToolcell("files.wasm", workspace="report") as cell:
        content: bytes = await cell.read_file("a.txt")
        listed: list[WorkspaceFile] = await cell.list_files()
        print(content, listed)
    fork: AsyncWorkspace = await AsyncWorkspace("report").fork("other")
    whole: bytes = await fork.get_archive()
    print(whole, [info.quota_bytes for info in await list_workspaces_async()])
