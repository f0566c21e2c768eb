// An agent of the AI SDK with a shell, and a question before one of its tools. It needs no model: the SDK's mock makes the calls.
// node ai-sdk.mjs JQ SHELL TOOLCELL_TOML: two tools, as toolcell takes them, and a file whose rule asks before `jq`.

import { generateText, isStepCount, jsonSchema, tool } from "ai";
import { MockLanguageModelV4 } from "ai/test";

import { Toolcell } from "toolcell";
import { sandbox, tools } from "toolcell/ai";

const [jq, shell, config] = process.argv.slice(2);
const cell = await Toolcell.start({ tools: [jq, shell], config, workspace: true });

// A tool of the application that runs commands in the sandbox: it has no other way to files or programs.
const bash = tool({
  description: "Runs a bash command.",
  inputSchema: jsonSchema({ type: "object", properties: { command: { type: "string" } }, required: ["command"] }),
  execute: ({ command }, { abortSignal, experimental_sandbox }) => experimental_sandbox.run({ command, abortSignal }),
});
const set = { ...(await tools(cell, { only: ["jq"] })), bash };

const turns = [
  ["bash", { command: "seq 3 > numbers; cat numbers" }],
  ["jq", { filter: "add", input: [1, 2, 3] }],
];
const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const model = new MockLanguageModelV4({
  doGenerate: async ({ prompt }) => {
    const answered = prompt.filter((message) => message.role === "tool").length;
    const [toolName, input] = turns[answered] ?? [];
    const call = { type: "tool-call", toolCallId: `call_${answered}`, toolName, input: JSON.stringify(input) };
    const content = [toolName ? call : { type: "text", text: "The numbers are in a file, and their sum is 6." }];
    return { content, finishReason: { unified: toolName ? "tool-calls" : "stop", raw: undefined }, usage, warnings: [] };
  },
});

const messages = [{ role: "user", content: "Write the numbers 1 to 3 into a file, and add them." }];
for (;;) {
  const options = { model, messages, tools: set, stopWhen: isStepCount(5), experimental_sandbox: sandbox(cell) };
  const { content, responseMessages, text } = await generateText(options);
  messages.push(...responseMessages);
  const results = responseMessages.filter((message) => message.role === "tool").flatMap((message) => message.content);
  for (const { toolName, output } of results) console.log(toolName, "gives the model", JSON.stringify(output.value));
  const requests = content.filter((part) => part.type === "tool-approval-request");
  if (requests.length === 0) {
    console.log(text);
    break;
  }
  // Where a person would be asked.
  for (const { toolCall } of requests) console.log("approved:", toolCall.toolName, JSON.stringify(toolCall.input));
  const answer = ({ approvalId }) => ({ type: "tool-approval-response", approvalId, approved: true });
  messages.push({ role: "tool", content: requests.map(answer) });
}
console.log("files:", (await cell.listFiles()).map((file) => file.path).join(" "));
await cell.close();
