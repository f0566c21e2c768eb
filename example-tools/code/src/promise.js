// Promises that run inside one synchronous call of the tool. The engine's own ones need a loop of jobs, and the host takes the
// answer of a tool before it would run one.
import { sleep } from '#toolcell';

/** What waits to run, in order. */
let jobs = [];
/** What `setTimeout` keeps: the time since the script began, in milliseconds, and what to run then. */
let timers = [];
let now = 0;
let lastTimer = 0;
/** Rejected promises that nothing has looked at. */
const unhandled = new Set();

export function reset() {
  [jobs, timers, now, lastTimer] = [[], [], 0, 0];
  unhandled.clear();
}

/** Runs jobs and timers until none is left. */
export function settle() {
  for (;;) {
    // A job can add more, which belong to the same list. Those that have run are removed together, because one is slow.
    for (let at = 0; at < jobs.length; ) {
      const job = jobs[at++];
      if (at === 1024) {
        jobs.splice(0, at);
        at = 0;
      }
      job();
    }
    jobs = [];
    const next = timers.shift();
    if (!next) return;
    if (next.due > now) sleep(next.due - now);
    now = Math.max(now, next.due);
    jobs.push(next.job);
  }
}

export const queueMicrotask = (job) => void jobs.push(job);

export function setTimeout(job, delay = 0, ...values) {
  const timer = { id: ++lastTimer, due: now + Math.max(0, Number(delay) || 0), job: () => job(...values) };
  const after = timers.findIndex(({ due }) => due > timer.due);
  timers.splice(after < 0 ? timers.length : after, 0, timer);
  return timer.id;
}

export const clearTimeout = (id) => {
  timers = timers.filter((timer) => timer.id !== id);
};

/** The state of a promise (`pending`, `fulfilled` or `rejected`) and its value or reason. Not for scripts. */
export let look;

/** The reasons of rejected promises that nothing has looked at. */
export const unhandledReasons = () => [...unhandled].map((promise) => look(promise).value);

export class ScriptPromise {
  #state = 'pending';
  #value;
  #reactions = [];

  constructor(executor) {
    if (typeof executor !== 'function') throw new TypeError('a promise is made of a function');
    const { resolve, reject } = this.#functions();
    try {
      executor(resolve, reject);
    } catch (error) {
      reject(error);
    }
  }

  /** The first call of either one decides. */
  #functions() {
    let isDecided = false;
    const once = (decide) => (value) => {
      if (isDecided) return;
      isDecided = true;
      decide(value);
    };
    return { resolve: once((value) => this.#resolve(value)), reject: once((reason) => this.#settle('rejected', reason)) };
  }

  #resolve(value) {
    if (value === this) return this.#settle('rejected', new TypeError('a promise cannot be its own value'));
    let then;
    try {
      then = value !== null && (typeof value === 'object' || typeof value === 'function') ? value.then : undefined;
    } catch (error) {
      return this.#settle('rejected', error);
    }
    if (typeof then !== 'function') return this.#settle('fulfilled', value);
    queueMicrotask(() => {
      const { resolve, reject } = this.#functions();
      try {
        then.call(value, resolve, reject);
      } catch (error) {
        reject(error);
      }
    });
  }

  #settle(state, value) {
    [this.#state, this.#value] = [state, value];
    const reactions = this.#reactions;
    this.#reactions = [];
    if (state === 'rejected' && reactions.length === 0) unhandled.add(this);
    for (const reaction of reactions) queueMicrotask(reaction);
  }

  then(onFulfilled, onRejected) {
    return new ScriptPromise((resolve, reject) => {
      const react = () => {
        const handler = this.#state === 'fulfilled' ? onFulfilled : onRejected;
        if (typeof handler !== 'function') return this.#state === 'fulfilled' ? resolve(this.#value) : reject(this.#value);
        try {
          resolve(handler(this.#value));
        } catch (error) {
          reject(error);
        }
      };
      unhandled.delete(this);
      if (this.#state === 'pending') this.#reactions.push(react);
      else queueMicrotask(react);
    });
  }

  catch(onRejected) {
    return this.then(undefined, onRejected);
  }

  finally(onEnd) {
    const after = (end) => ScriptPromise.resolve(onEnd()).then(end);
    return this.then(
      (value) => after(() => value),
      (reason) =>
        after(() => {
          throw reason;
        }),
    );
  }

  static {
    look = (promise) => ({ state: promise.#state, value: promise.#value });
  }

  get [Symbol.toStringTag]() {
    return 'Promise';
  }

  static resolve(value) {
    return value instanceof ScriptPromise ? value : new ScriptPromise((resolve) => resolve(value));
  }

  static reject(reason) {
    return new ScriptPromise((_, reject) => reject(reason));
  }

  static withResolvers() {
    const parts = {};
    parts.promise = new ScriptPromise((resolve, reject) => Object.assign(parts, { resolve, reject }));
    return parts;
  }

  static try(run, ...values) {
    return new ScriptPromise((resolve) => resolve(run(...values)));
  }

  /** Settles once `each`, which gets every promise with its place and the list to fill, has been called for all. */
  static #gather(items, each) {
    return new ScriptPromise((resolve, reject) => {
      const found = [];
      let left = 1;
      const done = () => {
        if (--left === 0) resolve(found);
      };
      let at = 0;
      for (const item of items) {
        left++;
        const place = at++;
        const put = (value) => {
          found[place] = value;
          done();
        };
        each(ScriptPromise.resolve(item), put, reject);
      }
      done();
    });
  }

  static all(items) {
    return ScriptPromise.#gather(items, (promise, put, reject) => promise.then(put, reject));
  }

  static allSettled(items) {
    return ScriptPromise.#gather(items, (promise, put) =>
      promise.then(
        (value) => put({ status: 'fulfilled', value }),
        (reason) => put({ status: 'rejected', reason }),
      ),
    );
  }

  static any(items) {
    return new ScriptPromise((resolve, reject) => {
      const failed = ScriptPromise.#gather(items, (promise, put) => promise.then(resolve, put));
      failed.then((reasons) => reject(new AggregateError(reasons, 'all promises were rejected')), reject);
    });
  }

  static race(items) {
    return new ScriptPromise((resolve, reject) => {
      for (const item of items) ScriptPromise.resolve(item).then(resolve, reject);
    });
  }
}
