// The first call with the client of an installed npm package: an OpenAI-shaped call of the tool that is shipped.
import assert from "node:assert/strict";
import { Toolcell } from "toolcell";

const input = { filter: "map(.n) | add", input: [{ n: 1 }, { n: 2 }] };
const call = { id: "call_1", type: "function", function: { name: "jq", arguments: JSON.stringify(input) } };
const cell = await Toolcell.start({ tools: ["jq"] });
try {
  const answer = await cell.call(call);
  assert.equal(answer.tool_call_id, "call_1");
  assert.match(answer.content, /3/);
} finally {
  await cell.close();
}
