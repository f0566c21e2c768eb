"""Workspaces, with the real program."""

import asyncio
import hashlib
import io
import os
import tarfile
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

from .support import example

from toolcell import (
    AsyncToolcell,
    AsyncWorkspace,
    FileChange,
    Toolcell,
    ToolcellError,
    Workspace,
    WorkspaceFile,
    list_workspaces,
    list_workspaces_async,
)

BINARY = bytes(range(256))
# More than one part; the first one ends within a letter.
TEXT = ("ä€" * (2 << 20)).encode()


def created(path: str, *lines: str) -> dict:
    """The arguments with which `patch` makes a file."""
    added = "".join(f"+{line}\n" for line in lines)
    return {"diff": f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n{added}"}


def removed(path: str, line: str) -> dict:
    return {"diff": f"--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-{line}\n"}


def file(path: str, content: bytes) -> WorkspaceFile:
    return WorkspaceFile(path, len(content), f"sha256:{hashlib.sha256(content).hexdigest()}")


def added(path: str, content: bytes) -> FileChange:
    known = file(path, content)
    return FileChange(path, "added", known.size, known.digest)


def archive(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))
    return packed.getvalue()


def unpacked(content: bytes) -> dict:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return {about.name: tar.extractfile(about).read() for about in tar if about.isfile()}


class Home(unittest.TestCase):
    """Tests with a home of their own, because workspaces stay."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory())).resolve()
        cls.enterClassContext(mock.patch.dict(os.environ, {"TOOLCELL_HOME": str(cls.folder / "home")}))

    def fails(self, code: str, call, *arguments, **settings) -> ToolcellError:
        with self.assertRaises(ToolcellError) as caught:
            call(*arguments, **settings)
        self.assertEqual(caught.exception.code, code, caught.exception)
        return caught.exception


class Sessions(Home):
    def cell(self, **settings) -> Toolcell:
        return self.enterContext(Toolcell(example("files"), example("patch"), config=False, **settings))

    def test_a_result_says_what_the_call_changed(self) -> None:
        cell = self.cell(workspace="changes")
        result = cell.call("patch", created("a b/ä#1?%.txt", "one"))
        self.assertEqual((result.workspace.name, result.workspace.more, result.workspace.problem), ("changes", 0, None))
        self.assertEqual(result.workspace.changes, [added("a b/ä#1?%.txt", b"one\n")])
        self.assertEqual(cell.call("files_list").workspace.changes, [])
        self.assertEqual(cell.list_files(), [WorkspaceFile("a b/ä#1?%.txt", 4)])
        self.assertEqual(cell.read_file("a b/ä#1?%.txt"), b"one\n")
        self.assertEqual(cell.read_file("/workspace/a b/ä#1?%.txt"), b"one\n")
        [gone] = cell.batch([("patch", removed("a b/ä#1?%.txt", "one"))])
        self.assertEqual(gone.workspace.changes, [FileChange("a b/ä#1?%.txt", "removed")])
        failed = self.fails("not_found", cell.call, "files_read", {"path": "nothing"})
        self.assertEqual((failed.workspace.name, failed.workspace.changes), ("changes", []))

    def test_without_a_workspace_there_is_none(self) -> None:
        folder = self.folder / "granted"
        folder.mkdir()
        cell = self.cell(allow_read=[folder])
        self.assertIsNone(cell.call("files_list", {"path": str(folder)}).workspace)
        self.assertEqual(cell.list_files(), [])
        self.fails("unknown_workspace", cell.read_file, "a.txt")

    def test_each_session_has_its_own(self) -> None:
        one, other = self.cell(workspace=True), self.cell(workspace=True, workspace_rollback=True)
        one.call("patch", created("a.txt", "one"))
        other.call("patch", created("b.txt", "two", "three"))
        self.assertEqual(one.list_files(), [WorkspaceFile("a.txt", 4)])
        self.assertEqual(other.list_files(), [WorkspaceFile("b.txt", 10)])
        self.assertEqual((one.read_file("a.txt"), other.read_file("b.txt")), (b"one\n", b"two\nthree\n"))
        self.fails("unknown_workspace_file", one.read_file, "b.txt")

    def test_a_file_has_the_bytes_that_were_put(self) -> None:
        workspace, cell = Workspace("bytes"), self.cell(workspace="bytes")
        # As JSON, zeros are the longest of all bytes.
        zeros, random = bytes(8 << 20), os.urandom((8 << 20) + 1)
        for path, content in [("binary", BINARY), ("empty", b""), ("text", TEXT), ("zeros", zeros), ("random", random)]:
            self.assertEqual(workspace.put(path, content), file(path, content))
            self.assertTrue(cell.read_file(path) == content, path)
            self.assertTrue(workspace.get(path) == content, path)
        sizes = {found.path: found.size for found in cell.list_files()}
        self.assertEqual(sizes, {"binary": 256, "empty": 0, "random": len(random), "text": len(TEXT), "zeros": len(zeros)})

    def test_a_file_that_is_changed_while_it_is_read_is_refused(self) -> None:
        workspace, cell = Workspace("torn"), self.cell(workspace="torn")
        workspace.put("a", bytes(9 << 20))
        start, parts = cell._start, []

        def between(wanted, *settings):
            if parts:
                workspace.put("a", bytes((9 << 20) + 1))
            parts.append(wanted)
            return start(wanted, *settings)

        with mock.patch.object(cell, "_start", between):
            error = self.fails("file_changed", cell.read_file, "a")
        self.assertTrue(error.retry_safe)
        self.assertEqual(len(parts), 2)

    def test_a_path_that_leads_out_is_refused(self) -> None:
        cell = self.cell(workspace="paths")
        cell.call("patch", created("a.txt", "one"))
        for path in ("../a.txt", "/etc/passwd", "", "b/../../a.txt", "\ud800"):
            self.fails("workspace_path_invalid", cell.read_file, path)
        self.fails("unknown_workspace_file", cell.read_file, "b.txt")
        for name in ("../paths", "", "a/b", "-a", "a" * 65, 7):
            error = self.fails("workspace_name_invalid", Toolcell(workspace=name).tools)
            self.assertIn("as the name of a workspace", error.message)


class Management(Home):
    def test_files_are_put_listed_read_and_removed(self) -> None:
        workspace = Workspace("files")
        on_disk = self.folder / "on disk"
        on_disk.write_bytes(BINARY)
        self.assertEqual(workspace.put("b/-", BINARY), file("b/-", BINARY))
        self.assertEqual(workspace.put("-a", on_disk), file("-a", BINARY))
        self.assertEqual(workspace.put("--json", memoryview(b"c")), file("--json", b"c"))
        self.assertEqual(workspace.files(), [file("--json", b"c"), file("-a", BINARY), file("b/-", BINARY)])
        self.assertEqual((workspace.get("-a"), workspace.get("b/-"), workspace.get("--json")), (BINARY, BINARY, b"c"))
        workspace.remove_file("b")
        workspace.remove_file("--json")
        self.assertEqual(workspace.files(), [file("-a", BINARY)])

    def test_archives_hold_all_files(self) -> None:
        workspace = Workspace("archives")
        files = {"a": BINARY, "b": b""}
        self.assertEqual(workspace.put_archive(archive(**files)).changes, [added(*item) for item in files.items()])
        self.assertEqual(unpacked(workspace.get_archive()), files)
        on_disk = self.folder / "files.tar"
        on_disk.write_bytes(archive(c=b"c"))
        self.assertEqual(workspace.put_archive(on_disk).changes, [added("c", b"c")])
        with self.assertRaises(ToolcellError):
            workspace.put_archive(archive(**{"d": b"d", "../e": b"e"}))
        self.assertEqual([found.path for found in workspace.files()], ["a", "b", "c"])

    def test_snapshots_and_forks(self) -> None:
        workspace = Workspace("snapshots")
        workspace.put("a", b"1")
        first = workspace.snapshot()
        self.assertEqual((first.id, first.files, first.bytes), ("s1", 1, 1))
        workspace.put("a", b"22")
        workspace.put("b", b"")
        self.assertEqual(workspace.snapshot("second").id, "second")
        self.assertEqual([kept.id for kept in workspace.snapshots()], ["s1", "second"])
        workspace.remove_file("b")
        between = [(one.path, one.change) for one in workspace.diff("s1", "second").changes]
        self.assertEqual(between, [("a", "changed"), ("b", "added")])
        self.assertEqual([(one.path, one.change) for one in workspace.diff("s1").changes], [("a", "changed")])
        restored = workspace.restore("s1")
        self.assertEqual((restored.name, [one.path for one in restored.changes]), ("snapshots", ["a"]))
        self.assertEqual(workspace.get("a"), b"1")
        fork = workspace.fork("fork")
        fork.put("a", b"333")
        self.assertEqual((fork.name, fork.snapshots(), workspace.get("a")), ("fork", [], b"1"))
        self.fails("workspace_exists", workspace.fork, "fork")
        infos = {info.name: info for info in list_workspaces()}
        self.assertEqual((infos["fork"].files, infos["fork"].bytes, infos["snapshots"].snapshot_count), (1, 3, 2))
        self.assertTrue(infos["fork"].quota_bytes > 0 and infos["fork"].created_at)
        fork.remove()
        self.assertNotIn("fork", [info.name for info in list_workspaces()])
        self.fails("unknown_workspace", fork.files)

    def test_errors_are_those_of_the_program(self) -> None:
        workspace, unknown = Workspace("errors"), Workspace("unknown")
        workspace.put("a", b"a")
        for call in (unknown.files, unknown.get_archive, unknown.remove, unknown.snapshot, unknown.snapshots):
            error = self.fails("unknown_workspace", call)
            self.assertEqual((error.error_class, error.retry_safe), ("invalid_arguments", True))
            self.assertIn("there is no workspace unknown", error.message)
        self.fails("unknown_workspace", unknown.get, "a")
        self.assertIn("has no file b", self.fails("unknown_workspace_file", workspace.get, "b").message)
        for call in (workspace.get, workspace.remove_file, lambda path: workspace.put(path, b"")):
            for path in ("../a", "/etc/passwd", "", "a\0b", "\ud800", None):
                self.fails("workspace_path_invalid", call, path)
        for name in ("../errors", "..", "", "-x", "a/b", "a\n", None):
            self.fails("workspace_name_invalid", Workspace, name)
            self.fails("workspace_name_invalid", workspace.fork, name)
            self.fails("workspace_name_invalid", workspace.restore, name)
        missing = self.fails("request_refused", workspace.put, "a", self.folder / "no such file")
        self.assertEqual(missing.error_class, "invalid_arguments")
        self.assertRegex(missing.message, "^cannot read .*no such file")
        self.fails("option_invalid", workspace.put, "a", "a text")
        self.fails("program_not_found", Workspace("errors", program="/no/such/toolcell").files)
        self.assertEqual(workspace.get("a"), b"a")

    def test_the_program_and_its_environment_can_be_named(self) -> None:
        elsewhere = {"TOOLCELL_HOME": str(self.folder / "elsewhere")}
        workspace = Workspace("elsewhere", program=os.environ["TOOLCELL"], environment=elsewhere)
        workspace.put("a", b"a")
        self.assertEqual([info.name for info in list_workspaces(environment=elsewhere)], ["elsewhere"])
        self.assertNotIn("elsewhere", [info.name for info in list_workspaces()])
        self.assertEqual(workspace.fork("fork").get("a"), b"a")


class Async(Home, unittest.IsolatedAsyncioTestCase):
    async def test_all_methods_are_those_of_the_other_client(self) -> None:
        workspace = AsyncWorkspace("async")
        self.assertEqual(await workspace.put("a", BINARY), file("a", BINARY))
        self.assertEqual((await workspace.put_archive(archive(b=TEXT))).changes, [added("b", TEXT)])
        self.assertEqual((await workspace.snapshot()).id, "s1")
        self.assertEqual(await workspace.files(), [file("a", BINARY), file("b", TEXT)])
        self.assertEqual(await asyncio.gather(workspace.get("a"), workspace.get("b")), [BINARY, TEXT])
        self.assertEqual(unpacked(await workspace.get_archive()), {"a": BINARY, "b": TEXT})
        tools = [example(name) for name in ("files", "patch")]
        async with AsyncToolcell(*tools, config=False, workspace="async") as cell:
            self.assertEqual((await cell.call("patch", created("c", "c"))).workspace.changes, [added("c", b"c\n")])
            self.assertTrue(await cell.read_file("b") == TEXT)
            self.assertEqual([found.path for found in await cell.list_files()], ["a", "b", "c"])
            with self.assertRaises(ToolcellError) as caught:
                await cell.read_file("../a")
            self.assertEqual(caught.exception.code, "workspace_path_invalid")
        await workspace.remove_file("b")
        self.assertEqual([one.path for one in (await workspace.diff("s1")).changes], ["b", "c"])
        self.assertEqual([one.path for one in (await workspace.restore("s1")).changes], ["b", "c"])
        fork = await workspace.fork("fork")
        self.assertEqual(([kept.id for kept in await workspace.snapshots()], await fork.snapshots()), (["s1"], []))
        await workspace.remove()
        self.assertEqual([info.name for info in await list_workspaces_async()], [fork.name])
        with self.assertRaises(ToolcellError) as caught:
            await workspace.get("a")
        self.assertEqual(caught.exception.code, "unknown_workspace")

    async def test_canceling_the_task_ends_the_command(self) -> None:
        slow = self.folder / "toolcell"
        slow.write_text("#!/bin/sh\nexec sleep 60\n")
        slow.chmod(0o755)
        began = time.monotonic()
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(AsyncWorkspace("slow", program=slow).files(), 0.3)
        self.assertLess(time.monotonic() - began, 20)
