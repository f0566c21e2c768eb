import {
  ToolError, accepted, artifact, ask, checkpoint, environment, files, log, modifyContext, output, partial, progress, remember, remembered, sleep, t, tool, toolkit,
} from '#toolcell';

const speak = tool({
  name: 'speak',
  description: 'Says what a tool can say.',
  input: { mode: t.choice(['progress', 'log', 'random', 'context', 'partial', 'output', 'bytes', 'broken']), times: t.optional(t.integer(), 3), link: t.optional(t.url()) },
  run({ mode, times }, { attempt }) {
    switch (mode) {
      case 'progress':
        for (let n = 1; n <= times; n++) progress({ message: `step ${n}`, percent: (100 * n) / times, lineCount: n });
        return 'done';
      case 'log':
        log.warn('odd', { n: 1 });
        console.log('hello', { a: 1 }, new TypeError('x'), '✓');
        console.log('%s of', 'all', NaN, new Map([['k', undefined]]));
        return 'logged';
      case 'random':
        return { numbers: [Math.random(), Math.random()], id: crypto.randomUUID() };
      case 'context':
        modifyContext('branch', { name: 'fix' });
        return `attempt ${attempt}`;
      case 'partial':
        return partial('half', new ToolError('rest_missing', 'the rest is missing', { class: 'partial_failure' }));
      case 'output': {
        const content = [{ type: 'text', text: 'block' }, artifact('a.csv', 'text/csv', ['a,', 'ö\n'])];
        return output({ content, structured: { a: 1 }, summary: 'one line' });
      }
      case 'broken':
        return 'a\ud800o';
      case 'bytes':
        return new TextDecoder().decode(new TextEncoder().encode('größe €😀'));
    }
  },
});

const variable = tool({
  name: 'variable',
  description: 'Reads an environment variable.',
  input: {},
  environment: ['HOME'],
  run: () => `${environment('HOME')} ${environment('PATH')}`,
});

const fail = tool({
  name: 'fail',
  description: 'Fails.',
  input: { how: t.choice(['error', 'bug', 'object']) },
  run({ how }) {
    if (how === 'error') throw new ToolError('slow_down', 'slow down', { class: 'rate_limited', retryAfterMs: 60000 });
    if (how === 'object') throw { code: 'E1', message: 'no disk' };
    return (null as unknown as { x: string }).x;
  },
});

const square = tool({
  name: 'square',
  description: 'Squares a number.',
  input: { n: t.integer() },
  output: { square: t.integer() },
  run: ({ n }) => ({ square: n === 13 ? ('unlucky' as unknown as number) : n * n }),
});

const greet = tool({
  name: 'greet',
  description: 'Asks for a name.',
  input: {},
  run() {
    const before = remembered<{ n: number }>();
    remember({ n: 41 });
    const { name } = accepted(ask('who', 'Who are you?', { name: t.string('Your name.') }));
    return `hello ${name}, ${before?.n}`;
  },
});

const copy = tool({
  name: 'copy',
  description: 'Copies a file in a folder.',
  input: { folder: t.path('The folder.') },
  access: ['file_read', 'file_write'],
  run({ folder }) {
    files.writeText(`${folder}/b.txt`, files.readText(`${folder}/sub/../a.txt`));
    return { names: files.list(folder).map(({ name, isFolder }) => (isFolder ? `${name}/` : name)) };
  },
});

const wait = tool({
  name: 'wait',
  description: 'Waits until it is stopped.',
  input: {},
  run() {
    for (;;) {
      checkpoint();
      sleep(20);
    }
  },
});

// More of each than a call may hold.
const often = tool({
  name: 'often',
  description: 'Uses files, folders and waits many times.',
  input: { folder: t.path('The folder.') },
  access: ['file_read', 'file_write'],
  run({ folder }) {
    let read = 0;
    for (let n = 0; n < 300; n++) {
      files.writeText(`${folder}/c.txt`, `${n}`);
      read += files.readText(`${folder}/c.txt`).length;
    }
    for (let n = 0; n < 300; n++) files.list(folder);
    const began = performance.now();
    for (let n = 0; n < 1100; n++) sleep(0.001);
    return { read, isLater: performance.now() >= began, word: atob(btoa('word')) };
  },
});

const texts = tool({
  name: 'texts',
  description: 'Writes and reads long and broken texts.',
  input: { folder: t.path('The folder.') },
  access: ['file_read', 'file_write'],
  run({ folder }) {
    const file = `${folder}/d.txt`;
    const long = `${'x'.repeat(99)}ö`.repeat(20_000);
    files.writeText(file, long);
    const isSame = files.readText(file) === long;
    const parted = [0, 1, 2, 3, 4].filter((n) => {
      const text = `${'x'.repeat(65_536 - n)}€😀${'ü'.repeat(70_000)}`;
      return new TextDecoder().decode(new TextEncoder().encode(text)) === text;
    });
    const broken = [[0xc0, 0x80], [0xed, 0xa0, 0x80], [0x78, 0xe2, 0x82], [0xf4, 0x90, 0x80, 0x80], Array(70_000).fill(0x80)];
    const codes = broken.map((bytes) => {
      files.write(file, Uint8Array.from(bytes));
      try {
        return files.readText(file);
      } catch (error) {
        return (error as ToolError).code;
      }
    });
    return { isSame, parted, codes };
  },
});

export default toolkit('many', [speak, variable, fail, square, greet, copy, wait, often, texts]);
