// Reads the core module of an engine, and writes it with other code.

const MAGIC = Buffer.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
const [TYPE, IMPORT, FUNCTION, GLOBAL, EXPORT, CODE] = [1, 2, 3, 6, 7, 10];
export const [I32, I64, NOTHING] = [0x7f, 0x7e, 0x40];
export const [IF, ELSE, END, RETURN, CALL, CALL_INDIRECT, GET, SET, GET_GLOBAL, SET_GLOBAL] = [0x04, 0x05, 0x0b, 0x0f, 0x10, 0x11, 0x20, 0x21, 0x23, 0x24];

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

export const number = (value) => {
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

/** The instructions of a function: each opcode with its place, the place of its operands, and the first one of a call. */
export function* instructions(body) {
  const reader = new Reader(body);
  reader.list((locals) => [locals.number(), locals.byte()]);
  while (reader.at < body.length) {
    const at = reader.at;
    const opcode = reader.byte();
    const from = reader.at;
    const operand = opcode === CALL || opcode === CALL_INDIRECT ? reader.number() : undefined;
    reader.at = from;
    skipOperands(reader, opcode);
    yield { opcode, at, from, to: reader.at, operand };
  }
}

/** The bytes with others in place of some of them: `{ from, to, bytes }`, in order. */
export function patched(bytes, parts) {
  let kept = 0;
  const pieces = parts.flatMap(({ from, to, bytes: other }) => {
    const piece = [bytes.subarray(kept, from), Buffer.from(other)];
    kept = to;
    return piece;
  });
  return Buffer.concat([...pieces, bytes.subarray(kept)]);
}

export const unknown = () => new Error('the engine is not the one that this build knows');

/** The parts of a module that can be changed. */
export class Module {
  #sections;
  #globals;
  #added = [];

  constructor(bytes) {
    this.#sections = sections(bytes, 0).found;
    const content = (id) => this.#sections.find((section) => section.id === id).content;
    const imports = importsOf(content(IMPORT));
    this.imports = imports.filter(({ kind }) => kind === 0);
    this.types = new Reader(content(TYPE)).list((reader) => {
      if (reader.byte() !== 0x60) throw new Error('the engine has a type of an unknown kind');
      return { takes: [...reader.take(reader.number())], gives: [...reader.take(reader.number())] };
    });
    this.functions = new Reader(content(FUNCTION)).list((reader) => reader.number());
    this.bodies = new Reader(content(CODE)).list((reader) => reader.take(reader.number()));
    this.exports = new Reader(content(EXPORT)).list((reader) => ({ name: reader.text(), kind: reader.byte(), index: reader.number() }));
    const own = new Reader(content(GLOBAL)).number();
    this.#globals = { before: imports.filter(({ kind }) => kind === 3).length, own, added: 0 };
  }

  /** The index of the first function that is no import. */
  get first() {
    return this.imports.length;
  }

  typeOf(index) {
    return index < this.first ? this.imports[index].type : this.functions[index - this.first];
  }

  /** The indices of the types with these parameters and results. */
  typesWith(takes, gives) {
    const isSame = (type) => String([type.takes, ';', type.gives]) === String([takes, ';', gives]);
    return this.types.flatMap((type, index) => (isSame(type) ? [index] : []));
  }

  exported(name) {
    const found = this.exports.find((each) => each.name === name && each.kind === 0);
    if (!found) throw unknown();
    return found;
  }

  /** Makes a 32-bit global of 0, and returns its index as code has it. */
  addGlobal() {
    const { before, own, added } = this.#globals;
    this.#globals.added += 1;
    return number(before + own + added);
  }

  /** Adds a function, and returns its index. `locals`: the number of its 32-bit ones. */
  addFunction(type, code, locals = 0) {
    const body = Buffer.from([...(locals === 0 ? [0] : [1, locals, I32]), ...code, END]);
    this.#added.push({ type, body });
    return this.first + this.bodies.length + this.#added.length - 1;
  }

  /** Calls `replaced.get(f)` wherever `f` was called before. */
  redirect(replaced) {
    this.bodies = this.bodies.map((body) => {
      const parts = [];
      for (const { opcode, from, to, operand } of instructions(body)) {
        if (opcode === CALL && replaced.has(operand)) parts.push({ from, to, bytes: number(replaced.get(operand)) });
      }
      return parts.length === 0 ? body : patched(body, parts);
    });
  }

  bytes() {
    const listed = (parts) => Buffer.concat([number(parts.length), ...parts]);
    const name = (text) => sized(Buffer.from(text));
    const { own, added } = this.#globals;
    const rewritten = {
      [FUNCTION]: () => listed([...this.functions, ...this.#added.map(({ type }) => type)].map(number)),
      [GLOBAL]: (old) => {
        const more = Array.from({ length: added }, () => [I32, 1, 0x41, 0, END]).flat();
        return Buffer.concat([number(own + added), old.subarray(number(own).length), Buffer.from(more)]);
      },
      [EXPORT]: () => listed(this.exports.map((one) => Buffer.concat([name(one.name), Buffer.from([one.kind]), number(one.index)]))),
      [CODE]: () => listed([...this.bodies, ...this.#added.map(({ body }) => body)].map(sized)),
    };
    const written = this.#sections.map(({ id, content }) => Buffer.concat([Buffer.from([id]), sized(rewritten[id]?.(content) ?? content)]));
    return Buffer.concat([MAGIC, ...written]);
  }
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
