import { buffer } from "node:stream/consumers";

import type { Experimental_SandboxProcess, Experimental_SandboxSession } from "ai";

import { type Ran, Shell } from "./ai-shell.js";
import type { Toolcell } from "./client.js";
import { invalid } from "./errors.js";
import { badPath } from "./files.js";

/** How a sandbox runs its commands. */
export interface SandboxOptions {
  /** The tool that runs a bash script, by the name that `call` takes; by default `shell`. */
  tool?: string;
  /** The program stops each command after so many milliseconds, in which no approval counts. */
  timeoutMs?: number;
}

type Session = Experimental_SandboxSession;
type Options<Method extends keyof Session> = Session[Method] extends (options: infer Given) => unknown ? Given : never;
type Command = Options<"run">;

const DESCRIPTION = [
  "A bash interpreter with about 160 commands (cat, grep, sed, awk, find, sort, jq, tar, ...) in a WebAssembly sandbox.",
  "Relative paths start at /workspace. Files there are kept; files in /tmp last for one command.",
  "There are no other programs, no background jobs and no state of the shell between commands.",
].join("\n");

/** Exit code of the scripts below for a path that does not exist. */
const MISSING = 44;
const READ = '[ -e "$1" ] || exit 44; base64 -w0 < "$1"';
const WRITE = 'if [ -d "$1" ]; then echo "$1: is a directory" >&2; exit 1; fi; mkdir -p "$(dirname "$1")" && base64 -d > "$1"';
const STAT = 'if [ -f "$1" ]; then echo "file $(wc -c < "$1")"; elif [ -d "$1" ]; then echo directory 0; ' +
  'elif [ -e "$1" ]; then echo other 0; else exit 44; fi';
const LIST = '[ -e "$1" ] || exit 44; cd "$1" || exit 1; shopt -s nullglob dotglob; for name in *; do ' +
  'if [ -L "$name" ]; then kind=symlink; elif [ -f "$name" ]; then kind=file; elif [ -d "$name" ]; then kind=directory; ' +
  'else kind=other; fi; printf "%s %s\\0" "$kind" "$name"; done';
const DELETE = 'if [ -d "$1" ] && [ ! -L "$1" ]; then echo "$1: is a directory" >&2; exit 1; fi; ' +
  '[ -e "$1" ] || [ -L "$1" ] || exit 44; rm "$1"';

/**
 * The sandbox of the SDK, over the tool `shell` and the workspace of a client. Commands and files have exactly the grants of the
 * client.
 */
export function sandbox(cell: Toolcell, options: SandboxOptions = {}): Session {
  return new Sandbox(new Shell(cell, options.tool ?? "shell", options.timeoutMs));
}

class Sandbox implements Session {
  readonly description = DESCRIPTION;
  readonly #shell: Shell;

  constructor(shell: Shell) {
    this.#shell = shell;
  }

  async run({ abortSignal, ...command }: Command): Promise<{ exitCode: number; stdout: string; stderr: string }> {
    const { exitCode, stdout, stderr } = await this.#shell.run(...prepared(command), abortSignal);
    return { exitCode, stdout: String(stdout), stderr: String(stderr) };
  }

  spawn(options: Command & { stdin: true }): Promise<never>;
  spawn(options: Command & { stdin?: boolean }): Promise<Experimental_SandboxProcess>;
  async spawn({ abortSignal, stdin, ...command }: Command & { stdin?: boolean }): Promise<Experimental_SandboxProcess> {
    if (stdin) {
      throw invalid("option_invalid", "cannot use `stdin`: the sandbox runs a command as a whole; put its input into a file");
    }
    const { ended, kill } = this.#shell.start(...prepared(command), abortSignal);
    return {
      stdout: streamOf(ended.then((ran) => ran.stdout)),
      stderr: streamOf(ended.then((ran) => ran.stderr)),
      wait: async () => ({ exitCode: (await ended).exitCode }),
      kill: async () => kill(),
    };
  }

  async readFile(options: Options<"readFile">): Promise<ReadableStream<Uint8Array> | null> {
    const content = await this.readBinaryFile(options);
    return content && streamOf(Promise.resolve(content));
  }

  async readBinaryFile({ path, abortSignal }: Options<"readBinaryFile">): Promise<Uint8Array | null> {
    const ran = await this.#file(READ, path, abortSignal);
    return ran && new Uint8Array(Buffer.from(String(ran.stdout), "base64"));
  }

  async readTextFile(options: Options<"readTextFile">): Promise<string | null> {
    const { encoding, startLine = 1, endLine } = options;
    const known = encodingOf(encoding);
    const content = await this.readBinaryFile(options);
    if (content === null) return null;
    const text = Buffer.from(content).toString(known);
    if (options.startLine === undefined && endLine === undefined) return text;
    const ending = ["\r\n", "\n"].find((one) => text.includes(one)) ?? "\r";
    return text.split(ending).slice(Math.max(1, startLine) - 1, endLine).join(ending);
  }

  async writeFile({ content, ...options }: Options<"writeFile">): Promise<void> {
    return this.writeBinaryFile({ ...options, content: await buffer(content) });
  }

  async writeBinaryFile({ path, content, abortSignal }: Options<"writeBinaryFile">): Promise<void> {
    await this.#file(WRITE, path, abortSignal, Buffer.from(content).toString("base64"));
  }

  async writeTextFile({ content, encoding, ...options }: Options<"writeTextFile">): Promise<void> {
    return this.writeBinaryFile({ ...options, content: Buffer.from(content, encodingOf(encoding)) });
  }

  async stat({ path, abortSignal }: Options<"stat">): Promise<{ type: "file" | "directory" | "other"; size: number } | null> {
    const ran = await this.#file(STAT, path, abortSignal);
    if (ran === null) return null;
    const [type, size] = String(ran.stdout).trim().split(/\s+/);
    return { type: type as "file" | "directory" | "other", size: Number(size) };
  }

  async listDirectory({ path, abortSignal }: Options<"listDirectory">): Promise<Entry[] | null> {
    const ran = await this.#file(LIST, path, abortSignal);
    return ran && String(ran.stdout).split("\0").slice(0, -1).map((entry) => {
      const [type, name] = [entry.slice(0, entry.indexOf(" ")), entry.slice(entry.indexOf(" ") + 1)];
      return { type: type as Entry["type"], name };
    });
  }

  async deleteFile({ path, abortSignal }: Options<"deleteFile">): Promise<boolean> {
    return (await this.#file(DELETE, path, abortSignal)) !== null;
  }

  /** Runs a script about a path; null if the path does not exist. */
  async #file(script: string, path: string, signal: AbortSignal | undefined, stdin = ""): Promise<Ran | null> {
    if (typeof path !== "string" || path === "" || path.includes("\0") || !path.isWellFormed()) {
      throw badPath(path, "it is empty, or not Unicode text without NUL");
    }
    // A path cannot be taken for an option.
    const ran = await this.#shell.run(script, [path.startsWith("-") ? `./${path}` : path], stdin, signal);
    if (ran.exitCode === 0) return ran;
    if (ran.exitCode === MISSING) return null;
    throw badPath(path, String(ran.stderr).trim() || `exit code ${ran.exitCode}`);
  }
}

type Entry = { name: string; type: "file" | "directory" | "symlink" | "other" };

/** The script of a command, its parameters and its input. */
function prepared({ command, workingDirectory, env = {} }: Omit<Command, "abortSignal">): [string, string[], string] {
  const folder = workingDirectory === undefined ? [] : [workingDirectory];
  for (const name of Object.keys(env)) {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
      throw invalid("option_invalid", `cannot use \`env\`: ${JSON.stringify(name)} is not the name of a variable`);
    }
  }
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  if (folder.length + variables.length === 0) return [command, [], ""];
  // On one line, so that the lines in messages of bash are those of the command.
  const enter = folder.length > 0 ? 'cd -- "$1" || exit 1; shift; ' : "";
  return [`${enter}for toolcell in "$@"; do export "$toolcell"; done; set --; ${command}`, [...folder, ...variables], ""];
}

function encodingOf(encoding = "utf-8"): BufferEncoding {
  if (Buffer.isEncoding(encoding)) return encoding;
  throw invalid("option_invalid", `cannot use \`encoding\`: there is no ${JSON.stringify(encoding)}; use utf-8, utf-16le or latin1`);
}

/** A stream of bytes that come as a whole. */
function streamOf(content: Promise<Uint8Array>): ReadableStream<Uint8Array> {
  // The reader hears of a failure; without one it must not end the process.
  content.catch(() => {});
  return new ReadableStream({
    async pull(controller) {
      controller.enqueue(await content);
      controller.close();
    },
  });
}
