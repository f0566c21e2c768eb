// Workspaces, with the real program.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";

import { listWorkspaces, Toolcell, ToolcellError, Workspace } from "toolcell";

import { example, scratch } from "./support.mjs";

const BINARY = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
// More than one part; the first one ends within a letter.
const TEXT = Buffer.from("ä€".repeat(2 << 20));

/** The arguments with which `patch` makes a file. */
const created = (path, line) => ({ diff: `--- /dev/null\n+++ b/${path}\n@@ -0,0 +1 @@\n+${line}\n` });
const removed = (path, line) => ({ diff: `--- a/${path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-${line}\n` });
const file = (path, content) => {
  const digest = `sha256:${createHash("sha256").update(content).digest("hex")}`;
  return { path, size: content.length, digest };
};
const added = (path, content) => ({ ...file(path, Buffer.from(content)), change: "added" });
const brief = ({ changes }) => changes.map((one) => `${one.change} ${one.path}`);

async function fails(code, made) {
  let caught;
  await assert.rejects(async () => made(), (error) => {
    caught = error;
    return error instanceof ToolcellError;
  });
  assert.equal(caught.code, code, caught.message);
  return caught;
}

/** A home of its own, because workspaces stay. */
let folder;
before((suite) => {
  folder = scratch(suite);
  process.env.TOOLCELL_HOME = join(folder, "home");
});

describe("sessions", () => {
  async function start(test, settings) {
    const cell = await Toolcell.start({ tools: [example("files"), example("patch")], config: false, ...settings });
    test.after(() => cell.close());
    return cell;
  }

  test("a result says what the call changed", async (test) => {
    const cell = await start(test, { workspace: "changes" });
    const path = "a b/ä#1?%.txt";
    const { workspace } = await cell.call("patch", created(path, "one"));
    assert.deepEqual(workspace, { name: "changes", changes: [added(path, "one\n")], more: 0, problem: undefined });
    assert.deepEqual((await cell.call("files_list")).workspace.changes, []);
    assert.deepEqual(await cell.listFiles(), [{ path, size: 4, digest: undefined }]);
    assert.equal((await cell.readFile(path)).toString(), "one\n");
    assert.equal((await cell.readFile(`/workspace/${path}`)).toString(), "one\n");
    const [gone] = await cell.batch([["patch", removed(path, "one")]]);
    assert.deepEqual(gone.workspace.changes, [{ path, change: "removed", size: undefined, digest: undefined }]);
    const failed = await fails("not_found", () => cell.call("files_read", { path: "nothing" }));
    assert.deepEqual([failed.workspace.name, failed.workspace.changes], ["changes", []]);
  });

  test("without a workspace there is none", async (test) => {
    const granted = join(folder, "granted");
    mkdirSync(granted);
    const cell = await start(test, { allowRead: [granted], workspace: false });
    assert.equal((await cell.call("files_list", { path: granted })).workspace, undefined);
    assert.deepEqual(await cell.listFiles(), []);
    await fails("unknown_workspace", () => cell.readFile("a.txt"));
  });

  test("each session has its own", async (test) => {
    const one = await start(test, { workspace: true });
    const other = await start(test, { workspace: true, workspaceRollback: true });
    await one.call("patch", created("a.txt", "one"));
    await other.call("patch", created("b.txt", "other"));
    assert.deepEqual((await one.listFiles()).map(({ path }) => path), ["a.txt"]);
    assert.deepEqual((await other.listFiles()).map(({ path }) => path), ["b.txt"]);
    assert.deepEqual([await one.readFile("a.txt"), await other.readFile("b.txt")].map(String), ["one\n", "other\n"]);
    await fails("unknown_workspace_file", () => one.readFile("b.txt"));
  });

  test("a file has the bytes that were put", async (test) => {
    const workspace = new Workspace("bytes");
    const cell = await start(test, { workspace: "bytes" });
    // As JSON, zeros are the longest of all bytes.
    const zeros = Buffer.alloc(8 << 20);
    const files = { binary: BINARY, empty: Buffer.alloc(0), random: randomBytes((8 << 20) + 1), text: TEXT, zeros };
    for (const [path, content] of Object.entries(files)) {
      assert.deepEqual(await workspace.put(path, content), file(path, content));
      assert.ok(content.equals(await cell.readFile(path)), path);
      assert.ok(content.equals(await workspace.get(path)), path);
    }
    const sizes = (await cell.listFiles()).map(({ path, size }) => [path, size]);
    assert.deepEqual(sizes, Object.entries(files).map(([path, content]) => [path, content.length]));
    await assert.rejects(cell.readFile("text", { signal: AbortSignal.abort() }), { code: "canceled_by_client" });
  });

  test("a path that leads out is refused", async (test) => {
    const cell = await start(test, { workspace: "paths" });
    await cell.call("patch", created("a.txt", "one"));
    for (const path of ["../a.txt", "/etc/passwd", "", "b/../../a.txt", "\ud800", undefined]) {
      await fails("workspace_path_invalid", () => cell.readFile(path));
    }
    await fails("unknown_workspace_file", () => cell.readFile("b.txt"));
    for (const workspace of ["../paths", "", "a/b", "-a", "a".repeat(65), 7, null]) {
      const error = await fails("workspace_name_invalid", () => Toolcell.start({ workspace }));
      assert.match(error.message, /as the name of a workspace/);
    }
  });
});

describe("management", () => {
  test("files are put, listed, read and removed", async () => {
    const workspace = new Workspace("files");
    const onDisk = join(folder, "on disk");
    writeFileSync(onDisk, BINARY);
    assert.deepEqual(await workspace.put("b/-", BINARY), file("b/-", BINARY));
    assert.deepEqual(await workspace.put("-a", { file: onDisk }), file("-a", BINARY));
    assert.equal((await workspace.put("--json", new Uint8Array([99]))).size, 1);
    assert.deepEqual((await workspace.files()).map(({ path }) => path), ["--json", "-a", "b/-"]);
    assert.deepEqual([await workspace.get("-a"), await workspace.get("b/-")], [BINARY, BINARY]);
    assert.equal((await workspace.get("--json")).toString(), "c");
    await workspace.removeFile("b");
    await workspace.removeFile("--json");
    assert.deepEqual(await workspace.files(), [file("-a", BINARY)]);
  });

  test("archives hold all files", async () => {
    const workspace = new Workspace("archives");
    const tree = join(folder, "tree");
    mkdirSync(tree);
    writeFileSync(join(tree, "a"), BINARY);
    writeFileSync(join(tree, "b"), TEXT);
    const tar = execFileSync("tar", ["-C", tree, "-c", "a", "b"], { maxBuffer: 64 << 20 });
    const archived = await workspace.putArchive(tar);
    assert.deepEqual(archived.changes, [added("a", BINARY), added("b", TEXT)]);
    const whole = await workspace.getArchive();
    assert.ok(execFileSync("tar", ["-xO", "b"], { input: whole, maxBuffer: 64 << 20 }).equals(TEXT));
    writeFileSync(join(folder, "all.tar"), whole);
    const again = await new Workspace("again").putArchive({ file: join(folder, "all.tar") });
    assert.deepEqual(brief(again), ["added a", "added b"]);
    await assert.rejects(workspace.putArchive(BINARY), ToolcellError);
  });

  test("snapshots and forks", async () => {
    const workspace = new Workspace("snapshots");
    await workspace.put("a", Buffer.from("1"));
    const first = await workspace.snapshot();
    assert.deepEqual([first.id, first.files, first.bytes], ["s1", 1, 1]);
    await workspace.put("a", Buffer.from("22"));
    await workspace.put("b", Buffer.from(""));
    assert.equal((await workspace.snapshot("second")).id, "second");
    assert.deepEqual((await workspace.snapshots()).map(({ id }) => id), ["s1", "second"]);
    await workspace.removeFile("b");
    assert.deepEqual(brief(await workspace.diff("s1", "second")), ["changed a", "added b"]);
    assert.deepEqual(brief(await workspace.diff("s1")), ["changed a"]);
    const restored = await workspace.restore("s1");
    assert.deepEqual([restored.name, brief(restored)], ["snapshots", ["changed a"]]);
    const fork = await workspace.fork("fork");
    await fork.put("a", Buffer.from("333"));
    assert.deepEqual([fork.name, await fork.snapshots(), String(await workspace.get("a"))], ["fork", [], "1"]);
    await fails("workspace_exists", () => workspace.fork("fork"));
    const info = (await listWorkspaces()).find(({ name }) => name === "fork");
    assert.deepEqual([info.files, info.bytes, info.snapshotCount, info.quotaBytes > 0], [1, 3, 0, true]);
    await fork.remove();
    assert.ok(!(await listWorkspaces()).some(({ name }) => name === "fork"));
    await fails("unknown_workspace", () => fork.files());
  });

  test("errors are those of the program", async () => {
    const [workspace, unknown] = [new Workspace("errors"), new Workspace("unknown")];
    await workspace.put("a", BINARY);
    for (const call of ["files", "getArchive", "remove", "snapshot", "snapshots"]) {
      const error = await fails("unknown_workspace", () => unknown[call]());
      assert.deepEqual([error.errorClass, error.retrySafe], ["invalid_arguments", true]);
      assert.match(error.message, /there is no workspace unknown/);
    }
    assert.match((await fails("unknown_workspace_file", () => workspace.get("b"))).message, /has no file b/);
    for (const path of ["../a", "/etc/passwd", "", "a\0b", "\ud800", undefined]) {
      await fails("workspace_path_invalid", () => workspace.get(path));
      await fails("workspace_path_invalid", () => workspace.removeFile(path));
      await fails("workspace_path_invalid", () => workspace.put(path, BINARY));
    }
    for (const name of ["../errors", "..", "", "-x", "a/b", "a\n", null]) {
      await fails("workspace_name_invalid", () => new Workspace(name));
      await fails("workspace_name_invalid", () => workspace.fork(name));
      await fails("workspace_name_invalid", () => workspace.restore(name));
    }
    const missing = await fails("request_refused", () => workspace.put("a", { file: join(folder, "no such file") }));
    assert.equal(missing.errorClass, "invalid_arguments");
    assert.match(missing.message, /^cannot read .*no such file/);
    for (const content of ["a text", undefined, {}]) await fails("option_invalid", () => workspace.put("a", content));
    await fails("program_not_found", () => new Workspace("errors", { program: "/no/such/toolcell" }).files());
    assert.deepEqual(await workspace.get("a"), BINARY);
  });

  test("the program and its environment can be named", async () => {
    const options = { program: process.env.TOOLCELL, environment: { TOOLCELL_HOME: join(folder, "elsewhere") } };
    await new Workspace("elsewhere", options).put("a", BINARY);
    assert.deepEqual((await listWorkspaces(options)).map(({ name }) => name), ["elsewhere"]);
    assert.ok(!(await listWorkspaces()).some(({ name }) => name === "elsewhere"));
  });
});
