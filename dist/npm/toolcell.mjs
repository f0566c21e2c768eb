#!/usr/bin/env node
// Starts the program that npm installed for this platform, and ends as it ends.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { constants } from "node:os";

const platform = `${process.platform}-${process.arch}`;
let program;
try {
  program = createRequire(import.meta.url).resolve(`@toolcell/${platform}/bin/toolcell`);
} catch {
  console.error(
    `error: toolcell has no program for ${platform} here. npm installs it as the optional dependency ` +
      `@toolcell/${platform}: install again without --omit=optional, or use a platform that has one.`,
  );
  process.exit(70);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// The terminal sends SIGINT to both; the program decides what it means.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`error: ${program} does not start: ${error.message}`);
  process.exit(70);
});
child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
