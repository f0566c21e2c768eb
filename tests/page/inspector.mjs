// The MCP Inspector in a browser: it connects to a server with a token, lists its tools and calls one.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";

const require = createRequire(join(process.env.NODE_MODULES, "x"));
const { chromium } = require("playwright-core");
const INSPECTOR = join(
  dirname(require.resolve("@modelcontextprotocol/inspector/package.json")),
  "clients/launcher/build/index.js",
);
const JQ = resolve(process.env.JQ);
const PATIENCE = 30_000;

/** A port that is free by now. */
async function freePort() {
  const server = createServer();
  await new Promise((listens) => server.listen(0, "127.0.0.1", listens));
  const { port } = server.address();
  await new Promise((closed) => server.close(closed));
  return port;
}

const home = mkdtempSync(join(tmpdir(), "toolcell-inspector-"));
const env = {
  ...process.env,
  HOME: home,
  TOOLCELL_HOME: home,
  CLIENT_PORT: String(await freePort()),
  MCP_AUTO_OPEN_ENABLED: "false",
  MCP_INSPECTOR_SECRET_STORE: "memory",
};
const children = [];

/** Starts a program, and waits until it has said what each of `patterns` finds. */
async function started(program, words, ...patterns) {
  const child = spawn(program, words, { env });
  children.push(child);
  let said = "";
  const found = new Promise((found, failed) => {
    const read = (text) => {
      said += text;
      const all = patterns.map((pattern) => pattern.exec(said));
      if (all.every(Boolean)) found(all.map((one) => one[1]));
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.on("exit", () => failed(new Error(said)));
    setTimeout(() => failed(new Error(said)), PATIENCE).unref();
  });
  return await found;
}

try {
  const serve = ["serve", JQ, "--listen=127.0.0.1:0", "--no-config"];
  const [token, url] = await started(process.env.TOOLCELL, serve, /Bearer (\S+)/, /MCP at (\S+)/);
  const header = `Authorization: Bearer ${token}`;
  const words = [INSPECTOR, "--web", "--transport", "http", "--server-url", url, "--header", header];
  const [page] = await started(process.execPath, words, /(http:\/\/\S+TOKEN=\S+)/);
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  const view = await browser.newPage();
  view.setDefaultTimeout(PATIENCE);
  await view.goto(page);
  await view.getByRole("switch", { name: /^Connect/ }).click({ force: true });
  await view.getByText("Connected", { exact: true }).waitFor();
  await view.getByText("Tools", { exact: true }).first().click();
  await view.getByText("jq", { exact: true }).click();
  await view.getByRole("textbox", { name: /^filter/ }).fill("6 * 7");
  await view.getByRole("button", { name: "Execute Tool" }).click();
  await view.getByText("Structured Output").waitFor();
  const shown = await view.locator("body").innerText();
  assert.match(shown, /"outputs": \[\s*42\s*\]/);
  await browser.close();
  console.log("the inspector connected, listed the tools and called one");
} finally {
  children.forEach((child) => child.removeAllListeners("exit").kill());
  rmSync(home, { recursive: true, force: true });
}
