// TextEncoder and TextDecoder of browsers, for UTF-8.
import * as host from '#host';
import { joined } from './utf8.js';

export class TextEncoder {
  encoding = 'utf-8';

  encode(text = '') {
    return host.encode(String(text));
  }
}

// The bytes that begin a character of two, three or four, or continue one. In letters of the same number.
const CHARACTER = /[\xc2-\xdf][\x80-\xbf]|(?:\xe0[\xa0-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]|\xed[\x80-\x9f])[\x80-\xbf]|(?:\xf0[\x90-\xbf]|[\xf1-\xf3][\x80-\xbf]|\xf4[\x80-\x8f])[\x80-\xbf]{2}/;
const BEGUN = /(?:\xe0[\xa0-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]|\xed[\x80-\x9f])|(?:\xf0[\x90-\xbf]|[\xf1-\xf3][\x80-\xbf]|\xf4[\x80-\x8f])[\x80-\xbf]?/;
const PARTS = new RegExp(`(${CHARACTER.source})|${BEGUN.source}|[\\x80-\\xff]`, 'g');
const INCOMPLETE = new RegExp(`(?:${BEGUN.source}|[\\xc2-\\xf4])$`);
const PIECE = 1 << 15;

/** Text with U+FFFD for what is no UTF-8. */
function replacing(bytes) {
  let text = '';
  for (let at = 0; at < bytes.length; ) {
    let end = Math.min(at + PIECE, bytes.length);
    for (let back = 0; back < 3 && end < bytes.length && (bytes[end] & 0xc0) === 0x80; back += 1) end -= 1;
    const letters = atob(bytes.subarray(at, end).toBase64());
    text += letters.replace(PARTS, (_, whole) => (whole === undefined ? '\ufffd' : decodeURIComponent(escape(whole))));
    at = end;
  }
  return text;
}

const viewed = (bytes) => (ArrayBuffer.isView(bytes) ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength) : new Uint8Array(bytes));

export class TextDecoder {
  encoding = 'utf-8';
  #rest = new Uint8Array();
  #isAtStart = true;

  constructor(label = 'utf-8', { fatal = false, ignoreBOM = false } = {}) {
    if (!/^\s*utf-?8\s*$/i.test(label)) throw new RangeError(`this TextDecoder reads UTF-8 alone, not ${label}`);
    this.fatal = fatal;
    this.ignoreBOM = ignoreBOM;
  }

  /** With `stream`, a character that is not complete waits for the rest of it. */
  decode(bytes = new Uint8Array(), { stream = false } = {}) {
    let whole = joined([this.#rest, viewed(bytes)].filter(({ length }) => length > 0), this.#rest.length + bytes.byteLength);
    this.#rest = new Uint8Array();
    if (stream) {
      const kept = INCOMPLETE.exec(String.fromCharCode(...whole.subarray(-3)))?.[0].length ?? 0;
      this.#rest = whole.slice(whole.length - kept);
      whole = whole.subarray(0, whole.length - kept);
    }
    const text = this.#text(whole);
    const isMarked = this.#isAtStart && !this.ignoreBOM && text.startsWith('\ufeff');
    this.#isAtStart = !stream || (this.#isAtStart && text === '');
    return isMarked ? text.slice(1) : text;
  }

  #text(bytes) {
    try {
      return host.decode(bytes);
    } catch {
      if (this.fatal) throw new TypeError('the bytes are not UTF-8 text');
      return replacing(bytes);
    }
  }
}
