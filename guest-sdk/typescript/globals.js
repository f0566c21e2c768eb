// What tools and their libraries expect of a JavaScript engine and QuickJS lacks. The build adds more, as far as the sources use it:
// see GLOBALS in build.mjs.
import * as host from '#host';
import { formatted } from './console.js';
import { clearTimeout, milliseconds, queueMicrotask, setInterval, setTimeout } from './loop.js';
import { wellFormed } from './text.js';
import { log } from 'toolcell:tool/log@0.2.0';

const line = (level) => (...values) => {
  // Not while the snapshot is taken or the tool describes itself: the log is that of a call.
  if (host.isRunning()) log(level, wellFormed(formatted(values)), undefined);
};

globalThis.console ??= {
  trace: line('trace'),
  debug: line('debug'),
  log: line('info'),
  info: line('info'),
  warn: line('warn'),
  error: line('error'),
};

Object.assign(globalThis, { setTimeout, setInterval, clearTimeout, clearInterval: clearTimeout, queueMicrotask });
globalThis.performance = { now: milliseconds, timeOrigin: 0 };

const filled = (target) => {
  const bytes = new Uint8Array(target.buffer, target.byteOffset, target.byteLength);
  bytes.set(host.randomBytes(bytes.length));
  return target;
};

globalThis.crypto ??= {
  getRandomValues: filled,
  randomUUID() {
    const bytes = filled(new Uint8Array(16));
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
    return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
  },
};

// The engine's own state was fixed when the component was built, so its numbers would be the same in each call.
const built = Math.random;
Math.random = () => {
  if (!host.isRunning()) return built();
  const [a, b] = new Uint32Array(host.randomBytes(8).slice().buffer);
  return ((a >>> 5) * 67108864 + (b >>> 6)) / 9007199254740992;
};
