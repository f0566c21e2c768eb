import type { ToolResultPart } from "ai";

import { type Block, isObject, number, text, ToolcellError } from "./errors.js";
import { FILES } from "./result.js";

/** What the model gets of an output. */
export type Content = Extract<ToolResultPart["output"], { type: "text" | "content" }>;
type Part = Extract<Content, { type: "content" }>["value"][number];

/** Blocks of MCP in the terms of the SDK: texts alone as one text, else texts and files. */
export function contentOf(blocks: readonly Block[]): Content {
  const said = blocks.map((block) => text(block["text"]) ?? "").join("\n");
  // Files that the call wrote are no part of its answer, and a text that was cut names its link.
  const isPart = (uri = "") => uri === "" || !(uri.startsWith(FILES) || said.includes(uri));
  const parts = blocks.filter((block) => isPart(text(block["uri"]))).map(partOf);
  const lines = parts.flatMap((part) => (part.type === "text" ? [part.text] : []));
  if (lines.length < parts.length) return { type: "content", value: parts };
  return { type: "text", value: lines.join("\n") };
}

function partOf(block: Block): Part {
  const [data, mediaType] = [text(block["data"]), text(block["mimeType"])];
  if (block.type === "text") return { type: "text", text: text(block["text"]) ?? "" };
  if ((block.type === "image" || block.type === "audio") && data !== undefined && mediaType !== undefined) {
    return { type: "file", mediaType, data: { type: "data", data } };
  }
  if (block.type === "resource_link") return { type: "text", text: linkOf(block) };
  const resource = isObject(block["resource"]) ? block["resource"] : {};
  const [said, blob, kind] = [text(resource["text"]), text(resource["blob"]), text(resource["mimeType"])];
  if (said !== undefined) return { type: "text", text: said };
  if (blob !== undefined && kind !== undefined) return { type: "file", mediaType: kind, data: { type: "data", data: blob } };
  return { type: "text", text: JSON.stringify(block) };
}

/** A model reads what is behind the link with the tool `read_result`. */
function linkOf(block: Block): string {
  const size = number(block["size"]);
  const facts = [text(block["name"]), text(block["mimeType"]), size === undefined ? undefined : `${size} bytes`, text(block["uri"])];
  return `[artifact: ${facts.filter((fact) => fact !== undefined).join(", ")}]`;
}

/** The SDK gives its model the message of an error, and nothing else of it. */
export function readable(error: ToolcellError): ToolcellError {
  const { errorClass, code, hint, cause } = error;
  const why = errorClass === "canceled" && cause instanceof Error ? `: ${cause.message}` : "";
  const said = error.content.map((block) => text(block["text"])).filter((line) => line !== undefined);
  const lines = [`[${errorClass}/${code}] ${error.message}${why}`, ...(hint === undefined ? [] : [`Hint: ${hint}`]), ...said];
  return new ToolcellError(errorClass, code, lines.join("\n"), { ...error, cause: error });
}
