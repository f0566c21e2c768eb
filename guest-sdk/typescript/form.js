// Blob, File and FormData of browsers, whose bytes are in memory.
import * as host from '#host';
import { BODY } from './message.js';
import { joined } from './utf8.js';

const bytesOf = (part) => {
  if (part instanceof Blob) return part[BODY]().bytes;
  if (part instanceof ArrayBuffer) return new Uint8Array(part.slice());
  if (ArrayBuffer.isView(part)) return new Uint8Array(part.buffer, part.byteOffset, part.byteLength).slice();
  return host.encode(`${part}`);
};

const all = (pieces) => joined(pieces, pieces.reduce((sum, { length }) => sum + length, 0));

export class Blob {
  #bytes;

  constructor(parts = [], { type = '' } = {}) {
    this.#bytes = all([...parts].map(bytesOf));
    this.type = `${type}`.toLowerCase();
  }

  get size() {
    return this.#bytes.length;
  }

  slice(start, end, type = '') {
    return new Blob([this.#bytes.slice(start, end)], { type });
  }

  async bytes() {
    return this.#bytes.slice();
  }

  async arrayBuffer() {
    return this.#bytes.slice().buffer;
  }

  async text() {
    return new TextDecoder().decode(this.#bytes);
  }

  [BODY]() {
    return { bytes: this.#bytes, type: this.type };
  }
}

export class File extends Blob {
  constructor(parts, name, { lastModified = Date.now(), ...options } = {}) {
    super(parts, options);
    Object.assign(this, { name: `${name}`, lastModified });
  }
}

export class FormData {
  #entries = [];

  append(name, value, filename) {
    this.#entries.push(entryOf(name, value, filename));
  }

  set(name, value, filename) {
    const entry = entryOf(name, value, filename);
    const first = this.#entries.findIndex(([key]) => key === entry[0]);
    if (first < 0) this.#entries.push(entry);
    else this.#entries = this.#entries.flatMap((each, at) => (at === first ? [entry] : each[0] === entry[0] ? [] : [each]));
  }

  delete(name) {
    this.#entries = this.#entries.filter(([key]) => key !== `${name}`);
  }

  get(name) {
    return this.#entries.find(([key]) => key === `${name}`)?.[1] ?? null;
  }

  getAll(name) {
    return this.#entries.filter(([key]) => key === `${name}`).map(([, value]) => value);
  }

  has(name) {
    return this.#entries.some(([key]) => key === `${name}`);
  }

  forEach(call, self) {
    for (const [name, value] of this) call.call(self, value, name, this);
  }

  *entries() {
    for (const entry of this.#entries) yield [...entry];
  }

  *keys() {
    for (const [name] of this) yield name;
  }

  *values() {
    for (const [, value] of this) yield value;
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  /** RFC 7578. */
  [BODY]() {
    const boundary = `----toolcell${crypto.randomUUID()}`;
    const pieces = this.#entries.flatMap(([name, value]) => {
      const isFile = value instanceof Blob;
      const file = isFile ? `; filename="${quoted(value.name)}"\r\ncontent-type: ${value.type || 'application/octet-stream'}` : '';
      const head = `--${boundary}\r\ncontent-disposition: form-data; name="${quoted(lines(name))}"${file}\r\n\r\n`;
      return [host.encode(head), isFile ? bytesOf(value) : host.encode(lines(value)), host.encode('\r\n')];
    });
    return { bytes: all([...pieces, host.encode(`--${boundary}--\r\n`)]), type: `multipart/form-data; boundary=${boundary}` };
  }
}

function entryOf(name, value, filename) {
  if (!(value instanceof Blob)) return [`${name}`.toWellFormed(), `${value}`.toWellFormed()];
  const isNamed = filename !== undefined || !(value instanceof File);
  return [`${name}`.toWellFormed(), isNamed ? new File([value], filename ?? 'blob', { type: value.type }) : value];
}

const lines = (text) => text.replace(/\r?\n|\r/g, '\r\n');
const quoted = (text) => text.replaceAll('"', '%22').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
