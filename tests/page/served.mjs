// The page at `/` of `toolcell serve`, for two principals and an approver: sign-in, calls of an MCP client that have to be
// approved, what each sees. Pictures go to PICTURES.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { ended, everywhere, launch, picture, problemsOf, started } from "./shared.mjs";

const FILES = resolve(process.env.FILES);
const TOKENS = { anna: "anna-token-0123456789", bert: "bert-token-0123456789", carl: "carl-token-0123456789" };

const place = mkdtempSync(join(tmpdir(), "toolcell-served-"));
const home = join(place, "home");
const work = join(place, "work");
mkdirSync(home);
mkdirSync(work);
writeFileSync(join(work, "notes.md"), "# Notes\n\nfirst\nsecond\n");
const digest = (name) => `sha256:${createHash("sha256").update(TOKENS[name]).digest("hex")}`;
writeFileSync(
  join(home, "toolcell.toml"),
  `[grants]
write = ["${work}"]

[[rule]]
behavior = "ask"
tool = "files.edit"

[[principal]]
name = "anna"
tokens = ["${digest("anna")}"]
page = true
quotas = { calls_at_once = 4, calls_per_minute = 600, cpu_per_day = "30m", bytes_per_day = "1GiB" }
workspace = { per = "principal" }

[[principal]]
name = "bert"
tokens = ["${digest("bert")}"]
page = true
approves = ["anna"]
`,
);
writeFileSync(join(home, "approvers"), `carl ${TOKENS.carl}\n`, { mode: 0o600 });
const env = { ...process.env, TOOLCELL_HOME: home, TOOLCELL_ACTOR: "", TOOLCELL_SESSION: "" };
const words = ["serve", FILES, "--listen=127.0.0.1:0", `--approver-token-file=${join(home, "approvers")}`, "--workspace"];
const server = started(words, { cwd: work, env }, /MCP at (\S+)\/mcp/);
const plain = (text) => text.replaceAll(work, "/srv/projects/anna").replaceAll(home, "/etc/toolcell");

let session;
let browser;
try {
  browser = await launch();
  await everything(await server.found);
} finally {
  await browser?.close();
  await ended(server.child);
  rmSync(place, { recursive: true, force: true });
}

/** What anna's agent sends over MCP, in its one session. */
async function sent(base, message) {
  const headers = {
    authorization: `Bearer ${TOKENS.anna}`,
    accept: "application/json, text/event-stream",
    "content-type": "application/json",
    ...(session && { "mcp-session-id": session }),
  };
  const body = JSON.stringify({ jsonrpc: "2.0", ...message });
  const answer = await fetch(`${base}/mcp`, { method: "POST", headers, body });
  session ??= answer.headers.get("mcp-session-id");
  return answer.text();
}

async function called(base, id, tool, input) {
  return sent(base, { id, method: "tools/call", params: { name: tool, arguments: input } });
}

async function signedIn(base, name) {
  const context = await browser.newContext();
  const page = await context.newPage();
  const problems = problemsOf(page, (text) => /401|404|409/.test(text));
  await page.goto(base);
  await page.getByLabel("Your token").fill("not-a-token-0123456789");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").waitFor();
  if (name === "anna") await picture(page, "sign-in", plain);
  await page.getByLabel("Your token").fill(TOKENS[name]);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("button", { name: "Sign out" }).waitFor();
  return { context, page, problems };
}

async function everything(base) {
  const anna = await signedIn(base, "anna");
  const bert = await signedIn(base, "bert");
  const carl = await signedIn(base, "carl");
  await anna.page.getByText("No call is on record yet").waitFor();
  await anna.page.getByText("Live", { exact: true }).waitFor();

  const clientInfo = { name: "agent", version: "1" };
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
  await sent(base, { id: 0, method: "initialize", params });
  await sent(base, { method: "notifications/initialized" });

  // The list is live, and each has its own.
  const first = await called(base, 1, "files_read", { path: join(work, "notes.md") });
  assert.ok(first.includes("second"), first);
  const row = anna.page.locator("a.open").first();
  await row.waitFor();
  const call = await row.getAttribute("href");
  const others = await bert.page.goto(`${base}${call}`);
  assert.equal(others.status(), 404);

  await approved(base, bert.page, carl.page);
  await anna.page.goto(`${base}/`);
  assert.equal(await anna.page.locator("tbody tr").count(), 3);
  assert.equal((await bert.page.goto(`${base}/`)).status(), 200);
  assert.equal(await bert.page.locator("tbody tr").count(), 0);

  await tried(base, anna.page);
  await kept(base, anna.page);
  await anna.page.goto(`${base}/principal`);
  await anna.page.getByText("token:anna").first().waitFor();
  await picture(anna.page, "principal", plain);
  const paths = ["/", call, "/approvals", "/tools", "/tools/files_read", "/workspaces", "/workspaces/report", "/principal"];
  await everywhere(browser, await anna.context.cookies(), base, paths);
  await everywhere(browser, await carl.context.cookies(), base, ["/approvals"]);
  await everywhere(browser, [], base, ["/"]);

  await anna.page.getByRole("button", { name: "Sign out" }).click();
  await anna.page.getByLabel("Your token").waitFor();
  for (const { problems } of [anna, bert, carl]) assert.deepEqual(problems, []);
}

/** Who has only the page answers, edits, sees what changed; who is late is told so. */
async function approved(base, page, other) {
  const path = join(work, "notes.md");
  await page.goto(`${base}/approvals`);
  const answer = called(base, 2, "files_edit", { path, edits: [{ old: "second", new: "third" }] });
  const question = page.locator("a.open").first();
  await question.waitFor();
  await page.waitForFunction(() => document.title.startsWith("(1)"));
  await question.click();
  const edit = page.locator("textarea[name=edit]");
  await edit.fill((await edit.inputValue()).replace("third", "edited"));
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByRole("heading", { name: "Edited arguments" }).waitFor();
  assert.ok((await page.locator(".diff").last().innerText()).includes("edited"));
  assert.ok((await answer).includes('"isError":false'), await answer);
  assert.ok(readFileSync(path, "utf8").includes("edited"));

  const second = called(base, 3, "files_edit", { path, edits: [{ old: "first", new: "1" }] });
  await page.goto(`${base}/approvals`);
  await page.getByText("pending").first().waitFor();
  const at = await page.locator("a.open").first().getAttribute("href");
  await page.goto(`${base}${at}`);
  await other.goto(`${base}${at}`);
  await other.evaluate(() => document.querySelector("section[data-live]").removeAttribute("data-live"));
  await page.getByRole("button", { name: "Deny" }).click();
  await page.getByText("Denied by").waitFor();
  const [response] = await Promise.all([
    other.waitForResponse((response) => response.request().method() === "POST"),
    other.getByRole("button", { name: "Approve" }).click(),
  ]);
  assert.equal(response.status(), 409);
  await other.getByText("not open any more").waitFor();
  assert.ok((await second).includes("approval_rejected"), await second);
  assert.ok(readFileSync(path, "utf8").includes("first"));
}

async function tried(base, page) {
  await page.goto(`${base}/tools`);
  await page.locator('a[href="/tools/files_read"]').click();
  await page.getByText("Try it").click();
  await page.getByLabel(/^path/).fill(join(work, "notes.md"));
  await page.getByRole("button", { name: "Call it" }).click();
  await page.getByText("edited").first().waitFor();
  assert.match(page.url(), /\/calls\//);
}

async function kept(base, page) {
  const headers = { authorization: `Bearer ${TOKENS.anna}` };
  const url = `${base}/v1/workspaces/report`;
  assert.ok((await fetch(url, { method: "PUT", headers })).ok);
  await page.goto(`${base}/workspaces`);
  await page.getByRole("link", { name: "report" }).click();
  await page.setInputFiles("input[type=file]", { name: "added.txt", mimeType: "text/plain", buffer: Buffer.from("new") });
  await page.getByRole("button", { name: "Upload" }).click();
  await page.getByRole("link", { name: "added.txt", exact: true }).waitFor();
}
