/** Calls untrusted tools, WebAssembly components, in the sandbox of the program `toolcell`. */

export {
  type AnthropicAnswer,
  type AnthropicCall,
  type CallOptions,
  type OpenAiAnswer,
  type OpenAiCall,
  type ResponsesAnswer,
  type ResponsesCall,
  type StartOptions,
  Toolcell,
} from "./client.js";
export { type Block, type ErrorFacts, type Json, ToolcellError } from "./errors.js";
export type { FileChange, Snapshot, WorkspaceChanges, WorkspaceFile, WorkspaceInfo } from "./files.js";
export type { Options } from "./options.js";
export type { Approval, Approve, Decision, Fill, Question } from "./questions.js";
export type { NamedCall } from "./requests.js";
export type { Log, Progress, Result } from "./result.js";
export { RunningCall } from "./running.js";
export type { Dialect, Format } from "./shapes.js";
export { type Content, listWorkspaces, Workspace, type WorkspaceOptions } from "./workspace.js";
