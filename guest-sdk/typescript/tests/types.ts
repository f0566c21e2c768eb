// Compiled by `tsc --strict` and never run: each line that must not compile says so.
import { ask, output, t, tool, toolkit, type InferObject } from '../index.js';

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <A, B>(isSame: Equal<A, B>): void => void isSame;

const shape = {
  text: t.string(),
  kind: t.choice(['a', 'b']),
  count: t.optional(t.integer()),
  limit: t.optional(t.integer(), 3),
  inner: t.object({ list: t.list(t.number()), map: t.map(t.boolean()), none: t.nullable(t.string()) }),
};
same<
  InferObject<typeof shape>,
  {
    text: string;
    kind: 'a' | 'b';
    limit: number;
    inner: { list: number[]; map: Record<string, boolean>; none: string | null };
    count?: number;
  }
>(true);

const whole = tool({
  name: 'whole',
  description: 'Whole.',
  input: shape,
  output: { n: t.integer() },
  run({ text, kind, count, limit }, { attempt, cwd }) {
    same<typeof kind, 'a' | 'b'>(true);
    same<typeof count, number | undefined>(true);
    same<typeof cwd, string | undefined>(true);
    // @ts-expect-error: no number
    text.toFixed();
    return { n: limit + (count ?? 0) + attempt };
  },
});

// @ts-expect-error: a text where a number is declared
tool({
  name: 'wrong_output',
  description: 'Wrong.',
  input: {},
  output: { n: t.integer() },
  run: () => ({ n: 'one' }),
});

tool({ name: 'parts', description: 'Parts.', input: {}, output: { n: t.integer() }, run: () => output({ structured: { n: 1 } }) });
tool({ name: 'nothing', description: 'Nothing.', input: {}, run: () => {} });

tool({ name: 'late', description: 'Late.', input: {}, run: async () => 'late' });
tool({ name: 'late_value', description: 'Late.', input: {}, output: { n: t.integer() }, run: async () => ({ n: 1 }) });
// @ts-expect-error: a promise of a number
tool({ name: 'late_number', description: 'Late.', input: {}, run: async () => 1 });
// @ts-expect-error: a promise of something else than what is declared
tool({ name: 'late_text', description: 'Late.', input: {}, output: { n: t.integer() }, run: async () => ({ n: 'one' }) });

tool({
  name: 'fetches',
  description: 'Fetches.',
  input: { url: t.url() },
  async run({ url }) {
    const signal = AbortSignal.any([AbortSignal.timeout(1000), new AbortController().signal]);
    const { ok, body, headers } = await fetch(new URL('/x', url), { method: 'POST', body: new URLSearchParams({ a: 'b' }), signal });
    for await (const chunk of body ?? []) same<typeof chunk, Uint8Array>(true);
    clearTimeout(setTimeout((text: string) => void text, 10, 'text'));
    return { ok, type: headers.get('content-type') };
  },
});
// @ts-expect-error: an unknown fact
tool({ name: 'odd', description: 'Odd.', input: {}, isReadonly: true, run: () => 'odd' });
// @ts-expect-error: not one of the choices
t.optional(t.choice(['a', 'b']), 'c');

const answer = ask('who', 'Who?', { name: t.string() });
if (answer.action === 'accept') same<typeof answer.content, { name: string }>(true);

export default toolkit('types', [whole]);
