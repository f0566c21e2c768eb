// What the component's entry imports before the tool's own sources: the exported interface, and what QuickJS lacks.
import './globals.js';
import { toRecord } from './error.js';
import { isRunningJobs, settle } from './loop.js';
import { describe, invoke } from './toolkit.js';

const isFailure = ({ tag }) => tag === 'failure';

export function component(kit) {
  if (!kit || typeof kit.namespace !== 'string' || !Array.isArray(kit.tools)) {
    throw new TypeError('the main module must have a toolkit as its default export: `export default toolkit(..)`');
  }
  const description = JSON.stringify(describe(kit));
  return {
    // The engine calls it with each run of jobs too, as a function that gives a promise: see jobs.mjs.
    describe: () => (isRunningJobs() ? { then() {} } : description),
    invoke(call) {
      try {
        return settle(() => invoke(kit, call), isFailure);
      } catch (thrown) {
        return { tag: 'failure', val: toRecord(thrown) };
      }
    },
  };
}
