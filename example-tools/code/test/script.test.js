import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { beforeEach, test } from 'node:test';

import * as testing from '#toolcell/testing';
import { ToolError } from '#toolcell';
import kit from '../src/tool.js';

beforeEach(() => {
  testing.reset();
  testing.offer('files.search', ({ pattern }) => ({ matches: [{ text: pattern, line: 1 }] }));
  testing.offer('jq.jq', ({ input }) => ({ outputs: [input], truncated: false }));
  testing.offer('say.hello', ({ name }) => `hello ${name}`);
  testing.offer('say.fail', () => {
    throw new ToolError('too_many', 'too many', { class: 'rate_limited' });
  });
});

const run = async (script, tool = 'run') => (await testing.call(kit, tool, { script })).structured;
const value = async (script, tool = 'run') => (await run(script, tool)).value;
const failure = (script, tool = 'run') =>
  run(script, tool).then(
    () => assert.fail('the script did not fail'),
    (error) => error,
  );

test('a script calls tools by any of their names and returns a value', async () => {
  const script = `
    const hits = await tools.search({ pattern: 'x' });
    const [input] = (await tools.jq({ filter: '.', input: hits.matches[0].line })).outputs;
    return [input, await tools.say.hello({ name: 'Ada' }), await tools['say.hello']({ name: 'Bob' })];`;
  assert.deepEqual(await run(script), { value: [1, 'hello Ada', 'hello Bob'], console: [], calls: 4 });
  assert.deepEqual(await value('return [Object.keys(tools), callableTools().length]'), [
    ['files.search', 'jq.jq', 'say.hello', 'say.fail'],
    4,
  ]);
  const beside = "const found = await tools.jq({ input: 2 }); return [found, typeof found.text, found.content.length]";
  assert.deepEqual(await value(beside), [{ outputs: [2], truncated: false }, 'string', 0]);
});

test('the failure of a call is an exception with class and code', async () => {
  const script = "try { await tools.fail() } catch (error) { return [error.class, error.code, error.tool, error.message] }";
  assert.deepEqual(await value(script), ['rate_limited', 'too_many', 'say.fail', 'too many']);
  const thrown = await failure('console.log("before");\n\nawait tools.say.fail()');
  assert.equal(thrown.code, 'script_failed');
  assert.equal(thrown.message, 'ToolError: too many [rate_limited/too_many] (line 3)\nconsole:\nbefore');
});

test('a tool that was not offered is refused, and a name of two tools names both', async () => {
  assert.match((await failure('await tools.files.delete({})')).message, /no tool files\.delete .*\[permission_denied\/tool_not_callable\]/);
  testing.offer('other.search', () => 'x');
  assert.match((await failure('await tools.search({})')).message, /call one of files\.search, other\.search/);
  assert.equal(await value("return (await tools.files.search({ pattern: 'y' })).matches[0].text"), 'y');
});

test('many calls take one script, in order', async () => {
  const script = `
    const names = Array.from({ length: 20 }, (_, n) => \`n\${n}\`);
    const answers = await Promise.all(names.map(async (name) => (await tools.hello({ name })).length));
    let sum = 0;
    for (const name of names) sum += (await tools.hello({ name })).length;
    return [answers.reduce((a, b) => a + b), sum];`;
  assert.deepEqual(await run(script), { value: [170, 170], console: [], calls: 40 });
});

test('what a script prints is bounded', async () => {
  const some = await run('console.log("a", { b: 1 }, [undefined], new TypeError("x"), 1n); console.warn(new Map([[1, 2]])); return 1');
  assert.deepEqual(some.console, ['a {"b":1} [null] TypeError: x 1', 'warn: {"1":2}']);
  const lines = (await run('for (let n = 0; n < 500; n++) console.log(n)')).console;
  assert.deepEqual([lines.length, lines.at(-1).startsWith('(300 more lines were dropped')], [201, true]);
  const [line, note] = (await run("console.log('x'.repeat(1e6)); console.log('y')")).console;
  assert.ok(line.length < 20_000 && note.startsWith('(1 more'));
});

test('the value is JSON', async () => {
  assert.equal(await value(''), null);
  assert.equal(await value('1 + 1'), 2);
  assert.equal(await value('async function main() { return 3 }\nmain()'), 3);
  assert.equal(await value('(async () => { return await Promise.resolve(4) })();'), 4);
  assert.deepEqual(await value('return { set: new Set([1]), map: new Map([["a", 1n]]), none: undefined }'), { set: [1], map: { a: '1' } });
  assert.equal((await failure('const a = {}; a.a = a; return a')).code, 'not_json');
  assert.match((await failure('return { hits: tools.search({}) }')).message, /^"hits" of the value .* await it/);
});

test('a script that is not JavaScript or does not end is told so', async () => {
  const syntax = await failure('const a = ;');
  assert.deepEqual([syntax.class, syntax.code], ['invalid_arguments', 'script_syntax']);
  assert.match(syntax.message, /\(1:10\)/);
  assert.equal((await failure("import fs from 'fs'")).code, 'script_syntax');
  assert.match((await failure("obj.import; await import('fs')")).message, /a script has no modules \(1:18\)/);
  assert.equal((await failure('await new Promise(() => {})')).code, 'never_settled');
  assert.match((await failure('let a;\na.b')).message, /^TypeError: .* \(line 2\)$/);
  assert.match((await failure('async function f() {\n  null.x\n}\n\nawait f()')).message, /\(line 2\)$/);
});

test('promises are those of the engine', async () => {
  const script = `
    class Base { async name(...args) { return [this.constructor.name, args.length] } }
    class Made extends Base {
      #n = 5;
      async name() { return [await super.name(...arguments), new.target, await (async () => [this.#n, arguments.length])()] }
    }
    async function* pages() { for (let n = 1; n < 3; n++) yield await n }
    const seen = [];
    for await (const page of pages()) seen.push(page);
    const settled = await Promise.allSettled([Promise.reject(new Error('a')), 1]);
    return [await new Made().name(1, 2), seen, settled[0].reason.message, await Array.fromAsync?.(pages()) ?? seen];`;
  assert.deepEqual(await value(script), [[['Made', 2], null, [5, 2]], [1, 2], 'a', [1, 2]]);
});

test('fetch is there in scripts of run_online alone', async () => {
  const server = createServer((request, response) => response.end(`hello ${request.url}`)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    const script = `const names = ['a', 'b'];
      return Promise.all(names.map(async (name) => (await fetch('http://127.0.0.1:${server.address().port}/' + name)).text()))`;
    assert.deepEqual(await value(script, 'run_online'), ['hello /a', 'hello /b']);
    assert.match((await failure(script)).message, /^TypeError: fetch is there in scripts of run_online alone/);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test('a failure that nothing awaits is told on the console', async () => {
  const { console } = await run('tools.fail(); await Promise.allSettled([tools.fail()]); return 1');
  assert.deepEqual(console, ['warn: nothing awaited a promise that failed: ToolError: too many [rate_limited/too_many]']);
});

test('timers pass the time of the call', async () => {
  const script = `
    const seen = [];
    setTimeout(() => seen.push('late'), 50);
    setTimeout(() => seen.push('early'), 20);
    clearTimeout(setTimeout(() => seen.push('never'), 30));
    await new Promise((resolve) => setTimeout(resolve, 60));
    return seen;`;
  assert.deepEqual(await value(script), ['early', 'late']);
  assert.match((await failure('setTimeout(() => { throw new RangeError("late") }, 5); await null')).message, /^RangeError: late/);
});

test('the engine has its own globals again', async () => {
  await failure('throw 1');
  assert.equal(typeof globalThis.tools, 'undefined');
  assert.ok((async () => {})() instanceof Promise);
});
