// What the component's entry imports before the tool's own sources: the exported interface, and what QuickJS lacks.
import './globals.js';
import { describe, invoke } from './toolkit.js';

export function component(kit) {
  if (!kit || typeof kit.namespace !== 'string' || !Array.isArray(kit.tools)) {
    throw new TypeError('the main module must have a toolkit as its default export: `export default toolkit(..)`');
  }
  const description = JSON.stringify(describe(kit));
  return { describe: () => description, invoke: (call) => invoke(kit, call) };
}
