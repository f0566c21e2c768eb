import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, test } from 'node:test';

import * as sdk from '../index.js';
import { formatted } from '../console.js';
import * as testing from '../testing.js';

const { t, tool, toolkit, ToolError } = sdk;
beforeEach(() => testing.reset());

/** Calls a tool whose `run` is given. */
const run = (body, input = {}, more = {}) => {
  const kit = toolkit('test', [tool({ name: 'it', description: 'It.', input: {}, run: body, ...more })]);
  return testing.call(kit, 'it', input);
};

const failure = (body, ...rest) => {
  try {
    run(body, ...rest);
  } catch (error) {
    return error;
  }
  return assert.fail('nothing was thrown');
};

test('a declaration is made of the definition', () => {
  const kit = toolkit('text', [
    tool({
      name: 'find',
      description: 'Finds.',
      input: {
        where: t.list(t.path('A file.'), 'Files.', { minItems: 1 }),
        what: t.object({ text: t.string(), 'a/b': t.optional(t.url()) }),
        how: t.optional(t.choice(['exact', 'loose']), 'exact'),
      },
      output: { lines: t.list(t.integer()) },
      access: ['file_read', 'network'],
      isReadOnly: true,
      timeoutMs: 500,
      run: () => ({ lines: [] }),
    }),
  ]);
  assert.deepEqual(testing.describe(kit), {
    namespace: 'text',
    tools: [
      {
        name: 'find',
        description: 'Finds.',
        input: {
          type: 'object',
          properties: {
            where: { type: 'array', items: { type: 'string', description: 'A file.' }, description: 'Files.', minItems: 1 },
            what: {
              type: 'object',
              properties: { text: { type: 'string' }, 'a/b': { type: 'string' } },
              required: ['text'],
              additionalProperties: false,
            },
            how: { type: 'string', enum: ['exact', 'loose'], default: 'exact' },
          },
          required: ['where', 'what'],
          additionalProperties: false,
        },
        output: {
          type: 'object',
          properties: { lines: { type: 'array', items: { type: 'integer' } } },
          required: ['lines'],
          additionalProperties: false,
        },
        paths: ['/where/*'],
        urls: ['/what/a~1b'],
        access: ['file_read', 'network'],
        is_read_only: true,
        timeout_ms: 500,
      },
    ],
  });
});

test('a URL needs no network if the tool reaches none', () => {
  const described = (more) => testing.describe(toolkit('x', [tool({ name: 'it', description: 'It.', input: { at: t.url() }, run: () => '', ...more })])).tools[0];
  assert.deepEqual([described({}).urls, described({}).access], [undefined, undefined]);
  assert.deepEqual(described({ access: ['network'] }).urls, ['/at']);
});

test('console writes what JSON lacks, and takes places in its text', () => {
  const circular = { a: [1] };
  circular.self = circular;
  const cases = [
    [[NaN, [undefined, -0], 5n], 'NaN [undefined,-0] 5n'],
    [[new Map([['a', { b: 1 }]]), new Set(['x'])], 'Map {"a" => {"b":1}} Set {"x"}'],
    [['%s has %d of %i%%: %j', 'it', '4', 2.7, { a: 'b' }, 'more'], 'it has 4 of 2%: {"a":"b"} more'],
    [['100%', 1], '100% 1'],
    [['%s'], '%s'],
    [[circular], '{"a":[1],"self":[circular]}'],
    [[new TypeError('x'), null, Symbol('s'), new Date(0), Uint8Array.of(7)], 'TypeError: x null Symbol(s) 1970-01-01T00:00:00.000Z [7]'],
    [[{ get a() { throw new Error(); } }], '[object]'],
    [[Array(1000).fill(0)], `[${'0,'.repeat(100)}..]`],
  ];
  for (const [values, line] of cases) assert.equal(formatted(values), line);
});

test('an object that is thrown says what it has', () => {
  const thrown = (value) => failure(() => {
    throw value;
  });
  assert.deepEqual([thrown({ code: 'E1', message: 'no disk' }).message, thrown({ code: 7 }).message], ['no disk', '{"code":7}']);
  assert.match(thrown({ code: 'E1', message: 'no disk' }).detail, /"code":"E1"/);
});

test('a path or a URL in a map is refused, because no pointer names it', () => {
  const describe = (input, output) => testing.describe(toolkit('x', [tool({ name: 'it', description: 'It.', input, output, run: () => '' })]));
  for (const values of [t.path(), t.list(t.url()), t.object({ a: t.path() })]) {
    const refused = /^TypeError: \/at: (paths|urls) in a map cannot be declared: use a list/;
    assert.throws(() => describe({ at: t.optional(t.map(values)) }), refused);
    describe({}, { at: t.map(values) });
  }
  assert.equal(describe({ at: t.map(t.string()) }).tools[0].paths, undefined);
});

test('results of every kind', () => {
  assert.equal(run(() => 'text'), 'text');
  assert.deepEqual(run(() => ({ a: [1] })), { a: [1] });
  assert.deepEqual(run(() => undefined), { content: [] });
  const parts = { content: [{ type: 'text', text: 'x' }], structured: { a: 1 }, summary: 'one' };
  assert.deepEqual(run(() => sdk.output(parts)), parts);
  const { content, error } = run(() => sdk.partial('half', new ToolError('rest_missing', 'no rest')));
  assert.deepEqual(content, [{ type: 'text', text: 'half' }]);
  assert.equal(error.code, 'rest_missing');
});

test('a default is filled in', () => {
  const input = { n: t.optional(t.integer(), 3), inner: t.object({ m: t.optional(t.integer(), 4) }) };
  assert.equal(run(({ n, inner }) => `${n} ${inner.m}`, { inner: {} }, { input }), '3 4');
  assert.equal(run(({ n, inner }) => `${n} ${inner.m}`, { n: 0, inner: { m: 0 } }, { input }), '0 0');
});

test('a failure keeps what the tool says of it', () => {
  const thrown = new ToolError('too_much', 'too much', { class: 'rate_limited', detail: 'd', retryAfterMs: 9 });
  const found = failure(() => {
    throw thrown;
  });
  assert.deepEqual({ ...found }, { ...thrown });
  assert.equal(failure(() => {
    throw new ToolError('odd', 'odd', { class: 'of_tomorrow' });
  }).class, 'of_tomorrow');
});

test('an exception becomes a failure with its stack in the detail', () => {
  const found = failure(() => null.x);
  assert.equal(found.code, 'exception');
  assert.match(found.message, /^TypeError: /);
  assert.match(found.detail, /toolkit\.test\.js/);
});

test('an unknown tool is refused', () => {
  assert.throws(() => testing.call(toolkit('test', []), 'none', {}), { code: 'no_such_tool', class: 'invalid_arguments' });
});

test('progress, log and partial results are recorded', () => {
  run(() => {
    sdk.progress('half', 50);
    sdk.progress({ lineCount: 3 });
    sdk.log.warn('odd', { n: 1 });
    sdk.log.debug('plain');
    sdk.modifyContext('branch', { name: 'fix' });
    return sdk.partialResult([{ type: 'text', text: 'x' }]);
  });
  assert.deepEqual(testing.progress(), [{ message: 'half', percent: 50 }, { lineCount: 3 }]);
  assert.deepEqual(testing.logs(), [{ level: 'warn', message: 'odd', fields: { n: 1 } }, { level: 'debug', message: 'plain' }]);
  assert.deepEqual(testing.partials(), [[{ type: 'text', text: 'x' }]]);
  assert.deepEqual(testing.contextModifiers(), { branch: { name: 'fix' } });
});

test('a stop ends a tool at its next checkpoint', () => {
  testing.cancel('timeout', 100);
  const found = failure(() => {
    for (;;) {
      sdk.checkpoint();
      sdk.sleep(60);
    }
  });
  assert.deepEqual([found.class, found.message], ['canceled', 'the call was canceled: timeout']);
  assert.deepEqual([testing.slept(), testing.acknowledged()], [120, true]);
});

test('a question gets the answer of the test, and is an error of the test without one', () => {
  const ask = () => {
    sdk.remember({ n: 1 });
    return `${sdk.accepted(sdk.ask('who', 'Who?', { name: t.string() })).name} ${sdk.remembered()?.n}`;
  };
  assert.throws(() => run(ask), /the tool asks "Who\?"; a test answers with testing\.respond\("who", \.\.\)/);
  testing.respond('who', { name: 'Ada' });
  testing.resumeWith({ n: 41 });
  assert.equal(run(ask), 'Ada 41');
  testing.respond('who', 'decline');
  assert.deepEqual([failure(ask).class, failure(ask).code], ['canceled', 'not_answered']);
});

test('files are read and written in the working directory', () => {
  const folder = mkdtempSync(join(tmpdir(), 'toolcell-sdk-'));
  try {
    writeFileSync(join(folder, 'a.txt'), 'größe');
    const kit = toolkit('test', [
      tool({
        name: 'copy',
        description: 'Copies.',
        input: {},
        run() {
          sdk.files.writeText('b.txt', sdk.files.readText('a.txt'));
          return { entries: sdk.files.list('.'), bytes: sdk.files.read('b.txt').length };
        },
      }),
    ]);
    const entries = ['a.txt', 'b.txt'].map((name) => ({ name, isFolder: false }));
    assert.deepEqual(testing.call(kit, 'copy', {}, { cwd: folder }), { entries, bytes: 7 });
    writeFileSync(join(folder, 'a.txt'), Uint8Array.of(0xff));
    assert.throws(() => testing.call(kit, 'copy', {}, { cwd: folder }), { code: 'not_utf8' });
    rmSync(join(folder, 'a.txt'));
    assert.throws(() => testing.call(kit, 'copy', {}, { cwd: folder }), { code: 'file_error', message: 'cannot read a.txt: ENOENT' });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('other tools are those that the test offers', () => {
  const call = () => sdk.callTool('files.list', { path: '.' });
  assert.equal(failure(call).code, 'tool_not_callable');
  testing.offer('files.list', ({ path }) => ({ names: [path] }));
  assert.deepEqual(run(() => call().structured), { names: ['.'] });
  assert.deepEqual(run(() => ({ names: sdk.callableTools().map(({ name }) => name) })), { names: ['files.list'] });
});

test('an artifact is written in chunks', () => {
  const { content } = run(() => sdk.output({ content: [sdk.artifact('a.csv', 'text/csv', ['a,', Uint8Array.of(98)])] }));
  assert.deepEqual(content, [{ type: 'artifact_ref', reference: 'toolcell:artifact/1' }]);
  const [{ bytes, isFinished }] = testing.artifacts();
  assert.deepEqual([[...bytes], isFinished], [[97, 44, 98], true]);
});

test('text that is no UTF-8 reaches the host with marks in its place, and nothing that is thrown is a crash', () => {
  const broken = 'a\ud800b';
  assert.equal(run(() => broken), 'a\ufffdb');
  // A backslash before `ud800` is text, and a pair is a character.
  const kept = { '\ud800': '\\ud800', pair: '\ud83d\ude00', escaped: '\\\ud800' };
  assert.deepEqual(run(() => kept), { '\ufffd': '\\ud800', pair: '\ud83d\ude00', escaped: '\\\ufffd' });
  assert.deepEqual(run(() => sdk.output({ structured: { broken }, summary: broken })).summary, 'a\ufffdb');
  sdk.progress(broken);
  sdk.log.info(broken, { broken });
  assert.equal(JSON.stringify([testing.progress(), testing.logs()]).includes('\\ud800'), false);
  const failed = failure(() => {
    throw new ToolError(7, broken, { detail: { toString: () => broken }, retryAfterMs: -1.5 });
  });
  assert.deepEqual([failed.code, failed.message, failed.detail, failed.retryAfterMs], ['7', 'a\ufffdb', 'a\ufffdb', 0]);
  const odd = failure(() => {
    throw Object.create(null);
  });
  assert.equal(odd.message, 'what was thrown has no text');
});

test('a tool can be asynchronous', async () => {
  const later = (value) => new Promise((resolve) => setTimeout(resolve, 1, value));
  assert.equal(await run(async () => `a ${await later('b')}`), 'a b');
  assert.deepEqual(await run(async () => ({ a: await later(1) })), { a: 1 });
  assert.equal(await run(() => ({ then: (resolve) => resolve('thenable') })), 'thenable');
  const failed = run(async () => {
    await null;
    throw new ToolError('late', 'late', { class: 'rate_limited' });
  });
  await assert.rejects(failed, { code: 'late', class: 'rate_limited' });
  await assert.rejects(run(async () => void (await later(null)).x), { code: 'exception', message: /^TypeError: / });
});

test('what nothing handles fails the call, unless a handler prevents it', async () => {
  const lost = async () => {
    Promise.reject(new RangeError('lost'));
    return 'done';
  };
  await assert.rejects(run(lost), { message: 'RangeError: lost' });
  const seen = [];
  globalThis.onunhandledrejection = (event) => {
    seen.push(event.reason.message);
    event.preventDefault();
  };
  try {
    assert.equal(await run(lost), 'done');
  } finally {
    delete globalThis.onunhandledrejection;
  }
  assert.deepEqual(seen, ['lost']);
});
