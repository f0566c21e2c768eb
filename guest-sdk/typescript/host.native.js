// Stands in for the host outside of a component: records what tools say, for tests that run with the language's own runner.
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { ToolError } from './error.js';

/** Stops a tool at a question that the test does not answer. */
export class Unanswered extends Error {
  constructor(requests) {
    const asked = ({ key, message }) => `the tool asks ${JSON.stringify(message)}; a test answers with testing.respond(${JSON.stringify(key)}, ..)`;
    super(requests.map(asked).join('\n'));
    this.name = 'Unanswered';
    this.requests = requests;
  }
}

export const state = {};

export function reset() {
  Object.assign(state, {
    context: {},
    progress: [],
    logs: [],
    partials: [],
    responses: {},
    resumed: '',
    saved: '',
    slept: 0,
    stop: undefined,
    acknowledged: false,
    modifiers: {},
    artifacts: [],
    tools: {},
    running: false,
  });
}
reset();

export const begin = (context) => Object.assign(state, { running: true, context });
export const end = () => Object.assign(state, { running: false });
export const isRunning = () => state.running;
export const isControl = (thrown) => thrown instanceof Unanswered;

export const report = (update) => void state.progress.push(update);
export const partialResult = (content) => `partial-${state.partials.push(JSON.parse(content))}`;
export const log = (level, message, fields) =>
  void state.logs.push(fields === undefined ? { level, message } : { level, message, fields: JSON.parse(fields) });
export const requested = () => (state.stop && state.slept >= state.stop.after ? state.stop.reason : undefined);
export const acknowledge = () => {
  state.acknowledged = true;
};
export const responses = () => JSON.stringify(state.responses);
export const resumeState = () => state.resumed;
export const remember = (saved) => {
  state.saved = saved;
};
export const ask = (requests) => {
  throw new Unanswered(requests);
};
export const sleep = (milliseconds) => {
  state.slept += milliseconds;
};
export const later = (job, milliseconds) => void setTimeout(job, milliseconds).unref();
/** Timers, and connections that are open. */
const CONTINUES = /^(Timeout|TCPSocketWrap|TCPConnectWrap|TLSWrap|GetAddrInfoReqWrap)$/;
export async function idle() {
  do await new Promise((resolve) => setImmediate(resolve));
  while (process.getActiveResourcesInfo().some((name) => CONTINUES.test(name)));
}
export const wait = (milliseconds) => {
  state.slept += milliseconds;
};
export const modifyContext = (key, value) => {
  state.modifiers[key] = JSON.parse(value);
};
export const callable = () => Object.keys(state.tools).map((name) => ({ name, description: '' }));
export function callTool(name, input) {
  if (!state.tools[name]) {
    const message = `no tool ${name} in this test: offer it with testing.offer(${JSON.stringify(name)}, ..)`;
    throw new ToolError('tool_not_callable', message, { class: 'permission_denied' });
  }
  const answer = state.tools[name](JSON.parse(input));
  const isText = typeof answer === 'string';
  return {
    invocationId: 'test',
    content: JSON.stringify(isText ? [{ type: 'text', text: answer }] : []),
    structured: isText ? undefined : JSON.stringify(answer),
  };
}
export function openArtifact(name, mediaType) {
  const written = { name, mediaType, bytes: new Uint8Array(), isFinished: false };
  const number = state.artifacts.push(written);
  return {
    write(chunk) {
      written.bytes = new Uint8Array(Buffer.concat([written.bytes, chunk]));
    },
    finish() {
      written.isFinished = true;
      return `toolcell:artifact/${number}`;
    },
    discard() {},
  };
}
export const environment = () => Object.entries(process.env);
export const randomBytes = (count) => crypto.getRandomValues(new Uint8Array(count));
export const encode = (text) => new TextEncoder().encode(text);
export const decode = (bytes) => {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new ToolError('not_utf8', 'the bytes are not UTF-8 text');
  }
};

const failing = (what, path, run) => {
  try {
    return run(resolve(state.context.cwd ?? '.', path));
  } catch (error) {
    throw new ToolError('file_error', `cannot ${what} ${path}: ${error.code ?? error.message}`);
  }
};
export const readFile = (path) => failing('read', path, (place) => new Uint8Array(readFileSync(place)));
export const writeFile = (path, bytes) => failing('write', path, (place) => writeFileSync(place, bytes));
export const listFolder = (path) =>
  failing('list', path, (place) =>
    readdirSync(place, { withFileTypes: true })
      .map((entry) => ({ name: entry.name, isFolder: entry.isDirectory() }))
      .sort((a, b) => (a.name < b.name ? -1 : 1)),
  );
