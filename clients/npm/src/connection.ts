import { type ChildProcess, spawn } from "node:child_process";
import type { Socket } from "node:net";

import { invalid, isObject, type Json, ofResponse, text, ToolcellError } from "./errors.js";
import type { Approve } from "./questions.js";
import { type Progress, progressOf } from "./result.js";

const REVISION = "2025-11-25";
/** The program discards a longer line without an answer. */
const REQUEST_BYTES_MAX = 16 << 20;
/** More than the program writes in one line: a payload of 32 MiB in base64, and what is around it. */
const ANSWER_BYTES_MAX = 64 << 20;
/** What is kept of the program's standard error, for messages. */
const STDERR_CHARS_MAX = 16 << 10;
const STDERR_SHOWN_MAX = 2 << 10;
/** How long the program gets to end by itself after its input closed, and then after SIGTERM, in milliseconds. */
const STOP_MS = 3_000;
const METHOD_NOT_FOUND = -32601;
const TIMER_MS_MAX = 2 ** 31 - 1;

/** What a connection tells its owner. */
export interface Handlers {
  /** Answers `elicitation/create`, about an approval with `approve`. */
  question(params: Json, approve?: Approve): Promise<Json>;
  log(params: Json): void;
  toolsChanged(): void;
}

/** A request that waits for its answer. */
export class Pending {
  readonly answer: Promise<unknown>;
  isDone = false;
  #resolve!: (answer: unknown) => void;
  #reject!: (error: unknown) => void;

  constructor(readonly id: number, readonly onProgress: ((progress: Progress) => void) | undefined) {
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // The failure of a call that the caller does not await must not end the process.
    this.answer.catch(() => {});
  }

  end(answer: unknown): void {
    this.isDone = true;
    this.#resolve(answer);
  }

  fail(error: unknown): void {
    this.isDone = true;
    this.#reject(error);
  }
}

/** The programs that run: they end with this process. */
const running = new Set<ChildProcess>();
let isWatching = false;

function watch(child: ChildProcess): void {
  running.add(child);
  if (isWatching) return;
  isWatching = true;
  process.once("exit", () => running.forEach((left) => left.kill()));
}

/** A running program. It is not started again: a call that it did not answer may have had an effect. */
export class Connection {
  readonly #child: ChildProcess;
  readonly #exited: Promise<void>;
  readonly #handlers: Handlers;
  readonly #pending = new Map<number, Pending>();
  /** The questions that are not answered. The program takes back those that do not matter any more. */
  readonly #questions = new Set<unknown>();
  #settled = Number.NEGATIVE_INFINITY;
  #next = 1;
  #ended: ToolcellError | undefined;
  #read: Buffer[] = [];
  #readBytes = 0;
  #stderr = "";
  #stopping: Promise<void> | undefined;

  constructor(
    program: string,
    args: string[],
    folder: string | undefined,
    environment: NodeJS.ProcessEnv,
    handlers: Handlers,
    readonly waits: boolean,
  ) {
    this.#handlers = handlers;
    // Ctrl-C is for this process: the program is in a group of its own.
    const detached = process.platform !== "win32";
    const child = spawn(program, args, { cwd: folder, env: environment, stdio: "pipe", detached, windowsHide: true });
    this.#child = child;
    watch(child);
    this.#exited = new Promise((resolve) => {
      child.once("error", (error) => {
        running.delete(child);
        const why = `cannot start ${program}: ${error.message}`;
        this.#end(new ToolcellError("setup_required", "program_not_started", why, { cause: error }));
        resolve();
      });
      // Not `exit`: what the program wrote last is read before.
      child.once("close", (code, signal) => {
        running.delete(child);
        this.#end(this.#endOfProgram(`toolcell has ended ${signal ? `by ${signal}` : `with exit code ${code}`}`));
        resolve();
      });
    });
    child.stdin.on("error", () => {});
    child.stdout.on("data", (chunk: Buffer) => this.#take(chunk));
    child.stdout.on("error", () => {});
    child.stderr.setEncoding("utf8");
    child.stderr.on("data", (said: string) => {
      this.#stderr = (this.#stderr + said).slice(-STDERR_CHARS_MAX);
    });
    this.#hold(false);
  }

  async greet(capabilities: Json, version: string, withinMs: number): Promise<void> {
    const clientInfo = { name: "toolcell-npm", version };
    const pending = this.begin("initialize", { protocolVersion: REVISION, capabilities, clientInfo });
    const message = `toolcell did not answer within ${withinMs} ms`;
    const late = () => this.cancel(pending, new ToolcellError("timeout", "start_timeout", message));
    const timer = after(withinMs, late);
    try {
      const answer = await pending.answer;
      const server = isObject(answer) && isObject(answer["serverInfo"]) ? answer["serverInfo"] : {};
      if (server["name"] !== "toolcell") throw new ToolcellError("execution_failed", "answer_unreadable", "the program is not toolcell");
      this.#send({ jsonrpc: "2.0", method: "notifications/initialized" });
    } catch (error) {
      await this.close();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Sends a request. Throws if it cannot be sent. */
  begin(method: string, params: Json, onProgress?: (progress: Progress) => void, timeoutMs?: number): Pending {
    const meta: Json = isObject(params["_meta"]) ? { ...params["_meta"] } : {};
    const id = this.#next++;
    if (onProgress !== undefined) meta["progressToken"] = id;
    if (timeoutMs !== undefined) meta["toolcell/timeout_ms"] = timeoutMs;
    const whole = Object.keys(meta).length > 0 ? { ...params, _meta: meta } : params;
    const line = lineOf({ jsonrpc: "2.0", id, method, params: whole });
    // Another object, because its stack is that of this request.
    if (this.#ended) throw new ToolcellError(this.#ended.errorClass, this.#ended.code, this.#ended.message);
    const pending = new Pending(id, onProgress);
    this.#pending.set(id, pending);
    this.#hold(true);
    this.#child.stdin?.write(line);
    return pending;
  }

  /** Ends a request with `error`, and asks the program to stop its call. A request that has ended stays as it is. */
  cancel(pending: Pending, error: ToolcellError): void {
    if (!this.#remove(pending.id)) return;
    this.#cancel(pending.id, error.message);
    pending.fail(error);
  }

  /** Does not wait for the answer to a request any more, which otherwise keeps this process alive. */
  forget(pending: Pending): void {
    this.#remove(pending.id);
  }

  #cancel(requestId: number, reason: string): void {
    this.#send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId, reason } });
  }

  /** Cancels the calls that run, and stops the program. Completes when it has ended. */
  close(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    const error = new ToolcellError("canceled", "client_closed", "the client was closed");
    for (const id of this.#pending.keys()) this.#cancel(id, error.message);
    this.#end(error);
    this.#hold(true);
    this.#child.stdin?.end();
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      if (await this.#exitsWithin(STOP_MS)) return;
      this.#child.kill(signal);
    }
    if (await this.#exitsWithin(STOP_MS)) return;
    // Another process holds the streams open.
    for (const stream of [this.#child.stdout, this.#child.stderr]) stream?.destroy();
    await this.#exited;
  }

  async #exitsWithin(ms: number): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<boolean>((resolve) => {
      timer = setTimeout(() => resolve(false), ms);
    });
    const exited = this.#exited.then(() => true);
    return Promise.race([exited, late]).finally(() => clearTimeout(timer));
  }

  /** Whether a call may be waiting for a person, which no timeout of a call counts. */
  get asks(): boolean {
    return this.waits || this.#questions.size > 0;
  }

  /** When a question ended last, of `performance.now()`; minus infinity before the first end. */
  get settled(): number {
    return this.#settled;
  }

  get stderr(): string {
    return this.#stderr;
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Whether the program keeps this process alive: only while a request is open. */
  #hold(isOpen: boolean): void {
    const streams = [this.#child.stdin, this.#child.stdout, this.#child.stderr] as unknown as (Socket | null)[];
    for (const held of [this.#child, ...streams]) {
      if (isOpen) held?.ref();
      else held?.unref();
    }
  }

  #remove(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (this.#pending.size === 0 && !this.#stopping) this.#hold(false);
    return pending;
  }

  #send(message: Json): void {
    this.#child.stdin?.write(lineOf(message));
  }

  #take(chunk: Buffer): void {
    let rest = chunk;
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      const line = Buffer.concat([...this.#read, rest.subarray(0, end)]);
      [this.#read, this.#readBytes] = [[], 0];
      rest = rest.subarray(end + 1);
      if (!this.#receive(line)) return;
    }
    if (rest.length === 0) return;
    this.#read.push(rest);
    this.#readBytes += rest.length;
    if (this.#readBytes > ANSWER_BYTES_MAX) this.#giveUp(`a line has more than ${ANSWER_BYTES_MAX} bytes`);
  }

  #giveUp(why: string): void {
    this.#end(this.#endOfProgram(`toolcell wrote what cannot be read: ${why}`));
    [this.#read, this.#readBytes] = [[], 0];
    this.#child.stdout?.removeAllListeners("data").resume();
    this.#child.kill("SIGKILL");
  }

  /** Handles a message. Returns whether it was one. */
  #receive(line: Buffer): boolean {
    let message: unknown;
    try {
      message = JSON.parse(line.toString("utf8"));
    } catch (error) {
      this.#giveUp(String(error));
      return false;
    }
    if (!isObject(message)) {
      this.#giveUp("a message is not an object");
      return false;
    }
    const { method, id } = message;
    const params = isObject(message["params"]) ? message["params"] : {};
    if (typeof method === "string" && id !== undefined) void this.#asked(method, id, params);
    else if (typeof method === "string") this.#told(method, params);
    else if (typeof id === "number") this.#answered(id, message);
    return true;
  }

  #answered(id: number, message: Json): void {
    const pending = this.#remove(id);
    const error = message["error"];
    if (!isObject(error)) return pending?.end(message["result"]);
    const failed = ofResponse(error);
    if (failed.code !== "host_fault") return pending?.fail(failed);
    pending?.fail(new ToolcellError(failed.errorClass, failed.code, this.#withStderr(failed.message)));
  }

  #told(method: string, params: Json): void {
    try {
      if (method === "notifications/progress") this.#progress(params);
      else if (method === "notifications/message") this.#handlers.log(params);
      else if (method === "notifications/tools/list_changed") this.#handlers.toolsChanged();
      else if (method === "notifications/cancelled") this.#settle(params["requestId"]);
    } catch (error) {
      // A function of the caller: it must not end the connection, and its error must not be lost.
      queueMicrotask(() => {
        throw error;
      });
    }
  }

  #progress(params: Json): void {
    // The calls of a message have the tokens ID/INDEX.
    const [id, index] = String(params["progressToken"]).split("/");
    const pending = this.#pending.get(Number(id));
    if (pending?.onProgress === undefined) return;
    const abandon = (error: unknown) => this.#abandon(pending, error);
    try {
      // An async function gives a promise, whose failure would end the process.
      const told: unknown = pending.onProgress(progressOf(params, Number(index ?? 0)));
      Promise.resolve(told).catch(abandon);
    } catch (error) {
      abandon(error);
    }
  }

  /** Ends a request with an error of its `onProgress`: the caller hears of it where it waits, and other calls go on. */
  #abandon(pending: Pending, error: unknown): void {
    if (!this.#remove(pending.id)) return;
    this.#cancel(pending.id, "onProgress failed");
    pending.fail(error);
  }

  async #asked(method: string, id: unknown, params: Json): Promise<void> {
    if (method === "ping") return this.#send({ jsonrpc: "2.0", id, result: {} });
    if (method !== "elicitation/create") {
      const error = { code: METHOD_NOT_FOUND, message: `this client does not know ${method}` };
      return this.#send({ jsonrpc: "2.0", id, error });
    }
    this.#questions.add(id);
    // Also if the answer is one that JSON cannot hold.
    const no = () => lineOf({ jsonrpc: "2.0", id, result: { action: "decline" } });
    const line = await this.#handlers.question(params).then((result) => lineOf({ jsonrpc: "2.0", id, result })).catch(no);
    if (this.#settle(id)) this.#child.stdin?.write(line);
  }

  /** Ends a question. Returns whether it was open. */
  #settle(id: unknown): boolean {
    const wasOpen = this.#questions.delete(id);
    if (wasOpen) this.#settled = performance.now();
    return wasOpen;
  }

  #end(error: ToolcellError): void {
    this.#ended ??= error;
    const left = [...this.#pending.values()];
    this.#pending.clear();
    for (const pending of left) pending.fail(error);
  }

  #endOfProgram(message: string): ToolcellError {
    return new ToolcellError("execution_failed", "program_ended", this.#withStderr(message));
  }

  /** The message, and why: what the operator of the program is told, who is the caller here. */
  #withStderr(message: string): string {
    const said = this.#stderr.trim().slice(-STDERR_SHOWN_MAX);
    return said ? `${message}; it said:\n${said}` : message;
  }
}

/** Calls `late` after so many milliseconds. A timer of Node that is to run longer than it can would run at once. */
export function after(ms: number, late: () => void): NodeJS.Timeout | undefined {
  return ms <= TIMER_MS_MAX ? setTimeout(late, ms) : undefined;
}

/** A message as one line. Throws for what JSON cannot hold. */
function lineOf(message: Json): string {
  let line: string;
  try {
    line = `${JSON.stringify(message)}\n`;
  } catch (error) {
    throw invalid("arguments_not_json", `cannot send the arguments as JSON: ${text((error as Error).message) ?? error}`);
  }
  const bytes = Buffer.byteLength(line);
  if (bytes <= REQUEST_BYTES_MAX) return line;
  throw invalid("request_too_large", `the request has ${bytes} bytes; at most ${REQUEST_BYTES_MAX} can be sent`);
}
