// The engine of componentize-qjs, with a clock that stands still and fixed seeds while the snapshot is taken: otherwise each
// build of the same sources makes another component. In a call, the clock is that of the host again. `jobs.mjs` lets it run the
// jobs of promises.
//
// componentize-qjs takes another engine as `runtimeBytes`. Its own one lies as it is in the file of its native module.
import { addJobs } from './jobs.mjs';
import { CALL, ELSE, END, GET, GET_GLOBAL, IF, Module, NOTHING, SET_GLOBAL, number, unknown } from './wasm.mjs';

/** The function that runs the module code, after which the snapshot is taken. */
const SNAPSHOT = 'init';

/** What each import answers while the snapshot is taken: instructions with the parameters in locals. */
const FIXED = {
  // A hash map's seed: two u64 at the address.
  'wasi:random/insecure-seed insecure-seed': [0x20, 0, 0x42, 0, 0x37, 3, 0, 0x20, 0, 0x42, 0, 0x37, 3, 8],
  'wasi:clocks/monotonic-clock now': [0x42, 0],
  // Seconds and nanoseconds at the address.
  'wasi:clocks/wall-clock now': [0x20, 0, 0x42, 0, 0x37, 3, 0, 0x20, 0, 0x41, 0, 0x36, 2, 8],
};

/** An engine in which a flag tells whether the snapshot has been taken. */
export function steady(engine) {
  const module = new Module(engine);
  // First, because it looks for the calls of the clock.
  addJobs(module);
  const flag = module.addGlobal();
  const replaced = new Map();
  const passed = (type) => module.types[type].takes.flatMap((_, at) => [GET, at]);
  module.imports.forEach(({ module: from, name, type }, index) => {
    const fixed = FIXED[`${from.split('@')[0]} ${name}`];
    if (!fixed) return;
    const block = module.types[type].gives[0] ?? NOTHING;
    const real = [...passed(type), CALL, ...number(index)];
    replaced.set(index, module.addFunction(type, [GET_GLOBAL, ...flag, IF, block, ...real, ELSE, ...fixed, END]));
  });
  if (replaced.size !== Object.keys(FIXED).length) throw unknown();
  module.redirect(replaced);
  const snapshot = module.exported(SNAPSHOT);
  const type = module.typeOf(snapshot.index);
  snapshot.index = module.addFunction(type, [...passed(type), CALL, ...number(snapshot.index), 0x41, 1, SET_GLOBAL, ...flag]);
  return module.bytes();
}
