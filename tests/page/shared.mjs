// What the tests of the page share: the browser, what is checked of each view, and pictures of it.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";

const require = createRequire(join(process.env.NODE_MODULES, "x"));
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const GZIPPED_MAX = 60 << 10;
const PAINT_MAX = 200;

export const TOOLCELL = process.env.TOOLCELL;
export const PICTURES = resolve(process.env.PICTURES);
/** The folder of the book's pictures, if they are to be taken anew. */
const BOOK = process.env.BOOK_PICTURES;
mkdirSync(PICTURES, { recursive: true });

export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}

/** Starts the program, and finds `pattern` in what it says. */
export function started(words, options, pattern) {
  const child = spawn(TOOLCELL, words, options);
  const found = new Promise((found, failed) => {
    let said = "";
    child.stderr.on("data", (text) => {
      said += text;
      const at = pattern.exec(said);
      if (at) found(at[1]);
    });
    child.on("exit", () => failed(new Error(said)));
  });
  return { child, found };
}

/** Ends the program; its folder can be removed then. */
export async function ended(child) {
  const exits = new Promise((exits) => child.once("exit", exits));
  child.kill();
  await exits;
}

/** Collects errors of scripts and of the browser, but for those that are meant. */
export function problemsOf(page, isMeant) {
  const problems = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" && !isMeant(message.text())) problems.push(`${message.text()} ${message.location().url}`);
  });
  return problems;
}

/** Each view in the light and the dark, wide and narrow: axe-core, width, size, first paint. */
export async function everywhere(browser, cookies, base, paths, pictured = {}) {
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [1280, 400]) {
      const own = await browser.newContext({ colorScheme, viewport: { width, height: 900 } });
      await own.addCookies(cookies);
      const page = await own.newPage();
      for (const path of paths) {
        const sizes = [];
        const sized = (response) => {
          if (!response.url().endsWith("/changes")) sizes.push(response.body().then((body) => gzipSync(body).length));
        };
        page.on("response", sized);
        await page.goto(`${base}${path}`, { waitUntil: "load" });
        page.off("response", sized);
        const bytes = (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
        const where = `${path} ${colorScheme} ${width}`;
        assert.ok(bytes <= GZIPPED_MAX, `${where}: ${bytes} bytes gzipped`);
        const paint = await firstPaint(page);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        assert.ok(wide <= 0, `${where}: ${wide} pixels too wide`);
        // Outside of the page's own policy, as no script of the page could be.
        const found = await axe(page);
        assert.deepEqual(found, [], where);
        console.log(`${where}: ${bytes} bytes, first paint ${paint.toFixed(0)} ms`);
        assert.ok(paint < PAINT_MAX, `${where}: first paint after ${paint} ms`);
        const name = pictured[path];
        if (name) await page.screenshot({ path: join(PICTURES, `${name}-${colorScheme}-${width}.png`) });
      }
      await own.close();
    }
  }
}

/** The best of some loads: another program can be in the way of one. */
async function firstPaint(page) {
  let best = Infinity;
  for (let round = 0; round < 5 && best >= PAINT_MAX; round += 1) {
    if (round > 0) await page.reload({ waitUntil: "load" });
    const painted = await page.waitForFunction(() => performance.getEntriesByName("first-paint")[0]?.startTime);
    best = Math.min(best, await painted.jsonValue());
  }
  return best;
}

async function axe(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"] }));
  const serious = violations.filter((one) => ["serious", "critical"].includes(one.impact));
  return serious.map((one) => `${one.id}: ${one.nodes[0].html} ${one.nodes[0].failureSummary}`);
}

/** A picture of the view; for the book, as text that has its colours in the light and in the dark.
 * @param {(text: string) => string} plain takes out what is of this machine */
export async function picture(page, name, plain = (text) => text) {
  await page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: true });
  if (!BOOK) return;
  await page.setViewportSize({ width: 900, height: 600 });
  const svg = await page.evaluate(drawn, { width: 900, heightMax: 1100, name });
  await page.setViewportSize({ width: 1280, height: 720 });
  mkdirSync(BOOK, { recursive: true });
  writeFileSync(join(BOOK, `${name}.svg`), `${plain(svg)}\n`);
}

/** Runs in the page. */
async function drawn({ width, heightMax, name }) {
  const sheet = document.querySelector("link[rel=stylesheet]");
  const css = await (await fetch(sheet.href)).text();
  for (const field of document.querySelectorAll("input")) field.setAttribute("value", field.value);
  for (const field of document.querySelectorAll("textarea")) field.textContent = field.value;
  const body = document.body.cloneNode(true);
  body.querySelectorAll(".skip, [hidden], script").forEach((one) => one.remove());
  const height = Math.min(document.body.scrollHeight + 16, heightMax);
  const xhtml = new XMLSerializer().serializeToString(body);
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">
<title>${name}</title>
<style><![CDATA[${css}]]></style>
<foreignObject width="${width}" height="${height}">${xhtml}</foreignObject>
</svg>`;
}
