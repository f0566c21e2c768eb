import { after, Connection, type Handlers, type Pending } from "./connection.js";
import { invalid, type Json, text, ToolcellError } from "./errors.js";
import type { WorkspaceFile } from "./files.js";
import { argumentsOf, millis, type Options } from "./options.js";
import { findProgram } from "./program.js";
import { type Approve, asked, checked, decided, type Fill, filled } from "./questions.js";
import * as requests from "./requests.js";
import type { NamedCall, Wanted } from "./requests.js";
import type { Log, Progress, Result } from "./result.js";
import type { Dialect, Format } from "./shapes.js";

const VERSION = "0.1.0";
/** How much longer the client waits than the program, which ends a call in time by itself. */
const GRACE_MS = 5_000;
const START_TIMEOUT_MS = 60_000;

/** How a client is started. */
export interface StartOptions extends Options {
  /** The path of the program; by default TOOLCELL, else that of the package for this platform, else that on PATH. */
  program?: string;
  /** The folder in which the program starts, and which relative paths refer to. */
  folder?: string;
  /** Variables to set for the program, beside those of this process. */
  environment?: Record<string, string>;
  /** Answers about calls that need an approval; by default no. */
  approve?: Approve;
  /** Answers forms of tools. */
  fill?: Fill;
  onLog?: (log: Log) => void;
  onToolsChanged?: () => void;
  /** How long the program may take to answer at its start, in milliseconds. */
  startTimeoutMs?: number;
}

const OWN = ["program", "folder", "environment", "approve", "fill", "onLog", "onToolsChanged", "startTimeoutMs"];

/** How one request is made. */
export interface CallOptions {
  /** Cancels the call. */
  signal?: AbortSignal;
  /** The program stops each call after so many milliseconds, in which no approval counts. */
  timeoutMs?: number;
  /** Hears what the tool says of its work. If it throws, the call is canceled, and fails with its error. */
  onProgress?: (progress: Progress) => void;
}

/** A tool call of OpenAI's chat completions. */
export interface OpenAiCall {
  id: string;
  type?: "function";
  function: { name: string; arguments: string };
}
/** What answers it. */
export interface OpenAiAnswer {
  role: "tool";
  tool_call_id: string;
  content: string;
}
/** A function call of OpenAI's responses. */
export interface ResponsesCall {
  type: "function_call";
  call_id: string;
  name: string;
  arguments: string;
}
/** What answers it. */
export interface ResponsesAnswer {
  type: "function_call_output";
  call_id: string;
  output: string | Json[];
}
/** A block of Anthropic's messages that calls a tool. */
export interface AnthropicCall {
  type: "tool_use";
  id: string;
  name: string;
  input: unknown;
}
/** What answers it. */
export interface AnthropicAnswer {
  type: "tool_result";
  tool_use_id: string;
  is_error: boolean;
  content: Json[];
}

/** A call that was started. Iterating over it gives its progress, `result` what it comes to. */
export class RunningCall<T> implements AsyncIterable<Progress> {
  /** The result. Rejected with a ToolcellError if the call failed or was canceled. */
  readonly result: Promise<T>;
  readonly #cancel: () => void;
  readonly #updates: Progress[] = [];
  #changed: (() => void) | undefined;
  #isDone = false;

  /** @internal */
  constructor(start: (onProgress: (progress: Progress) => void) => { result: Promise<T>; cancel: () => void }) {
    const { result, cancel } = start((update) => {
      // For a caller that does not look: the oldest updates are dropped.
      if (this.#updates.length >= 1024) this.#updates.shift();
      this.#updates.push(update);
      this.#changed?.();
    });
    this.result = result;
    this.#cancel = cancel;
    const done = () => {
      this.#isDone = true;
      this.#changed?.();
    };
    result.then(done, done);
  }

  /** Asks the program to stop the call. Its result is then an error of the class `canceled`. */
  cancel(): void {
    this.#cancel();
  }

  /** What the tool says of its work, until the call ends. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Progress, void> {
    for (;;) {
      for (let update = this.#updates.shift(); update; update = this.#updates.shift()) yield update;
      if (this.#isDone) return;
      await new Promise<void>((resolve) => {
        this.#changed = resolve;
      });
    }
  }
}

/**
 * Tools in a sandbox: a process of `toolcell mcp`, which ends with `close`, or with this process. Without a grant, a tool
 * reaches nothing.
 */
export class Toolcell {
  readonly #connection: Connection;
  readonly #workspace: string | boolean | undefined;

  private constructor(connection: Connection, workspace: string | boolean | undefined) {
    this.#connection = connection;
    this.#workspace = workspace;
  }

  /** Starts the program. */
  static async start(options: StartOptions = {}): Promise<Toolcell> {
    const approve = checked(options.approve);
    const program = findProgram(options.program);
    const environment = { ...process.env, ...options.environment };
    const args = argumentsOf(options, OWN);
    const within = options.startTimeoutMs === undefined ? START_TIMEOUT_MS : millis("startTimeoutMs", options.startTimeoutMs);
    const answers = handlers(options, approve);
    const connection = new Connection(program, args, options.folder, environment, answers, approve === "wait");
    // Without forms, the program leaves approvals to `toolcell approvals`.
    const capabilities = approve === "wait" ? {} : { elicitation: { form: {} } };
    await connection.greet(capabilities, VERSION, within);
    return new Toolcell(connection, options.workspace);
  }

  /** Cancels the calls that run, and stops the program. Completes when it has ended. */
  close(): Promise<void> {
    return this.#connection.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** The last lines of the program's standard error: what it tells its operator. */
  get stderr(): string {
    return this.#connection.stderr;
  }

  /** The tools, as a request to a model takes them. `plain` is the format of MCP, with the names for `call`. */
  // The types of the packages of models' APIs are made for these lists, and are not known here.
  async tools(format: Format = "plain", options: CallOptions = {}): Promise<any[]> {
    return this.#start(requests.tools(format), options).result;
  }

  /**
   * Calls a tool. By its name: gives a Result, and throws a ToolcellError if the call failed. With a call of a model: gives
   * what answers it there, also if the call failed, because that is for the model to read.
   */
  call(call: OpenAiCall, options?: CallOptions): Promise<OpenAiAnswer>;
  call(call: ResponsesCall, options?: CallOptions): Promise<ResponsesAnswer>;
  call(call: AnthropicCall, options?: CallOptions): Promise<AnthropicAnswer>;
  call(name: string, args?: object, options?: CallOptions): Promise<Result>;
  async call(name: string | object, second?: object, third?: CallOptions): Promise<unknown> {
    const [wanted, options] = wantedOf(name, second, third);
    return this.#start(wanted, options).result;
  }

  /** Starts a call as `call` does. */
  submit(name: string, args?: object, options?: CallOptions): RunningCall<Result>;
  submit(call: OpenAiCall | ResponsesCall | AnthropicCall, options?: CallOptions): RunningCall<Json>;
  submit(name: string | object, second?: object, third?: CallOptions): RunningCall<unknown> {
    const [wanted, options] = wantedOf(name, second, third);
    return new RunningCall((heard) => {
      const onProgress = (progress: Progress) => {
        heard(progress);
        return options.onProgress?.(progress);
      };
      return this.#start(wanted, { ...options, onProgress });
    });
  }

  /**
   * Makes at most 128 calls: at once where they cannot disturb each other, the others in their order. The results have the
   * order of the calls; that of a call by name is a Result, or a ToolcellError, which is not thrown.
   */
  batch(calls: readonly NamedCall[], options?: CallOptions): Promise<(Result | ToolcellError)[]>;
  batch(calls: readonly OpenAiCall[], options?: CallOptions): Promise<OpenAiAnswer[]>;
  batch(calls: readonly ResponsesCall[], options?: CallOptions): Promise<ResponsesAnswer[]>;
  batch(calls: readonly AnthropicCall[], options?: CallOptions): Promise<AnthropicAnswer[]>;
  async batch(calls: readonly unknown[], options: CallOptions = {}): Promise<unknown[]> {
    return calls.length === 0 ? [] : this.#start(requests.batch(calls), options).result;
  }

  /** Makes the calls in a message of a model, or in a response of its API. Gives the messages that answer it. */
  async run(message: object, options: CallOptions & { dialect?: Dialect } = {}): Promise<any[]> {
    return this.#start(requests.run(message, options.dialect), options).result;
  }

  /** The files of the workspace: the first 1000, sorted by path. `Workspace.files` lists all of a named one. */
  async listFiles(options: CallOptions = {}): Promise<WorkspaceFile[]> {
    return this.#start(requests.files(), options).result;
  }

  /** A file of the workspace. Large ones are read in parts. */
  async readFile(path: string, options: CallOptions = {}): Promise<Buffer> {
    const parts: requests.Part[] = [];
    let uri: string | undefined = requests.fileUri(this.#workspace, path);
    while (uri !== undefined) {
      const part: requests.Part = await this.#start(requests.part(uri), options).result;
      parts.push(part);
      uri = part.next;
    }
    return requests.joined(path, parts);
  }

  #start<T>(wanted: Wanted<T>, options: CallOptions): { result: Promise<T>; cancel: () => void } {
    const { signal, timeoutMs, onProgress } = options;
    const wall = timeoutMs === undefined ? undefined : millis("timeoutMs", timeoutMs);
    if (signal?.aborted) throw canceled(signal);
    const pending = this.#connection.begin(wanted.method, wanted.params, onProgress, wall);
    // The program can make the calls of a request one after the other, and each has the time.
    const limit = wall === undefined ? Number.POSITIVE_INFINITY : wall * wanted.calls + GRACE_MS;
    const result = this.#bounded(pending, signal, limit).then(wanted.read);
    // The caller may look at the progress alone.
    result.catch(() => {});
    return { result, cancel: () => this.#connection.cancel(pending, canceled(undefined)) };
  }

  async #bounded(pending: Pending, signal: AbortSignal | undefined, limit: number): Promise<unknown> {
    const connection = this.#connection;
    const abort = () => connection.cancel(pending, canceled(signal));
    const message = `toolcell did not answer within ${limit} ms; the call was canceled`;
    let ping: Pending | undefined;
    // The time of a call begins after its approval. Meanwhile the program has as much for the answer to a ping: it may hang.
    const late = () => {
      const left = connection.settled + limit - performance.now();
      if (connection.asks && ping?.isDone !== false) {
        ping = connection.begin("ping", {});
        timer = after(limit, late);
      } else if (!connection.asks && left > 0) {
        timer = after(left, late);
      } else {
        connection.cancel(pending, new ToolcellError("timeout", "no_answer", message));
      }
    };
    let timer = after(limit, late);
    signal?.addEventListener("abort", abort, { once: true });
    try {
      return await pending.answer;
    } finally {
      clearTimeout(timer);
      if (ping !== undefined) connection.forget(ping);
      signal?.removeEventListener("abort", abort);
    }
  }
}

function canceled(signal: AbortSignal | undefined): ToolcellError {
  return new ToolcellError("canceled", "canceled_by_client", "the client canceled the call", { cause: signal?.reason });
}

function wantedOf(name: string | object, second?: object, third?: CallOptions): [Wanted<unknown>, CallOptions] {
  if (typeof name === "string") return [requests.call(name, second), third ?? {}];
  if (third !== undefined) {
    throw invalid("arguments_twice", "a call of a model has its arguments in itself; pass it and the options");
  }
  return [requests.shaped(name), second ?? {}];
}

function handlers(options: StartOptions, approve: Approve): Handlers {
  return {
    async question(params) {
      const question = asked(params);
      if (question.kind === "approval") return decided(typeof approve === "function" ? await approve(question) : false);
      return filled(await options.fill?.(question));
    },
    log(params) {
      options.onLog?.({ level: text(params["level"]) ?? "info", logger: text(params["logger"]), data: params["data"] });
    },
    toolsChanged() {
      options.onToolsChanged?.();
    },
  };
}
