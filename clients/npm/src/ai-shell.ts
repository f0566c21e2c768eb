import { readable } from "./ai-content.js";
import type { Toolcell } from "./client.js";
import { type Block, isObject, type Json, number, text, ToolcellError } from "./errors.js";
import type { Result } from "./result.js";

/** What a script came to. */
export interface Ran {
  exitCode: number;
  stdout: Uint8Array;
  stderr: Uint8Array;
}

/** As of a process that SIGKILL ended. */
const KILLED = 137;
/** As bash ends for what it cannot parse. */
const NOT_BASH = 2;

/** The tool that runs bash scripts. */
export class Shell {
  readonly #cell: Toolcell;
  readonly #tool: string;
  readonly #timeoutMs: number | undefined;

  constructor(cell: Toolcell, tool: string, timeoutMs: number | undefined) {
    this.#cell = cell;
    this.#tool = tool;
    this.#timeoutMs = timeoutMs;
  }

  async run(script: string, args: string[], stdin: string, signal: AbortSignal | undefined): Promise<Ran> {
    return this.start(script, args, stdin, signal).ended;
  }

  start(script: string, args: string[], stdin: string, signal: AbortSignal | undefined): { ended: Promise<Ran>; kill: () => void } {
    signal?.throwIfAborted();
    const call = this.#cell.submit(this.#tool, { script, args, stdin }, {
      ...(signal === undefined ? {} : { signal }),
      ...(this.#timeoutMs === undefined ? {} : { timeoutMs: this.#timeoutMs }),
    });
    let isKilled = false;
    const ended = call.result.then((result) => this.#ran(result), (error: unknown) => {
      signal?.throwIfAborted();
      if (isKilled) return ran(KILLED, "");
      if (!(error instanceof ToolcellError)) throw error;
      if (error.code === "script_invalid") return ran(NOT_BASH, `bash: ${error.message}\n`);
      throw readable(error);
    });
    ended.catch(() => {});
    const kill = () => {
      isKilled = true;
      call.cancel();
    };
    return { ended, kill };
  }

  async #ran(result: Result): Promise<Ran> {
    const answer = result.structured ?? {};
    const exitCode = number(answer["exit_code"]);
    if (exitCode === undefined) {
      throw new ToolcellError("execution_failed", "answer_unreadable", `the tool ${this.#tool} did not answer with an exit code`);
    }
    const stdout = await this.#stream(result, answer, "stdout");
    return { exitCode, stdout, stderr: await this.#stream(result, answer, "stderr", stdout.length > 0 ? 1 : 0) };
  }

  /**
   * The structured answer has the beginning of a stream, the text more of it, and an artifact the whole of a long one. `at`: which
   * text is the stream's.
   */
  async #stream(result: Result, answer: Json, name: "stdout" | "stderr", at = 0): Promise<Uint8Array> {
    if (answer[`${name}_bytes`] === undefined) return Buffer.from(text(answer[name]) ?? "");
    const artifact = result.content.find((block) => block.type === "resource_link" && block["name"] === `${name}.txt`);
    if (artifact !== undefined) return this.#cell.readLink(String(artifact["uri"]));
    const label = name === "stderr" ? "stderr:\n".length : 0;
    return Buffer.from((await this.#textAt(result.content, at)).slice(label));
  }

  /** A text of the result. Behind one that was cut there is a link to the whole block. */
  async #textAt(content: readonly Block[], at: number): Promise<string> {
    const texts = content.flatMap((block, index) => (block.type === "text" ? [index] : []));
    const index = texts[at] ?? 0;
    const [block, next] = [content[index], content[index + 1]];
    const uri = next?.type === "resource_link" ? text(next["uri"]) : undefined;
    if (uri === undefined || !text(block?.["text"])?.includes(uri)) return text(block?.["text"]) ?? "";
    const whole: unknown = JSON.parse(String(await this.#cell.readLink(uri)));
    return (isObject(whole) ? text(whole["text"]) : undefined) ?? "";
  }
}

function ran(exitCode: number, stderr: string): Ran {
  return { exitCode, stdout: Buffer.alloc(0), stderr: Buffer.from(stderr) };
}
