// Each script must give in the tool what it gives in the engine that runs these tests.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { rewrite } from '../src/rewrite.js';
import { runScript } from '../src/script.js';

const AsyncFunction = (async () => {}).constructor;

const SCRIPTS = {
  'await in every place': `
    const get = async (x) => x
    const list = [await get(1), ...(await get([2, 3]))]
    const object = { a: await get(4), [await get('b')]: 5 }
    await get(6)
    await get(7) || list.push('never')
    if (await get(true)) await get(8); else await get(9)
    const { c = await get(10) } = {}
    return [list, object, c, -(await get(1)), \`\${await get('t')}\`, typeof await get(1), (await get({ d: 1 }))?.d, await get(2) + 1]`,
  'functions keep this, arguments and their parameters': `
    async function named(a, b = a) { var a; return [this.x, a, b, arguments.length, typeof named] }
    const bare = async x => x * 2
    const returning = async () => ({ y: 1 })
    class Counter {
      static made = 0
      #n = 5
      'x' = 1
      async ['get']() { return this.#n }
      static async make() { this.made++; return new this() }
      async #hidden() { return 'hidden' }
      async arrow() { return (async () => [this.#n, await this.#hidden()])() }
    }
    const object = { x: 7, named, async: 1, await: 2, async method(n) { return this.x + n } }
    const counter = await Counter.make()
    return [await object.named(1, 2), await bare(4), await returning(), await counter.get(), Counter.made, await counter.arrow(),
      await object.method(1), object.async + object.await]`,
  'errors go where promises send them': `
    const seen = []
    const fail = async (what) => { throw new Error(what) }
    const early = async (x = (() => { throw new Error('parameter') })()) => x
    try { await fail('a') } catch (error) { seen.push(error.message) } finally { seen.push(await 'finally') }
    seen.push(await fail('b').catch((error) => error.message), await early().catch((error) => error.message))
    const settled = await Promise.allSettled([fail('c'), 1])
    seen.push(settled[0].reason.message, settled[1].value)
    try { await Promise.any([fail('d'), fail('e')]) } catch (error) { seen.push(error.errors.map((each) => each.message)) }
    seen.push(await Promise.race([new Promise(() => {}), 2]), await Promise.any([fail('f'), 3]))
    return seen`,
  'order of jobs': `
    const seen = []
    const step = async (name) => { seen.push(name + 1); await null; seen.push(name + 2); await null; seen.push(name + 3) }
    const all = Promise.all([step('a'), step('b')])
    Promise.resolve().then(() => seen.push('then'))
    queueMicrotask(() => seen.push('job'))
    seen.push('sync')
    await all
    return seen`,
  'a promise that other code settles': `
    let open
    const gate = new Promise((resolve) => { open = resolve })
    const waiting = (async () => 'through ' + await gate)()
    open('the gate')
    return [await waiting, await { then(resolve) { resolve('thenable') } }]`,
  'async generators and for await': `
    async function* pages() { try { for (let n = 1; ; n++) { const page = await n; yield page; yield* [page * 10] } } finally { seen.push('closed') } }
    const seen = []
    outer: for await (const page of pages()) {
      for await (const { x } of [{ x: 1 }, Promise.resolve({ x: 2 })]) {
        if (x === 2) continue outer
        if (page > 2) break outer
        seen.push([page, x])
      }
    }
    const object = { async *[Symbol.asyncIterator]() { const got = yield 'first'; seen.push(got); return 'end' } }
    const steps = object[Symbol.asyncIterator]()
    seen.push(await steps.next(), await steps.next('sent'), await steps.next())
    let last
    for await (last of object);
    return [seen, last]`,
  'nothing else changes': `
    function* plain() { const got = yield 1; yield got; yield* [3] }
    const steps = plain()
    const text = 'async function await () => yield'
    const regex = /await (yield)/.test('await yield')
    label: for (const x of [1, 2]) { for (;;) continue label }
    return [steps.next().value, steps.next(2).value, [...steps], text, regex, [3, 1, 2].sort((a, b) => a - b)]`,
};

for (const [name, script] of Object.entries(SCRIPTS)) {
  test(name, async () => {
    const expected = JSON.parse(JSON.stringify(await new AsyncFunction(script)()));
    assert.deepEqual(runScript(script).value, expected);
  });
}

test('lines stay where they are', () => {
  for (const script of Object.values(SCRIPTS)) {
    assert.equal(rewrite(script).split('\n').length, script.split('\n').length);
  }
  const wide = 'for await (const x of\n  [1]\n) {\n  boom()\n}';
  assert.equal(rewrite(wide).split('\n')[3], '  boom()');
});
