import { isDeepStrictEqual } from "node:util";

import { dynamicTool, jsonSchema, type JSONSchema7, type ModelMessage, type ToolSet } from "ai";

import { type Content, contentOf, readable } from "./ai-content.js";
import type { CallOptions, Toolcell } from "./client.js";
import { type Block, isObject, type Json, text, ToolcellError } from "./errors.js";
import type { WorkspaceChanges } from "./files.js";
import type { Decision } from "./questions.js";
import type { Progress, Result } from "./result.js";

type Part = Exclude<ModelMessage["content"], string>[number];

/** How tools are given to the AI SDK. */
export interface ToolsOptions {
  /** The tools to give, by the names that `call` takes; by default all. */
  only?: readonly string[];
  /** The program stops each call after so many milliseconds, in which no approval counts. */
  timeoutMs?: number;
}

/** The output of a tool: first what it says of its work, as preliminary results, then its result. */
export type ToolOutput = { progress: Progress } | {
  text: string;
  /** The structured output, if the tool has one. */
  structured?: Json;
  /** Blocks of MCP: what the model reads, and links to files that the call wrote. */
  content: Block[];
  /** The id with which `toolcell show` finds the record of the call. */
  invocationId?: string;
  /** Changes that the call made in its workspace. */
  workspace?: WorkspaceChanges;
};

/**
 * The tools of a client for `generateText`, `streamText` and agents. Where toolcell's rules ask, the SDK requests an approval, and
 * the approved call runs with the arguments that were approved.
 */
export async function tools(cell: Toolcell, options: ToolsOptions = {}): Promise<ToolSet> {
  const listed = (await cell.tools()).filter(({ name }) => options.only?.includes(name) ?? true);
  const missing = (options.only ?? []).filter((name) => !listed.some((tool) => tool.name === name));
  if (missing.length > 0) {
    throw new ToolcellError("unknown_tool", "unknown_tool", `there is no tool ${missing.join(", ")}; leave it out of \`only\``);
  }
  return Object.fromEntries(listed.map((tool) => [tool.name, toolOf(cell, tool, options)]));
}

function toolOf(cell: Toolcell, listed: Json, { timeoutMs }: ToolsOptions): ToolSet[string] {
  const name = String(listed["name"]);
  const meta = isObject(listed["_meta"]) ? listed["_meta"] : {};
  const known = isObject(meta["toolcell/tool"]) ? meta["toolcell/tool"] : {};
  const id = text(known["tool_id"]);
  return dynamicTool({
    description: text(listed["description"]) ?? "",
    inputSchema: jsonSchema(listed["inputSchema"] as JSONSchema7),
    // The server's own tools, such as `read_result`, never ask.
    needsApproval: async (input) => id !== undefined && cell.asks(id, input as object),
    execute: (input, { abortSignal, messages, toolCallId }) => {
      const approval = approved(messages, toolCallId, input);
      const callOptions: CallOptions = {
        ...(timeoutMs === undefined ? {} : { timeoutMs }),
        ...(abortSignal === undefined ? {} : { signal: abortSignal }),
        ...(approval === undefined ? {} : { approve: () => approval }),
      };
      return outputs(cell, name, input as object, callOptions);
    },
    toModelOutput: ({ output }) => modelOutput(output as ToolOutput),
  });
}

async function* outputs(cell: Toolcell, name: string, input: object, options: CallOptions): AsyncGenerator<ToolOutput> {
  try {
    const call = cell.submit(name, input, options);
    try {
      for await (const progress of call) yield { progress };
      yield outputOf(await call.result);
    } finally {
      // Of a caller that stops listening; a call that has ended stays as it is.
      call.cancel();
    }
  } catch (error) {
    throw error instanceof ToolcellError ? readable(error) : error;
  }
}

function outputOf({ text, structured, content, invocationId, workspace }: Result): ToolOutput {
  return {
    text,
    content,
    ...(structured === undefined ? {} : { structured }),
    ...(invocationId === undefined ? {} : { invocationId }),
    ...(workspace === undefined ? {} : { workspace }),
  };
}

function modelOutput(output: ToolOutput): Content {
  // A call that was stopped left its last progress.
  if ("progress" in output) return { type: "text", value: output.progress.message ?? "" };
  return contentOf(output.content);
}

/** The yes of the SDK's user to this call with this input, for toolcell; undefined without one. */
function approved(messages: ModelMessage[], toolCallId: string, input: unknown): Decision | undefined {
  const parts = messages.flatMap(({ content }): Part[] => (typeof content === "string" ? [] : content));
  const isCall = parts.some((part) =>
    part.type === "tool-call" && part.toolCallId === toolCallId && isDeepStrictEqual(part.input, input)
  );
  const requests = parts.flatMap((part) =>
    part.type === "tool-approval-request" && part.toolCallId === toolCallId ? [part.approvalId] : []
  );
  for (const part of parts) {
    if (part.type !== "tool-approval-response" || !requests.includes(part.approvalId)) continue;
    // The SDK shows its user all of the input. The first answer counts, as it does there.
    const note = part.reason === undefined ? {} : { note: part.reason };
    return isCall && part.approved ? { approved: true, althoughCut: true, ...note } : undefined;
  }
  return undefined;
}
