// URL and URLSearchParams of browsers, which QuickJS lacks: https://url.spec.whatwg.org. Names that are not ASCII are normalized
// and written as Punycode, without the tables of IDNA; letters of drives in URLs of files are names like others.
import * as host from '#host';
import { TextDecoder } from './encoding.js';

const PORTS = { 'http:': '80', 'https:': '443', 'ws:': '80', 'wss:': '443', 'ftp:': '21', 'file:': '' };
const isSpecial = (protocol) => protocol in PORTS;

// Letters that are escaped in each part, beside those that are not printable ASCII.
const FRAGMENT = ' "<>`';
const QUERY = ' "#<>';
const PATH = ' "#<>?^`{}';
const USER = `${PATH}/:;=@[\\]|`;

function escaped(text, set) {
  const isPlain = (letter) => letter > '\x1f' && letter < '\x7f' && !set.includes(letter);
  // A character can be two units.
  return text.toWellFormed().replace(/[^A-Za-z0-9]/gu, (letter) => (isPlain(letter) ? letter : hexOf(letter)));
}

const hexOf = (letter) => [...host.encode(letter)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('');

/** Escapes become bytes, and the bytes text. What is no UTF-8 becomes U+FFFD. */
function unescaped(text) {
  if (!text.includes('%')) return text;
  const bytes = host.encode(text);
  const found = [];
  for (let at = 0; at < bytes.length; at += 1) {
    const hex = bytes[at] === 0x25 ? String.fromCharCode(...bytes.subarray(at + 1, at + 3)) : '';
    if (/^[0-9a-f]{2}$/i.test(hex)) {
      found.push(Number.parseInt(hex, 16));
      at += 2;
    } else {
      found.push(bytes[at]);
    }
  }
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(found));
}

const invalid = (input) => {
  const error = new TypeError(`${JSON.stringify(String(input))} is no URL`);
  return Object.assign(error, { code: 'ERR_INVALID_URL', input: String(input) });
};

// Hosts

const FORBIDDEN = /[\0\t\n\r #/:<>?@[\\\]^|]/;

/** The host as a URL has it; `undefined`: it is none. */
function hostOf(text, protocol) {
  if (text.startsWith('[')) {
    const groups = text.endsWith(']') ? groupsOf(text.slice(1, -1)) : undefined;
    return groups && `[${compressed(groups)}]`;
  }
  if (!isSpecial(protocol)) return FORBIDDEN.test(text) ? undefined : escaped(text, '');
  // U+FFFD stands for bytes that are no text.
  const name = unescaped(text);
  const domain = name.includes('\ufffd') ? '' : asciiOf(name);
  if (domain === '' || FORBIDDEN.test(domain) || /[\0-\x20%\x7f]/.test(domain)) return undefined;
  return /(^|\.)(\d+|0x[0-9a-f]*)\.?$/.test(domain) ? addressOf(domain) : domain;
}

function asciiOf(name) {
  const plain = name.toLowerCase();
  if (/^[\0-\x7f]*$/.test(plain)) return plain;
  const labels = name.replace(/\xad/g, '').normalize('NFKC').toLowerCase().normalize('NFC').split(/[.\u3002\uff0e\uff61]/);
  return labels.map((label) => (/^[\0-\x7f]*$/.test(label) ? label : `xn--${punycode(label)}`)).join('.');
}

/** RFC 3492. */
function punycode(label) {
  const points = [...label].map((letter) => letter.codePointAt(0));
  let made = points.filter((point) => point < 128).map((point) => String.fromCharCode(point)).join('');
  const basic = made.length;
  if (basic > 0) made += '-';
  let [next, delta, bias, handled] = [128, 0, 72, basic];
  while (handled < points.length) {
    const smallest = Math.min(...points.filter((point) => point >= next));
    delta += (smallest - next) * (handled + 1);
    next = smallest;
    for (const point of points) {
      if (point < next) delta += 1;
      if (point !== next) continue;
      made += digits(delta, bias);
      bias = adapted(delta, handled + 1, handled === basic);
      delta = 0;
      handled += 1;
    }
    delta += 1;
    next += 1;
  }
  return made;
}

function digits(delta, bias) {
  const digit = (value) => String.fromCharCode(value < 26 ? value + 97 : value + 22);
  let [rest, made] = [delta, ''];
  for (let base = 36; ; base += 36) {
    const threshold = Math.min(Math.max(base - bias, 1), 26);
    if (rest < threshold) return made + digit(rest);
    made += digit(threshold + ((rest - threshold) % (36 - threshold)));
    rest = Math.floor((rest - threshold) / (36 - threshold));
  }
}

function adapted(delta, count, isFirst) {
  let rest = Math.floor(delta / (isFirst ? 700 : 2));
  rest += Math.floor(rest / count);
  let base = 0;
  for (; rest > 455; base += 36) rest = Math.floor(rest / 35);
  return base + Math.floor((36 * rest) / (rest + 38));
}

/** An address of IPv4, whose numbers can be decimal, octal or hexadecimal, and fewer than four. */
function addressOf(domain) {
  const parts = domain.replace(/\.$/, '').split('.');
  const numbers = parts.map((part) => {
    if (/^0x[0-9a-f]*$/.test(part)) return Number.parseInt(part.slice(2) || '0', 16);
    if (/^0[0-7]*$/.test(part)) return Number.parseInt(part, 8);
    return /^[1-9]\d*$/.test(part) ? Number(part) : Number.NaN;
  });
  const last = numbers.pop();
  const isValid = numbers.length < 4 && numbers.every((value) => value < 256) && last < 256 ** (4 - numbers.length);
  if (!isValid) return undefined;
  const whole = numbers.reduce((sum, value, at) => sum + value * 256 ** (3 - at), last);
  return [24, 16, 8, 0].map((shift) => Math.floor(whole / 2 ** shift) % 256).join('.');
}

/** The eight numbers of an address of IPv6. */
function groupsOf(text) {
  let whole = text;
  const v4 = /^(.*:)(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(text);
  if (v4) {
    const bytes = v4.slice(2);
    if (bytes.some((byte) => Number(byte) > 255 || /^0\d/.test(byte))) return undefined;
    const pair = (at) => (Number(bytes[at]) * 256 + Number(bytes[at + 1])).toString(16);
    whole = `${v4[1]}${pair(0)}:${pair(2)}`;
  }
  const halves = whole.split('::');
  if (halves.length > 2) return undefined;
  const parts = halves.map((half) => (half === '' ? [] : half.split(':')));
  if (parts.flat().some((part) => !/^[0-9a-f]{1,4}$/i.test(part))) return undefined;
  const gap = 8 - parts.flat().length;
  if (halves.length === 2 ? gap < 1 : gap !== 0) return undefined;
  return [...parts[0], ...Array(gap).fill('0'), ...(parts[1] ?? [])].map((part) => Number.parseInt(part, 16));
}

/** The first of the longest runs of zeros is left out. */
function compressed(groups) {
  const text = groups.map((group) => group.toString(16)).join(':');
  const runs = [...text.matchAll(/(?<![^:])0(:0)+(?![^:])/g)];
  const longest = runs.reduce((best, run) => (run[0].length > (best?.[0].length ?? 0) ? run : best), undefined);
  if (!longest) return text;
  const before = text.slice(0, longest.index).replace(/:$/, '');
  const after = text.slice(longest.index + longest[0].length).replace(/^:/, '');
  return `${before}::${after}`;
}

// The parser

/** The parts of a URL; throws if the text is none. */
function parsed(input, base) {
  const text = input.toWellFormed().replace(/^[\0-\x20]+|[\0-\x20]+$|[\t\n\r]/g, '');
  const [, scheme, rest = text] = /^([a-z][a-z0-9+.-]*:)([^]*)$/i.exec(text) ?? [];
  const protocol = scheme?.toLowerCase();
  const fragmentAt = rest.indexOf('#');
  const hash = fragmentAt < 0 ? null : escaped(rest.slice(fragmentAt + 1), FRAGMENT);
  const before = fragmentAt < 0 ? rest : rest.slice(0, fragmentAt);
  if (!protocol) {
    if (!base || (base.isOpaque && (before !== '' || hash === null))) throw invalid(input);
    return { ...relative(before, base, input), hash };
  }
  if (isSpecial(protocol)) {
    const isBelow = base?.protocol === protocol && !/^[\\/]{2}/.test(before);
    if (isBelow) return { ...relative(before, base, input), hash };
    if (protocol === 'file:') return { ...relative(before, emptyUrl(protocol), input), hash };
    return { ...authority(before.replace(/^[\\/]*/, ''), protocol, input), hash };
  }
  if (before.startsWith('//')) return { ...authority(before.slice(2), protocol, input), hash };
  if (before.startsWith('/')) return { ...withPath(emptyUrl(protocol, null), before), hash };
  const { path, search } = divided(before, protocol);
  return { ...emptyUrl(protocol, null), isOpaque: true, pathname: escaped(path, ''), search, hash };
}

const emptyUrl = (protocol, hostname = '') => ({ protocol, username: '', password: '', hostname, port: '', pathname: '', search: null, isOpaque: false });

const slashed = (text, protocol) => (isSpecial(protocol) ? text.replace(/^[^?]*/, (path) => path.replaceAll('\\', '/')) : text);

function divided(text, protocol) {
  const at = text.indexOf('?');
  if (at < 0) return { path: text, search: null };
  const set = isSpecial(protocol) ? `${QUERY}'` : QUERY;
  return { path: text.slice(0, at), search: escaped(text.slice(at + 1), set) };
}

function relative(text, base, input) {
  const { protocol } = base;
  const rest = slashed(text, protocol);
  if (rest.startsWith('//')) {
    return authority(isSpecial(protocol) && protocol !== 'file:' ? rest.replace(/^\/*/, '') : rest.slice(2), protocol, input);
  }
  if (rest.startsWith('/')) return withPath(base, rest);
  if (rest === '') return { ...base };
  if (rest.startsWith('?')) return { ...base, search: divided(rest, protocol).search };
  return withPath(base, `${base.pathname.replace(/[^/]*$/, '') || '/'}${rest}`);
}

/** With the path and the query of `text`. */
function withPath(url, text) {
  const { path, search } = divided(slashed(text, url.protocol), url.protocol);
  return { ...url, pathname: pathOf(path, url.protocol), search };
}

function pathOf(path, protocol) {
  if (path === '' && !isSpecial(protocol)) return '';
  const names = [];
  const parts = path.replace(/^\//, '').split('/');
  parts.forEach((part, at) => {
    const plain = part.replace(/%2e/gi, '.');
    const isLast = at === parts.length - 1;
    if (plain === '..') names.pop();
    if (plain === '.' || plain === '..') {
      if (isLast) names.push('');
    } else {
      names.push(escaped(part, PATH));
    }
  });
  return `/${names.join('/')}`;
}

function authority(text, protocol, input) {
  const [, before, rest] = /^([^/?]*)([^]*)$/.exec(slashed(text, protocol));
  const at = before.lastIndexOf('@');
  const url = emptyUrl(protocol);
  if (at >= 0) Object.assign(url, credentials(before.slice(0, at)));
  const [, hostname, port] = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/.exec(before.slice(at + 1)) ?? [];
  if (hostname === undefined || !/^\d*$/.test(port ?? '') || Number(port ?? 0) > 65535) throw invalid(input);
  const isFile = protocol === 'file:';
  const hasMore = at >= 0 || port !== undefined;
  if (hasMore && (hostname === '' || isFile)) throw invalid(input);
  if (hostname === '' && isSpecial(protocol) && !isFile) throw invalid(input);
  url.hostname = hostname === '' ? '' : hostOf(hostname, protocol);
  if (url.hostname === undefined) throw invalid(input);
  if (isFile && url.hostname === 'localhost') url.hostname = '';
  url.port = portOf(port ?? '', protocol);
  return withPath(url, rest);
}

const portOf = (port, protocol) => (port === '' || String(Number(port)) === PORTS[protocol] ? '' : String(Number(port)));

function credentials(text) {
  const at = text.indexOf(':');
  const name = at < 0 ? text : text.slice(0, at);
  return { username: escaped(name, USER), password: at < 0 ? '' : escaped(text.slice(at + 1), USER) };
}

export class URL {
  #url;
  #params;

  constructor(input, base) {
    const above = base === undefined ? undefined : parsed(`${base}`);
    this.#url = parsed(`${input}`, above);
  }

  static canParse(input, base) {
    return URL.parse(input, base) !== null;
  }

  static parse(input, base) {
    try {
      return new URL(input, base);
    } catch {
      return null;
    }
  }

  get href() {
    const { protocol, username, password, hostname, pathname, search, hash, isOpaque } = this.#url;
    const user = username + (password === '' ? '' : `:${password}`);
    const place = hostname === null ? '' : `//${user === '' ? '' : `${user}@`}${this.host}`;
    // Otherwise it would be read as a host.
    const path = hostname === null && !isOpaque && pathname.startsWith('//') ? `/.${pathname}` : pathname;
    return `${protocol}${place}${path}${search === null ? '' : `?${search}`}${hash === null ? '' : `#${hash}`}`;
  }

  set href(input) {
    this.#url = parsed(`${input}`);
    this.#params?.[RELOAD](this.search);
  }

  get origin() {
    const { protocol } = this.#url;
    return isSpecial(protocol) && protocol !== 'file:' ? `${protocol}//${this.host}` : 'null';
  }

  get protocol() {
    return this.#url.protocol;
  }

  set protocol(input) {
    const protocol = `${`${input}`.replace(/:[^]*$/, '').toLowerCase()}:`;
    if (!/^[a-z][a-z0-9+.-]*:$/.test(protocol) || isSpecial(protocol) !== isSpecial(this.#url.protocol)) return;
    if ((protocol === 'file:') !== (this.#url.protocol === 'file:')) return;
    Object.assign(this.#url, { protocol, port: portOf(this.#url.port, protocol) });
  }

  get username() {
    return this.#url.username;
  }

  set username(input) {
    if (this.#url.hostname) this.#url.username = escaped(`${input}`, USER);
  }

  get password() {
    return this.#url.password;
  }

  set password(input) {
    if (this.#url.hostname) this.#url.password = escaped(`${input}`, USER);
  }

  get host() {
    return this.#url.port === '' ? this.hostname : `${this.hostname}:${this.#url.port}`;
  }

  set host(input) {
    const [, hostname, port] = /^(\[[^\]]*\]|[^:/?#\\]*)(?::(\d+))?/.exec(`${input}`) ?? [];
    this.hostname = hostname ?? '';
    if (port) this.port = port;
  }

  get hostname() {
    return this.#url.hostname ?? '';
  }

  set hostname(input) {
    const [name] = /^[^/?#]*/.exec(slashed(`${input}`, this.#url.protocol));
    const found = this.#url.isOpaque ? undefined : hostOf(name, this.#url.protocol);
    if (found) this.#url.hostname = found;
  }

  get port() {
    return this.#url.port;
  }

  set port(input) {
    const [digits] = /^\d*/.exec(`${input}`);
    if ((digits === '' && `${input}` !== '') || Number(digits) > 65535 || !this.#url.hostname) return;
    this.#url.port = portOf(digits, this.#url.protocol);
  }

  get pathname() {
    return this.#url.pathname;
  }

  set pathname(input) {
    if (this.#url.isOpaque) return;
    const path = slashed(`${input}`.replaceAll('?', '%3F'), this.#url.protocol);
    this.#url.pathname = pathOf(path, this.#url.protocol);
  }

  get search() {
    return this.#url.search ? `?${this.#url.search}` : '';
  }

  set search(input) {
    const text = `${input}`.replace(/^\?/, '');
    this.#url.search = text === '' ? null : divided(`?${text.replaceAll('#', '%23')}`, this.#url.protocol).search;
    this.#params?.[RELOAD](this.search);
  }

  get hash() {
    return this.#url.hash ? `#${this.#url.hash}` : '';
  }

  set hash(input) {
    const text = `${input}`.replace(/^#/, '');
    this.#url.hash = text === '' ? null : escaped(text, FRAGMENT);
  }

  get searchParams() {
    this.#params ??= new URLSearchParams(this.search)[LINK]((text) => {
      this.#url.search = text === '' ? null : text;
    });
    return this.#params;
  }

  toString() {
    return this.href;
  }

  toJSON() {
    return this.href;
  }
}

// Queries

const [LINK, RELOAD] = [Symbol('link'), Symbol('reload')];

const entriesOf = (text) =>
  text.replace(/^\?/, '').split('&').filter(Boolean).map((pair) => {
    const at = pair.indexOf('=');
    const parts = at < 0 ? [pair, ''] : [pair.slice(0, at), pair.slice(at + 1)];
    return parts.map((part) => unescaped(part.replaceAll('+', ' ')));
  });

/** As forms have it: letters, digits and `*-._` stay. */
const formed = (text) => escaped(text, '!"#$%&\'(),/:;<=>?@[\\]^`{|}~').replaceAll(' ', '+');

export class URLSearchParams {
  #entries = [];
  #changed = () => {};

  constructor(init = '') {
    if (init === null || typeof init !== 'object') this.#entries = entriesOf(`${init}`);
    else if (typeof init[Symbol.iterator] === 'function') this.#entries = [...init].map(pairOf);
    else this.#entries = Object.entries(init).map(pairOf);
  }

  [LINK](changed) {
    this.#changed = changed;
    return this;
  }

  [RELOAD](text) {
    this.#entries = entriesOf(text);
  }

  #set(entries) {
    this.#entries = entries;
    this.#changed(this.toString());
  }

  append(name, value) {
    this.#set([...this.#entries, pairOf([name, value])]);
  }

  delete(name, value) {
    const isMeant = ([key, held]) => key === `${name}` && (value === undefined || held === `${value}`);
    this.#set(this.#entries.filter((entry) => !isMeant(entry)));
  }

  get(name) {
    return this.#entries.find(([key]) => key === `${name}`)?.[1] ?? null;
  }

  getAll(name) {
    return this.#entries.filter(([key]) => key === `${name}`).map(([, value]) => value);
  }

  has(name, value) {
    return this.#entries.some(([key, held]) => key === `${name}` && (value === undefined || held === `${value}`));
  }

  set(name, value) {
    const entry = pairOf([name, value]);
    const first = this.#entries.findIndex(([key]) => key === entry[0]);
    if (first < 0) return this.append(name, value);
    this.#set(this.#entries.flatMap((each, at) => (at === first ? [entry] : each[0] === entry[0] ? [] : [each])));
  }

  sort() {
    this.#set(this.#entries.toSorted(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0)));
  }

  forEach(call, self) {
    for (const [name, value] of this) call.call(self, value, name, this);
  }

  get size() {
    return this.#entries.length;
  }

  *entries() {
    for (let at = 0; at < this.#entries.length; at += 1) yield [...this.#entries[at]];
  }

  *keys() {
    for (const [name] of this) yield name;
  }

  *values() {
    for (const [, value] of this) yield value;
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  toString() {
    return this.#entries.map((entry) => entry.map(formed).join('=')).join('&');
  }
}

function pairOf(pair) {
  const values = [...pair];
  if (values.length !== 2) throw new TypeError('an entry of URLSearchParams is a name and a value');
  return values.map((value) => `${value}`.toWellFormed());
}
