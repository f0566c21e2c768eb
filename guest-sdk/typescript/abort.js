// AbortController and AbortSignal of browsers, as far as `fetch` and libraries use them.
import * as host from '#host';

const ABORT = Symbol('abort');

export class AbortSignal {
  #isAborted = false;
  #reason;
  #listeners = [];
  onabort = null;

  get aborted() {
    return this.#isAborted;
  }

  get reason() {
    return this.#reason;
  }

  throwIfAborted() {
    if (this.#isAborted) throw this.#reason;
  }

  addEventListener(type, listener, options) {
    const isKnown = this.#listeners.some((each) => each.type === type && each.listener === listener);
    if (listener && !isKnown) this.#listeners.push({ type, listener, isOnce: Boolean(options?.once) });
  }

  removeEventListener(type, listener) {
    this.#listeners = this.#listeners.filter((each) => each.type !== type || each.listener !== listener);
  }

  dispatchEvent(event) {
    if (event.type === 'abort') this.onabort?.(event);
    for (const { type, listener, isOnce } of this.#listeners.filter((each) => each.type === event.type)) {
      if (isOnce) this.removeEventListener(type, listener);
      if (typeof listener === 'function') listener.call(this, event);
      else listener.handleEvent(event);
    }
    return true;
  }

  [ABORT](reason = new DOMException('it was aborted', 'AbortError')) {
    if (this.#isAborted) return;
    [this.#isAborted, this.#reason] = [true, reason];
    this.dispatchEvent({ type: 'abort', target: this });
  }

  static abort(reason) {
    const signal = new AbortSignal();
    signal[ABORT](reason);
    return signal;
  }

  static timeout(milliseconds) {
    const signal = new AbortSignal();
    const late = () => signal[ABORT](new DOMException(`it took longer than ${milliseconds} ms`, 'TimeoutError'));
    host.later(late, milliseconds);
    return signal;
  }

  /** A signal that is aborted with the first of these. */
  static any(signals) {
    const all = [...signals];
    const aborted = all.find((each) => each.aborted);
    if (aborted) return AbortSignal.abort(aborted.reason);
    const signal = new AbortSignal();
    for (const each of all) each.addEventListener('abort', () => signal[ABORT](each.reason), { once: true });
    return signal;
  }
}

export class AbortController {
  #signal = new AbortSignal();

  get signal() {
    return this.#signal;
  }

  abort(reason) {
    this.#signal[ABORT](reason);
  }
}
