import type { Progress } from "./result.js";

/** A call that was started. Iterating over it gives its progress, `result` what it comes to. */
export class RunningCall<T> implements AsyncIterable<Progress> {
  /** The result. Rejected with a ToolcellError if the call failed or was canceled. */
  readonly result: Promise<T>;
  readonly #cancel: () => void;
  readonly #updates: Progress[] = [];
  #changed: (() => void) | undefined;
  #isDone = false;

  /** @internal */
  constructor(start: (onProgress: (progress: Progress) => void) => { result: Promise<T>; cancel: () => void }) {
    const { result, cancel } = start((update) => {
      // For a caller that does not look: the oldest updates are dropped.
      if (this.#updates.length >= 1024) this.#updates.shift();
      this.#updates.push(update);
      this.#changed?.();
    });
    this.result = result;
    this.#cancel = cancel;
    const done = () => {
      this.#isDone = true;
      this.#changed?.();
    };
    result.then(done, done);
  }

  /** Asks the program to stop the call. Its result is then an error of the class `canceled`. */
  cancel(): void {
    this.#cancel();
  }

  /** What the tool says of its work, until the call ends. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Progress, void> {
    for (;;) {
      for (let update = this.#updates.shift(); update; update = this.#updates.shift()) yield update;
      if (this.#isDone) return;
      await new Promise<void>((resolve) => {
        this.#changed = resolve;
      });
    }
  }
}
