/** Tools and a sandbox for the AI SDK, the npm package `ai`. */

export { sandbox, type SandboxOptions } from "./ai-sandbox.js";
export { type ToolOutput, tools, type ToolsOptions } from "./ai-tools.js";
