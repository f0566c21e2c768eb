// The official TypeScript client against `toolcell mcp` and `toolcell serve`.

import assert from "node:assert/strict";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { TOOLCELL, TOOLCELL_URL, TOOLCELL_TOKEN, TOOLCELL_TOOLS, NODE_MODULES } = process.env;
const sdk = (file) => import(pathToFileURL(join(NODE_MODULES, "@modelcontextprotocol/sdk/dist/esm/client", file)).href);
const { Client } = await sdk("index.js");
const { StdioClientTransport } = await sdk("stdio.js");
const { StreamableHTTPClientTransport } = await sdk("streamableHttp.js");

const PARALLEL = 20;

async function connected(transport) {
  const client = new Client({ name: "toolcell-clients-test", version: "1" });
  await client.connect(transport);
  return client;
}

/// Lists, and calls what answers in each way.
async function exercise(client) {
  const { tools } = await client.listTools();
  const names = tools.map((tool) => tool.name);
  for (const name of ["everything_test_simple_text", "everything_test_image_content", "ticker"]) assert.ok(names.includes(name), names);
  const ticker = tools.find((tool) => tool.name === "ticker");
  assert.deepEqual(ticker.inputSchema.required, ["ticks"]);
  assert.ok(ticker.outputSchema && ticker.annotations.readOnlyHint);

  const said = await client.callTool({ name: "everything_test_simple_text", arguments: {} });
  assert.equal(said.content[0].text, "This is a simple text response for testing.");
  const image = (await client.callTool({ name: "everything_test_image_content", arguments: {} })).content[0];
  assert.equal(image.mimeType, "image/png");
  assert.ok(image.data.startsWith("iVBORw0KGgo"));

  const heard = [];
  const call = { name: "ticker", arguments: { ticks: 3, interval_ms: 60 } };
  const ticked = await client.callTool(call, undefined, { onprogress: (update) => heard.push(update.progress) });
  assert.deepEqual(ticked.structuredContent, { ticks: 3, of: 3, text: "3 of 3 ticks" });
  assert.ok(heard.length > 0);
  assert.deepEqual(heard, [...heard].sort((a, b) => a - b));

  const failed = await client.callTool({ name: "everything_test_error_handling", arguments: {} });
  assert.equal(failed.isError, true);
  assert.equal(failed._meta["toolcell/error"].class, "execution_failed");
  await assert.rejects(client.callTool({ name: "no_such_tool", arguments: {} }), { code: -32602 });

  const counts = Array.from({ length: PARALLEL }, (_, at) => 1 + (at % 5));
  const answers = await Promise.all(counts.map((ticks) => client.callTool({ name: "ticker", arguments: { ticks } })));
  assert.deepEqual(answers.map((answer) => answer.structuredContent.ticks), counts);

  // A call that its client gives up: the next one is answered all the same.
  const giveUp = new AbortController();
  const slow = { name: "ticker", arguments: { ticks: 100, interval_ms: 1000 } };
  const begun = new Promise((resolve) => {
    const onprogress = () => resolve(undefined);
    assert.rejects(client.callTool(slow, undefined, { signal: giveUp.signal, onprogress })).then(resolve);
  });
  await begun;
  giveUp.abort("enough");
  assert.equal((await client.callTool({ name: "everything_test_simple_text", arguments: {} })).isError ?? false, false);
}

const http = (token) =>
  new StreamableHTTPClientTransport(new URL(TOOLCELL_URL), {
    requestInit: { headers: token ? { Authorization: `Bearer ${token}` } : {} },
  });

const stdio = new StdioClientTransport({
  command: TOOLCELL,
  args: ["mcp", ...TOOLCELL_TOOLS.split(" ")],
  env: process.env,
  stderr: "inherit",
});
for (const [name, transport] of [["stdio", stdio], ["http", http(TOOLCELL_TOKEN)]]) {
  const client = await connected(transport);
  await exercise(client);
  assert.equal(client.getServerVersion().name, "toolcell");
  await client.close();
  console.log(`typescript client over ${name}: ok`);
}
for (const token of [undefined, "x".repeat(TOOLCELL_TOKEN.length)]) {
  await assert.rejects(connected(http(token)));
}
console.log("typescript client without the token: refused");
