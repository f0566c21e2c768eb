// What a tool can say and ask while it runs. The types, and what each function does, are in index.d.ts.
import * as host from '#host';
import { ToolError, fromRecord } from './error.js';
import { objectSchema } from './schema.js';
import { toJson, wellFormed } from './text.js';

export { ToolError } from './error.js';
export { t } from './schema.js';
export { Output, Partial, output, partial, tool, toolkit } from './toolkit.js';
export { files } from './files.js';
export { configuration } from './more.js';

export function progress(update, percent) {
  const said = typeof update === 'string' ? { message: update, percent } : update;
  host.report(said.message == null ? said : { ...said, message: wellFormed(said.message) });
}

export const partialResult = (content) => host.partialResult(toJson(content));

const line = (level) => (message, fields) =>
  host.log(level, wellFormed(message), fields === undefined ? undefined : toJson(fields));

export const log = /* @__PURE__ */ Object.freeze({
  trace: line('trace'),
  debug: line('debug'),
  info: line('info'),
  warn: line('warn'),
  error: line('error'),
});

export const requested = () => host.requested() ?? undefined;

export const acknowledge = () => host.acknowledge();

export function checkpoint() {
  const reason = requested();
  if (reason === undefined) return;
  acknowledge();
  throw new ToolError('canceled', `the call was canceled: ${reason.replaceAll('-', ' ')}`, { class: 'canceled' });
}

export function wait(milliseconds) {
  host.wait(milliseconds);
  return requested();
}

export const sleep = (milliseconds) => host.sleep(milliseconds);

export const idle = () => host.idle();

export const environment = (name) => host.environment().find(([known]) => known === name)?.[1];

export function ask(key, message, form) {
  return askAll([{ key, message, form }])[0];
}

export function askAll(questions) {
  const answers = JSON.parse(host.responses());
  const open = questions.filter(({ key }) => answers[key] === undefined);
  if (open.length > 0) {
    host.ask(open.map(({ key, message, form }) => ({ key, message, schema: JSON.stringify(objectSchema(form)) })));
  }
  return questions.map(({ key }) => answers[key]);
}

export function accepted(answer) {
  if (answer.action === 'accept') return answer.content;
  const why = answer.action === 'decline' ? 'the user did not want to answer' : 'the user closed the question';
  throw new ToolError('not_answered', why, { class: 'canceled' });
}

export const remember = (state) => host.remember(JSON.stringify(state));

export function remembered() {
  const state = host.resumeState();
  return state === '' ? undefined : JSON.parse(state);
}

export const modifyContext = (key, value) => host.modifyContext(key, toJson(value));

export const callableTools = () => host.callable();

export function callTool(name, input) {
  const { invocationId, content, structured, missing } = host.callTool(name, toJson(input));
  return {
    invocationId,
    content: JSON.parse(content),
    ...(structured == null ? {} : { structured: JSON.parse(structured) }),
    ...(missing == null ? {} : { missing: fromRecord(missing) }),
  };
}

/** The largest chunk that the host takes. */
const CHUNK = 1 << 20;

export function artifact(name, mediaType, chunks) {
  const file = host.openArtifact(name, mediaType);
  try {
    for (const chunk of typeof chunks === 'string' || chunks instanceof Uint8Array ? [chunks] : chunks) {
      const bytes = typeof chunk === 'string' ? host.encode(chunk) : chunk;
      for (let at = 0; at < bytes.length; at += CHUNK) file.write(bytes.subarray(at, at + CHUNK));
    }
  } catch (error) {
    file.discard();
    throw error;
  }
  return { type: 'artifact_ref', reference: file.finish() };
}
