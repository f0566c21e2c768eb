import * as host from '#host';
import { ToolError, toRecord } from './error.js';
import { objectSchema, subjects, withDefaults } from './schema.js';
import { toJson, wellFormed } from './text.js';

/** Checks nothing: gives `definition` its type. */
export const tool = (definition) => definition;

export const toolkit = (namespace, tools) => ({ namespace, tools });

/** A result of several parts: blocks for the model, a structured value, a line for people. */
export class Output {
  constructor({ content = [], structured, summary } = {}) {
    this.content = content;
    this.structured = structured;
    this.summary = summary;
  }
}

export const output = (parts) => new Output(parts);

/** A usable part of a result, and the error that says what is missing. */
export class Partial {
  constructor(result, error) {
    this.result = result;
    this.error = error;
  }
}

export const partial = (result, error) => new Partial(result, error);

const snake = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** The short form of a toolkit, which the host completes. */
export function describe({ namespace, tools }) {
  return { namespace, tools: tools.map(declaration) };
}

function declaration({ name, description, input, output: structured, run, check, preflight, classify, ...facts }) {
  const declared = { name, description, input: objectSchema(input ?? {}) };
  if (structured) declared.output = structured.json ?? objectSchema(structured);
  for (const kind of ['paths', 'urls']) {
    const found = subjects(input ?? {}, kind);
    if (found.length > 0) declared[kind] = found;
  }
  for (const [fact, value] of Object.entries(facts)) if (value !== undefined) declared[snake(fact)] = value;
  if (!declared.access && declared.paths) declared.access = ['file_read'];
  // A URL that the call does not reach itself is a text like others.
  if (!declared.access?.includes('network')) delete declared.urls;
  return declared;
}

const failed = (thrown) => {
  if (host.isControl(thrown)) throw thrown;
  return { tag: 'failure', val: toRecord(thrown) };
};

/** `true` if `await` would wait for it. */
const isPromise = (value) => value !== null && typeof value === 'object' && typeof value.then === 'function';

/** Runs one call. `call` and the answer are the records of the contract. If `run` gives a promise, the answer is one. */
export function invoke(kit, call) {
  let answer;
  try {
    const found = kit.tools.find((each) => each.name === call.tool);
    if (!found) throw new ToolError('no_such_tool', `no tool ${call.tool}`, { class: 'invalid_arguments' });
    const context = { ...JSON.parse(call.context || '{}'), invocationId: call.invocationId, attempt: call.attempt };
    host.begin(context);
    const result = found.run(withDefaults(found.input ?? {}, JSON.parse(call.input)), context);
    answer = isPromise(result) ? Promise.resolve(result).then(outcome).catch(failed).finally(host.end) : outcome(result);
    return answer;
  } catch (thrown) {
    return failed(thrown);
  } finally {
    if (!isPromise(answer)) host.end();
  }
}

function outcome(result) {
  if (result instanceof Partial) {
    return { tag: 'partial', val: { output: parts(result.result), error: toRecord(result.error) } };
  }
  if (result === undefined || result instanceof Output) return { tag: 'success', val: parts(result) };
  return typeof result === 'string' ? { tag: 'text', val: wellFormed(result) } : { tag: 'json', val: toJson(result) ?? 'null' };
}

function parts(result) {
  if (typeof result === 'string') return parts(new Output({ content: [{ type: 'text', text: result }] }));
  if (result !== undefined && !(result instanceof Output)) return parts(new Output({ structured: result }));
  const { content, structured, summary } = result ?? new Output();
  return {
    content: toJson(content),
    structured: structured === undefined ? undefined : toJson(structured),
    uiSummary: summary == null ? undefined : wellFormed(summary),
  };
}
