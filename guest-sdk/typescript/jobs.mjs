// A function for JavaScript that runs the jobs of promises, and tells which rejections nothing handled. The engine for
// synchronous components has both inside, and calls neither: it runs jobs for exports that are `async` alone, and QuickJS tells
// of rejections to a function that an embedder sets.
//
// `performance.now` of the engine becomes this function, before any code of a tool runs: without an argument it runs jobs until
// none is left, and with one it returns a promise whose rejection was left unhandled, or else was handled later. See loop.js.
import { CALL, CALL_INDIRECT, ELSE, END, GET, GET_GLOBAL, I32, I64, IF, NOTHING, RETURN, SET, SET_GLOBAL, instructions, number, patched, unknown } from './wasm.mjs';

const [DROP, EQZ, EQ_64, ADD, SUB, WRAP] = [0x1a, 0x45, 0x51, 0x6a, 0x6b, 0xa7];
const constant = (value) => [0x41, value];
const load = (offset) => [0x28, 2, offset];
const store = (offset) => [0x36, 2, offset];
const [LOAD_64, STORE_64] = [[0x29, 3, 0], [0x37, 3, 0]];
/** `undefined`: the tag 3 in the upper half. */
const UNDEFINED = [0x42, 0x80, 0x80, 0x80, 0x80, 0x30];

const C_FUNCTION = [[I32, I64, I32, I32], [I64]];
const TRACKER = [[I32, I64, I64, I32, I32], []];
const REALLOC = 'cabi_realloc';

/** The code that counts one more reference of an object, by how far the count is before the object: another in each version. */
const REFERENCE = new Map([
  [0, /\xa7\x22(.)\x20\1\x28\x02\x00\x41\x01\x6a\x36\x02\x00/s],
  [4, /\xa7\x41\x04\x6b\x22(.)\x20\1\x28\x02\x00\x41\x01\x6a\x36\x02\x00/s],
]);

export function addJobs(module) {
  const isUsed = ([, code]) => module.bodies.some((body) => code.test(body.toString('latin1')));
  const [count, ...others] = [...REFERENCE].filter(isUsed).map(([before]) => before);
  if (count === undefined || others.length > 0) throw unknown();
  const list = { head: module.addGlobal(), free: module.addGlobal(), count };
  track(module, list);
  const clock = clockOf(module);
  const call = (name) => [CALL, ...number(module.exported(name).index)];
  // The first export, in a context without arguments: `describe` of component.js, which then answers what is no promise.
  const run = [...constant(0), ...call('wit_dylib_export_start'), ...constant(0), ...call('wit_dylib_export_async_call'), DROP];
  const body = [
    ...[1, 1, I32],
    ...[GET, 2, EQZ, IF, NOTHING, ...run, ...UNDEFINED, RETURN, END],
    ...[GET_GLOBAL, ...list.head, EQZ, IF, NOTHING, ...UNDEFINED, RETURN, END],
    ...taken(list, 4),
    ...[GET, 4, ...LOAD_64, END],
  ];
  module.bodies[clock - module.first] = Buffer.from(body);
}

/** Moves the first entry from the list to the free ones. An entry: the promise, and the next entry. */
const taken = ({ head, free }, local) => [
  ...[GET_GLOBAL, ...head, SET, local],
  ...[GET, local, ...load(8), SET_GLOBAL, ...head],
  ...[GET, local, GET_GLOBAL, ...free, ...store(8)],
  ...[GET, local, SET_GLOBAL, ...free],
];

/** Keeps the promise in a list wherever the engine would tell an embedder of a rejection. */
function track(module, list) {
  const types = module.typesWith(...TRACKER);
  if (types.length === 0) throw unknown();
  const tracker = module.addFunction(types[0], tracking(module, list), 2);
  let count = 0;
  module.bodies = module.bodies.map((body) => {
    const code = [...instructions(body)];
    const parts = code.flatMap(({ opcode, operand, at, to }, place) => {
      if (opcode !== CALL_INDIRECT || !types.includes(operand)) return [];
      // Whether an embedder has set a function.
      const asked = code.findLast((each, before) => each.opcode === EQZ && before < place);
      if (!asked) throw unknown();
      count += 1;
      return [
        { from: asked.at, to: asked.to, bytes: [DROP, ...constant(0)] },
        { from: at, to, bytes: [DROP, CALL, ...number(tracker)] },
      ];
    });
    return parts.length === 0 ? body : patched(body, parts);
  });
  if (count === 0) throw unknown();
}

function tracking(module, list) {
  const [promise, isHandled, entry, count] = [1, 3, 5, 6];
  const counted = (step) => [
    ...[GET, promise, WRAP, ...constant(list.count), SUB, SET, count],
    ...[GET, count, GET, count, ...load(0), ...constant(1), step, ...store(0)],
  ];
  const isFirst = [GET_GLOBAL, ...list.head, IF, I32, GET_GLOBAL, ...list.head, ...LOAD_64, GET, promise, EQ_64, ELSE, ...constant(0), END];
  const made = [...constant(0), ...constant(0), ...constant(8), ...constant(16), CALL, ...number(module.exported(REALLOC).index), SET, entry];
  const reused = [GET_GLOBAL, ...list.free, SET, entry, GET, entry, ...load(8), SET_GLOBAL, ...list.free];
  return [
    // Most often it is handled at once, by an `await`.
    ...[GET, isHandled, IF, NOTHING, ...isFirst, IF, NOTHING, ...taken(list, entry), ...counted(SUB), RETURN, END, END],
    ...counted(ADD),
    ...[GET_GLOBAL, ...list.free, IF, NOTHING, ...reused, ELSE, ...made, END],
    ...[GET, entry, GET, promise, ...STORE_64],
    ...[GET, entry, GET_GLOBAL, ...list.head, ...store(8)],
    ...[GET, entry, SET_GLOBAL, ...list.head],
  ];
}

/** `performance.now`: the only function for JavaScript that reaches the clock by way of one other. */
function clockOf(module) {
  const isClock = ({ module: from, name }) => from.startsWith('wasi:clocks/monotonic-clock@') && name === 'now';
  const callers = (called) =>
    module.bodies.flatMap((body, index) => {
      const calls = [...instructions(body)].some(({ opcode, operand }) => opcode === CALL && called.has(operand));
      return calls ? [index + module.first] : [];
    });
  const near = callers(new Set([module.imports.findIndex(isClock)]));
  const types = module.typesWith(...C_FUNCTION);
  const found = callers(new Set(near)).filter((index) => types.includes(module.typeOf(index)));
  if (found.length !== 1) throw unknown();
  return found[0];
}
