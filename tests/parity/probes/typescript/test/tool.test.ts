import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tmpdir } from 'node:os';

import * as testing from '#toolcell/testing';

import kit from '../src/tool.ts';

const call = (name, input = {}, context = {}) => testing.call(kit, name, input, context);

test('defaults', async () => {
  testing.reset();
  const made = await call('order', { name: 'a', tags: [], parts: [], place: { street: 's' }, labels: {}, extra: null, note: null });
  assert.deepEqual([made.size, made.count, made.place], ['small', 1, { street: 's', floor: 0 }]);
});

test('a stop', async () => {
  testing.reset();
  testing.cancel('timeout');
  assert.deepEqual(await call('wait'), { stopped: 'timeout' });
  assert.equal(testing.acknowledged(), true);
});

test('answers', async () => {
  testing.reset();
  for (const [key, content] of [['who', { name: 'Ada' }], ['sure', { yes: true }], ['last', { n: 3 }]]) testing.respond(key, content);
  testing.resumeWith('s');
  assert.equal(await call('ask'), 'Ada true 3 s');
});

test('the context and other tools', async () => {
  testing.reset();
  const scratch = tmpdir();
  assert.equal((await call('look', { path: `${process.cwd()}/package.json` }, { scratch, cwd: '/c' })).cwd, '/c');
  testing.offer('other.one', () => ({ n: 7 }));
  assert.deepEqual(await call('relay', { tool: 'other.one', input: {} }), { answer: { n: 7 }, callable: true });
});

test('checks, facts and settings', async () => {
  testing.reset();
  assert.throws(() => testing.check(kit, 'even', { n: 3 }), { code: 'odd' });
  assert.deepEqual(testing.classify(kit, 'touch', { change: true }), { isReadOnly: false });
  testing.configure({ unit: 'mile' });
  assert.equal(await call('setting'), 'mile');
});
