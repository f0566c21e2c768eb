// Runs a script to its end, inside one synchronous call.
import { ToolError } from '#toolcell';
import * as helpers from './async.js';
import { Console, readable, shown } from './console.js';
import * as promise from './promise.js';
import { HELPERS, rewrite } from './rewrite.js';
import { Calls } from './tools.js';

/** Lines that an engine counts before the first one of a function that is made of text. */
const LINES_BEFORE = 2;
/** Lines of the console that the message of a failure has. */
const LINES_OF_FAILURE = 20;

/** What a script answered: its value as JSON, what it printed, and how many calls it made. */
export function runScript(source) {
  const [calls, output] = [new Calls(), new Console()];
  const start = compiled(source);
  const restore = [replace(globalThis, globals(calls, output)), replace(Array, { fromAsync: helpers.fromAsync })];
  let ended;
  try {
    ended = settled(start);
  } finally {
    for (const each of restore) each();
  }
  for (const line of calls.missing) output.warn(line);
  for (const reason of promise.unhandledReasons()) output.warn(`nothing awaited a promise that failed: ${told(reason)}`);
  if (ended.state === 'fulfilled') return { value: asJson(ended.value), console: output.printed(), calls: calls.count };
  throw failure(ended, output);
}

function compiled(source) {
  try {
    const body = `return ${HELPERS}.run(this, [], function* () {${rewrite(source)}\n})`;
    return new Function(HELPERS, body);
  } catch (error) {
    const message = `the script is not JavaScript: ${shown(error)}`;
    throw new ToolError('script_syntax', message, { class: 'invalid_arguments' });
  }
}

/** The state of the script's promise once nothing is left to run. */
function settled(start) {
  promise.reset();
  const ending = start(helpers);
  // This looks at the promise, so that its failure is told once.
  ending.then(undefined, () => {});
  try {
    promise.settle();
  } catch (error) {
    // Of a timer or a job: no promise has it.
    return { state: 'rejected', value: error };
  }
  return promise.look(ending);
}

const globals = (calls, output) => ({
  tools: calls.object(),
  callableTools: () => calls.list(),
  console: output,
  Promise: promise.ScriptPromise,
  queueMicrotask: promise.queueMicrotask,
  setTimeout: promise.setTimeout,
  clearTimeout: promise.clearTimeout,
});

/** Gives an object other properties, and returns what takes them back. */
function replace(object, values) {
  const before = Object.keys(values).map((name) => ({ name, descriptor: Object.getOwnPropertyDescriptor(object, name) }));
  for (const [name, value] of Object.entries(values)) {
    Object.defineProperty(object, name, { value, writable: true, configurable: true });
  }
  return () => {
    for (const { name, descriptor } of before) {
      if (descriptor) Object.defineProperty(object, name, descriptor);
      else delete object[name];
    }
  };
}

/** The value as JSON keeps it. */
function asJson(value) {
  const replaced = function (name, part) {
    if (part instanceof promise.ScriptPromise) {
      const place = name === '' ? 'the value' : `${JSON.stringify(name)} of the value`;
      throw new ToolError('not_awaited', `${place} that the script returned is a promise: await it, or Promise.all(..) of them`);
    }
    return readable(name, part);
  };
  try {
    return JSON.parse(JSON.stringify(value, replaced) ?? 'null');
  } catch (error) {
    if (error instanceof ToolError) throw error;
    throw new ToolError('not_json', `the script returned what is no JSON: ${shown(error)}`);
  }
}

/** An exception in words; that of a call with its class and code. */
function told(thrown) {
  if (!(thrown instanceof ToolError)) return shown(thrown);
  const { name, message, class: kind, code } = thrown;
  return `${name}: ${message} [${kind}/${code}]`;
}

function failure({ state, value }, output) {
  const printed = output.printed().slice(-LINES_OF_FAILURE);
  const tail = printed.length > 0 ? `\nconsole:\n${printed.join('\n')}` : '';
  if (state === 'pending') {
    return new ToolError('never_settled', `the script awaits a promise that nothing settles${tail}`);
  }
  const stack = value instanceof Error ? String(value.stack) : '';
  const line = /(?:<input>|<anonymous>):(\d+)/.exec(stack)?.[1];
  const place = line === undefined ? '' : ` (line ${Number(line) - LINES_BEFORE})`;
  return new ToolError('script_failed', `${told(value)}${place}${tail}`, { detail: stack });
}
