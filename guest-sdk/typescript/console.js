// What `console` writes of its values: each on one line, as far as it is short.

const DEPTH = 4;
const ITEMS = 100;

/** The line of a call of `console`. A first text may have places for the values behind it: %s, %d, %i, %f, %o, %O, %j and %c. */
export function formatted(values) {
  const [first, ...rest] = values;
  if (typeof first !== 'string' || rest.length === 0) return values.map(shown).join(' ');
  const text = first.replace(/%[sdifoOjc%]/g, (place) => {
    if (place === '%%') return '%';
    return rest.length === 0 ? place : placed(place[1], rest.shift());
  });
  return [text, ...rest.map(shown)].join(' ');
}

function placed(kind, value) {
  // Styles are for a screen.
  if (kind === 'c') return '';
  if (kind === 's') return shown(value);
  if (!'dif'.includes(kind)) return inner(value, []);
  if (typeof value === 'bigint') return shown(value);
  if (typeof value === 'symbol' || typeof value === 'object') return 'NaN';
  return shown(kind === 'i' ? Math.trunc(Number(value)) : Number(value));
}

/** A text as it is, and everything else as JSON, as far as that has it. */
export const shown = (value) => (typeof value === 'string' ? value : inner(value, []));

function inner(value, around) {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value);
    case 'number':
      return Object.is(value, -0) ? '-0' : String(value);
    case 'bigint':
      return `${value}n`;
    case 'function':
      return `[function ${value.name || 'without a name'}]`;
    case 'object':
      break;
    default:
      return String(value);
  }
  if (value === null) return 'null';
  if (around.includes(value)) return '[circular]';
  try {
    return composed(value, [...around, value]);
  } catch {
    // A getter, a proxy or a `toJSON` of its own can throw.
    return '[object]';
  }
}

function composed(value, around) {
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString();
  if (value instanceof RegExp) return String(value);
  const isList = Array.isArray(value) || ArrayBuffer.isView(value);
  if (around.length > DEPTH) return isList ? '[..]' : '{..}';
  const member = (each) => inner(each, around);
  if (value instanceof Map) return `Map ${listed('{', value, ([key, each]) => `${member(key)} => ${member(each)}`, '}')}`;
  if (value instanceof Set) return `Set ${listed('{', value, member, '}')}`;
  if (isList) return listed('[', value.length === undefined ? new Uint8Array(value.buffer) : value, member, ']');
  if (typeof value.toJSON === 'function') return member(value.toJSON());
  return listed('{', Object.keys(value), (key) => `${JSON.stringify(key)}:${member(value[key])}`, '}');
}

/** At most `ITEMS` of them. */
function listed(open, items, text, close) {
  const parts = [];
  for (const item of items) {
    if (parts.length === ITEMS) {
      parts.push('..');
      break;
    }
    parts.push(text(item));
  }
  return `${open}${parts.join(',')}${close}`;
}
