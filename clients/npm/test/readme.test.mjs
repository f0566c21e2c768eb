// Runs every snippet of the README, with the official packages of OpenAI, Anthropic and the AI SDK, and compares what it prints.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import { example, PACKAGE, scratch } from "./support.mjs";

const { PACKAGES } = process.env;

/** Starts the server that answers as the APIs do, and gives the variables that lead their packages to it. */
async function model(test) {
  const script = join(PACKAGE, "../python/tests/model.py");
  const server = spawn("python3", [script], { stdio: ["pipe", "pipe", "inherit"] });
  test.after(() => server.kill());
  const [said] = await once(server.stdout, "data");
  return JSON.parse(String(said));
}

test("every snippet prints what is below it", async (test) => {
  const readme = readFileSync(join(PACKAGE, "README.md"), "utf8");
  const snippets = [...readme.matchAll(/```js\n([^]*?)```\n\n```text\n([^]*?)```\n/g)];
  assert.equal(snippets.length, readme.split("```js\n").length - 1, "each snippet has its output below it");
  const folder = scratch(test);
  for (const name of ["jq", "ticker", "files", "patch"]) copyFileSync(example(name), join(folder, `${name}.wasm`));
  for (const made of ["src", "node_modules/@anthropic-ai", "node_modules/@ai-sdk"]) mkdirSync(join(folder, made), { recursive: true });
  writeFileSync(join(folder, "src/hello.txt"), "hello");
  writeFileSync(join(folder, "ask.toml"), '[[rule]]\nbehavior = "ask"\ntool = "jq.*"\n');
  symlinkSync(PACKAGE, join(folder, "node_modules/toolcell"));
  for (const name of ["openai", "@anthropic-ai/sdk", "ai", "@ai-sdk/openai"]) {
    symlinkSync(join(PACKAGES, name), join(folder, "node_modules", name));
  }
  // A home of its own: a snippet makes a workspace, whose name can be that of another one.
  const env = { ...process.env, ...(await model(test)), TOOLCELL_HOME: join(folder, "home") };
  for (const [at, [, snippet, printed]] of snippets.entries()) {
    const file = join(folder, `${at}.mjs`);
    writeFileSync(file, snippet);
    const options = { cwd: folder, env, timeout: 120_000 };
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [file], options);
    assert.deepEqual([stdout, stderr], [printed, ""], snippet);
  }
});
