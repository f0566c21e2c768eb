// The engine of componentize-qjs, with a clock that stands still and fixed seeds while the snapshot is taken: otherwise each
// build of the same sources makes another component. In a call, the clock is that of the host again.
//
// componentize-qjs takes another engine as `runtimeBytes`. Its own one lies as it is in the file of its native module.

const MAGIC = Buffer.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
const [TYPE, IMPORT, FUNCTION, GLOBAL, EXPORT, CODE] = [1, 2, 3, 6, 7, 10];
/** The function that runs the module code, after which the snapshot is taken. */
const SNAPSHOT = 'init';
const END = 0x0b;

class Reader {
  constructor(bytes, at = 0) {
    Object.assign(this, { bytes, at });
  }

  byte() {
    if (this.at >= this.bytes.length) throw new Error('the engine ends too early');
    return this.bytes[this.at++];
  }

  number() {
    let [value, scale, byte] = [0, 1, 0];
    do {
      byte = this.byte();
      value += (byte & 0x7f) * scale;
      scale *= 128;
    } while (byte & 0x80);
    return value;
  }

  take(length) {
    if (this.at + length > this.bytes.length) throw new Error('the engine ends too early');
    return this.bytes.subarray(this.at, (this.at += length));
  }

  text() {
    return this.take(this.number()).toString('utf8');
  }

  list(entry) {
    return Array.from({ length: this.number() }, () => entry(this));
  }
}

const number = (value) => {
  const bytes = [];
  do {
    bytes.push((value % 128) | (value >= 128 ? 0x80 : 0));
    value = Math.floor(value / 128);
  } while (value > 0);
  return Buffer.from(bytes);
};
const sized = (bytes) => Buffer.concat([number(bytes.length), bytes]);

/** The sections of the module at `start`, and where it ends. */
function sections(bytes, start) {
  const found = [];
  const reader = new Reader(bytes, start + MAGIC.length);
  while (reader.at < bytes.length && bytes[reader.at] <= 13) {
    const before = reader.at;
    try {
      const id = reader.byte();
      const content = reader.take(reader.number());
      if (id === 0 && content.length === 0) throw new Error('no section');
      found.push({ id, content });
    } catch {
      return { found, end: before };
    }
  }
  return { found, end: reader.at };
}

const limits = (reader) => {
  const flags = reader.number();
  reader.number();
  if (flags & 1) reader.number();
};

function importsOf(content) {
  return new Reader(content).list((reader) => {
    const [module, name, kind] = [reader.text(), reader.text(), reader.byte()];
    let type;
    if (kind === 0) type = reader.number();
    else if (kind === 1) reader.byte(), limits(reader);
    else if (kind === 2) limits(reader);
    else if (kind === 3) reader.take(2);
    else throw new Error('the engine has an import of an unknown kind');
    return { module, name, kind, type };
  });
}

/** Skips what follows the opcode of an instruction. */
function skipOperands(reader, opcode) {
  const numbers = (count) => { for (let at = 0; at < count; at += 1) reader.number(); };
  const memory = () => { if (reader.number() & 0x40) reader.number(); reader.number(); };
  if (opcode >= 0x28 && opcode <= 0x3e) return memory();
  if ([0x02, 0x03, 0x04, 0x06, 0x07, 0x08, 0x09, 0x0c, 0x0d, 0x18, 0x3f, 0x40, 0x41, 0x42, 0xd0, 0xd2].includes(opcode)) return numbers(1);
  if (opcode >= 0x10 && opcode <= 0x13) return numbers(opcode % 2 === 0 ? 1 : 2);
  if (opcode >= 0x20 && opcode <= 0x26) return numbers(1);
  if (opcode === 0x0e) return numbers(reader.number() + 1);
  if (opcode === 0x1c) return void reader.take(reader.number());
  if (opcode === 0x43) return void reader.take(4);
  if (opcode === 0x44) return void reader.take(8);
  if (opcode === 0xfc) {
    const more = reader.number();
    if (more > 17) throw new Error('the engine has an unknown instruction');
    return numbers([0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 2, 1, 2, 1, 2, 1, 1, 1][more]);
  }
  if (opcode === 0xfd) {
    const more = reader.number();
    if (more <= 11 || more === 92 || more === 93) return memory();
    if (more >= 84 && more <= 91) return memory(), void reader.byte();
    if (more === 12 || more === 13) return void reader.take(16);
    if (more >= 21 && more <= 34) reader.byte();
    return;
  }
  const plain = opcode <= 0x01 || opcode === 0x05 || opcode === 0x0a || opcode === END || opcode === 0x0f || opcode === 0x19 || opcode === 0x1a
    || opcode === 0x1b || (opcode >= 0x45 && opcode <= 0xc4) || opcode === 0xd1;
  if (!plain) throw new Error(`the engine has an unknown instruction, ${opcode}`);
}

/** The body of a function that calls `replaced.get(f)` wherever it called `f`. */
function redirected(body, replaced) {
  const reader = new Reader(body);
  reader.list((locals) => [locals.number(), locals.byte()]);
  const [parts, CALL] = [[], 0x10];
  let kept = 0;
  while (reader.at < body.length) {
    const opcode = reader.byte();
    if (opcode !== CALL) {
      skipOperands(reader, opcode);
      continue;
    }
    const from = reader.at;
    const other = replaced.get(reader.number());
    if (other === undefined) continue;
    parts.push(body.subarray(kept, from), number(other));
    kept = reader.at;
  }
  parts.push(body.subarray(kept));
  return Buffer.concat(parts);
}

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
  const { found } = sections(engine, 0);
  const content = (id) => found.find((section) => section.id === id).content;
  const imports = importsOf(content(IMPORT));
  const functions = imports.filter(({ kind }) => kind === 0);
  const types = new Reader(content(FUNCTION)).list((reader) => reader.number());
  const globals = new Reader(content(GLOBAL)).number();
  const flag = number(imports.filter(({ kind }) => kind === 3).length + globals);
  const results = new Reader(content(TYPE)).list((reader) => {
    if (reader.byte() !== 0x60) throw new Error('the engine has a type of an unknown kind');
    return [reader.take(reader.number()).length, [...reader.take(reader.number())]];
  });

  const [added, replaced] = [[], new Map()];
  const add = (type, code) => {
    added.push({ type, body: Buffer.from([0, ...code, END]) });
    return functions.length + types.length + added.length - 1;
  };
  const passed = (type) => Array.from({ length: results[type][0] }, (_, at) => [0x20, at]).flat();
  functions.forEach(({ module, name, type }, index) => {
    const fixed = FIXED[`${module.split('@')[0]} ${name}`];
    if (!fixed) return;
    const block = results[type][1].length === 0 ? 0x40 : results[type][1][0];
    const real = [...passed(type), 0x10, ...number(index)];
    replaced.set(index, add(type, [0x23, ...flag, 0x04, block, ...real, 0x05, ...fixed, END]));
  });
  const exported = new Reader(content(EXPORT)).list((reader) => ({ name: reader.text(), kind: reader.byte(), index: reader.number() }));
  const snapshot = exported.find(({ name, kind }) => name === SNAPSHOT && kind === 0);
  if (!snapshot || replaced.size !== Object.keys(FIXED).length) throw new Error('the engine is not the one that this build knows');
  const type = types[snapshot.index - functions.length];
  snapshot.index = add(type, [...passed(type), 0x10, ...number(snapshot.index), 0x41, 1, 0x24, ...flag]);

  const listed = (parts) => Buffer.concat([number(parts.length), ...parts]);
  const name = (text) => sized(Buffer.from(text));
  const rewritten = {
    [FUNCTION]: () => listed([...types, ...added.map((one) => one.type)].map(number)),
    [GLOBAL]: (old) => Buffer.concat([number(globals + 1), old.subarray(number(globals).length), Buffer.from([0x7f, 1, 0x41, 0, END])]),
    [EXPORT]: () => listed(exported.map((one) => Buffer.concat([name(one.name), Buffer.from([one.kind]), number(one.index)]))),
    [CODE]: (old) => {
      const bodies = new Reader(old).list((reader) => reader.take(reader.number()));
      return listed([...bodies.map((body) => redirected(body, replaced)), ...added.map(({ body }) => body)].map(sized));
    },
  };
  const written = found.map(({ id, content: old }) => Buffer.concat([Buffer.from([id]), sized(rewritten[id]?.(old) ?? old)]));
  return Buffer.concat([MAGIC, ...written]);
}

/** The engines in the native module of componentize-qjs; those without the asynchronous part of components are the smaller half. */
export function engines(native) {
  const found = [];
  for (let at = native.indexOf(MAGIC); at >= 0; at = native.indexOf(MAGIC, at + 1)) {
    const whole = sections(native, at);
    const has = (id) => whole.found.some((section) => section.id === id);
    const isEngine = has(CODE) && has(EXPORT) && has(IMPORT) && new Reader(whole.found[0].content).text() === 'dylink.0';
    if (isEngine && importsOf(whole.found.find(({ id }) => id === IMPORT).content).some(({ module }) => module.startsWith('wasi:random/'))) {
      found.push(native.subarray(at, whole.end));
    }
  }
  return found.sort((a, b) => a.length - b.length);
}
