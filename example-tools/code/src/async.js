// What the functions of rewrite.js stand for: `async` functions as generators, each of whose `yield`s awaits.
import { ScriptPromise } from './promise.js';

/** Runs the generator function of an `async` function. */
export function run(self, values, body) {
  return new ScriptPromise((resolve, reject) => {
    const steps = body.apply(self, values);
    const step = (how, value) => {
      let made;
      try {
        made = steps[how](value);
      } catch (error) {
        return reject(error);
      }
      if (made.done) return resolve(made.value);
      ScriptPromise.resolve(made.value).then(
        (awaited) => step('next', awaited),
        (error) => step('throw', error),
      );
    };
    step('next');
  });
}

/** What an `async` generator yields, among the values that it awaits: a value, or with `yield*` those of others. */
class Emitted {
  constructor(value) {
    this.value = value;
  }
}

class Delegated {
  constructor(items) {
    this.items = items;
  }
}

export const emit = (value) => new Emitted(value);
export const delegate = (items) => new Delegated(items);

/** The object of an `async` generator function. */
export function generator(self, values, body) {
  const steps = body.apply(self, values);
  /** What `yield*` steps through. What is sent or thrown into the generator meanwhile does not reach it. */
  let others;
  function* advance(how, value) {
    if (others && how !== 'next') {
      const left = others;
      others = undefined;
      yield left.close();
    }
    let made = others ? { value: undefined, done: false } : steps[how](value);
    while (!made.done) {
      try {
        if (made.value instanceof Emitted) return { value: yield made.value.value, done: false };
        if (made.value instanceof Delegated) others = iterate(made.value.items);
        let answer;
        if (others) {
          const step = yield others.next();
          if (!step.done) return step;
          others = undefined;
          answer = step.value;
        } else {
          answer = yield made.value;
        }
        made = steps.next(answer);
      } catch (error) {
        others = undefined;
        made = steps.throw(error);
      }
    }
    return { value: yield made.value, done: true };
  }
  let last = ScriptPromise.resolve();
  const queued = (how) => (value) => {
    const next = () => run(undefined, [how, value], advance);
    last = last.then(next, next);
    return last;
  };
  return {
    next: queued('next'),
    return: queued('return'),
    throw: queued('throw'),
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

/** What `for await` steps through. */
export function iterate(items) {
  const isAsync = items[Symbol.asyncIterator] !== undefined;
  const source = isAsync ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
  const steps = {
    isDone: false,
    next: () =>
      run(undefined, [], function* () {
        steps.isDone = true;
        const made = yield source.next();
        const value = isAsync || made.done ? made.value : yield made.value;
        steps.isDone = Boolean(made.done);
        return { value, done: steps.isDone };
      }),
    close: () => source.return?.(),
  };
  return steps;
}

/** `Array.fromAsync`. */
export const fromAsync = (items, /** @type {(value: any, at: number) => any} */ change = (value) => value) =>
  run(undefined, [], function* () {
    const found = [];
    const steps = iterate(items[Symbol.asyncIterator] || items[Symbol.iterator] ? items : Array.from(items));
    for (let made; !(made = yield steps.next()).done; ) found.push(yield change(made.value, found.length));
    return found;
  });
