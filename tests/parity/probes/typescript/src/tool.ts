import {
  ToolError, acknowledge, artifact, accepted, ask, askAll, callTool, callableTools, configuration, environment, files, log, modifyContext, output,
  partial, partialResult, progress, remember, remembered, t, tool, toolkit, wait as waitFor,
} from '#toolcell';

const order = {
  name: t.string('Who orders.', { pattern: '^[a-z]+$' }),
  size: t.optional(t.choice(['small', 'large']), 'small'),
  count: t.optional(t.integer(undefined, { minimum: 1, maximum: 10 }), 1),
  ratio: t.optional(t.number(undefined, { minimum: 0, maximum: 1 }), 0.5),
  urgent: t.optional(t.boolean(), false),
  tags: t.list(t.string()),
  parts: t.list(t.object({ label: t.string(), weight: t.number(undefined, { minimum: 0 }) })),
  place: t.object({ street: t.string(), floor: t.optional(t.integer(), 0) }),
  labels: t.map(t.integer()),
  extra: t.json(),
  note: t.nullable(t.string()),
  hint: t.optional(t.string()),
};

const settings = configuration({ unit: t.optional(t.string(), 'none') });

export default toolkit('parity', [
  tool({ name: 'order', description: 'Answers an order.', input: order, output: order, run: (input) => input }),
  tool({
    name: 'say',
    description: 'Answers JSON.',
    input: { text: t.string() },
    run: ({ text }) => ({ text, list: [1, 2.5, true, null], inner: { 'a"b': 'c\\d' } }),
  }),
  tool({
    name: 'blocks',
    description: 'Answers blocks.',
    input: { half: t.optional(t.boolean(), false) },
    run({ half }) {
      const made = output({ content: [{ type: 'text', text: 'block' }], structured: { a: 1 }, summary: 'one line' });
      return half ? partial(made, new ToolError('rest_missing', 'the rest is missing', { class: 'partial_failure' })) : made;
    },
  }),
  tool({
    name: 'fail',
    description: 'Fails.',
    input: {},
    run() {
      throw new ToolError('slow_down', 'slow down', { class: 'rate_limited', detail: 'why', retryAfterMs: 60000 });
    },
  }),
  tool({
    name: 'look',
    description: 'Reads a file.',
    input: { path: t.path() },
    access: ['file_read', 'file_write'],
    writeEffects: ['local_draft'],
    run({ path }, { cwd, scratch, attempt }) {
      const text = files.readText(path);
      files.writeText(`${scratch}/draft`, text);
      return { text, draft: files.readText(`${scratch}/draft`), cwd: cwd ?? null, attempt };
    },
  }),
  tool({
    name: 'variable',
    description: 'Reads a variable.',
    input: {},
    environment: ['PARITY'],
    run: () => environment('PARITY') ?? '',
  }),
  tool({
    name: 'report',
    description: 'Reports.',
    input: {},
    run() {
      progress('half', 50);
      progress({ message: 'all', percent: 100, currentStep: 'last', totalSteps: 2, bytesRead: 3, bytesWritten: 4, lineCount: 5 });
      partialResult([{ type: 'text', text: 'early' }]);
      log.warn('odd', { n: 1 });
      return 'reported';
    },
  }),
  tool({
    name: 'wait',
    description: 'Waits for a stop.',
    input: {},
    run() {
      const reason = waitFor(60000);
      if (reason !== undefined) acknowledge();
      return { stopped: reason?.replaceAll('-', '_') ?? null };
    },
  }),
  tool({
    name: 'ask',
    description: 'Asks.',
    input: {},
    run() {
      const state = remembered() ?? '';
      remember('one');
      const [who, sure] = askAll([
        { key: 'who', message: 'Who?', form: { name: t.string() } },
        { key: 'sure', message: 'Sure?', form: { yes: t.boolean() } },
      ]);
      remember(`${state} two`);
      const { n } = accepted(ask('last', 'How many?', { n: t.integer() }));
      return `${accepted(who).name} ${accepted(sure).yes} ${n} ${state}`;
    },
  }),
  tool({
    name: 'keep',
    description: 'Keeps a file.',
    input: {},
    run: () => output({ content: [artifact('rows.csv', 'text/csv', ['a,b\n', 'x'.repeat(1500000), '\nend\n'])] }),
  }),
  tool({
    name: 'mark',
    description: 'Changes the context.',
    input: {},
    run() {
      modifyContext('branch', { name: 'fix' });
      return 'marked';
    },
  }),
  tool({
    name: 'fetch',
    description: 'Sends a request.',
    input: { url: t.url() },
    access: ['network'],
    writeEffects: ['remote_mutation'],
    async run({ url }) {
      const response = await fetch(url, { method: 'POST', headers: { 'x-probe': 'yes' }, body: 'ping' });
      return { status: response.status, body: await response.text() };
    },
  }),
  tool({
    name: 'relay',
    description: 'Calls a tool.',
    input: { tool: t.string(), input: t.object({ a: t.optional(t.json()) }) },
    toolCalls: ['*'],
    run: ({ tool, input }) => ({ answer: callTool(tool, input).structured, callable: callableTools().length > 0 }),
  }),
  tool({ name: 'setting', description: 'Says its setting.', input: {}, run: () => settings().unit }),
  tool({
    name: 'even',
    description: 'Takes even numbers.',
    input: { n: t.integer() },
    check({ n }) {
      if (n % 2 !== 0) throw new ToolError('odd', `${n} is odd`, { class: 'invalid_arguments' });
    },
    preflight({ n }) {
      if (n === 0) throw new ToolError('not_ready', 'not for 0', { class: 'setup_required' });
    },
    run: ({ n }) => `${n}`,
  }),
  tool({
    name: 'touch',
    description: 'Says whether it changes things.',
    input: { change: t.boolean() },
    access: ['file_read', 'file_write'],
    classify: ({ change }) => ({ isReadOnly: !change }),
    run: () => 'touched',
  }),
]);
