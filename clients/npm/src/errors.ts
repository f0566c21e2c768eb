import type { WorkspaceChanges } from "./files.js";

/** The facts of an error, beside its class, code and message. */
export interface ErrorFacts {
  /** What the caller can do. */
  hint?: string | undefined;
  /** Seconds after which the same call may succeed. */
  retryAfter?: number | undefined;
  /** Whether the call changed nothing, so that it can be repeated without harm. */
  retrySafe?: boolean | undefined;
  /** The id with which `toolcell show` finds the record of the call. */
  invocationId?: string | undefined;
  /** What the tool returned nevertheless, as blocks of MCP. */
  content?: Block[] | undefined;
  /** Changes that the call left in its workspace; undefined without a workspace. */
  workspace?: WorkspaceChanges | undefined;
  cause?: unknown;
}

/** A block of MCP: a text, an image, a resource. */
export type Block = { type: string; [field: string]: unknown };

/** An object of JSON. */
export type Json = { [field: string]: unknown };

/**
 * A call that failed, or a program that cannot be used: the one error of this package. `errorClass` is one of the classes of
 * toolcell's records, `code` is finer, and `message` may be shown to a model.
 */
export class ToolcellError extends Error {
  override readonly name = "ToolcellError";
  readonly hint: string | undefined;
  readonly retryAfter: number | undefined;
  readonly retrySafe: boolean;
  readonly invocationId: string | undefined;
  readonly content: Block[];
  readonly workspace: WorkspaceChanges | undefined;

  constructor(
    readonly errorClass: string,
    readonly code: string,
    message: string,
    facts: ErrorFacts = {},
  ) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.hint = facts.hint;
    this.retryAfter = facts.retryAfter;
    this.retrySafe = facts.retrySafe ?? false;
    this.invocationId = facts.invocationId;
    this.content = facts.content ?? [];
    this.workspace = facts.workspace;
  }
}

/** Of JSON-RPC. */
const INTERNAL_ERROR = -32603;

/** Whether `value` is an object of JSON. */
export function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
export const number = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined);

/** The error of a request that the program refused. Its data is the record of a result, if there was a call. */
export function ofResponse(error: Json): ToolcellError {
  const message = text(error["message"]) ?? "toolcell refused the request";
  const record = isObject(error["data"]) ? error["data"] : {};
  const facts = record["error"];
  if (!isObject(facts)) {
    // The code of a resource that cannot be read.
    const state = text(record["state"]);
    if (state !== undefined) return new ToolcellError("invalid_arguments", state, message);
    return error["code"] === INTERNAL_ERROR
      ? new ToolcellError("execution_failed", "host_fault", message)
      : new ToolcellError("invalid_arguments", "request_refused", message);
  }
  return ofRecord(facts, message, text(record["invocation_id"]));
}

/** The error in a record, or in what a command of the program prints. */
export function ofRecord(facts: Json, message: string, invocationId?: string): ToolcellError {
  const errorClass = text(facts["error_class"]) ?? "invalid_arguments";
  return new ToolcellError(errorClass, text(facts["error_code"]) ?? "request_refused", message, {
    retryAfter: number(facts["retry_after"]),
    retrySafe: isObject(facts["retry"]) && facts["retry"]["safe"] === true,
    invocationId,
  });
}

/** The error of a value that the caller passed. */
export function invalid(code: string, message: string, hint?: string): ToolcellError {
  return new ToolcellError("invalid_arguments", code, message, { hint });
}
