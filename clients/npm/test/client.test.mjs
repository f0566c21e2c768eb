// The client, with the real program.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Toolcell, ToolcellError } from "toolcell";

import { example, isRunning, LONG, PACKAGE, scratch } from "./support.mjs";

const openai = (id, name, args) => ({ id, type: "function", function: { name, arguments: args } });
const jq = (id, items = "[1, 2, 3]") => openai(id, "jq", `{"filter": "length", "input": ${items}}`);

/** Checks that `made` fails with a ToolcellError of this class and code, and gives it. */
async function fails(errorClass, code, made) {
  let caught;
  await assert.rejects(async () => made(), (error) => {
    caught = error;
    return error instanceof ToolcellError;
  });
  assert.deepEqual([caught.errorClass, caught.code], [errorClass, code], caught.message);
  return caught;
}

/** Takes the time away that the client waits longer than the program, for one test. */
function shortened(test) {
  const timer = globalThis.setTimeout;
  test.mock.method(globalThis, "setTimeout", (done, ms) => timer(done, ms > 5_000 ? ms - 5_000 : ms));
}

describe("calls", () => {
  let cell;
  const heard = [];
  before(async () => {
    const tools = ["jq", "ticker", "everything"].map(example);
    cell = await Toolcell.start({ tools, config: false, onLog: (log) => heard.push(log) });
  });
  after(() => cell.close());

  test("a tool is called by its name", async () => {
    const result = await cell.call("jq", { filter: "length", input: [1, 2, 3] });
    assert.deepEqual([result.text, result.structured.outputs], ["3", [3]]);
    assert.ok(result.invocationId && result.meta.usage.fuel > 0 && result.meta.provenance.trust === "untrusted");
    const [image] = (await cell.call("test_image_content")).content;
    assert.deepEqual([image.type, image.mimeType], ["image", "image/png"]);
  });

  test("a failure has class, code and message", async () => {
    const error = await fails("execution_failed", "intentional", () => cell.call("test_error_handling"));
    assert.ok(error.message.includes("intentionally") && error.hint && error.invocationId);
    const unknown = await fails("unknown_tool", "unknown_tool", () => cell.call("no_such_tool"));
    assert.match(unknown.message, /no tool named `no_such_tool`; available: jq/);
    await fails("schema_validation_failed", "schema_mismatch", () => cell.call("ticker", { ticks: 0 }));
  });

  test("what JSON cannot hold is not sent", async () => {
    const circle = {};
    circle.itself = circle;
    await fails("invalid_arguments", "arguments_not_json", () => cell.call("jq", circle));
    await fails("invalid_arguments", "arguments_not_json", () => cell.call("jq", { input: 1n }));
    await fails("invalid_arguments", "arguments_not_an_object", () => cell.call("jq", ["length"]));
    await fails("invalid_arguments", "request_too_large", () => cell.call("jq", { input: "x".repeat(16 << 20) }));
    await fails("invalid_arguments", "arguments_twice", () => cell.call(jq("one"), { input: 1 }, {}));
  });

  test("the tools have the formats of models", async () => {
    const plain = await cell.tools();
    assert.deepEqual(plain.find((tool) => tool.name === "jq").inputSchema.required, ["filter"]);
    const [chat] = await cell.tools("openai");
    assert.deepEqual([chat.type, chat.function.name, chat.function.parameters.required], ["function", "jq", ["filter"]]);
    assert.equal((await cell.tools("openai-responses"))[0].name, "jq");
    assert.deepEqual((await cell.tools("anthropic"))[0].input_schema.required, ["filter"]);
    await fails("invalid_arguments", "dialect_unknown", () => cell.tools("latin"));
  });

  test("a call of a model gets what answers it", async () => {
    assert.deepEqual(await cell.call(jq("call_1")), { role: "tool", tool_call_id: "call_1", content: "3" });
    const args = '{"filter": ".", "input": 9007199254740993}';
    const item = await cell.call({ type: "function_call", call_id: "fc_1", name: "jq", arguments: args });
    assert.deepEqual(item, { type: "function_call_output", call_id: "fc_1", output: "9007199254740993" });
    const block = { type: "tool_use", id: "toolu_1", name: "jq", input: { filter: ".", input: 7 } };
    const content = [{ type: "text", text: "7" }];
    assert.deepEqual(await cell.call(block), { type: "tool_result", tool_use_id: "toolu_1", is_error: false, content });
  });

  test("what a model does wrong is for the model to read", async () => {
    for (const [name, args, says] of [
      ["jq", '{"filter": "len', "ERROR [invalid_arguments/arguments_not_json]: "],
      ["no_such_tool", "{}", "ERROR [unknown_tool/unknown_tool]: "],
      ["ticker", '{"ticks": 0}', "ERROR [schema_validation_failed/"],
      ["test_error_handling", "", "ERROR [execution_failed/intentional]: "],
    ]) {
      const answer = await cell.call(openai("one", name, args));
      assert.ok(answer.content.startsWith(says), answer.content);
    }
    assert.equal((await cell.call({ type: "tool_use", id: "one", name: "no_such_tool", input: {} })).is_error, true);
    await fails("invalid_arguments", "message_unreadable", () => cell.call({ name: "jq" }));
  });

  test("a message is answered as a whole", async () => {
    const message = { role: "assistant", content: null, tool_calls: [jq("a"), openai("b", "test_image_content", "{}")] };
    for (const whole of [message, { object: "chat.completion", choices: [{ index: 0, message }] }]) {
      const [one, two, images] = await cell.run(whole);
      assert.deepEqual([one.tool_call_id, two.tool_call_id, images.role], ["a", "b", "user"]);
      assert.ok(images.content[1].image_url.url.startsWith("data:image/png;base64,"));
    }
    const use = { type: "tool_use", id: "t", name: "jq", input: { filter: "length", input: [] } };
    const content = [{ type: "text", text: "I count." }, use];
    for (const whole of [content, { type: "message", role: "assistant", content }]) {
      const [answer] = await cell.run(whole);
      assert.deepEqual([answer.role, answer.content[0].tool_use_id], ["user", "t"]);
    }
    const output = [{ type: "function_call", call_id: "f", name: "jq", arguments: '{"filter": "1"}' }];
    const [item] = await cell.run({ object: "response", output });
    assert.deepEqual([item.call_id, item.output], ["f", "1"]);
    for (const nothing of [{ role: "assistant", content: "hello" }, [{ type: "text", text: "hello" }], []]) {
      assert.deepEqual(await cell.run(nothing), []);
    }
    await fails("invalid_arguments", "message_unreadable", () => cell.run({ hello: 1 }));
  });

  test("a batch has its results in order", async () => {
    const [ticked, unknown, one] = await cell.batch([
      ["ticker", { ticks: 3, interval_ms: 50 }],
      ["no_such_tool"],
      { name: "jq", arguments: { filter: "1" } },
    ]);
    assert.deepEqual([ticked.structured.ticks, one.structured.outputs], [3, [1]]);
    assert.ok(unknown instanceof ToolcellError && unknown.errorClass === "unknown_tool");
    const answers = await cell.batch([jq("a", "[]"), jq("b", "[1]")]);
    assert.deepEqual(answers.map((answer) => [answer.tool_call_id, answer.content]), [["a", "0"], ["b", "1"]]);
    assert.deepEqual(await cell.batch([]), []);
    await fails("invalid_arguments", "batch_invalid", () => cell.batch([["jq", {}], jq("a")]));
    const many = Array.from({ length: 129 }, () => ["jq", { filter: "1" }]);
    const error = await fails("invalid_arguments", "request_refused", () => cell.batch(many));
    assert.match(error.message, /send at most 128 at once/);
  });

  test("progress comes before the result, as calls of a function and as an iterable", async () => {
    const said = [];
    await cell.call("ticker", { ticks: 3, interval_ms: 20 }, { onProgress: (update) => said.push(update.message) });
    assert.deepEqual(said, ["tick 1 of 3", "tick 2 of 3", "tick 3 of 3"]);
    const call = cell.submit("ticker", { ticks: 3, interval_ms: 20 });
    const updates = [];
    for await (const update of call) updates.push(update.progress);
    assert.equal(updates.length, 3);
    assert.deepEqual((await call.result).structured, { ticks: 3, of: 3 });
    const indexes = new Set();
    await cell.batch([["ticker", { ticks: 2 }], ["ticker", { ticks: 2 }]], { onProgress: ({ index }) => indexes.add(index) });
    assert.deepEqual([...indexes].sort(), [0, 1]);
  });

  test("a call that is canceled ends at once", async () => {
    const giveUp = new AbortController();
    const onProgress = () => giveUp.abort("enough");
    const began = Date.now();
    const ended = () => cell.call("ticker", LONG, { signal: giveUp.signal, onProgress });
    const error = await fails("canceled", "canceled_by_client", ended);
    assert.equal(error.cause, "enough");
    await fails("canceled", "canceled_by_client", ended);
    const call = cell.submit("ticker", LONG);
    for await (const _ of call) call.cancel();
    await fails("canceled", "canceled_by_client", () => call.result);
    assert.ok(Date.now() - began < 5_000);
    assert.equal((await cell.call("jq", { filter: "1" })).text, "1");
  });

  test("an onProgress that fails ends its call alone, with its error", async () => {
    const broken = new Error("mine");
    const throws = () => {
      throw broken;
    };
    for (const onProgress of [throws, async () => throws()]) {
      await assert.rejects(cell.call("ticker", LONG, { onProgress }), broken);
      await assert.rejects(cell.submit("ticker", LONG, { onProgress }).result, broken);
      await assert.rejects(cell.batch([["ticker", LONG]], { onProgress }), broken);
    }
    assert.equal((await cell.call("jq", { filter: "1" })).text, "1");
  });

  test("a timeout ends the call", async () => {
    const error = await fails("timeout", "deadline_exceeded", () => cell.call("ticker", LONG, { timeoutMs: 300 }));
    assert.ok(error.invocationId);
    // Longer than a timer of Node can be.
    assert.equal((await cell.call("jq", { filter: "1" }, { timeoutMs: 2 ** 32 })).text, "1");
    for (const timeoutMs of [0, -1, Number.NaN]) {
      await fails("invalid_arguments", "option_invalid", () => cell.call("jq", {}, { timeoutMs }));
    }
  });

  test("the time of a call is not that of its batch", async (test) => {
    shortened(test);
    const results = await cell.batch(new Array(40).fill(["ticker", { ticks: 4, interval_ms: 200 }]), { timeoutMs: 2_000 });
    assert.deepEqual([...new Set(results.map((result) => result.text))], ["4 of 4 ticks"]);
  });

  test("many calls share one client", async () => {
    const counts = Array.from({ length: 20 }, (_, items) => items);
    const call = (items) => cell.call("jq", { filter: "length", input: new Array(items).fill(0) });
    const results = await Promise.all(counts.map(call));
    assert.deepEqual(results.map((result) => Number(result.text)), counts);
  });

  test("logs of a tool are heard", async () => {
    heard.length = 0;
    await cell.call("test_logging_tool");
    assert.equal(heard[0].level, "info");
  });
});

describe("questions", () => {
  /** A call that a rule asks about. */
  async function ask(test, options) {
    const config = join(scratch(test), "toolcell.toml");
    writeFileSync(config, '[[rule]]\nbehavior = "ask"\ntool = "jq.*"\n');
    const cell = await Toolcell.start({ tools: [example("jq")], config, ...options });
    try {
      return (await cell.call("jq", { filter: "length", input: [1] })).text;
    } catch (error) {
      return error.code;
    } finally {
      await cell.close();
    }
  }

  test("without an answer the call does not run", async (test) => {
    assert.equal(await ask(test, {}), "approval_rejected");
    await fails("invalid_arguments", "option_invalid", () => Toolcell.start({ approve: "maybe" }));
    assert.equal(await ask(test, { approve: "wait", approvalTimeout: 500 }), "approval_expired");
  });

  test("the caller's function decides", async (test) => {
    const asked = [];
    const approve = async (question) => {
      asked.push(question);
      await sleep(10);
      return true;
    };
    assert.equal(await ask(test, { approve }), "1");
    assert.match(asked[0].message, /Run this call\?/);
    assert.deepEqual(asked[0].arguments, { filter: "length", input: [1] });
    assert.ok(asked[0].invocationId && asked[0].expiresAt && !asked[0].isCut);
    const throws = () => {
      throw new Error("no window");
    };
    for (const no of [() => false, () => "yes", throws]) assert.equal(await ask(test, { approve: no }), "approval_rejected");
    const edit = { approved: true, arguments: { filter: "length", input: [1, 2] } };
    assert.equal(await ask(test, { approve: () => edit }), "2");
  });

  test("a call can have an approver of its own", async (test) => {
    const config = join(scratch(test), "toolcell.toml");
    writeFileSync(config, '[[rule]]\nbehavior = "ask"\ntool = "jq.*"\n');
    const asked = [];
    const cell = await Toolcell.start({ tools: [example("jq")], config, approve: (question) => void asked.push(question) });
    const args = [[1], [1, 2], [1, 2, 3]].map((input) => ({ filter: "length", input }));
    // Each is asked about its own call, whatever else waits.
    const results = args.map((one, at) => {
      const approve = async (question) => {
        assert.deepEqual(question.arguments, one);
        await sleep(50);
        return at !== 1;
      };
      return cell.call("jq", one, { approve }).then((result) => result.text, (error) => error.code);
    });
    assert.deepEqual(await Promise.all(results), ["1", "approval_rejected", "3"]);
    const edit = { approved: true, arguments: { filter: "add", input: [3, 4] } };
    assert.equal((await cell.call("jq", args[0], { approve: () => edit })).text, "7");
    const throws = () => {
      throw new Error("no window");
    };
    for (const no of [throws, () => ({ approved: false, note: 1n }), () => "yes"]) {
      await fails("approval_rejected", "approval_rejected", () => cell.call("jq", args[0], { approve: no }));
    }
    assert.equal(asked.length, 0);
    const giveUp = new AbortController();
    const hangs = () => {
      setTimeout(() => giveUp.abort(), 50);
      return new Promise(() => {});
    };
    await fails("canceled", "canceled_by_client", () => cell.call("jq", args[0], { approve: hangs, signal: giveUp.signal }));
    await fails("approval_rejected", "approval_rejected", () => cell.call("jq", args[0]));
    assert.equal(asked.length, 1);
    await cell.close();
  });

  test("the time of a call begins after its approval", async (test) => {
    shortened(test);
    const config = join(scratch(test), "toolcell.toml");
    writeFileSync(config, '[[rule]]\nbehavior = "ask"\ntool = "ticker.*"\n');
    // Between the first timeout and the second one, which the call outlives.
    const approve = () => sleep(5_000, true);
    const cell = await Toolcell.start({ tools: [example("ticker")], config, approve });
    const result = await cell.call("ticker", { ticks: 5, interval_ms: 500 }, { timeoutMs: 3_000 });
    assert.equal(result.text, "5 of 5 ticks");
    await cell.close();
  });

  test("an answer that JSON cannot hold is no answer", async () => {
    const tools = [example("everything")];
    const cell = await Toolcell.start({ tools, config: false, fill: () => ({ name: 1n }) });
    await assert.rejects(cell.call("test_input_required_result_elicitation"), { errorClass: "canceled" });
    await cell.close();
  });

  test("a form of a tool is no approval", async () => {
    const tool = "test_input_required_result_elicitation";
    const approve = () => assert.fail("a tool cannot ask for an approval");
    const options = { tools: [example("everything")], config: false };
    const filling = await Toolcell.start({ ...options, approve, fill: () => ({ name: "Ada" }) });
    assert.match((await filling.call(tool)).text, /Ada/);
    assert.match((await filling.call(tool, {}, { approve })).text, /Ada/);
    await filling.close();
    const silent = await Toolcell.start(options);
    await fails("canceled", "not_answered", () => silent.call(tool));
    await silent.close();
  });
});

describe("programs", () => {
  test("a program that does not start says why", async () => {
    for (const [options, code] of [
      [{ program: "/no/such/toolcell" }, "program_not_found"],
      [{ program: import.meta.filename }, "program_not_found"],
      [{ folder: "/no/such/folder" }, "program_not_started"],
      [{ program: "/bin/cat", startTimeoutMs: 1_000 }, "program_ended"],
      [{ memory: "many" }, "program_ended"],
      [{ allowRead: ["a,b"] }, "option_invalid"],
      [{ allowRead: "src" }, "option_invalid"],
      [{ memroy: "1MiB" }, "option_invalid"],
      [{ startTimeoutMs: Number.POSITIVE_INFINITY }, "option_invalid"],
    ]) {
      await assert.rejects(Toolcell.start(options), { code }, code);
    }
    const made = async () => (await Toolcell.start({ tools: ["no/such/tool.wasm"], config: false })).tools();
    await assert.rejects(made, /no\/such\/tool\.wasm/);
  });

  test("grants and limits are those of the program", async (test) => {
    const folder = scratch(test);
    writeFileSync(join(folder, "note"), "what is in it");
    const options = { tools: [example("files")], config: false };
    const closed = await Toolcell.start(options);
    await assert.rejects(closed.call("files_read", { path: join(folder, "note") }), { errorClass: "permission_denied" });
    await closed.close();
    const open = await Toolcell.start({ ...options, allowRead: [folder] });
    assert.match((await open.call("files_read", { path: join(folder, "note") })).text, /what is in it/);
    await open.close();
    const brief = await Toolcell.start({ tools: [example("ticker")], config: false, timeout: 200 });
    await assert.rejects(brief.call("ticker", LONG), { errorClass: "timeout" });
    await brief.close();
  });

  test("closing ends the program and the calls that run", async () => {
    const cell = await Toolcell.start({ tools: [example("ticker")], config: false });
    const { pid } = await started(cell);
    const ended = assert.rejects(cell.call("ticker", LONG), { code: "client_closed" });
    const began = Date.now();
    await cell.close();
    assert.ok(Date.now() - began < 5_000 && !isRunning(pid));
    await ended;
    await assert.rejects(cell.tools(), { code: "client_closed" });
    await cell.close();
  });

  test("a program that is killed ends its calls", async () => {
    const cell = await Toolcell.start({ tools: [example("ticker")], config: false });
    const { pid, call } = await started(cell);
    process.kill(pid, "SIGKILL");
    await assert.rejects(call.result, { code: "program_ended" });
    await assert.rejects(cell.tools(), { code: "program_ended" });
    await cell.close();
  });

  test("a program that hangs while a call waits for an approval is noticed", async (test) => {
    shortened(test);
    const config = join(scratch(test), "toolcell.toml");
    writeFileSync(config, '[[rule]]\nbehavior = "ask"\ntool = "jq.*"\n');
    const cell = await Toolcell.start({ tools: [example("jq")], config, approve: "wait" });
    await cell.tools();
    const pid = latest();
    const failed = cell.call("jq", { filter: "1" }, { timeoutMs: 1_000 }).catch((error) => error.code);
    // Longer than the timeout, because the program answers.
    assert.equal(await Promise.race([failed, sleep(3_500, "waits")]), "waits");
    process.kill(pid, "SIGSTOP");
    const code = await Promise.race([failed, sleep(20_000, "waits", { ref: false })]);
    process.kill(pid, "SIGCONT");
    assert.equal(code, "no_answer");
    await cell.close();
  });

  test("a program that ignores everything is killed", async (test) => {
    const folder = scratch(test);
    const program = join(folder, "toolcell");
    const script = `#!/bin/sh\ntrap '' TERM\necho $$ >${folder}/pid\nwhile :; do sleep 1; done\n`;
    writeFileSync(program, script, { mode: 0o755 });
    await assert.rejects(Toolcell.start({ program, startTimeoutMs: 300 }), { code: "start_timeout" });
    assert.ok(!isRunning(Number(readFileSync(join(folder, "pid"), "utf8"))));
  });

  test("the program ends with its client, which it does not keep alive", async () => {
    const script = `
      import { readFileSync } from "node:fs";
      import { Toolcell } from "toolcell";
      const cell = await Toolcell.start({ tools: [process.argv[1]], config: false });
      const call = cell.submit("ticker", { ticks: 1000, interval_ms: 1000 });
      for await (const update of call) break;
      console.log(readFileSync("/proc/self/task/" + process.pid + "/children", "utf8"));
    `;
    for (const end of ["call.cancel()", "process.exit(0)", "process.kill(process.pid, 'SIGKILL')"]) {
      const args = ["--input-type=module", "-e", script + end, example("ticker")];
      const child = spawn(process.execPath, args, { cwd: PACKAGE, stdio: ["ignore", "pipe", "inherit"] });
      const [said] = await Promise.all([once(child.stdout, "data"), once(child, "close")]);
      const pid = Number(String(said[0]).trim());
      for (let tries = 0; isRunning(pid) && tries < 400; tries++) await sleep(50);
      assert.ok(pid > 0 && !isRunning(pid), end);
    }
  });

  /** A call of a client that runs, and the program that runs it. */
  async function started(cell) {
    const call = cell.submit("ticker", LONG);
    for await (const _ of call) break;
    return { pid: latest(), call };
  }

  /** The program that was started last. */
  function latest() {
    return Number(readFileSync(`/proc/self/task/${process.pid}/children`, "utf8").trim().split(" ").at(-1));
  }
});
