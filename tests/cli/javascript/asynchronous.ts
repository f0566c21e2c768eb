import { t, tool, toolkit } from '#toolcell';

const wait = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

const runs: Record<string, (url: string) => unknown> = {
  async order() {
    const seen: string[] = [];
    setTimeout(() => seen.push('late'), 60);
    setTimeout((word: string) => seen.push(word), 20, 'early');
    clearTimeout(setTimeout(() => seen.push('never'), 30));
    const every = setInterval(() => {
      if (seen.push('tick') === 4) clearInterval(every);
    }, 1);
    queueMicrotask(() => seen.push('job'));
    Promise.resolve().then(() => seen.push('then'));
    seen.push('now');
    await wait(100);
    return { seen };
  },
  async unhandled() {
    (async () => {
      throw new RangeError('lost');
    })();
    await wait(1000);
    return 'not reached';
  },
  async timer() {
    setTimeout(() => {
      throw new RangeError('of a timer');
    }, 1);
    await wait(1000);
    return 'not reached';
  },
  async handled() {
    const late = Promise.reject(new Error('late'));
    let caught = 0;
    for (let n = 0; n < 20_000; n++) await (async () => { throw new Error(`${n}`); })().catch(() => caught++);
    await late.catch(() => caught++);
    return { caught };
  },
  never: () => new Promise(() => {}),
  async spin() {
    for (;;) await null;
  },
  /** Of a function that does not wait, what it begins ends with the call. */
  forgotten() {
    setTimeout(() => console.log('never'), 1);
    return 'at once';
  },
  async together(url) {
    const texts = await Promise.all([1, 2, 3].map(async (n) => (await fetch(`${url}?${n}`)).text()));
    return { texts };
  },
  async one(url) {
    const { status, ok, redirected, headers, url: at, ...rest } = await fetch(url);
    return { status, ok, redirected, at: new URL(at).pathname, made: headers.get('x-made'), rest: Object.keys(rest).length };
  },
  async text(url) {
    return (await fetch(url)).text();
  },
  async post(url) {
    const response = await fetch(url, { method: 'POST', body: `${'x'.repeat(500_000)}.`, headers: { 'x-one': '1' } });
    return response.json();
  },
  async pieces(url) {
    const decoder = new TextDecoder();
    let [text, count] = ['', 0];
    for await (const piece of (await fetch(url)).body!) {
      text += decoder.decode(piece, { stream: true });
      count += 1;
    }
    return { text, isMany: count > 1 };
  },
  async first(url) {
    for await (const piece of (await fetch(url)).body!) return `${piece.length > 0}`;
  },
  /** While it waits for the next piece, another one gives up. */
  async canceled(url) {
    const reader = (await fetch(url)).body!.getReader();
    await reader.read();
    setTimeout(() => void reader.cancel(), 20);
    const { done } = await reader.read();
    return `${done}`;
  },
  async aborted(url) {
    const told = async (signal: AbortSignal) => {
      try {
        return await (await fetch(url, { signal })).text();
      } catch (error) {
        return (error as Error).name;
      }
    };
    const controller = new AbortController();
    setTimeout(() => controller.abort(new RangeError('enough')), 20);
    return { names: await Promise.all([told(AbortSignal.timeout(20)), told(controller.signal), told(AbortSignal.abort())]) };
  },
  async cause(url) {
    try {
      await fetch(url);
    } catch (error) {
      const { name, message, cause } = error as TypeError;
      return { name, message, code: (cause as { code?: string } | undefined)?.code ?? null };
    }
  },
};

const facts = { access: ['network'], networkScope: 'any', writeEffects: ['remote_mutation'] } as const;
const input = { how: t.string(), url: t.optional(t.string(), '') };
const run = tool({ name: 'run', description: 'Waits.', ...facts, input, run: ({ how, url }) => runs[how](url) as object });

const carry = tool({
  name: 'carry',
  description: 'Sends a request with a secret.',
  access: ['network', 'credential'],
  networkScope: 'any',
  credentialRefs: ['API_KEY'],
  input: { url: t.string() },
  run: async ({ url }) => (await fetch(url)).text(),
});

export default toolkit('waits', [run, carry]);
