// The sandbox of the AI SDK over a workspace, with the real program and the tool `shell`; and the example.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";

import { Toolcell, ToolcellError, Workspace } from "toolcell";
import { sandbox } from "toolcell/ai";

import { example, PACKAGE, scratch } from "./support.mjs";

const BINARY = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
const text = async (stream) => Buffer.concat(await Array.fromAsync(stream)).toString();

/** In the home of all tests, because compiling the shell takes long. */
const workspace = `ai-sandbox-${process.pid}`;
let folder, cell, session;
before(async (suite) => {
  folder = scratch(suite);
  mkdirSync(join(folder, "granted"));
  writeFileSync(join(folder, "granted/note"), "from outside");
  writeFileSync(join(folder, "secret"), "not for the sandbox");
  symlinkSync(join(folder, "secret"), join(folder, "granted/out"));
  const options = { config: false, workspace, allowRead: [join(folder, "granted")] };
  cell = await Toolcell.start({ tools: [example("shell"), example("jq")], ...options });
  session = sandbox(cell);
});
after(async () => {
  await cell.close();
  await new Workspace(workspace).remove();
});

describe("commands", () => {
  test("a command has its output and its exit code", async () => {
    assert.deepEqual(await session.run({ command: "echo out; echo err >&2; exit 3" }), { exitCode: 3, stdout: "out\n", stderr: "err\n" });
    assert.deepEqual(await session.run({ command: "true" }), { exitCode: 0, stdout: "", stderr: "" });
    assert.match(session.description, /\/workspace/);
    const invalid = await session.run({ command: "if then" });
    assert.equal(invalid.exitCode, 2);
    assert.match(invalid.stderr, /not valid bash/);
    const missing = await session.run({ command: "no-such-program" });
    assert.equal(missing.exitCode, 127);
  });

  test("it has its folder and its variables", async () => {
    await session.writeTextFile({ path: "deep/er/file", content: "x" });
    const command = 'pwd; ls; echo "$A|$B|$#|$TOOLCELL_HOME"';
    const env = { A: "it's; $(pwd) \"quoted\"", B: "two\nlines" };
    const { stdout } = await session.run({ command, workingDirectory: "deep/er", env });
    assert.equal(stdout, `/workspace/deep/er\nfile\n${env.A}|${env.B}|0|\n`);
    assert.equal((await session.run({ command: "pwd" })).stdout, "/workspace\n");
    assert.equal((await session.run({ command: "pwd", workingDirectory: "/tmp" })).stdout, "/tmp\n");
    assert.equal((await session.run({ command: "pwd", workingDirectory: "nowhere" })).exitCode, 1);
    await assert.rejects(session.run({ command: "true", env: { "A=B; exit": "1" } }), { code: "option_invalid" });
  });

  test("long output is whole", async () => {
    for (const lines of [2_000, 4_000, 15_000, 90_000]) {
      const { stdout, stderr } = await session.run({ command: `seq ${lines}; seq ${lines} >&2` });
      assert.equal(stdout, Array.from({ length: lines }, (_, line) => `${line + 1}\n`).join(""));
      assert.equal(stderr, stdout);
    }
    const { stderr } = await session.run({ command: "seq 10000 >&2" });
    assert.ok(stderr.startsWith("1\n2\n") && stderr.endsWith("\n10000\n"));
  });

  test("a signal and a timeout stop it", async () => {
    const began = Date.now();
    const why = new Error("enough");
    const giveUp = new AbortController();
    const running = session.run({ command: "echo started > began; sleep 60", abortSignal: giveUp.signal });
    setTimeout(() => giveUp.abort(why), 1_000);
    await assert.rejects(running, why);
    await assert.rejects(session.run({ command: "true", abortSignal: giveUp.signal }), why);
    await assert.rejects(session.readTextFile({ path: "began", abortSignal: giveUp.signal }), why);
    const brief = sandbox(cell, { timeoutMs: 500 });
    await assert.rejects(brief.run({ command: "sleep 60" }), { errorClass: "timeout", message: /deadline_exceeded/ });
    assert.ok(Date.now() - began < 20_000);
    assert.equal((await session.run({ command: "echo on" })).stdout, "on\n");
  });

  test("a command can be started", async () => {
    const process = await session.spawn({ command: "echo out; echo err >&2; exit 4" });
    assert.deepEqual(await Promise.all([text(process.stdout), text(process.stderr)]), ["out\n", "err\n"]);
    assert.deepEqual(await process.wait(), { exitCode: 4 });
    const endless = await session.spawn({ command: "sleep 60" });
    await endless.kill();
    await endless.kill();
    assert.deepEqual([await endless.wait(), await text(endless.stdout)], [{ exitCode: 137 }, ""]);
    await assert.rejects(session.spawn({ command: "cat", stdin: true }), { code: "option_invalid" });
    const aborted = await session.spawn({ command: "sleep 60", abortSignal: AbortSignal.timeout(300) });
    await assert.rejects(aborted.wait(), { name: "TimeoutError" });
    await assert.rejects(text(aborted.stdout), { name: "TimeoutError" });
  });

  test("without the tool, or with another one, it says so", async () => {
    await assert.rejects(sandbox(cell, { tool: "bash" }).run({ command: "true" }), { errorClass: "unknown_tool" });
    await assert.rejects(sandbox(cell, { tool: "jq" }).run({ command: "true" }), ToolcellError);
  });
});

describe("files", () => {
  test("they are read and written, as bytes, text and streams", async () => {
    for (const path of ["bytes", "a/new/bytes", "/workspace/b/bytes", "-n", "ä b's #$(x)`y`\"*"]) {
      await session.writeBinaryFile({ path, content: BINARY });
      assert.deepEqual(await session.readBinaryFile({ path }), new Uint8Array(BINARY), path);
    }
    assert.deepEqual(await cell.readFile("a/new/bytes"), BINARY);
    const content = "ä€\r\nsecond\r\nthird";
    for (const encoding of [undefined, "utf-8", "utf-16le"]) {
      await session.writeTextFile({ path: "text", content, encoding });
      assert.equal(await session.readTextFile({ path: "text", encoding }), content);
    }
    const lines = (startLine, endLine) => session.readTextFile({ path: "text", encoding: "utf-16le", startLine, endLine });
    assert.deepEqual([await lines(2, 2), await lines(2, 9), await lines(undefined, 1)], ["second", "second\r\nthird", "ä€"]);
    await session.writeFile({ path: "streamed", content: new Blob(["one", "two"]).stream() });
    assert.equal(await text(await session.readFile({ path: "streamed" })), "onetwo");
    await session.writeTextFile({ path: "empty", content: "" });
    assert.equal(await session.readTextFile({ path: "empty" }), "");
    const large = Buffer.alloc(3 << 20, "0123456789abcdef\n");
    await session.writeBinaryFile({ path: "large", content: large });
    assert.deepEqual(Buffer.from(await session.readBinaryFile({ path: "large" })), large);
    await assert.rejects(session.writeTextFile({ path: "x", content: "", encoding: "klingon" }), { code: "option_invalid" });
  });

  test("what is not there is null, and a folder is not a file", async () => {
    const path = "no/such/file";
    for (const method of ["readFile", "readBinaryFile", "readTextFile", "stat", "listDirectory"]) {
      assert.equal(await session[method]({ path }), null, method);
    }
    assert.equal(await session.deleteFile({ path }), false);
    await session.writeTextFile({ path: "folder/file", content: "x" });
    for (const [method, path] of [["readTextFile", "folder"], ["deleteFile", "folder"], ["listDirectory", "folder/file"]]) {
      await assert.rejects(session[method]({ path }), { code: "workspace_path_invalid" }, method);
    }
    await assert.rejects(session.writeTextFile({ path: "folder", content: "x" }), { code: "workspace_path_invalid", message: /directory/ });
    for (const path of ["", "a\0b", undefined]) await assert.rejects(session.stat({ path }), { code: "workspace_path_invalid" });
  });

  test("they are listed and deleted", async () => {
    await session.run({ command: "mkdir -p list/sub; echo 1 > 'list/.a b'; ln -s sub list/link; ln -s nowhere list/broken" });
    const entries = await session.listDirectory({ path: "list" });
    assert.deepEqual(Object.fromEntries(entries.map(({ name, type }) => [name, type])), {
      ".a b": "file",
      sub: "directory",
      link: "symlink",
      broken: "symlink",
    });
    assert.deepEqual(await session.stat({ path: "list/.a b" }), { type: "file", size: 2 });
    assert.equal((await session.stat({ path: "list/link" })).type, "directory");
    assert.equal(await session.stat({ path: "list/broken" }), null);
    assert.equal(await session.deleteFile({ path: "list/link" }), true);
    assert.equal(await session.deleteFile({ path: "list/broken" }), true);
    assert.equal((await session.stat({ path: "list/sub" })).type, "directory");
    assert.deepEqual(await session.listDirectory({ path: "list/sub" }), []);
  });

  test("no path leads out of the workspace and the grants", async () => {
    const [secret, granted] = [join(folder, "secret"), join(folder, "granted")];
    assert.equal(await session.readTextFile({ path: `${granted}/note` }), "from outside");
    const missing = async (path) => {
      const read = await session.readTextFile({ path }).catch((error) => error);
      assert.ok(read === null || read instanceof ToolcellError, `${path}: ${read}`);
    };
    const out = [secret, `${granted}/../secret`, `${granted}/out`, "../../../../../../etc/shadow", `../..${secret}`];
    for (const path of out) await missing(path);
    await session.run({ command: `ln -s ${secret} link; ln -s / root` });
    for (const path of ["link", `root${secret}`]) await missing(path);
    await assert.rejects(session.writeTextFile({ path: `${granted}/new`, content: "x" }), { code: "workspace_path_invalid" });
    await session.writeTextFile({ path: secret, content: "changed" }).catch(() => {});
    await session.writeTextFile({ path: "link", content: "changed" }).catch(() => {});
    await session.writeTextFile({ path: "../outside", content: "x" }).catch(() => {});
    const left = ["secret", "granted/note"].map((name) => readFileSync(join(folder, name), "utf8"));
    assert.deepEqual(left, ["not for the sandbox", "from outside"]);
    assert.deepEqual(readdirSync(granted).sort(), ["note", "out"]);
    const names = (await new Workspace(workspace).files()).map(({ path }) => path);
    assert.ok(names.includes("large") && !names.includes("outside"));
    const { stdout: passwd } = await session.run({ command: "cat /etc/passwd" });
    assert.ok(!passwd.includes("daemon:"), passwd);
  });
});

test("the example runs", async () => {
  const config = join(folder, "toolcell.toml");
  writeFileSync(config, '[[rule]]\nbehavior = "ask"\ntool = "jq.*"\n');
  const args = [join(PACKAGE, "examples/ai-sdk.mjs"), example("jq"), example("shell"), config];
  const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 120_000 });
  assert.deepEqual(stdout.split("\n"), [
    'bash gives the model {"exitCode":0,"stdout":"1\\n2\\n3\\n","stderr":""}',
    'approved: jq {"filter":"add","input":[1,2,3]}',
    'jq gives the model "6"',
    "The numbers are in a file, and their sum is 6.",
    "files: numbers",
    "",
  ]);
});
