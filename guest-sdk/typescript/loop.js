// The event loop of a component: jobs of promises, timers, and what the host tells of with a pollable. It runs inside one call of
// `invoke`, which is synchronous. In native tests, the loop is that of Node.
import { now as clock, subscribeDuration } from 'wasi:clocks/monotonic-clock@0.2.6';
import { poll } from 'wasi:io/poll@0.2.6';
import { ToolError } from './error.js';

// The engine that `jobs.mjs` changes has its own function here.
const engine = globalThis.performance.now;
const then = Promise.prototype.then;

/** Not while the snapshot is taken or the tool describes itself. */
let isCalled = false;
export const isInCall = () => isCalled;

export const milliseconds = () => (isCalled ? clock() / 1e6 : 0);

let isRunning = false;
export const isRunningJobs = () => isRunning;

function runJobs() {
  isRunning = true;
  engine();
  isRunning = false;
}

/** Rejected promises that nothing has handled, in the order of their rejections. */
const open = new Set();
/** Those that were told: looking at their reasons handles them. */
const told = new WeakSet();
/** Exceptions of timers and of jobs, which no promise has. */
const thrown = [];

/** Failures that nothing handled: `{ reason, promise }`. */
function unhandled() {
  const changed = [];
  // The last one first.
  for (let promise; (promise = engine(1)); ) if (!told.has(promise)) changed.unshift(promise);
  if (changed.length + open.size + thrown.length === 0) return changed;
  // The engine tells of a promise again once it is handled.
  for (const promise of changed) if (!open.delete(promise)) open.add(promise);
  const found = thrown.splice(0);
  const promises = [...open];
  open.clear();
  for (const promise of promises) {
    told.add(promise);
    then.call(promise, undefined, (reason) => found.push({ reason, promise }));
  }
  if (promises.length > 0) runJobs();
  return found;
}

/** As browsers and Deno do: the handler can prevent that the call fails. An exception of a timer or a job has no promise. */
function report({ reason, promise }) {
  let isPrevented = false;
  globalThis.onunhandledrejection?.({ type: 'unhandledrejection', reason, promise, preventDefault: () => void (isPrevented = true) });
  if (!isPrevented) throw reason;
}

/**
 * Runs a call, and returns its value after everything that it waits for, if `run` gives a promise. Throws what nothing handled, unless
 * the value is a failure too. Work that goes on after that ends with the call.
 */
export function settle(run, isFailure) {
  isCalled = true;
  // Those of module code began while the snapshot was taken.
  for (const timer of timers) timer.due += milliseconds();
  const answer = run();
  let ended;
  if (answer instanceof Promise) {
    then.call(answer, (value) => void (ended = { value }));
    runJobs();
  } else {
    ended = { value: answer };
  }
  for (;;) {
    const failed = unhandled();
    if (!(ended && isFailure(ended.value))) failed.forEach(report);
    if (ended) return ended.value;
    // Reading the reasons ran other jobs.
    if (failed.length === 0 && !turn()) throw new ToolError('never_settled', 'the tool awaits a promise that nothing settles');
    runJobs();
  }
}

/** In the order in which they are due. */
const timers = [];
let lastTimer = 0;
/** `{ pollable, done }` */
const waiting = new Set();

/** Functions that resolve the promises of `idle`. */
const idlers = [];
export const idle = () => new Promise((resolve) => void idlers.push(resolve));

/** Waits for the next event, and handles it. `false`: there is none to come. */
function turn() {
  const [next] = timers;
  const isIdle = waiting.size === 0 && timers.every(({ isBackground }) => isBackground);
  if (isIdle && idlers.length > 0) {
    for (const resolve of idlers.splice(0)) resolve();
    return true;
  }
  if (!next && waiting.size === 0) return false;
  const waits = [...waiting];
  const pollables = waits.map(({ pollable }) => pollable);
  const pause = next && subscribeDuration(Math.max(0, Math.ceil((next.due - milliseconds()) * 1e6)));
  let ready;
  try {
    ready = poll(pause ? [...pollables, pause] : pollables);
  } finally {
    pause?.[Symbol.dispose]();
  }
  for (const at of ready) waits[at]?.done();
  // A callback before could have cleared it.
  if (next && timers[0] === next && next.due <= milliseconds()) fire(next);
  return true;
}

function fire(timer) {
  timers.shift();
  if (timer.every !== undefined) schedule(timer, timer.every);
  guarded(timer.job);
}

const guarded = (job) => {
  try {
    job();
  } catch (reason) {
    thrown.push({ reason });
  }
};

function schedule(timer, delay) {
  timer.due = milliseconds() + delay;
  let [low, high] = [0, timers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (timers[middle].due > timer.due) high = middle;
    else low = middle + 1;
  }
  timers.splice(low, 0, timer);
}

const DELAY_MAX = 2 ** 31 - 1;
/** As Node: at least 1 ms, so that an interval lets others run, and that also in place of what is too long. */
const delayOf = (delay) => (delay >= 1 && delay <= DELAY_MAX ? Math.trunc(delay) : 1);

function start(job, delay, values, more) {
  if (typeof job !== 'function') throw new TypeError('a timer takes a function');
  const after = delayOf(delay);
  const timer = { id: ++lastTimer, job: () => job(...values), ...more(after) };
  schedule(timer, after);
  return timer.id;
}

export const setTimeout = (job, delay, ...values) => start(job, delay, values, () => ({}));
export const setInterval = (job, delay, ...values) => start(job, delay, values, (every) => ({ every }));
/** A timer that nothing waits for. */
export const later = (job, delay) => start(job, delay, [], () => ({ isBackground: true }));
export const clearTimeout = (id) => {
  const at = timers.findIndex((timer) => timer.id === id);
  if (at >= 0) timers.splice(at, 1);
};

export const queueMicrotask = (job) => {
  if (typeof job !== 'function') throw new TypeError('queueMicrotask takes a function');
  then.call(resolved, () => guarded(job));
};
const resolved = Promise.resolve();

/** Resolves once the pollable is ready. With a signal, rejects once that is aborted. `held` gets what ends the wait before. */
export function ready(pollable, signal, held) {
  return new Promise((resolve, reject) => {
    const leave = () => {
      if (!waiting.delete(wait)) return;
      signal?.removeEventListener('abort', stop);
      pollable[Symbol.dispose]();
    };
    const wait = { pollable, done: () => (leave(), resolve()) };
    const stop = () => (leave(), reject(signal.reason));
    waiting.add(wait);
    held?.(wait.done);
    signal?.addEventListener('abort', stop);
    if (signal?.aborted) stop();
  });
}
