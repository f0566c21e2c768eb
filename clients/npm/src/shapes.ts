import { invalid, isObject, type Json } from "./errors.js";

/** The API of a model whose shapes a message has. */
export type Dialect = "openai" | "openai-responses" | "anthropic";
/** A format of tools; `plain` is that of MCP. */
export type Format = "plain" | Dialect;

const DIALECTS: readonly string[] = ["openai", "openai-responses", "anthropic"];
const BY_TYPE = new Map<unknown, Dialect>([
  ["function", "openai"],
  ["custom", "openai"],
  ["function_call", "openai-responses"],
  ["tool_use", "anthropic"],
]);

/** The dialect of one call; undefined for a call with a name and arguments alone. */
export function ofCall(call: unknown): Dialect | undefined {
  if (!isObject(call)) return undefined;
  return BY_TYPE.get(call["type"]) ?? (isObject(call["function"]) ? "openai" : undefined);
}

/** The dialect of a message, a response, or a list of its parts; undefined for a list without calls. */
export function ofMessage(message: unknown): Dialect | undefined {
  if (Array.isArray(message)) return message.map(ofCall).find((found) => found !== undefined);
  if (!isObject(message)) throw unreadable("it is neither an object nor a list");
  const call = ofCall(message);
  if (call !== undefined) return call;
  if ("choices" in message || "tool_calls" in message) return "openai";
  if (Array.isArray(message["output"])) return "openai-responses";
  if (Array.isArray(message["content"])) return "anthropic";
  if ("role" in message) return "openai";
  throw unreadable("it has the shape of none of the APIs");
}

/** A message with these calls. */
export function messageOf(calls: readonly unknown[], dialect: Dialect): Json | readonly unknown[] {
  return dialect === "openai" ? { role: "assistant", tool_calls: calls } : calls;
}

export function named(dialect: unknown): Dialect {
  if (!DIALECTS.includes(dialect as string)) throw invalid("dialect_unknown", `there is no dialect ${JSON.stringify(dialect)}`);
  return dialect as Dialect;
}

export function unreadable(why: string) {
  const hint = "pass a response of the API, or one message of it; the option dialect says of which API";
  return invalid("message_unreadable", `cannot read the message: ${why}`, hint);
}
