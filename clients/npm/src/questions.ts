import { invalid, isObject, type Json, text } from "./errors.js";

const RUN = "run once";
const RUN_ALWAYS = "run, and do not ask again this session";

/** A call that runs only if it is approved. */
export interface Approval {
  kind: "approval";
  /** The question, as it is to be shown: which tool, with which arguments, and what it may reach. */
  message: string;
  /** The arguments; undefined if they are too long to be shown as a whole. */
  arguments: unknown;
  invocationId: string | undefined;
  expiresAt: string | undefined;
  /** Whether the message shows a part of the call only. */
  isCut: boolean;
  /** Whether the answer can count for the rest of the session. */
  canRemember: boolean;
}

/** An answer to an Approval. `true` and `false` are short for the first field. */
export interface Decision {
  approved: boolean;
  /** What the caller should know. */
  note?: string;
  /** The arguments to run with instead. */
  arguments?: Json;
  /** Do not ask again this session. */
  remember?: boolean;
  /** Has to be true to approve a call of which only a part was shown. */
  althoughCut?: boolean;
}

/** A form that a tool wants filled in. Its words are the tool's, and the answer approves nothing. */
export interface Question {
  kind: "question";
  message: string;
  /** The JSON Schema of the answer, an object. */
  schema: Json;
  invocationId: string | undefined;
}

/** Answers about calls that need an approval: a function, or always no, or `toolcell approvals` answers. */
export type Approve = "deny" | "wait" | ((approval: Approval) => boolean | Decision | Promise<boolean | Decision>);
/** Answers forms of tools; undefined for no answer. */
export type Fill = (question: Question) => Json | undefined | Promise<Json | undefined>;

/** The question in `elicitation/create`. Only the program marks one as an approval. */
export function asked(params: Json): Approval | Question {
  const meta = isObject(params["_meta"]) ? params["_meta"] : {};
  const message = text(params["message"]) ?? "";
  const schema = isObject(params["requestedSchema"]) ? params["requestedSchema"] : {};
  const approval = meta["toolcell/approval"];
  if (!isObject(approval)) {
    const about = isObject(meta["toolcell/input"]) ? meta["toolcell/input"] : {};
    return { kind: "question", message, schema, invocationId: text(about["invocation_id"]) };
  }
  const fields = isObject(schema["properties"]) ? schema["properties"] : {};
  const decision = isObject(fields["decision"]) ? fields["decision"] : {};
  return {
    kind: "approval",
    message,
    arguments: offered(fields["arguments"]),
    invocationId: text(approval["invocation_id"]),
    expiresAt: text(approval["expires_at"]),
    isCut: "accept_partial_view" in fields,
    canRemember: Array.isArray(decision["enum"]) && decision["enum"].includes(RUN_ALWAYS),
  };
}

function offered(field: unknown): unknown {
  try {
    return isObject(field) ? JSON.parse(String(field["default"])) : undefined;
  } catch {
    return undefined;
  }
}

/** The answer to an approval. Anything but a clear yes is a no. */
export function decided(said: unknown): Json {
  const decision = said === true ? { approved: true } : said;
  if (!isObject(decision)) return { action: "decline" };
  const note = text(decision["note"]);
  if (decision["approved"] !== true) return { action: "decline", ...(note ? { content: { note } } : {}) };
  const content: Json = {
    decision: decision["remember"] === true ? RUN_ALWAYS : RUN,
    accept_partial_view: decision["althoughCut"] === true,
  };
  if (note) content["note"] = note;
  if (decision["arguments"] !== undefined) content["arguments"] = JSON.stringify(decision["arguments"]);
  return { action: "accept", content };
}

/** The answer to a form. */
export function filled(said: unknown): Json {
  return isObject(said) ? { action: "accept", content: said } : { action: "decline" };
}

export function checked(approve: unknown): Approve {
  if (approve === undefined) return "deny";
  if (approve === "deny" || approve === "wait" || typeof approve === "function") return approve as Approve;
  throw invalid("option_invalid", "cannot use `approve`: it is neither deny nor wait, and not a function");
}
