// Reads a Markdown document: its front matter, and the tokens of its text with their lines.
import { ToolError, files } from '#toolcell';
import MarkdownIt, { type Token } from 'markdown-it';
import { parse as parseYaml } from 'yaml';

/** A text of this length takes about ten seconds. */
const CHARS_MAX = 1024 * 1024;

/** CommonMark with the tables and the strikethrough of GitHub. Raw HTML gets tokens of its own; html.ts says what becomes of it. */
export const parser = new MarkdownIt({ html: true, linkify: false, typographer: false });

// Within a paragraph, the tags of a script are tokens, and its text is text like any other.
parser.core.ruler.after('inline', 'scripts', ({ tokens }) => {
  for (const inline of tokens.filter((token) => token.children)) {
    let within = '';
    inline.children = (inline.children ?? []).filter(({ type, content }) => {
      const [, slash, name] = (type === 'html_inline' ? /^<(\/?)(script|style)\b/i.exec(content) : null) ?? [];
      const tag = name?.toLowerCase();
      if (within === '' && slash === '') within = tag ?? '';
      const isText = within === '';
      if (slash === '/' && tag === within) within = '';
      return isText;
    });
  }
});

/** A link leads to a page, an address, or another place; to nothing that a browser would run. */
parser.validateLink = (url) => /^(?:https?:|mailto:|tel:|[^:]*$|[^:]*[/?#])/i.test(url.trim());

export interface Document {
  tokens: Token[];
  frontMatter: unknown;
  /** Why the front matter cannot be read. */
  frontMatterError?: string;
  lines: number;
}

export function readDocument(path: string): Document {
  return documentOf(files.readText(path).replace(/^\uFEFF/, ''));
}

export function documentOf(text: string): Document {
  if (text.length > CHARS_MAX) {
    const message = `the text has ${text.length} characters; at most ${CHARS_MAX} are read`;
    throw new ToolError('text_too_long', message, { class: 'invalid_arguments' });
  }
  const lines = text === '' ? 0 : text.replace(/\n$/, '').split('\n').length;
  const [whole, yaml] = /^---[ \t]*\r?\n([^]*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|$)/m.exec(text) ?? ['', undefined];
  // A rule of three dashes can begin a text too; then the match begins later, or is none.
  const isFront = yaml !== undefined && text.startsWith(whole);
  const body = isFront ? text.slice(whole.length) : text;
  const tokens = parser.parse(body, {});
  const above = isFront ? whole.split('\n').length - 1 : 0;
  for (const token of tokens) if (token.map) token.map = [token.map[0] + above, token.map[1] + above];
  return { tokens, lines, ...frontMatterOf(isFront ? yaml : undefined) };
}

function frontMatterOf(yaml: string | undefined): Pick<Document, 'frontMatter' | 'frontMatterError'> {
  if (yaml === undefined) return { frontMatter: null };
  try {
    // As JSON, because an alias can lead to the value that it is in, which no answer can have.
    return { frontMatter: JSON.parse(JSON.stringify(parseYaml(yaml) ?? null)) };
  } catch (error) {
    return { frontMatter: null, frontMatterError: (error as Error).message };
  }
}

/** The first line of a token, counted from 1. */
export const lineOf = (token: Token): number => (token.map?.[0] ?? 0) + 1;
