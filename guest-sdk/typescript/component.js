// What the component's entry imports before the tool's own sources: the exported interface, and what QuickJS lacks.
import './globals.js';
import { toRecord } from './error.js';
import { isRunningJobs, settle } from './loop.js';
import { interfaces } from './more.js';
import { describe, invoke } from './toolkit.js';

const isFailure = ({ tag }) => tag === 'failure';

/** `exported`: the names of the interfaces that the build exports beside `guest`, which it learns from the error. */
export function component(kit, exported) {
  if (!kit || typeof kit.namespace !== 'string' || !Array.isArray(kit.tools)) {
    throw new TypeError('the main module must have a toolkit as its default export: `export default toolkit(..)`');
  }
  const more = interfaces(kit);
  const wanted = Object.keys(more).join(' ');
  if (wanted !== exported) throw new Error(`toolcell exports: ${wanted};`);
  const description = JSON.stringify(describe(kit));
  const guest = {
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
  return { guest, ...more };
}
