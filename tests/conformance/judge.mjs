// Compares what the suite found with what is left out on purpose.
//
//   node judge.mjs REQUIREMENTS OUT LEFT-OUT
//
// A line of LEFT-OUT is `REVISION SCENARIO[:CHECK] REASON`; the revision `*` means both. A scenario counts as a whole, or
// one check of it. Warnings count like failures: they are the protocol's "should".

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

const [requirements, out, leftOut] = process.argv.slice(2);
const REVISIONS = ["2025-11-25", "2026-07-28"];
const complaints = [];

function entries() {
  const lines = readFileSync(leftOut, "utf8").split("\n");
  return lines.flatMap((line, at) => {
    if (!line.trim() || line.startsWith("#")) return [];
    const match = line.match(/^(\*|[\d-]+)\s+([\w-]+)(?::([\w-]+))?\s+(\S.*)$/);
    if (!match) throw new Error(`${leftOut}:${at + 1}: not REVISION SCENARIO[:CHECK] REASON`);
    const [, revision, scenario, check, reason] = match;
    if (revision !== "*" && !REVISIONS.includes(revision)) throw new Error(`${leftOut}:${at + 1}: no such revision`);
    return [{ revision, scenario, check, reason, at: at + 1, ran: false, excused: 0, passed: 0 }];
  });
}

/// The scenarios that a server is asked to run, scored or not.
function wanted(revision) {
  const lines = readFileSync(join(requirements, `${revision}.yaml`), "utf8").split("\n");
  const names = new Set();
  let section = "";
  let scenario = "";
  for (const line of lines) {
    section = line.match(/^(\w+):/)?.[1] ?? section;
    if (section === "server") names.add(line.match(/^ {2}- ([\w-]+)/)?.[1]);
    if (section === "not_scored") {
      scenario = line.match(/^ {2}- scenario: (\S+)/)?.[1] ?? scenario;
      if (/^ {4}leg: server$/.test(line)) names.add(scenario);
    }
  }
  names.delete(undefined);
  return names;
}

/// The checks of each scenario. The suite names a folder `server-SCENARIO-TIME`.
function found(revision) {
  const scenarios = new Map();
  for (const folder of readdirSync(join(out, revision))) {
    const scenario = folder.replace(/^server-/, "").replace(/-\d{4}-\d\d-\d\dT.*$/, "");
    scenarios.set(scenario, JSON.parse(readFileSync(join(out, revision, folder, "checks.json"), "utf8")));
  }
  return scenarios;
}

const isProblem = (check) => check.status === "FAILURE" || check.status === "WARNING";

function judge(revision, all) {
  const scenarios = found(revision);
  const names = wanted(revision);
  if (names.size < 20) complaints.push(`${revision}: the list of scenarios cannot be read`);
  const counts = { passed: 0, partly: 0, "left out": 0, skipped: 0, failed: 0 };
  for (const name of [...names].sort()) {
    const checks = scenarios.get(name) ?? [];
    const mine = all.filter((entry) => entry.scenario === name && [revision, "*"].includes(entry.revision));
    mine.forEach((entry) => (entry.ran = true));
    if (!checks.length) {
      complaints.push(`${revision} ${name}: the scenario did not run`);
      counts.failed++;
      continue;
    }
    let failed = 0;
    for (const check of checks) {
      const of = mine.filter((entry) => !entry.check || entry.check === check.id);
      if (isProblem(check)) {
        of.forEach((entry) => entry.excused++);
        if (of.length) continue;
        failed++;
        complaints.push(`${revision} ${name}:${check.id}: ${check.status}: ${check.errorMessage ?? "no reason given"}`);
      } else if (check.status === "SUCCESS") {
        of.filter((entry) => entry.check).forEach((entry) => entry.passed++);
      }
    }
    const passed = checks.filter((check) => check.status === "SUCCESS").length;
    const whole = mine.some((entry) => !entry.check);
    const kept = whole ? "left out" : mine.length ? "partly" : passed ? "passed" : "skipped";
    const verdict = failed ? "failed" : kept;
    counts[verdict]++;
    console.log(`${revision}  ${verdict.padEnd(8)}  ${name} (checks passed: ${passed} of ${checks.length})`);
  }
  return counts;
}

const all = entries();
const totals = REVISIONS.map((revision) => [revision, judge(revision, all)]);
for (const entry of all) {
  const name = entry.check ? `${entry.scenario}:${entry.check}` : entry.scenario;
  const where = `${leftOut}:${entry.at}: ${name}`;
  if (!entry.ran) complaints.push(`${where} is no scenario of that revision`);
  else if (!entry.excused && entry.passed) complaints.push(`${where} passes: take the line out`);
  else if (!entry.excused) complaints.push(`${where} excuses nothing: take the line out`);
}
for (const [revision, counts] of totals) {
  const words = Object.entries(counts).map(([verdict, count]) => `${count} ${verdict}`);
  console.log(`${revision}: ${words.join(", ")}`);
}
complaints.forEach((complaint) => console.error(complaint));
process.exit(complaints.length ? 1 : 0);
