// Not run: what the types of the package promise to a caller.

import { type Experimental_SandboxSession, generateText, type LanguageModel, type ToolSet } from "ai";

import {
  type AnthropicAnswer,
  type Approval,
  type FileChange,
  listWorkspaces,
  type OpenAiAnswer,
  type Progress,
  type Result,
  Toolcell,
  ToolcellError,
  Workspace,
  type WorkspaceFile,
} from "toolcell";
import { sandbox, tools } from "toolcell/ai";

export async function calls(): Promise<void> {
  const approve = (question: Approval) => ({ approved: question.message !== "", note: "seen" });
  await using cell = await Toolcell.start({ tools: ["jq.wasm"], allowRead: ["src"], timeout: "5s", config: false, approve });
  const result: Result = await cell.call("jq", { filter: "." }, { signal: AbortSignal.timeout(1_000), timeoutMs: 500 });
  const outputs: unknown = result.structured?.["outputs"];
  const args = { name: "jq", arguments: "{}" };
  const chat: OpenAiAnswer = await cell.call({ id: "a", type: "function", function: args }, { timeoutMs: 500 });
  const block: AnthropicAnswer = await cell.call({ type: "tool_use", id: "a", name: "jq", input: { filter: "." } });
  const [first]: (Result | ToolcellError)[] = await cell.batch([["jq", { filter: "." }], { name: "jq" }]);
  const running = cell.submit("ticker", { ticks: 3 });
  for await (const update of running) {
    const progress: Progress = update;
    console.log(progress.message);
  }
  const ended: Result = await running.result;
  console.log(outputs, chat.content, block.is_error, first instanceof ToolcellError, ended.text);
  // @ts-expect-error: a misspelt option
  await Toolcell.start({ allowReed: ["src"] });
  // @ts-expect-error: no such format
  await cell.tools("latin");
  // @ts-expect-error: a text is no object of arguments
  await cell.call("jq", "filter");
}

export async function workspaces(): Promise<void> {
  await using cell = await Toolcell.start({ tools: ["files.wasm"], workspace: true, workspaceRollback: true });
  const result = await cell.call("files_list");
  const changes: FileChange[] = result.workspace?.changes ?? [];
  const content: Buffer = await cell.readFile("a.txt", { signal: AbortSignal.timeout(1_000) });
  const listed: WorkspaceFile[] = await cell.listFiles();
  const workspace = new Workspace("report", { program: "toolcell" });
  const file: WorkspaceFile = await workspace.put("a.txt", new Uint8Array(1));
  const fork: Workspace = await workspace.fork("other");
  const names: string[] = (await listWorkspaces()).map((info) => info.name);
  console.log(changes, content, listed, file, (await fork.putArchive({ file: "a.tar" })).changes, names);
  // @ts-expect-error: without a workspace there are no changes
  console.log(result.workspace.changes);
  // @ts-expect-error: a text is neither bytes nor a file
  await workspace.put("a.txt", "a");
}

export async function aiSdk(model: LanguageModel): Promise<void> {
  await using cell = await Toolcell.start({ tools: ["jq", "shell"], workspace: true });
  const set: ToolSet = await tools(cell, { only: ["jq"], timeoutMs: 5_000 });
  const session: Experimental_SandboxSession = sandbox(cell, { tool: "shell" });
  const { text, toolResults } = await generateText({ model, tools: set, prompt: "go", experimental_sandbox: session });
  const content: Uint8Array | null = await session.readBinaryFile({ path: "a.txt" });
  console.log(text, toolResults, content);
  // @ts-expect-error: a misspelt option
  await tools(cell, { onyl: ["jq"] });
}
