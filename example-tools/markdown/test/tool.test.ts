import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { call } from '#toolcell/testing';
import kit from '../src/tool.ts';

const of = (tool: string, text: string, input: object = {}) => {
  const folder = mkdtempSync(join(tmpdir(), 'markdown-'));
  try {
    writeFileSync(join(folder, 'a.md'), text);
    const answer = call(kit, tool, { path: 'a.md', ...input }, { cwd: folder });
    return answer.structured ?? answer;
  } finally {
    rmSync(folder, { recursive: true });
  }
};
const html = (text: string): string => call(kit, 'render', { text });
const plain = (text: string): string => call(kit, 'render', { text, to: 'text' });

test('an outline has headings with lines and anchors, and the front matter', () => {
  const text = '---\ntitle: A\ntags: [x, 1]\n---\n\n# One *two* `three`\n\ntext\n\nOne\n---\n\n## One: Größe_!\n### One\n```\n# no heading\n```\n';
  assert.deepEqual(of('outline', text), {
    front_matter: { title: 'A', tags: ['x', 1] },
    headings: [
      { level: 1, text: 'One two three', id: 'one-two-three', line: 6 },
      { level: 2, text: 'One', id: 'one', line: 10 },
      { level: 2, text: 'One: Größe_!', id: 'one-größe_', line: 13 },
      { level: 3, text: 'One', id: 'one-1', line: 14 },
    ],
    lines: 17,
  });
  assert.equal(of('outline', text, { max_level: 1 }).headings.length, 1);
});

test('front matter is what begins a file, and a wrong one leaves the headings', () => {
  assert.deepEqual(of('outline', 'text\n\n---\na: 1\n---\n'), {
    front_matter: null,
    headings: [{ level: 2, text: 'a: 1', id: 'a-1', line: 4 }],
    lines: 5,
  });
  const wrong = of('outline', '---\na: [1\n---\n# H\n');
  assert.deepEqual([wrong.front_matter, wrong.headings[0].line], [null, 4]);
  assert.match(wrong.front_matter_error, /line 2/);
  assert.deepEqual(of('outline', '---\r\na: 1\r\n...\r\n# H\r\n').front_matter, { a: 1 });
  assert.deepEqual(of('outline', ''), { front_matter: null, headings: [], lines: 0 });
  // No answer can have a value that is in itself.
  const circle = of('outline', '---\na: &a [*a]\n---\n# H\n');
  assert.deepEqual([circle.front_matter, circle.headings.length], [null, 1]);
  assert.ok(circle.front_matter_error);
  // Aliases that would grow without end are refused.
  const bomb = ['a: &a [x, x, x, x, x, x, x, x, x]', ...'bcdefghi'.split('').map((name, at) => {
    const before = 'abcdefgh'[at];
    return `${name}: &${name} [${Array(9).fill(`*${before}`).join(', ')}]`;
  })];
  assert.match(of('outline', `---\n${bomb.join('\n')}\n---\n`).front_matter_error, /alias/i);
});

test('each column of a table has a name of its own', () => {
  const { columns, rows } = of('tables', '| a_3 | a | a |\n|--|--|--|\n| 1 | 2 | 3 |\n').tables[0];
  assert.deepEqual([columns, rows], [['a_3', 'a', 'a_4'], [{ a_3: '1', a: '2', a_4: '3' }]]);
  assert.deepEqual(of('tables', '| a | a |\n|--|--|\n').tables[0].columns, ['a', 'a_2']);
});

test('tables are rows with the text of their cells', () => {
  const text = '# A\n\n| name | size |  | size |\n|--|--:|--|--|\n| [x](https://x.example) | `1` | a\\|b | 2 |\n| y |\n\n## B\n\n|n|\n|-|\n';
  assert.deepEqual(of('tables', text).tables, [
    {
      under: 'A',
      line: 3,
      columns: ['name', 'size', 'column_3', 'size_4'],
      rows: [
        { name: 'x', size: '1', column_3: 'a|b', size_4: '2' },
        { name: 'y', size: '', column_3: '', size_4: '' },
      ],
    },
    { under: 'B', line: 10, columns: ['n'], rows: [] },
  ]);
  assert.equal(of('tables', text, { under: 'B' }).tables.length, 1);
});

test('Markdown becomes HTML', () => {
  assert.equal(html('---\na: 1\n---\n# A\n\n~~b~~ **c**\n'), '<h1>A</h1>\n<p><s>b</s> <strong>c</strong></p>\n');
  assert.equal(html('[a](/b?c=d:e "t") ![i](i.png)'), '<p><a href="/b?c=d:e" title="t">a</a> <img src="i.png" alt="i"></p>\n');
  assert.match(html('```js" onload="x\n<b>\n```'), /^<pre><code class="language-js&quot;">&lt;b&gt;\n<\/code><\/pre>\n$/);
});

test('HTML that would run never passes', () => {
  for (const text of [
    '<script>alert(1)</script>',
    '<img src=x onerror=alert(1)>',
    'a <img src=x onerror=alert(1)> b',
    '<div onclick="x">\n\n<iframe src="https://x.example"></iframe>\n\n</div>',
    '[a](javascript:alert(1))',
    '[a](JavaScript&colon;alert(1))',
    '[a](java\nscript:alert(1))',
    '[a](<java&#9;script:alert(1)>)',
    '![a](data:text/html;base64,PHNjcmlwdD4=)',
    '<javascript:alert(1)>',
    '[a]: vbscript:x\n\n[a]',
    '[a](https://x.example"onmouseover="alert(1))',
    '<<script>script>alert(1)<</script>/script>',
    '<!-- --><svg/onload=alert(1)>',
  ]) {
    const made = html(text);
    for (const [tag] of made.matchAll(/<[^>]*>/g)) {
      assert.match(tag, /^<\/?(p|a|img|br|em|strong)( (href|src|alt|title)="[^"<>]*")*>$/, made);
      assert.doesNotMatch(tag, /(href|src)="(?!https?:|mailto:|tel:)[^"]*:/i, made);
    }
  }
});

test('scripts and styles within a paragraph are left out', () => {
  const of = (text: string) => html(text).trim();
  assert.equal(of('# Hi <script>alert(1)</script> you'), '<h1>Hi  you</h1>');
  assert.equal(of('a <style>b</script> {c}</style> d <STYLE>*e*'), '<p>a  d </p>');
  assert.equal(of('a <b>script</b> </script>b'), '<p>a script b</p>');
});

test('Markdown becomes plain text', () => {
  const text = `# Title

A *paragraph* with [a link](https://x.example), <https://y.example> and ![an image](i.png)
on two lines.<!-- a comment -->

- one
- two
  continued

  1. first
  2. second

> quoted
> twice

| a | b |
|---|---|
| 1 | 2 |

<div>kept <b>text</b></div>

    code
`;
  assert.equal(
    plain(text),
    `Title

A paragraph with a link (https://x.example), https://y.example and an image on two lines.

- one
- two continued
  1. first
  2. second

> quoted twice

a | b
1 | 2

kept text

code`,
  );
});

test('a text that is too long is refused', () => {
  assert.throws(() => html('x'.repeat(5_000_000)), { code: 'text_too_long', class: 'invalid_arguments' });
});
