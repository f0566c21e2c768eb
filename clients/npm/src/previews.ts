import { execFile } from "node:child_process";

import { isObject, type Json } from "./errors.js";
import { checkArguments, type Options } from "./options.js";

const NO_SUCH_TOOL = "unknown_tool";
const MISMATCH = "schema_mismatch";
const TIMEOUT_MS = 60_000;

/** Asks `toolcell policy check` what would be decided on calls, under the options of a client. */
export class Previews {
  readonly #program: string;
  readonly #options: Options & { folder?: string };
  readonly #environment: NodeJS.ProcessEnv;
  /** The word for the command, by the id of a tool. */
  readonly #targets = new Map<string, string>();

  constructor(program: string, options: Options & { folder?: string }, environment: NodeJS.ProcessEnv) {
    this.#program = program;
    this.#options = options;
    this.#environment = environment;
  }

  /** Whether the call would need an approval; `false` also if the program cannot say, because then it asks when it is called. */
  async asks(toolId: string, args: object): Promise<boolean> {
    const known = this.#targets.get(toolId);
    for (const target of known ? [known] : this.#candidates(toolId)) {
      let told = await this.#check(target, JSON.stringify(args));
      // Models send null for what they leave out, and the server leaves it out where it does not fit.
      if (codeOf(told) === MISMATCH) told = await this.#check(target, JSON.stringify(args, (_, value) => value ?? undefined));
      if (told === undefined || codeOf(told) === NO_SUCH_TOOL) continue;
      this.#targets.set(toolId, target);
      return told["behavior"] === "ask";
    }
    return false;
  }

  #candidates(toolId: string): string[] {
    return (this.#options.tools ?? []).map((tool) => `${tool.replace(/#[^#/]*$/, "")}#${toolId}`);
  }

  #check(target: string, args: string): Promise<Json | undefined> {
    const words = checkArguments(this.#options, target);
    const maxBuffer = Number.POSITIVE_INFINITY;
    const settings = { cwd: this.#options.folder, env: this.#environment, timeout: TIMEOUT_MS, maxBuffer, windowsHide: true };
    return new Promise((done) => {
      // The exit code says the same.
      const child = execFile(this.#program, words, settings, (_, stdout) => done(parsed(stdout)));
      child.stdin?.on("error", () => {});
      child.stdin?.end(args);
    });
  }
}

function codeOf(told: Json | undefined): unknown {
  return isObject(told?.["error"]) ? told["error"]["error_code"] : undefined;
}

function parsed(output: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(output);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
