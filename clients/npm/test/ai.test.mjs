// Tools for the AI SDK, with the real program and the SDK's own mock of a model.

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import { generateText, isStepCount, streamText } from "ai";
import { convertArrayToReadableStream, MockLanguageModelV4 } from "ai/test";

import { Toolcell, ToolcellError } from "toolcell";
import { tools } from "toolcell/ai";

import { example, LONG, scratch } from "./support.mjs";

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const said = (content, unified) => ({ content, finishReason: { unified, raw: undefined }, usage, warnings: [] });
const done = said([{ type: "text", text: "done" }], "stop");
const call = ([toolName, input], at) => ({ type: "tool-call", toolCallId: `c${at}`, toolName, input: JSON.stringify(input) });
const calls = (...all) => said(all.map(call), "tool-calls");

/** A model that makes these calls, and then is done; and what the SDK gave it. */
function model(...all) {
  const mock = new MockLanguageModelV4({ doGenerate: [calls(...all), done] });
  // As an API gets it: without fields that are undefined.
  const sent = (part) => JSON.parse(JSON.stringify(part.output));
  return { mock, results: () => mock.doGenerateCalls[1].prompt.at(-1).content.map(sent) };
}

/** What the model reads of these calls. */
async function read(set, ...all) {
  const { mock, results } = model(...all);
  await generateText({ model: mock, tools: set, prompt: "go", stopWhen: isStepCount(2) });
  return results();
}

let folder;
before((suite) => {
  folder = scratch(suite);
  mkdirSync(join(folder, "open"));
  for (const name of ["open/note", "secret"]) writeFileSync(join(folder, name), "what is in it");
});

describe("tools", () => {
  let cell, set;
  before(async () => {
    const names = ["jq", "ticker", "everything", "files"];
    cell = await Toolcell.start({ tools: names.map(example), config: false, allowRead: [join(folder, "open")] });
    set = await tools(cell);
  });
  after(() => cell.close());

  test("the model gets names, descriptions and schemas", async () => {
    const { mock } = model(["jq", { filter: "1" }]);
    await generateText({ model: mock, tools: set, prompt: "go" });
    const given = mock.doGenerateCalls[0].tools;
    assert.deepEqual(given.map((tool) => tool.name).sort(), (await cell.tools()).map((tool) => tool.name).sort());
    const [plain] = (await cell.tools()).filter((tool) => tool.name === "jq");
    const jq = given.find((tool) => tool.name === "jq");
    assert.deepEqual([jq.type, jq.description, jq.inputSchema], ["function", plain.description, plain.inputSchema]);
    assert.deepEqual(Object.keys(await tools(cell, { only: ["jq"] })), ["jq"]);
    await assert.rejects(tools(cell, { only: ["jq", "qj"] }), { code: "unknown_tool", message: /no tool qj/ });
  });

  test("a call gives its result, and null is a field that is left out", async () => {
    const [length, ticks] = await read(set, ["jq", { filter: "length", input: [1, 2] }], ["ticker", { ticks: 1, interval_ms: null }]);
    assert.deepEqual(length, { type: "text", value: "2" });
    assert.match(ticks.value, /^1 of 1 ticks/);
    const { mock } = model(["jq", { filter: ".", input: { a: 1 } }]);
    const { toolResults: [{ output }] } = await generateText({ model: mock, tools: set, prompt: "go" });
    assert.deepEqual(output.structured.outputs, [{ a: 1 }]);
    assert.ok(output.invocationId);
  });

  test("the model can read what went wrong", async () => {
    const results = await read(
      set,
      ["everything_test_error_handling", {}],
      ["ticker", { ticks: 0 }],
      ["files_read", { path: join(folder, "secret") }],
      ["files_read", { path: join(folder, "open/note") }],
    );
    assert.deepEqual(results.map(({ type }) => type), ["error-text", "error-text", "error-text", "text"]);
    const [failed, invalid, refused, granted] = results.map(({ value }) => value);
    assert.match(failed, /\[execution_failed\/intentional\] .*intentionally.*\nHint: /);
    assert.match(invalid, /\[schema_validation_failed\/schema_mismatch\] .*ticks/);
    assert.match(refused, /\[permission_denied\/path_not_granted\] .*secret/);
    assert.match(granted, /what is in it/);
  });

  test("images, sounds and resources are files for the model", async () => {
    const [image, sound, resource, many] = await read(
      set,
      ["everything_test_image_content", {}],
      ["everything_test_audio_content", {}],
      ["everything_test_embedded_resource", {}],
      ["everything_test_multiple_content_types", {}],
    );
    const [png] = (await cell.call("test_image_content")).content;
    const data = { type: "data", data: png.data };
    assert.deepEqual(image, { type: "content", value: [{ type: "file", mediaType: "image/png", data }] });
    assert.deepEqual([sound.value[0].type, sound.value[0].mediaType], ["file", "audio/wav"]);
    assert.equal(resource.type, "text");
    assert.deepEqual(many.value.map((part) => part.type), ["text", "file", "text"]);
  });

  test("a large result is a link that the model can follow", async () => {
    const [{ value }] = await read(set, ["jq", { filter: "[range(60000)]" }]);
    const [, bytes, reference] = /\[cut: (\d+) bytes .* (toolcell:payload\S+)\]$/.exec(value);
    const [part] = await read(set, ["read_result", { reference, offset: Number(bytes) - 100 }]);
    assert.match(part.value, /59999/);
    assert.equal(value.split(reference).length, 2, "it is named once");
  });

  test("progress is a preliminary result", async () => {
    const parts = [
      { type: "tool-call", toolCallId: "c0", toolName: "ticker", input: '{"ticks": 3, "interval_ms": 20}' },
      { type: "finish", finishReason: { unified: "tool-calls", raw: undefined }, usage },
    ];
    const mock = new MockLanguageModelV4({ doStream: { stream: convertArrayToReadableStream(parts) } });
    const results = [];
    for await (const part of streamText({ model: mock, tools: set, prompt: "go" }).stream) {
      if (part.type === "tool-result") results.push(part);
    }
    const told = results.filter((part) => part.output.progress).map((part) => part.output.progress.message);
    assert.deepEqual(told, ["tick 1 of 3", "tick 2 of 3", "tick 3 of 3"]);
    assert.deepEqual([results.at(-1).preliminary, results.at(-1).output.text], [undefined, "3 of 3 ticks"]);
  });

  test("the SDK's signal and timeouts stop the call", async () => {
    const giveUp = new AbortController();
    const { execute } = set.ticker;
    const outputs = execute(LONG, { abortSignal: giveUp.signal, messages: [], toolCallId: "c0" });
    const began = Date.now();
    assert.ok((await outputs.next()).value.progress);
    giveUp.abort(new Error("enough"));
    await assert.rejects(async () => {
      for await (const _ of outputs);
    }, (error) => error instanceof ToolcellError && /\[canceled\/canceled_by_client\].*: enough/.test(error.message));
    const aborted = execute(LONG, { abortSignal: giveUp.signal, messages: [], toolCallId: "c0" });
    await assert.rejects(aborted.next(), { errorClass: "canceled" });
    // The end of the loop is the end of the call.
    for await (const _ of execute(LONG, { messages: [], toolCallId: "c0" })) break;
    const { mock, results } = model(["ticker", LONG]);
    await generateText({ model: mock, tools: set, prompt: "go", stopWhen: isStepCount(2), timeout: { toolMs: 300 } });
    assert.match(results()[0].value, /canceled_by_client/);
    const [late] = await read(await tools(cell, { timeoutMs: 300 }), ["ticker", LONG]);
    assert.match(late.value, /\[timeout\/deadline_exceeded\]/);
    assert.ok(Date.now() - began < 20_000);
    // Calls of the same tool wait for each other: one that still ran would hold this one up.
    assert.equal((await cell.call("jq", { filter: "1" })).text, "1");
  });
});

describe("approvals", () => {
  const input = { filter: "length", input: [1, 2] };

  async function started(test, options = {}) {
    const config = join(scratch(test), "toolcell.toml");
    writeFileSync(config, '[[rule]]\nbehavior = "ask"\ntool = "jq.*"\nreason = "ask first"\n');
    const cell = await Toolcell.start({ tools: [example("ticker"), example("jq")], config, ...options });
    test.after(() => cell.close());
    return [cell, await tools(cell)];
  }

  /** Has the model make a call, answers the request with `reply`, and goes on. */
  async function asked(set, input, reply) {
    const messages = [{ role: "user", content: "go" }];
    const first = await generateText({ model: model(["jq", input]).mock, tools: set, messages });
    const requests = first.content.filter((part) => part.type === "tool-approval-request");
    assert.deepEqual(requests.map((request) => request.toolCall.input), [input]);
    assert.deepEqual(first.toolResults, [], "nothing runs before the answer");
    const [{ approvalId }] = requests;
    messages.push(...first.responseMessages);
    messages.push({ role: "tool", content: [{ type: "tool-approval-response", approvalId, ...reply }] });
    return again(set, messages);
  }

  async function again(set, messages) {
    const mock = new MockLanguageModelV4({ doGenerate: [done] });
    await generateText({ model: mock, tools: set, messages });
    return [mock.doGenerateCalls[0].prompt.at(-1).content[0].output, messages];
  }

  test("toolcell's rules become requests of the SDK", async (test) => {
    const [cell, set] = await started(test);
    const [result, messages] = await asked(set, input, { approved: true });
    assert.deepEqual(result, { type: "text", value: "2" });
    assert.deepEqual(await asked(set, input, { approved: false, reason: "not now" }).then(([denied]) => denied), {
      type: "execution-denied",
      reason: "not now",
    });
    // Also if null stands for a field that is left out.
    assert.equal((await asked(set, { ...input, max_outputs: null }, { approved: true }))[0].value, "2");
    const [free] = await read(set, ["ticker", { ticks: 1 }]);
    assert.match(free.value, /^1 of 1/);
    // Another process goes on, because the approval is in the messages.
    const other = await Toolcell.start({ tools: [example("jq")], config: false });
    test.after(() => other.close());
    assert.equal((await again(await tools(other), messages))[0].value, "2");
    assert.equal((await again(set, messages))[0].value, "2");
    await assert.rejects(cell.call("jq", input), { code: "approval_rejected" });
  });

  test("an approval is for its call and its arguments", async (test) => {
    const [, set] = await started(test);
    const [, messages] = await asked(set, input, { approved: true });
    const run = async (args, toolCallId, history = messages) => {
      let last;
      for await (const output of set.jq.execute(args, { messages: history, toolCallId })) last = output;
      return last.text;
    };
    assert.equal(await run(input, "c0"), "2");
    const refused = { errorClass: "approval_rejected" };
    await assert.rejects(run({ ...input, filter: "add" }, "c0"), refused);
    await assert.rejects(run(input, "c1"), refused);
    await assert.rejects(run(input, "c0", messages.slice(0, -1)), refused);
    const denied = { ...messages.at(-1).content[0], approved: false };
    await assert.rejects(run(input, "c0", [...messages.slice(0, -1), { role: "tool", content: [denied] }]), refused);
    // An application that calls without asking does not approve for toolcell's user.
    const { mock, results } = model(["jq", input]);
    await generateText({ model: mock, tools: set, prompt: "go", stopWhen: isStepCount(2), toolApproval: { jq: "approved" } });
    assert.match(results()[0].value, /\[approval_rejected\//);
  });

  test("several calls are asked about one by one", async (test) => {
    const [, set] = await started(test);
    const messages = [{ role: "user", content: "go" }];
    const inputs = [input, input, { filter: "add", input: [3, 4] }];
    const first = await generateText({ model: model(...inputs.map((one) => ["jq", one])).mock, tools: set, messages });
    const requests = first.content.filter((part) => part.type === "tool-approval-request");
    messages.push(...first.responseMessages);
    const content = requests.map(({ approvalId }, at) => ({ type: "tool-approval-response", approvalId, approved: at !== 1 }));
    messages.push({ role: "tool", content });
    const mock = new MockLanguageModelV4({ doGenerate: [done] });
    await generateText({ model: mock, tools: set, messages });
    const outputs = Object.fromEntries(mock.doGenerateCalls[0].prompt.at(-1).content.map((part) => [part.toolCallId, part.output]));
    assert.deepEqual([outputs.c0.value, outputs.c1.type, outputs.c2.value], ["2", "execution-denied", "7"]);
  });
});
