// The console of a script: what it prints is a part of the answer, in bounds.

const LINES_MAX = 200;
const CHARS_MAX = 16 * 1024;

/** A value in one line, as `console.log` prints it. */
export function shown(value) {
  if (typeof value === 'string') return value;
  if (typeof value === 'bigint') return String(value);
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  try {
    return JSON.stringify(value, readable) ?? String(value);
  } catch {
    return String(value);
  }
}

/** The replacer of JSON for values that it has no words for. */
export function readable(_, value) {
  if (typeof value === 'bigint') return String(value);
  if (value instanceof Map) return Object.fromEntries(value);
  if (value instanceof Set) return [...value];
  if (value instanceof Error) {
    const { name, message, class: kind, code } = /** @type {any} */ (value);
    return { name, message, class: kind, code };
  }
  return value;
}

export class Console {
  lines = [];
  #left = CHARS_MAX;
  #dropped = 0;

  constructor() {
    const print = (mark) => (...values) => this.#print(mark + values.map(shown).join(' '));
    this.log = this.info = this.debug = this.trace = this.dir = this.table = print('');
    this.warn = print('warn: ');
    this.error = print('error: ');
  }

  #print(text) {
    if (this.lines.length === LINES_MAX || this.#left === 0) {
      this.#dropped++;
      return;
    }
    const kept = text.slice(0, this.#left);
    this.#left -= kept.length;
    this.lines.push(kept.length < text.length ? `${kept}..` : kept);
  }

  /** What was printed, with a note of what was dropped. */
  printed() {
    const note = `(${this.#dropped} more lines were dropped: a script prints at most ${LINES_MAX} lines and ${CHARS_MAX} characters)`;
    return this.#dropped > 0 ? [...this.lines, note] : this.lines;
  }
}
