// UTF-8 for QuickJS, which has no encoder of its own. Loops over characters are slow there, and lists of numbers large, so the
// work is done by native functions: bytes become letters of the same number, and the reverse, by way of base64. In pieces, so
// that what stands in between takes little memory.
import { ToolError } from './error.js';

const PIECE = 1 << 16;
const OTHER_THAN_ASCII = /[^\0-\x7f]/;

export function encode(text) {
  const whole = text.toWellFormed();
  const pieces = [];
  let length = 0;
  for (let at = 0; at < whole.length; ) {
    let end = Math.min(at + PIECE, whole.length);
    if (end < whole.length && isHigh(whole.charCodeAt(end - 1))) end -= 1;
    const piece = whole.slice(at, end);
    const letters = OTHER_THAN_ASCII.test(piece) ? unescape(encodeURIComponent(piece)) : piece;
    const bytes = Uint8Array.fromBase64(btoa(letters));
    pieces.push(bytes);
    length += bytes.length;
    at = end;
  }
  return joined(pieces, length);
}

/** The first half of a pair. */
const isHigh = (unit) => unit >= 0xd800 && unit < 0xdc00;

export function decode(bytes) {
  const pieces = [];
  for (let at = 0; at < bytes.length; ) {
    let end = Math.min(at + PIECE, bytes.length);
    // A character has at most three bytes that continue it.
    for (let back = 0; back < 3 && end < bytes.length && (bytes[end] & 0xc0) === 0x80; back += 1) end -= 1;
    const letters = atob(bytes.subarray(at, end).toBase64());
    pieces.push(OTHER_THAN_ASCII.test(letters) ? decoded(letters) : letters);
    at = end;
  }
  return pieces.join('');
}

function decoded(letters) {
  try {
    return decodeURIComponent(escape(letters));
  } catch {
    throw new ToolError('not_utf8', 'the bytes are not UTF-8 text');
  }
}

export function joined(pieces, length) {
  if (pieces.length === 1) return pieces[0];
  const whole = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}
