import { invalid } from "./errors.js";
import { checkedName } from "./files.js";

/** Grants, limits and settings: the options of `toolcell mcp`, which its `--help` explains. Nothing is granted by default. */
export interface Options {
  /**
   * .wasm files, folders of such files, or source folders of tools that are built, each with #NAME for one of its tools;
   * by default those of `toolcell.toml`.
   */
  tools?: readonly string[];
  allowRead?: readonly string[];
  allowWrite?: readonly string[];
  allowEnv?: readonly string[];
  allowNet?: readonly string[];
  allowSecret?: readonly string[];
  allowTool?: readonly string[];
  denyRead?: readonly string[];
  denyWrite?: readonly string[];
  denyNet?: readonly string[];
  /** Wall time of a call: milliseconds, or a text such as `5s`. */
  timeout?: number | string;
  fuel?: number;
  /** CPU time of a call, of a tool that is metered by it: milliseconds, or a text such as `5s`. */
  cpu?: number | string;
  memory?: number | string;
  maxOutput?: number | string;
  maxDisk?: number | string;
  maxArtifactBytes?: number | string;
  memoryTotal?: number | string;
  mode?: "default" | "non_interactive" | "plan";
  /** How long a question about a call stays open: milliseconds, or a text such as `5m`. */
  approvalTimeout?: number | string;
  tlsCa?: string;
  dnsServer?: string;
  /** The `toolcell.toml` to read instead of the project's; false to read none. */
  config?: string | false;
  role?: string;
  maxListed?: number;
  recordTo?: string;
  session?: string;
  /**
   * The files that tools keep between calls: the name of a workspace of the user, or true for a new one of this client.
   * Tools have it as /workspace, where relative paths start.
   */
  workspace?: string | boolean;
  /** Restores the workspace if a call does not succeed. */
  workspaceRollback?: boolean;
}

const LISTS = [
  "allowRead",
  "allowWrite",
  "allowEnv",
  "allowNet",
  "allowSecret",
  "allowTool",
  "denyRead",
  "denyWrite",
  "denyNet",
] as const;
const VALUES = [
  "fuel",
  "memory",
  "maxOutput",
  "maxDisk",
  "maxArtifactBytes",
  "memoryTotal",
  "mode",
  "tlsCa",
  "dnsServer",
  "role",
  "maxListed",
  "recordTo",
  "session",
] as const;
const DURATIONS = ["timeout", "cpu", "approvalTimeout"] as const;
const KNOWN = new Set<string>(["tools", "config", "workspace", "workspaceRollback", ...LISTS, ...VALUES, ...DURATIONS]);

/** Options that decide nothing about a single call: `toolcell policy check` does not have them. */
const SERVING = new Set<string>(["approvalTimeout", "memoryTotal", "role", "maxListed", "recordTo", "session"]);

/** The arguments of the program. `others` are the names of options that are not for it. */
export function argumentsOf(options: Options, others: readonly string[]): string[] {
  // A misspelt limit must not mean no limit.
  const unknown = Object.keys(options).filter((name) => !KNOWN.has(name) && !others.includes(name));
  if (unknown.length > 0) throw invalid("option_invalid", `there is no option ${unknown.join(", ")}`);
  const tools = options.tools ?? [];
  if (!Array.isArray(tools)) throw wrong("tools", "it is not a list");
  // A tool cannot be taken for an option.
  return ["mcp", ...words(options, () => true), "--", ...tools.map((tool) => value("tools", tool))];
}

/** The arguments with which `toolcell policy check` decides on a call of `target` as the program does. Standard input has the input. */
export function checkArguments(options: Options, target: string): string[] {
  // The command knows no workspace of a session.
  const { workspace, workspaceRollback, ...others } = options;
  const known = workspace === true ? others : options;
  return ["policy", "check", "--json", ...words(known, (name) => !SERVING.has(name)), "--", target, "-"];
}

function words(options: Options, isWanted: (name: string) => boolean): string[] {
  const made: string[] = [];
  for (const name of LISTS) {
    for (const item of list(name, options[name])) made.push(`${option(name)}=${item}`);
  }
  for (const name of VALUES.filter(isWanted)) {
    if (options[name] !== undefined) made.push(`${option(name)}=${value(name, options[name])}`);
  }
  for (const name of DURATIONS.filter(isWanted)) {
    if (options[name] !== undefined) made.push(`${option(name)}=${duration(name, options[name])}`);
  }
  const { workspace = false } = options;
  if (workspace === true) made.push("--workspace");
  else if (workspace !== false) made.push(`--workspace=${checkedName(workspace, "workspace")}`);
  if (options.workspaceRollback) made.push("--workspace-rollback");
  if (options.config === false) made.push("--no-config");
  else if (options.config !== undefined) made.push(`--config=${value("config", options.config)}`);
  return made;
}

function option(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

function list(name: string, items: unknown): string[] {
  if (items === undefined) return [];
  if (!Array.isArray(items)) throw wrong(name, "it is not a list");
  return items.map((item) => {
    const text = value(name, item);
    // The program separates values at commas: one folder would become two grants.
    if (text.includes(",")) throw wrong(name, `${JSON.stringify(text)} has a comma`);
    return text;
  });
}

function value(name: string, given: unknown): string {
  if (typeof given === "number" && Number.isSafeInteger(given)) return String(given);
  if (typeof given !== "string" || given === "" || given.includes("\0")) {
    throw wrong(name, `${JSON.stringify(given)} is not a value for it`);
  }
  return given;
}

function duration(name: string, given: unknown): string {
  return typeof given === "number" ? `${millis(name, given)}ms` : value(name, given);
}

/** A number of milliseconds, for the program. */
export function millis(name: string, given: number): number {
  if (!(given > 0 && given < 1e12)) throw wrong(name, `${given} is not a number of milliseconds`);
  return Math.max(1, Math.round(given));
}

function wrong(name: string, why: string) {
  return invalid("option_invalid", `cannot use \`${name}\`: ${why}`);
}
