import { output, t, tool, toolkit } from '#toolcell';
import { runScript } from './script.js';

const DESCRIPTION = `Runs JavaScript that calls other tools. Use it to make many calls in one turn.
await tools.NAME({..}) calls a tool by the name you know, such as tools.search({pattern: 'x'}), and gives its structured value, whose \
.text is the text beside it, or else its text. A failed call throws an error with class, code and message. Loops, functions, Promise.all, try and catch work as usual; \
calls run one after another. The result is the return value as JSON, plus console.log output. There are no modules and no \
file APIs: use tools instead. callableTools() lists them.`;

const script = {
  script: t.string('The body of an async function: statements, with await and return.', { minLength: 1, maxLength: 200_000 }),
};

const answer = {
  value: t.json({}, 'What the script returned; null if it returned nothing.'),
  console: t.list(t.string(), 'The lines that it printed.'),
  calls: t.integer('How many calls of tools it made, failed ones included.', { minimum: 0 }),
};

async function running(script, globals) {
  const ran = await runScript(script, globals);
  const value = typeof ran.value === 'string' ? ran.value : JSON.stringify(ran.value);
  const content = [{ type: 'text', text: value }];
  if (ran.console.length > 0) content.push({ type: 'text', text: `console:\n${ran.console.join('\n')}` });
  return output({ content, structured: ran });
}

/** The same tool with more or less that the tools it calls may do: they get no more than it has itself. */
const variant = (name, title, limits, facts, globals = {}) =>
  tool({
    name,
    title,
    description: `${DESCRIPTION}\n${limits}`,
    searchHint: 'JavaScript code script orchestrate batch loop call tools',
    input: script,
    output: answer,
    toolCalls: ['*'],
    contentTypes: ['text'],
    run: ({ script }) => running(script, { ...WEB, fetch: offline, ...globals }),
    ...facts,
  });

/** Named here, because a component has no global of browsers that its sources do not name. */
const WEB = { AbortController, AbortSignal, Headers, Request, Response, TextDecoder, TextEncoder, URL, URLSearchParams };

async function offline() {
  throw new TypeError('fetch is there in scripts of run_online alone');
}

// A folder for drafts, which no script reaches, stands for the access to files: so the tool runs with no folder granted too.
const reading = { access: ['file_read', 'file_write'], writeEffects: ['local_draft'] };

export default toolkit('code', [
  variant('run', 'Run a script', 'Called tools can read granted files and change nothing.', {
    ...reading,
    isReadOnly: true,
  }),
  variant(
    'run_online',
    'Run a script that sends requests',
    'fetch() and tools that it calls may send requests, and tools read files, where that was granted.',
    { access: [...reading.access, 'network'], writeEffects: reading.writeEffects, networkScope: 'any' },
    { fetch },
  ),
  variant('run_writing', 'Run a script that changes files', 'Tools that it calls may read and change files where that was granted.', {
    access: ['file_read', 'file_write'],
    writeEffects: ['local_persistent'],
  }),
]);
