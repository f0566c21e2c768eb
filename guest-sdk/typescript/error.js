import { shown } from './console.js';
import { placed } from './places.js';
import { wellFormed } from './text.js';

/** A failure that the tool reports. `code` is stable, snake_case and the tool's own; a model may read `message`. */
export class ToolError extends Error {
  constructor(code, message, options = {}) {
    super(message);
    this.name = 'ToolError';
    this.code = code;
    this.class = options.class ?? 'execution_failed';
    this.detail = options.detail;
    this.retryAfterMs = options.retryAfterMs;
  }
}

export const CLASSES = [
  'invalid_arguments',
  'capability_gap',
  'setup_required',
  'credential_missing',
  'timeout',
  'rate_limited',
  'dependency_unavailable',
  'execution_failed',
  'partial_failure',
  'result_too_large',
  'canceled',
];

/** What a failure of `fetch` is that nothing catches, by the host's word in its `cause`. The last one is for all other words. */
const UNSENT = [
  ['execution-failed', 'not_allowed', /^(destination-IP-prohibited|HTTP-request-denied)$/],
  ['rate-limited', 'limit', /^(connection-limit-reached|HTTP-request-body-size|HTTP-response-(header-section|body)-size)$/],
  ['timeout', 'server_timeout', /^(DNS-timeout|connection-(read-|write-)?timeout|HTTP-response-timeout)$/],
  ['dependency-unavailable', 'unreachable', /^(DNS-error|destination-(not-found|unavailable)|connection-(refused|terminated)|TLS-.*)$/],
  ['dependency-unavailable', 'broken_response', /^(HTTP|connection|destination)-/],
];

function meaningOf(thrown) {
  const word = thrown instanceof Error ? thrown.cause?.code : undefined;
  const [tag, code] = UNSENT.find(([, , words]) => typeof word === 'string' && words.test(word)) ?? ['execution-failed', 'exception'];
  return { class: { tag }, code };
}

/** The record `tool-error` of the contract for anything that was thrown. */
export function toRecord(thrown) {
  if (thrown instanceof ToolError) {
    const tag = CLASSES.includes(thrown.class)
      ? { tag: thrown.class.replaceAll('_', '-') }
      : { tag: 'other', val: String(thrown.class) };
    const { code, message, detail, retryAfterMs } = thrown;
    const after = retryAfterMs == null ? undefined : Math.max(0, Math.round(retryAfterMs)) || 0;
    return { class: tag, code: said(code), message: said(message), detail: detail == null ? undefined : said(detail), retryAfterMs: after };
  }
  // QuickJS has no message in a stack, V8 has: the detail has both in either.
  const message = thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : wordsOf(thrown);
  const stack = thrown instanceof Error ? placed(thrown.stack ?? '', globalThis.toolcellPlaces ?? { files: [], at: [] }) : '';
  const whole = thrown instanceof Error ? message : shown(thrown);
  const detail = stack.startsWith(whole) ? stack : `${whole}\n${stack}`;
  return { ...meaningOf(thrown), message: said(message), detail: said(detail), retryAfterMs: undefined };
}

/** The message of an object that is no `Error`, and otherwise all of it. */
function wordsOf(thrown) {
  try {
    if (typeof thrown?.message === 'string' && thrown.message !== '') return thrown.message;
    if (typeof thrown === 'object' && Object.keys(thrown ?? {}).length > 0) return shown(thrown);
  } catch {
    // Reading it throws too.
  }
  return said(thrown);
}

/** Some objects have no text, and an exception here would be a crash instead of a failure. */
function said(thing) {
  try {
    return wellFormed(thing);
  } catch {
    return 'what was thrown has no text';
  }
}

/** The error that a record `tool-error` of the contract stands for. */
export function fromRecord({ class: { tag, val }, code, message, detail, retryAfterMs }) {
  const name = tag === 'other' ? val : tag.replaceAll('-', '_');
  return new ToolError(code, message, { class: name, detail, retryAfterMs });
}
