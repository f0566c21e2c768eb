// Markdown as HTML that is safe to show: raw HTML never passes, and links lead where document.ts allows.
import { parser, type Document } from './document.ts';
import { textOfHtml } from './text.ts';

const { escapeHtml } = parser.utils;

parser.renderer.rules.html_block = (tokens, at) => {
  const text = textOfHtml(tokens[at]?.content ?? '');
  return text === '' ? '' : `<p>${escapeHtml(text)}</p>\n`;
};

parser.renderer.rules.html_inline = (tokens, at) => (/^<br\s*\/?>$/i.test(tokens[at]?.content ?? '') ? '<br>' : '');

export const html = ({ tokens }: Document): string => parser.renderer.render(tokens, parser.options, {});
