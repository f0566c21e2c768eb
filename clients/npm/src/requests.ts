import { invalid, isObject, type Json, number, text, ToolcellError } from "./errors.js";
import { badPath, objects, type WorkspaceFile } from "./files.js";
import { FILES, type Result, resultOf } from "./result.js";
import { type Dialect, type Format, messageOf, named, ofCall, ofMessage, unreadable } from "./shapes.js";

/** A call by the name of its tool. */
export type NamedCall = readonly [name: string, args?: object] | { name: string; arguments?: object };

/** A request, and how its answer is read. */
export interface Wanted<T> {
  method: string;
  params: Json;
  read: (answer: unknown) => T;
  /** How many calls it makes at most. */
  calls: number;
}

/** The program makes no more in one request. */
const CALLS_MAX = 128;
/** Name of the workspace of a session. */
const OF_SESSION = "default";

export function tools(format: Format): Wanted<Json[]> {
  const read = (answer: unknown) => list(answer, "tools");
  if (format === "plain") return { method: "tools/list", params: {}, read, calls: 1 };
  return { method: "toolcell/export", params: { dialect: named(format) }, read, calls: 1 };
}

export function call(name: string, args: unknown): Wanted<Result> {
  return { method: "tools/call", params: { name, arguments: object(args) }, read: resultOf, calls: 1 };
}

/** A call of a model. */
export function shaped(given: unknown): Wanted<Json> {
  const dialect = ofCall(given);
  if (dialect === undefined) throw unreadable("it is not a call of OpenAI's or Anthropic's API");
  return results([given], dialect, (all) => all[0] as Json);
}

/** Many calls: all by name, or all in the terms of one API. */
export function batch(calls: readonly unknown[]): Wanted<(Result | ToolcellError | Json)[]> {
  const dialects = new Set(calls.map(ofCall));
  if (dialects.size > 1) {
    throw invalid("batch_invalid", "cannot make the batch: its calls have different shapes; make one batch for each");
  }
  const [dialect] = dialects;
  if (dialect !== undefined) return results(calls, dialect, (all) => all);
  const params = { dialect: "mcp", form: "results", arguments: calls.map(byName) };
  const read = (answer: unknown) => counted(list(answer, "results"), calls.length).map(ended);
  return { method: "toolcell/respond", params, read, calls: calls.length };
}

/** All calls of a message. */
export function run(message: unknown, dialect: Dialect | undefined): Wanted<Json[]> {
  // A list without calls has no answer in any dialect.
  const spoken = dialect === undefined ? (ofMessage(message) ?? "openai-responses") : named(dialect);
  const params = { dialect: spoken, form: "messages", arguments: message };
  return { method: "toolcell/respond", params, read: (answer) => list(answer, "messages"), calls: CALLS_MAX };
}

/** The files of the workspace. */
export function files(): Wanted<WorkspaceFile[]> {
  const read = (answer: unknown) =>
    list(answer, "resources")
      .filter((link) => text(link["uri"])?.startsWith(FILES))
      .map((link) => ({ path: String(link["name"]), size: number(link["size"]) ?? 0, digest: undefined }));
  return { method: "resources/list", params: {}, read, calls: 1 };
}

/** A part of a file of the workspace. */
export interface Part {
  content: Buffer;
  /** Bytes of the whole file. */
  size: number;
  /** The URI of the next part. */
  next: string | undefined;
}

/** The URI of the first part of a file. A whole file can make a line longer than a client reads. */
export function fileUri(workspace: string | boolean | undefined, path: string): string {
  if (typeof path !== "string" || !path.isWellFormed()) throw badPath(path, "it is not Unicode text");
  return firstPart(`${FILES}${typeof workspace === "string" ? workspace : OF_SESSION}/${encodeURIComponent(path)}`);
}

export function firstPart(uri: string): string {
  return `${uri}?offset=0`;
}

export function part(uri: string): Wanted<Part> {
  return { method: "resources/read", params: { uri }, read: partOf, calls: 1 };
}

function partOf(answer: unknown): Part {
  const [contents] = isObject(answer) ? objects(answer["contents"]) : [];
  const meta = contents?.["_meta"];
  const about = isObject(meta) ? meta["toolcell/part"] : undefined;
  const [said, blob] = [text(contents?.["text"]), text(contents?.["blob"])];
  const size = isObject(about) ? number(about["size"]) : undefined;
  if (!isObject(about) || size === undefined || (said ?? blob) === undefined) {
    throw new ToolcellError("execution_failed", "answer_unreadable", "toolcell answered with what is not a part of a file");
  }
  const content = said === undefined ? Buffer.from(blob as string, "base64") : Buffer.from(said);
  return { content, size, next: text(about["next"]) };
}

/** The whole file. */
export function joined(path: string, parts: readonly Part[]): Buffer {
  const content = Buffer.concat(parts.map((part) => part.content));
  if (parts.every((part) => part.size === content.length)) return content;
  const message = `${path} was changed while it was read; read it again`;
  throw new ToolcellError("execution_failed", "file_changed", message, { retrySafe: true });
}

function results<T>(calls: readonly unknown[], dialect: Dialect, read: (all: Json[]) => T): Wanted<T> {
  const params = { dialect, form: "results", arguments: messageOf(calls, dialect) };
  const all = (answer: unknown) => read(counted(list(answer, "results"), calls.length));
  return { method: "toolcell/respond", params, read: all, calls: calls.length };
}

function byName(given: unknown): Json {
  if (Array.isArray(given) && given.length <= 2 && typeof given[0] === "string") {
    return { name: given[0], arguments: object(given[1]) };
  }
  if (isObject(given) && typeof given["name"] === "string") {
    return { name: given["name"], arguments: object(given["arguments"]) };
  }
  throw invalid("batch_invalid", "cannot make the batch: a call is neither [name, arguments] nor a call of a model");
}

function object(args: unknown): Json {
  if (args === undefined) return {};
  if (!isObject(args)) throw invalid("arguments_not_an_object", "the arguments are not an object");
  return args;
}

function ended(answer: unknown): Result | ToolcellError {
  try {
    return resultOf(answer);
  } catch (error) {
    if (error instanceof ToolcellError) return error;
    throw error;
  }
}

function list(answer: unknown, key: string): Json[] {
  const found = isObject(answer) ? answer[key] : undefined;
  if (!Array.isArray(found)) throw new ToolcellError("execution_failed", "answer_unreadable", `toolcell answered without ${key}`);
  return found as Json[];
}

function counted(found: Json[], wanted: number): Json[] {
  if (found.length === wanted) return found;
  throw new ToolcellError("execution_failed", "answer_unreadable", `toolcell answered with ${found.length} results for ${wanted} calls`);
}
