import { accessSync, constants, existsSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, dirname, isAbsolute, join, resolve } from "node:path";

import { ToolcellError } from "./errors.js";

const WINDOWS = process.platform === "win32";
const NAME = WINDOWS ? "toolcell.exe" : "toolcell";
const VARIABLE = "TOOLCELL";

/** The path of the program: `program`, else the variable TOOLCELL, else that of the platform's package, else PATH. */
export function findProgram(program: string | undefined): string {
  const variable = process.env[VARIABLE];
  for (const [said, where] of [[program, "the option `program`"], [variable, `the variable ${VARIABLE}`]] as const) {
    if (!said) continue;
    const found = which(said);
    if (found === undefined) throw missing(`${where} names ${JSON.stringify(said)}, which is not a program that can be run`);
    return found;
  }
  const found = installed() ?? which(NAME);
  if (found === undefined) throw missing(`there is no package ${packageName()}, and no ${NAME} on PATH`);
  return found;
}

function packageName(): string {
  return `@toolcell/${process.platform}-${process.arch}`;
}

/** The program in the package of this platform, which npm installs beside this one. */
function installed(): string | undefined {
  try {
    const manifest = createRequire(import.meta.url).resolve(`${packageName()}/package.json`);
    const program = join(dirname(manifest), "bin", NAME);
    return existsSync(program) ? program : undefined;
  } catch {
    return undefined;
  }
}

function which(name: string): string | undefined {
  const isPath = name.includes("/") || (WINDOWS && name.includes("\\"));
  const folders = (process.env["PATH"] ?? "").split(delimiter).filter((folder) => isAbsolute(folder));
  const candidates = isPath ? [resolve(name)] : folders.map((folder) => join(folder, name));
  return candidates.find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

function missing(why: string): ToolcellError {
  const hint = `install toolcell, or say where it is: the option program, or the variable ${VARIABLE}`;
  return new ToolcellError("setup_required", "program_not_found", `cannot find the program toolcell: ${why}`, { hint });
}
