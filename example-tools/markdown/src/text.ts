// Markdown as plain text.
import type { Token } from 'markdown-it';

/** What raw HTML says: its text, without comments, scripts and styles. It is no HTML that could be shown. */
export const textOfHtml = (html: string): string =>
  html
    .replace(/<!--[^]*?(?:-->|$)/g, '')
    .replace(/<(script|style)\b[^]*?(?:<\/\1\s*>|$)/gi, '')
    .replace(/<br\s*\/?>/gi, '\n')
    .replace(/<[^>]*>/g, '')
    .trim();

/** The text of one paragraph, heading or cell. A link keeps its address, if that is not its text. */
export function inlineText(inline: Token | undefined, withAddresses = false): string {
  let text = '';
  const links: { href: string; at: number }[] = [];
  for (const token of inline?.children ?? []) {
    if (token.type === 'text' || token.type === 'code_inline' || token.type === 'text_special') text += token.content;
    else if (token.type === 'image') text += token.content;
    else if (token.type === 'softbreak') text += ' ';
    else if (token.type === 'hardbreak') text += '\n';
    else if (token.type === 'html_inline') text += /^<br/i.test(token.content) ? '\n' : '';
    else if (token.type === 'link_open') links.push({ href: String(token.attrGet('href') ?? ''), at: text.length });
    else if (token.type === 'link_close') {
      const link = links.pop();
      const isOther = link !== undefined && link.href !== '' && !link.href.startsWith('#') && text.slice(link.at) !== link.href;
      if (withAddresses && isOther) text += ` (${link.href})`;
    }
  }
  return text;
}

/** Writes lines behind the marks of the quotes and lists that they are in. */
class Page {
  #lines: string[] = [];
  /** The mark of each quote or item around, and that of its later lines. */
  #marks: { first: string; rest: string; isUsed: boolean }[] = [];
  #numbers: (number | undefined)[] = [];

  begin(first: string, rest: string): void {
    this.#marks.push({ first, rest, isUsed: false });
  }

  end(): void {
    this.#marks.pop();
  }

  list(number: number | undefined): void {
    this.#numbers.push(number);
  }

  endList(): void {
    this.#numbers.pop();
  }

  item(): void {
    const number = this.#numbers.at(-1);
    const mark = number === undefined ? '- ' : `${number}. `;
    if (number !== undefined) this.#numbers[this.#numbers.length - 1] = number + 1;
    this.begin(mark, ' '.repeat(mark.length));
  }

  write(text: string): void {
    for (const line of text.split('\n')) {
      const prefix = this.#marks.map((mark) => {
        const text = mark.isUsed ? mark.rest : mark.first;
        mark.isUsed = true;
        return text;
      });
      this.#lines.push((prefix.join('') + line).trimEnd());
    }
  }

  /** Puts an empty line before the next text, unless that begins a quote or an item. */
  gap(): void {
    const isInside = this.#marks.some((mark) => !mark.isUsed);
    if (this.#lines.length > 0 && this.#lines.at(-1) !== '' && !isInside) this.write('');
  }

  text(): string {
    return this.#lines.join('\n').trim();
  }
}

/** The whole text, as a mail or a terminal would show it. */
export function plainText(tokens: Token[]): string {
  const page = new Page();
  let cells: string[] = [];
  let isTight = false;
  for (const [at, token] of tokens.entries()) {
    switch (token.type) {
      case 'paragraph_open':
        isTight = token.hidden;
        break;
      case 'inline': {
        const parent = tokens[at - 1]?.type;
        const text = inlineText(token, true);
        if (parent === 'th_open' || parent === 'td_open') cells.push(text);
        else {
          if (!isTight) page.gap();
          page.write(text);
        }
        isTight = false;
        break;
      }
      case 'tr_close':
        page.write(cells.join(' | '));
        cells = [];
        break;
      case 'fence':
      case 'code_block':
        page.gap();
        page.write(token.content.replace(/\n$/, ''));
        break;
      case 'html_block': {
        const text = textOfHtml(token.content);
        if (text !== '') {
          page.gap();
          page.write(text);
        }
        break;
      }
      case 'hr':
        page.gap();
        page.write('---');
        break;
      case 'table_open':
        page.gap();
        break;
      case 'blockquote_open':
        page.gap();
        page.begin('> ', '> ');
        break;
      case 'bullet_list_open':
      case 'ordered_list_open':
        if (token.level === 0) page.gap();
        page.list(token.type === 'ordered_list_open' ? Number(token.attrGet('start') ?? 1) : undefined);
        break;
      case 'list_item_open':
        page.item();
        break;
      case 'blockquote_close':
      case 'list_item_close':
        page.end();
        break;
      case 'bullet_list_close':
      case 'ordered_list_close':
        page.endList();
        break;
    }
  }
  return page.text();
}
