// The real program, and the example tools.

import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const PACKAGE = fileURLToPath(new URL("..", import.meta.url));
const TOOLS = join(PACKAGE, "../../example-tools");

/** The component of an example tool, which is built if there is none. */
export function example(name) {
  const component = join(TOOLS, name, "target/toolcell", `${name}.wasm`);
  if (!existsSync(component)) execFileSync(process.env.TOOLCELL, ["build", join(TOOLS, name)], { stdio: "pipe" });
  return component;
}

/** A folder that the test removes. */
export function scratch(test) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "toolcell-")));
  test.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export function isRunning(pid) {
  try {
    process.kill(pid, 0);
    // A process that has ended, and that nobody has waited for.
    return !readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ");
  } catch {
    return false;
  }
}

export const LONG = { ticks: 1000, interval_ms: 1000 };
