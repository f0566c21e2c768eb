// Calls tools on this machine, and reads back what they said. Types: testing.d.ts.
import { reset as resetHost, state } from './host.native.js';
import { fromRecord } from './error.js';
import { describe as describeKit, invoke } from './toolkit.js';

export const reset = () => resetHost();
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

export const describe = (kit) => describeKit(kit);

/** The result as `run` gives it, or the `ToolError` of a failure, thrown. */
export function call(kit, name, input, context = {}) {
  const { tag, val } = invoke(kit, {
    invocationId: 'test',
    tool: name,
    input: JSON.stringify(input),
    attempt: 1,
    context: JSON.stringify(context),
  });
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
