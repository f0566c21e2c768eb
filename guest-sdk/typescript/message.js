// Headers, Request and Response of browsers. A body that is sent is a text, bytes, URLSearchParams, FormData or a Blob, and no stream.
import * as host from '#host';
import { AbortController } from './abort.js';
import { TextDecoder } from './encoding.js';
import { URL, URLSearchParams } from './url.js';
import { joined } from './utf8.js';

export class Headers {
  #entries = new Map();

  constructor(init) {
    if (init === undefined || init === null) return;
    const pairs = typeof init[Symbol.iterator] === 'function' ? init : Object.entries(init);
    for (const [name, value] of pairs) this.append(name, value);
  }

  append(name, value) {
    const key = nameOf(name);
    this.#entries.set(key, [...(this.#entries.get(key) ?? []), valueOf(value)]);
  }

  set(name, value) {
    this.#entries.set(nameOf(name), [valueOf(value)]);
  }

  delete(name) {
    this.#entries.delete(nameOf(name));
  }

  get(name) {
    return this.#entries.get(nameOf(name))?.join(', ') ?? null;
  }

  has(name) {
    return this.#entries.has(nameOf(name));
  }

  getSetCookie() {
    return [...(this.#entries.get('set-cookie') ?? [])];
  }

  forEach(call, self) {
    for (const [name, value] of this) call.call(self, value, name, this);
  }

  *entries() {
    for (const name of [...this.#entries.keys()].sort()) {
      const values = this.#entries.get(name) ?? [];
      for (const value of name === 'set-cookie' ? values : [values.join(', ')]) yield [name, value];
    }
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
}

function nameOf(name) {
  if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/i.test(`${name}`)) throw new TypeError(`${JSON.stringify(`${name}`)} is no name of a header`);
  return `${name}`.toLowerCase();
}

function valueOf(value) {
  const text = `${value}`.replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, '');
  if (/[\0\n\r]|[^\0-\xff]/.test(text)) throw new TypeError(`${JSON.stringify(text)} is no value of a header`);
  return text;
}

/** The bytes of a body once, or as often as they are asked for. */
export class BodyStream {
  #source;
  #isLocked = false;
  #isDisturbed = false;

  constructor(source) {
    this.#source = source;
  }

  get locked() {
    return this.#isLocked;
  }

  get isDisturbed() {
    return this.#isDisturbed;
  }

  async cancel() {
    this.#isDisturbed = true;
    this.#source.cancel();
  }

  getReader() {
    if (this.#isLocked) throw new TypeError('the body has a reader already');
    this.#isLocked = true;
    const read = async () => {
      this.#isDisturbed = true;
      const value = await this.#source.read();
      return { value, done: value === undefined };
    };
    const releaseLock = () => {
      this.#isLocked = false;
    };
    return { read, releaseLock, cancel: () => this.cancel() };
  }

  async *values() {
    const reader = this.getReader();
    let isDone = false;
    try {
      for (let step; !(step = await reader.read()).done; ) yield step.value;
      isDone = true;
    } finally {
      if (!isDone) await reader.cancel();
      reader.releaseLock();
    }
  }

  [Symbol.asyncIterator]() {
    return this.values();
  }

  /** Two streams in place of this one, of which each has all chunks. */
  tee() {
    if (this.#isLocked) throw new TypeError('the body has a reader already');
    this.#isLocked = true;
    const source = this.#source;
    const chunks = [];
    const chunk = (at) => (chunks[at] ??= (chunks[at - 1] ?? Promise.resolve()).then(() => source.read()));
    const branch = () => {
      let at = 0;
      return new BodyStream({ read: () => chunk(at++), cancel() {} });
    };
    return [branch(), branch()];
  }
}

const once = (bytes) => {
  let left = bytes;
  const cancel = () => (left = undefined);
  return {
    async read() {
      const found = left;
      cancel();
      return found?.length === 0 ? undefined : found;
    },
    cancel,
  };
};

/** Names what gives the bytes of an object as a body, and their type: that of form.js, which not every tool has. */
export const BODY = Symbol('body');

/** The bytes of what a body may be made of, and their type. */
function extracted(body) {
  if (typeof body === 'string') return { bytes: host.encode(body), type: 'text/plain;charset=UTF-8' };
  if (body instanceof URLSearchParams) return { bytes: host.encode(`${body}`), type: 'application/x-www-form-urlencoded;charset=UTF-8' };
  if (body instanceof ArrayBuffer) return { bytes: new Uint8Array(body.slice()) };
  if (ArrayBuffer.isView(body)) return { bytes: new Uint8Array(body.buffer, body.byteOffset, body.byteLength).slice() };
  if (typeof body[BODY] === 'function') return body[BODY]();
  throw new TypeError('a body is a text, bytes, URLSearchParams, FormData or a Blob');
}

/** The common part of requests and responses. */
class Message {
  #stream = null;

  constructor(headers, body) {
    this.headers = new Headers(headers);
    if (body === undefined || body === null) return;
    if (body instanceof BodyStream) {
      this.#stream = body;
      return;
    }
    const { bytes, type } = extracted(body);
    this.#stream = new BodyStream(once(bytes));
    if (type && !this.headers.has('content-type')) this.headers.set('content-type', type);
  }

  get body() {
    return this.#stream;
  }

  get bodyUsed() {
    return this.#stream?.isDisturbed ?? false;
  }

  async bytes() {
    if (!this.#stream) return new Uint8Array();
    if (this.bodyUsed) throw new TypeError('the body was read already');
    const pieces = [];
    let length = 0;
    for await (const piece of this.#stream) {
      pieces.push(piece);
      length += piece.length;
    }
    return joined(pieces, length);
  }

  async arrayBuffer() {
    return (await this.bytes()).buffer;
  }

  /** If the sources name Blob. */
  async blob() {
    return new Blob([await this.bytes()], { type: this.headers.get('content-type') ?? '' });
  }

  async text() {
    return new TextDecoder().decode(await this.bytes());
  }

  async json() {
    return JSON.parse(await this.text());
  }

  /** The body for a copy, which leaves one of its own here. */
  bodyOfCopy() {
    if (!this.#stream) return undefined;
    if (this.bodyUsed) throw new TypeError('the body was read already');
    const [own, copied] = this.#stream.tee();
    this.#stream = own;
    return copied;
  }
}

export class Request extends Message {
  constructor(input, init = {}) {
    const from = input instanceof Request ? input : undefined;
    super(init.headers ?? from?.headers, init.body ?? from?.bodyOfCopy());
    this.url = new URL(from ? from.url : input).href;
    this.method = methodOf(init.method ?? from?.method ?? 'GET');
    if (this.body && ['GET', 'HEAD'].includes(this.method)) throw new TypeError(`a request with ${this.method} has no body`);
    this.redirect = init.redirect ?? from?.redirect ?? 'follow';
    if (!['follow', 'error', 'manual'].includes(this.redirect)) throw new TypeError(`redirect is follow, error or manual, not ${this.redirect}`);
    this.signal = init.signal ?? from?.signal ?? new AbortController().signal;
  }

  clone() {
    return new Request(this);
  }
}

function methodOf(method) {
  if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/i.test(`${method}`)) throw new TypeError(`${JSON.stringify(`${method}`)} is no method`);
  const upper = `${method}`.toUpperCase();
  return ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'POST', 'PUT'].includes(upper) ? upper : `${method}`;
}

export class Response extends Message {
  type = 'default';
  url = '';
  redirected = false;

  constructor(body, { status = 200, statusText = '', headers } = {}) {
    super(headers, body);
    if (status < 200 || status > 599) throw new RangeError(`${status} is no status of a response`);
    Object.assign(this, { status, statusText });
  }

  get ok() {
    return this.status >= 200 && this.status < 300;
  }

  clone() {
    const { status, statusText, url, redirected, type } = this;
    return Object.assign(new Response(this.bodyOfCopy(), { headers: this.headers }), { status, statusText, url, redirected, type });
  }

  static json(value, init = {}) {
    const headers = new Headers(init.headers);
    if (!headers.has('content-type')) headers.set('content-type', 'application/json');
    return new Response(JSON.stringify(value), { ...init, headers });
  }

  static error() {
    const failed = new Response(null, {});
    return Object.assign(failed, { status: 0, type: 'error' });
  }
}
