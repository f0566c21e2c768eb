// Calls tools on this machine, and reads back what they said. Types: testing.d.ts.
import { reset as resetHost, state } from './host.native.js';
import { fromRecord, toRecord } from './error.js';
import { forget } from './more.js';
import { describe as describeKit, invoke } from './toolkit.js';

export const reset = () => {
  resetHost();
  forget();
};
export const progress = () => state.progress;
export const logs = () => state.logs;
export const partials = () => state.partials;
export const contextModifiers = () => state.modifiers;
export const slept = () => state.slept;
export const acknowledged = () => state.acknowledged;
export const cancel = (reason = 'user-interruption', after = 0) => {
  state.stop = { reason, after };
};
export const respond = (key, content) => {
  const isRefusal = content === 'decline' || content === 'cancel';
  state.responses[key] = isRefusal ? { action: content } : { action: 'accept', content };
};
export const resumeWith = (value) => {
  state.resumed = JSON.stringify(value);
};
export const artifacts = () => state.artifacts;

/** Offers a tool to those under test. */
export const offer = (name, answer) => {
  state.tools[name] = answer;
};

export { checkValues as check, classify, configure, preflight } from './more.js';

export const describe = (kit) => describeKit(kit);

/**
 * The result as `run` gives it, or the `ToolError` of a failure, thrown. A promise of these if `run` gives one; what nothing handles
 * until then fails the call too.
 */
export function call(kit, name, input, context = {}) {
  const answer = invoke(kit, {
    invocationId: 'test',
    tool: name,
    input: JSON.stringify(input),
    attempt: 1,
    context: JSON.stringify(context),
  });
  return answer instanceof Promise ? watched(answer).then(resultOf) : resultOf(answer);
}

/** As the loop of a component, it tells `onunhandledrejection` of what nothing handles, and fails unless that prevents it. */
async function watched(answer) {
  let failed;
  let fail;
  const failing = new Promise((resolve) => (fail = resolve));
  const tell = (reason, promise) => {
    let isPrevented = false;
    globalThis.onunhandledrejection?.({ type: 'unhandledrejection', reason, promise, preventDefault: () => void (isPrevented = true) });
    if (isPrevented) return;
    failed ??= { tag: 'failure', val: toRecord(reason) };
    fail(failed);
  };
  const restore = [heard('unhandledRejection', tell), heard('uncaughtException', (reason) => tell(reason))];
  try {
    const first = await Promise.race([answer, failing]);
    // Node tells of a rejection after the jobs that are there now.
    await new Promise((resolve) => setImmediate(resolve));
    return first.tag === 'failure' ? first : (failed ?? first);
  } finally {
    for (const each of restore) each();
  }
}

/** Hears of an event in place of others, such as Node's runner, which would fail the test. Returns what gives it back to them. */
function heard(event, listener) {
  const others = process.listeners(event);
  process.removeAllListeners(event);
  process.on(event, listener);
  return () => {
    process.removeAllListeners(event);
    for (const other of others) process.on(event, other);
  };
}

function resultOf({ tag, val }) {
  if (tag === 'failure') throw fromRecord(val);
  if (tag === 'text') return val;
  if (tag === 'json') return JSON.parse(val);
  const { content, structured, uiSummary } = tag === 'partial' ? val.output : val;
  return {
    content: JSON.parse(content),
    ...(structured === undefined ? {} : { structured: JSON.parse(structured) }),
    ...(uiSummary === undefined ? {} : { summary: uiSummary }),
    ...(tag === 'partial' ? { error: fromRecord(val.error) } : {}),
  };
}
