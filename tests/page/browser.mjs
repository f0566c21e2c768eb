// The page in a browser: every view with real calls, an approval answered with edited arguments, output that is HTML and
// script, ten thousand calls, axe-core, 400 pixels, the dark, the keyboard. Pictures go to PICTURES.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { PICTURES, TOOLCELL, ended, everywhere, launch, picture, problemsOf, started } from "./shared.mjs";

const run = promisify(execFile);

const CALLS = Number(process.env.CALLS ?? 10_000);
// Components: the home of this test has no consent to build a source folder.
const FILES = resolve(process.env.FILES);
const EVERYTHING = resolve(process.env.EVERYTHING);
/** A batch has no more calls. */
const BATCH = Math.min(CALLS, 1_000);
const HOSTILE = "<img src=x onerror=\"window.hostile=1\"><script>window.hostile=1</script>\u202eevil\u001b[2J";

const place = mkdtempSync(join(tmpdir(), "toolcell-page-"));
const home = join(place, "home");
const work = join(place, "work");
mkdirSync(home);
mkdirSync(work);
const ask = join(place, "ask.toml");
writeFileSync(ask, '[[rule]]\nbehavior = "ask"\ntool = "files.edit"\n');
writeFileSync(join(work, "notes.md"), "# Notes\n\nfirst\nsecond\n");
writeFileSync(join(work, "hostile.txt"), HOSTILE);
writeFileSync(
  join(home, "toolcell.toml"),
  '[[principal]]\nname = "anna"\ntools = ["files.*"]\nquotas = { cpu_per_day = "30m", bytes_per_day = "1GiB" }\n' +
    '[[principal]]\nname = "bert"\napproves = ["anna"]\n',
);
const env = { ...process.env, TOOLCELL_HOME: home, TOOLCELL_ACTOR: "", TOOLCELL_SESSION: "" };
const options = { cwd: work, env, maxBuffer: 64 << 20 };

async function toolcell(...words) {
  const { stdout } = await run(TOOLCELL, words, options);
  return stdout;
}

async function callId(...words) {
  return JSON.parse(await toolcell("call", ...words, "--json")).invocation_id;
}

/** The paths in pictures are not those of this machine. */
const plain = (text) => text.replaceAll(work, "/home/anna/work").replaceAll(`${place}/`, "").replaceAll(/\/[^\s"'<>]*\/(\w+\.wasm)/g, "$1");
const shot = (page, name) => picture(page, name, plain);

/** Waits for a call that asks, and returns its id. */
async function asked() {
  for (let round = 0; round < 600; round += 1) {
    const { approvals } = JSON.parse(await toolcell("approvals", "list", "--json"));
    const open = approvals.find((one) => one.state === "pending");
    if (open) return open.invocation_id;
    await new Promise((wake) => setTimeout(wake, 100));
  }
  throw new Error("no call asked");
}

function edit(change) {
  const child = spawn(
    TOOLCELL,
    ["call", `${FILES}#edit`, JSON.stringify(change), `--allow-write=${work}`, `--config=${ask}`, "--json"],
    options,
  );
  let said = "";
  child.stdout.on("data", (text) => (said += text));
  return new Promise((done) => child.on("exit", () => done(JSON.parse(said))));
}

const inspect = started(["inspect", FILES, EVERYTHING, `--allow-read=${work}`], options, /Page at (\S+)/);
let browser;
try {
  browser = await launch();
  await everything(browser, await inspect.found);
} finally {
  await browser?.close();
  await ended(inspect.child);
  rmSync(place, { recursive: true, force: true });
}

async function everything(browser, url) {
  const context = await browser.newContext();
  const page = await context.newPage();
  // The browser tells of the late answer, too.
  const problems = problemsOf(page, (text) => text.includes("409 (Conflict)"));
  const base = new URL(url).origin;

  await page.goto(url);
  await page.waitForURL(`${base}/`);
  await page.getByText("No call is on record yet").waitFor();

  // The list is live: a call of another process appears by itself.
  await page.getByText("Live", { exact: true }).waitFor();
  const read = await callId(`${FILES}#read`, "path=notes.md", `--allow-read=${work}`);
  await page.locator(`a[href="/calls/${read}"]`).waitFor();

  const calls = {
    read,
    hostile: await callId(`${FILES}#read`, "path=hostile.txt", `--allow-read=${work}`),
    image: await callId(`${EVERYTHING}#test_image_content`, "{}"),
    audio: await callId(`${EVERYTHING}#test_audio_content`, "{}"),
    listed: await callId(`${FILES}#list`, "{}", `--allow-read=${work}`),
    progress: await callId(`${EVERYTHING}#test_tool_with_progress`, "{}"),
  };
  await page.goto(base);
  await shot(page, "calls");
  await views(page, base, calls);
  await approval(page, base);
  await tools(page, base);
  await workspaces(page, base);
  await page.goto(`${base}/principal`);
  await page.getByText("Known by").waitFor();
  await shot(page, "principals");
  await keyboard(page, base);
  await many(page, base);
  const paths = [
    "/",
    `/calls/${calls.read}`,
    `/calls/${calls.hostile}`,
    `/calls/${calls.image}`,
    "/approvals",
    "/tools",
    `/tools/${encodeURIComponent(FILES)}`,
    "/workspaces",
    "/workspaces/report",
    "/principal",
    "/nothing",
  ];
  await everywhere(browser, await context.cookies(), base, paths, { "/": "calls", [`/calls/${calls.read}`]: "call" });
  assert.deepEqual(problems, []);
  assert.equal(await page.evaluate(() => window.hostile), undefined);
  const code = await (await browser.newContext()).newPage();
  const second = await code.goto(url);
  assert.equal(second.status(), 403, "a code lets in once");
}

async function views(page, base, calls) {
  await page.goto(`${base}/calls/${calls.hostile}`);
  const shown = await page.locator("#content").innerText();
  assert.ok(shown.includes("<script>window.hostile=1</script>") && shown.includes("\\u{202e}evil\\u{1b}[2J"), shown);
  assert.equal(await page.evaluate(() => window.hostile), undefined);
  assert.equal(await page.locator("#content img").count(), 0);
  await page.screenshot({ path: join(PICTURES, "hostile.png"), fullPage: true });

  await page.goto(`${base}/calls/${calls.image}`);
  const width = await page.locator("img.shown").evaluate((image) => image.decode().then(() => image.naturalWidth));
  assert.ok(width > 0);
  await page.goto(`${base}/calls/${calls.audio}`);
  assert.equal(await page.locator("audio").count(), 1);
  await page.goto(`${base}/calls/${calls.listed}`);
  await page.locator(".tree, table").first().waitFor();
  await page.goto(`${base}/calls/${calls.progress}`);
  await page.getByRole("heading", { name: "Progress", exact: true }).waitFor();
  await page.goto(`${base}/calls/${calls.read}`);
  for (const name of ["Output", "Phases", "Decision", "Arguments", "Usage"]) {
    await page.getByRole("heading", { name, exact: true }).waitFor();
  }
  assert.ok((await page.locator(".phases rect").count()) >= 5);
  await shot(page, "call");
}

async function approval(page, base) {
  const change = { path: join(work, "notes.md"), edits: [{ old: "second", new: "third" }] };
  await page.goto(`${base}/approvals`);
  await page.getByText("No call waits").waitFor();
  const ended = edit(change);
  const id = await asked();
  // The list and the title tell by themselves.
  await page.locator(`a[href="/approvals/${id}"]`).click();
  assert.match(await page.title(), /^\(1\)/);
  assert.ok((await page.locator("pre.prompt").innerText()).includes("files.edit"));
  assert.deepEqual((await page.locator(".diff").first().innerText()).trim().split(/\s+/), ["-second", "+third"]);
  await shot(page, "approval");
  const arguments_ = page.locator("textarea[name=edit]");
  await arguments_.fill((await arguments_.inputValue()).replace("third", "edited"));
  await page.locator("body").press("Escape");
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByRole("heading", { name: "Edited arguments" }).waitFor();
  assert.ok((await page.locator(".diff").last().innerText()).includes("edited"));
  assert.equal((await ended).status, "succeeded");
  assert.ok(readFileSync(join(work, "notes.md"), "utf8").includes("edited"));
  await shot(page, "answered");

  // Another approver is faster: an open page says so, and a late answer has no effect.
  const next = edit({ path: join(work, "notes.md"), edits: [{ old: "first", new: "1" }] });
  const late = await asked();
  const other = await page.context().newPage();
  await page.goto(`${base}/approvals/${late}`);
  await other.goto(`${base}/approvals/${late}`);
  await page.evaluate(() => document.querySelector("section[data-live]").removeAttribute("data-live"));
  await other.getByRole("button", { name: "Deny" }).click();
  await other.getByText("Denied by").waitFor();
  await next;
  const [response] = await Promise.all([
    page.waitForResponse((response) => response.request().method() === "POST"),
    page.getByRole("button", { name: "Approve" }).click(),
  ]);
  assert.equal(response.status(), 409);
  await page.getByText("not open any more").waitFor();
  await other.close();
  assert.ok(readFileSync(join(work, "notes.md"), "utf8").includes("first"));
}

async function tools(page, base) {
  await page.goto(`${base}/tools`);
  await shot(page, "tools");
  await page.locator(`a[href="/tools/${encodeURIComponent(FILES)}"]`).click();
  await page.getByText("read files in folders that you grant").first().waitFor();
  await shot(page, "tool");
  const section = page.getByRole("region", { name: "read", exact: true });
  await section.getByText("Try it").click();
  await section.getByLabel(/^path/).fill(join(work, "notes.md"));
  await section.getByRole("button", { name: "Call it" }).click();
  await page.getByText("edited").first().waitFor();
  assert.match(page.url(), /\/calls\//);
}

async function workspaces(page, base) {
  await run(TOOLCELL, ["workspace", "put", "report", join(work, "notes.md")], options);
  await run(TOOLCELL, ["workspace", "put", "report", join(work, "hostile.txt"), "<b>bold</b>.html"], options);
  await page.goto(`${base}/workspaces`);
  await page.getByRole("link", { name: "report" }).click();
  await page.getByRole("button", { name: "Take a snapshot" }).click();
  await page.getByRole("button", { name: "Restore s1" }).waitFor();
  await page.setInputFiles("input[type=file]", { name: "added.txt", mimeType: "text/plain", buffer: Buffer.from("new") });
  await page.getByRole("button", { name: "Upload" }).click();
  await page.getByRole("link", { name: "added.txt", exact: true }).waitFor();
  await shot(page, "workspace");
  await page.getByRole("link", { name: "Changes since" }).click();
  assert.ok((await page.locator(".diff").innerText()).includes("+ added.txt"));
  await page.goBack();
  await page.getByRole("link", { name: "<b>bold</b>.html", exact: true }).click();
  assert.ok((await page.locator("pre").innerText()).includes("<script>"));
  await page.goto(`${base}/workspaces/report`);
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("link", { name: "Download notes.md" }).click(),
  ]);
  assert.ok(readFileSync(await download.path(), "utf8").includes("# Notes"));
  await page.getByRole("button", { name: "Restore s1" }).click();
  await page.getByText("added.txt").waitFor({ state: "detached" });
}

async function keyboard(page, base) {
  await page.goto(base);
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  const second = await page.locator("a.open").nth(1).getAttribute("href");
  await page.keyboard.press("Enter");
  await page.waitForURL(`${base}${second}`);
  await page.goBack();
  await page.keyboard.press("/");
  await page.keyboard.type("files.read");
  await page.keyboard.press("Enter");
  await page.waitForURL(/text=files\.read/);
  assert.ok((await page.locator("tbody tr").count()) >= 2);
}

async function many(page, base) {
  const file = join(place, "batch.jsonl");
  const line = (at) => JSON.stringify({ id: String(at), tool: `${FILES}#read`, input: { path: join(work, "notes.md") } });
  writeFileSync(file, `${Array.from({ length: BATCH }, (_, at) => line(at)).join("\n")}\n`);
  // The list stays open while they arrive.
  await page.goto(base);
  for (let left = CALLS; left > 0; left -= BATCH) {
    await run("sh", ["-c", `"$0" batch "${file}" --json --allow-read="${work}" > /dev/null`, TOOLCELL], options);
  }
  const listed = JSON.parse(await toolcell("calls", `--limit=${2 * CALLS}`, "--json")).calls.length;
  assert.ok(listed > CALLS, `${listed} calls`);
  const began = performance.now();
  await page.goto(base);
  const took = performance.now() - began;
  assert.equal(await page.locator("tbody tr").count(), 100);
  await page.getByRole("link", { name: "Older calls" }).click();
  await page.waitForURL(/before=/);
  assert.equal(await page.locator("tbody tr").count(), 100);
  console.log(`a page of ${listed} calls: ${took.toFixed(0)} ms`);
  assert.ok(took < 2_000, `${took} ms`);
}
