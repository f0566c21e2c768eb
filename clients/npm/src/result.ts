import { type Block, type ErrorFacts, isObject, type Json, number, text, ToolcellError } from "./errors.js";
import { changesOf, type WorkspaceChanges } from "./files.js";

/** The result of a call that succeeded. All of it is untrusted: a tool wrote it. */
export interface Result {
  /** The texts of the content, in lines. */
  text: string;
  /** The structured output, if the tool has one. */
  structured: Json | undefined;
  /** Blocks of MCP: texts, images, resources. */
  content: Block[];
  /** The id with which `toolcell show` finds the record of the call. */
  invocationId: string | undefined;
  /** More facts, such as `usage`, `provenance` and `artifact_refs`. */
  meta: Json;
  /** Changes that the call made in its workspace; undefined without a workspace. */
  workspace: WorkspaceChanges | undefined;
}

/** What a tool says of its work. The numbers of one call only grow. */
export interface Progress {
  progress: number;
  total: number | undefined;
  message: string | undefined;
  /** The index of the call, in a batch or a message. */
  index: number;
}

/** A message that a tool logged. */
export interface Log {
  level: string;
  logger: string | undefined;
  data: unknown;
}

const PREFIX = "toolcell/";
/** Where the files of workspaces are. Links to those that a call wrote follow its content. */
export const FILES = "toolcell://workspace/";
/** Names the property that toolcell added to the structured output. */
const ADDED = `${PREFIX}text_property`;

/** The result in an answer to `tools/call`. Throws if the call failed. */
export function resultOf(answer: unknown): Result {
  if (!isObject(answer)) throw new ToolcellError("execution_failed", "answer_unreadable", "toolcell answered with what is not a result");
  const meta = isObject(answer["_meta"]) ? answer["_meta"] : {};
  const blocks = (Array.isArray(answer["content"]) ? answer["content"] : []).filter(isObject) as Block[];
  // What toolcell adds for clients that read one of both forms: the structured output as text, and the text in it.
  const content = blocks.filter((block) => !isObject(block["_meta"]) || block["_meta"][`${PREFIX}repeats`] === undefined);
  const said = content.filter((block) => block.type === "text").map((block) => String(block["text"] ?? "")).join("\n");
  const invocationId = text(meta[`${PREFIX}invocation_id`]);
  const changed = meta[`${PREFIX}workspace`];
  const workspace = isObject(changed) ? changesOf(String(changed["name"]), changed) : undefined;
  if (answer["isError"] === true) throw failure(meta, content, said, { invocationId, workspace });
  const more = Object.entries(meta).filter(([key]) => key.startsWith(PREFIX) && key !== ADDED);
  const structured = isObject(answer["structuredContent"]) ? { ...answer["structuredContent"] } : undefined;
  if (structured !== undefined) delete structured[text(meta[ADDED]) ?? ""];
  const facts = Object.fromEntries(more.map(([key, value]) => [key.slice(PREFIX.length), value]));
  return { text: said, structured, content, invocationId, meta: facts, workspace };
}

function failure(meta: Json, content: Block[], said: string, known: ErrorFacts): ToolcellError {
  const facts = isObject(meta[`${PREFIX}error`]) ? meta[`${PREFIX}error`] as Json : {};
  const message = text(facts["message"]) ?? (said || "the call failed");
  const errorClass = text(facts["class"]) ?? "execution_failed";
  return new ToolcellError(errorClass, text(facts["code"]) ?? "unknown", message, {
    hint: text(facts["hint"]),
    retryAfter: number(facts["retry_after"]),
    retrySafe: facts["retry_safe"] === true,
    ...known,
    // Without the message of the error, which is one of the blocks.
    content: content.filter((block) => block["text"] !== facts["message"]),
  });
}

export function progressOf(params: Json, index: number): Progress {
  const progress = number(params["progress"]) ?? 0;
  return { progress, total: number(params["total"]), message: text(params["message"]), index };
}
