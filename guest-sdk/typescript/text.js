// Text for the host: UTF-8 has no lone surrogates, and one in the JSON of an answer would make all of it unreadable.

export const wellFormed = (thing) => String(thing).toWellFormed();

/** As JSON.stringify, which writes a lone surrogate as an escape; a backslash of the text itself is two. */
export function toJson(value) {
  const text = JSON.stringify(value);
  if (!text?.includes('\\ud')) return text;
  return text.replace(/\\\\|\\ud[89a-f][0-9a-f]{2}/g, (found) => (found.length === 2 ? found : '\ufffd'));
}
