import { output, t, tool, toolkit } from '#toolcell';
import { documentOf, readDocument } from './document.ts';
import { html } from './html.ts';
import { headings, tables as tablesOf } from './outline.ts';
import { plainText } from './text.ts';

const path = t.path('The Markdown file.', { minLength: 1 });
const line = t.integer('Its first line, counted from 1.', { minimum: 1 });

const outline = tool({
  name: 'outline',
  description:
    'Lists the headings of a Markdown file with line numbers, and its YAML front matter. Use it to find the section to read in a long file.',
  searchHint: 'Markdown headings table of contents front matter YAML',
  input: {
    path,
    max_level: t.optional(t.integer('Leave out headings below this level.', { minimum: 1, maximum: 6 }), 6),
  },
  output: {
    front_matter: t.json({}, 'The front matter; null if there is none.'),
    front_matter_error: t.optional(t.string('Why the front matter cannot be read.')),
    headings: t.list(
      t.object({
        level: t.integer('1 to 6.', { minimum: 1, maximum: 6 }),
        text: t.string(),
        id: t.string('The anchor that GitHub gives it.'),
        line,
      }),
    ),
    lines: t.integer('The lines of the file.', { minimum: 0 }),
  },
  contentTypes: ['text'],
  run({ path, max_level }) {
    const { tokens, frontMatter, frontMatterError, lines } = readDocument(path);
    const found = headings(tokens).filter(({ level }) => level <= max_level);
    const shown = found.map(({ level, text, line }) => `${'  '.repeat(level - 1)}${text} (line ${line})`);
    const head = frontMatter === null ? [] : [`front matter: ${JSON.stringify(frontMatter)}`];
    if (frontMatterError !== undefined) head.push(`front matter: ${frontMatterError}`);
    const structured = {
      front_matter: frontMatter,
      ...(frontMatterError === undefined ? {} : { front_matter_error: frontMatterError }),
      headings: found,
      lines,
    };
    return output({ content: [{ type: 'text', text: [...head, ...shown].join('\n') }], structured });
  },
});

const tables = tool({
  name: 'tables',
  description: 'Reads the tables of a Markdown file as JSON: one object for each row, with the plain text of its cells.',
  searchHint: 'Markdown tables rows columns JSON',
  input: {
    path,
    under: t.optional(t.string('Only tables below the heading with this text.')),
  },
  output: {
    tables: t.list(
      t.object({
        under: t.string('The heading above it; empty if there is none.'),
        line,
        columns: t.list(t.string()),
        rows: t.list(t.map(t.string())),
      }),
    ),
  },
  run({ path, under }) {
    const found = tablesOf(readDocument(path).tokens);
    return { tables: under === undefined ? found : found.filter((table) => table.under === under) };
  },
});

const render = tool({
  name: 'render',
  description:
    'Converts Markdown to safe HTML (raw HTML becomes text; links only to http, https, mailto and tel) or to plain text. Omits front matter.',
  searchHint: 'Markdown to HTML plain text convert sanitize',
  input: {
    text: t.string('The Markdown text.'),
    to: t.optional(t.choice(['html', 'text'], 'What to make of it.'), 'html'),
  },
  contentTypes: ['text'],
  run({ text, to }) {
    const document = documentOf(text);
    return to === 'html' ? html(document) : plainText(document.tokens);
  },
});

export default toolkit('markdown', [outline, tables, render]);
