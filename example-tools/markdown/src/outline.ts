// The headings of a document, and the tables under them.
import type { Token } from 'markdown-it';
import { lineOf } from './document.ts';
import { inlineText } from './text.ts';

export interface Heading {
  level: number;
  text: string;
  id: string;
  line: number;
}

/** The anchor of a heading, as GitHub makes it. */
function anchor(text: string, used: Map<string, number>): string {
  const word = text
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}\p{Pc} -]/gu, '')
    .replaceAll(' ', '-');
  const times = used.get(word) ?? 0;
  used.set(word, times + 1);
  return times === 0 ? word : `${word}-${times}`;
}

export function headings(tokens: Token[]): Heading[] {
  const used = new Map<string, number>();
  return tokens.flatMap((token, at) => {
    if (token.type !== 'heading_open') return [];
    const text = inlineText(tokens[at + 1]).trim();
    return [{ level: Number(token.tag.slice(1)), text, id: anchor(text, used), line: lineOf(token) }];
  });
}

export interface Table {
  /** The heading above it. */
  under: string;
  line: number;
  columns: string[];
  rows: Record<string, string>[];
}

/** Names for the columns that differ from each other. */
function named(cells: string[]): string[] {
  const names = new Set<string>();
  for (const [at, cell] of cells.entries()) {
    const name = cell === '' ? `column_${at + 1}` : cell;
    let unique = name;
    for (let number = at + 1; names.has(unique); number++) unique = `${name}_${number}`;
    names.add(unique);
  }
  return [...names];
}

export function tables(tokens: Token[]): Table[] {
  const found: Table[] = [];
  let under = '';
  let cells: string[] = [];
  for (const [at, token] of tokens.entries()) {
    const table = found.at(-1);
    if (token.type === 'heading_open') under = inlineText(tokens[at + 1]).trim();
    else if (token.type === 'table_open') found.push({ under, line: lineOf(token), columns: [], rows: [] });
    else if (token.type === 'th_open' || token.type === 'td_open') cells.push(inlineText(tokens[at + 1]).trim());
    else if (token.type === 'tr_close' && table) {
      if (table.columns.length === 0) table.columns = named(cells);
      else table.rows.push(Object.fromEntries(table.columns.map((name, column) => [name, cells[column] ?? ''])));
      cells = [];
    }
  }
  return found;
}
