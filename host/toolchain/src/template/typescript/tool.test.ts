import assert from 'node:assert/strict';
import { test } from 'node:test';

import { call } from '#toolcell/testing';

import kit from '../src/tool.ts';

test('words are counted', () => {
  assert.equal(call(kit, 'count', { text: 'one two' }), '2 words');
});
