// Runs a script to its end, which is when nothing of it goes on.
import { ToolError, idle } from '#toolcell';
import { Parser } from 'acorn';
import { Console, readable, shown } from './console.js';
import { Calls } from './tools.js';

/** Lines that an engine counts before the first one of a function that is made of text. */
const LINES_BEFORE = 2;
/** Lines of the console that the message of a failure has. */
const LINES_OF_FAILURE = 20;

const AsyncFunction = /** @type {any} */ ((async () => {}).constructor);

/** Runs a script. Returns its value as JSON, what it printed, and how many calls it made. `more`: other globals for it. */
export async function runScript(source, more = {}) {
  const [calls, output] = [new Calls(), new Console()];
  const start = compiled(source);
  const { promise: crashed, reject: crash } = withReject();
  const onunhandledrejection = (event) => {
    event.preventDefault();
    // An exception of a timer has no promise.
    if (event.promise) output.warn(`nothing awaited a promise that failed: ${told(event.reason)}`);
    else crash(event.reason);
  };
  const globals = { ...more, tools: calls.object(), callableTools: () => calls.list(), console: output, onunhandledrejection };
  const restore = replace(globalThis, globals);
  let ended;
  try {
    ended = await Promise.race([start().then((value) => ({ value })), idle(), crashed]);
    await Promise.race([idle(), crashed]);
  } catch (thrown) {
    throw failure(thrown, output);
  } finally {
    restore();
  }
  if (!ended) throw new ToolError('never_settled', `the script awaits a promise that nothing settles${tail(output)}`);
  for (const line of calls.missing) output.warn(line);
  return { value: asJson(ended.value), console: output.printed(), calls: calls.count };
}

function withReject() {
  const parts = {};
  parts.promise = new Promise((_, reject) => Object.assign(parts, { reject }));
  // It may reject after all that waits for it.
  parts.promise.catch(() => {});
  return parts;
}

function compiled(source) {
  try {
    return new AsyncFunction(returning(source));
  } catch (error) {
    const message = `the script is not JavaScript: ${shown(error)}`;
    throw new ToolError('script_syntax', message, { class: 'invalid_arguments' });
  }
}

/** The engine would end the call at `import(..)`, because it has no modules. */
const ScriptParser = Parser.extend(
  (Base) =>
    class extends Base {
      parseExprImport() {
        return /** @type {any} */ (this).raise(/** @type {any} */ (this).start, 'a script has no modules');
      }
    },
);

/** A script that ends with an expression returns its value. */
function returning(source) {
  const { body } = ScriptParser.parse(source, { ecmaVersion: 'latest', allowReturnOutsideFunction: true, allowAwaitOutsideFunction: true });
  const last = body.at(-1);
  if (last?.type !== 'ExpressionStatement') return source;
  // On the lines where it was.
  const { start, end } = last.expression;
  return `${source.slice(0, last.start)}return (${source.slice(last.start, start)}${source.slice(start, end)})${source.slice(end)}`;
}
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
    if (part instanceof Promise) {
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

function failure(thrown, output) {
  const stack = thrown instanceof Error ? String(thrown.stack) : '';
  const line = /(?:<input>|<anonymous>):(\d+)/.exec(stack)?.[1];
  const place = line === undefined ? '' : ` (line ${Number(line) - LINES_BEFORE})`;
  return new ToolError('script_failed', `${told(thrown)}${place}${tail(output)}`, { detail: stack });
}

/** The last lines that were printed, for the message of a failure. */
function tail(output) {
  const printed = output.printed().slice(-LINES_OF_FAILURE);
  return printed.length > 0 ? `\nconsole:\n${printed.join('\n')}` : '';
}
