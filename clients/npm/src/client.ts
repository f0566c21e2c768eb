import { answering, canceled } from "./answering.js";
import { after, Connection, type Handlers, type Pending } from "./connection.js";
import { invalid, type Json, text, ToolcellError } from "./errors.js";
import type { WorkspaceFile } from "./files.js";
import { argumentsOf, millis, type Options } from "./options.js";
import { Previews } from "./previews.js";
import { findProgram } from "./program.js";
import { type Approve, asked, checked, decided, type Fill, filled } from "./questions.js";
import * as requests from "./requests.js";
import type { NamedCall, Wanted } from "./requests.js";
import type { Log, Progress, Result } from "./result.js";
import { RunningCall } from "./running.js";
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
  /** Answers about this call, by name, instead of the client's `approve`. */
  approve?: Exclude<Approve, string>;
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

/**
 * Tools in a sandbox: a process of `toolcell mcp`, which ends with `close`, or with this process. Without a grant, a tool
 * reaches nothing.
 */
export class Toolcell {
  readonly #connection: Connection;
  readonly #handlers: Handlers;
  readonly #previews: Previews;
  readonly #workspace: string | boolean | undefined;

  private constructor(connection: Connection, handlers: Handlers, previews: Previews, workspace: string | boolean | undefined) {
    this.#connection = connection;
    this.#handlers = handlers;
    this.#previews = previews;
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
    const previews = new Previews(program, options, environment);
    return new Toolcell(connection, answers, previews, options.workspace);
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
    return this.#read(path, requests.fileUri(this.#workspace, path), options);
  }

  /**
   * What a link in a result is about: an artifact, or a large output.
   *
   * @internal
   */
  async readLink(uri: string): Promise<Buffer> {
    return this.#read(uri, requests.firstPart(uri), {});
  }

  async #read(name: string, first: string, options: CallOptions): Promise<Buffer> {
    const parts: requests.Part[] = [];
    for (let uri: string | undefined = first; uri !== undefined; uri = parts.at(-1)?.next) {
      parts.push(await this.#start(requests.part(uri), options).result);
    }
    return requests.joined(name, parts);
  }

  /**
   * Whether a call would need an approval, as `toolcell policy check` says: it is not made, and no hook is asked.
   *
   * @internal
   */
  asks(toolId: string, args: object): Promise<boolean> {
    return this.#previews.asks(toolId, args);
  }

  #start<T>(wanted: Wanted<T>, options: CallOptions): { result: Promise<T>; cancel: () => void } {
    const { signal, timeoutMs, onProgress, approve } = options;
    const wall = timeoutMs === undefined ? undefined : millis("timeoutMs", timeoutMs);
    if (signal?.aborted) throw canceled(signal);
    // The program can make the calls of a request one after the other, and each has the time.
    const limit = wall === undefined ? Number.POSITIVE_INFINITY : wall * wanted.calls + GRACE_MS;
    const canceling = new AbortController();
    const send = (params: Json) =>
      this.#bounded(this.#connection.begin(wanted.method, params, onProgress, wall), canceling.signal, limit);
    const respond = (question: Json) => this.#handlers.question(question, approve);
    const answer = approve ? answering(send, wanted.params, respond, canceling.signal) : send(wanted.params);
    const abort = () => canceling.abort(signal?.reason);
    signal?.addEventListener("abort", abort, { once: true });
    const result = answer.finally(() => signal?.removeEventListener("abort", abort)).then(wanted.read);
    // The caller may look at the progress alone.
    result.catch(() => {});
    return { result, cancel: () => canceling.abort() };
  }

  async #bounded(pending: Pending, signal: AbortSignal, limit: number): Promise<unknown> {
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
    signal.addEventListener("abort", abort, { once: true });
    try {
      return await pending.answer;
    } finally {
      clearTimeout(timer);
      if (ping !== undefined) connection.forget(ping);
      signal.removeEventListener("abort", abort);
    }
  }
}

function wantedOf(name: string | object, second?: object, third?: CallOptions): [Wanted<unknown>, CallOptions] {
  if (typeof name === "string") return [requests.call(name, second), third ?? {}];
  if (third !== undefined) {
    throw invalid("arguments_twice", "a call of a model has its arguments in itself; pass it and the options");
  }
  return [requests.shaped(name), second ?? {}];
}

function handlers(options: StartOptions, byDefault: Approve): Handlers {
  return {
    async question(params, approve = byDefault) {
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
