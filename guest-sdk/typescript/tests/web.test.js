// Functions of browsers that QuickJS lacks, held against those of Node.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as abort from '../abort.js';
import * as encoding from '../encoding.js';
import { Blob, File, FormData } from '../form.js';
import { BodyStream, Headers, Request, Response } from '../message.js';
import * as url from '../url.js';

// QuickJS has it; Node has it since 25.
Uint8Array.prototype.toBase64 ??= function toBase64() {
  return Buffer.from(this).toString('base64');
};

/** Numbers below `count`, the same ones in each run. */
function generator(seed) {
  let state = seed;
  return (count) => {
    state = (state + 0x6d2b79f5) | 0;
    const mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % count;
  };
}

const PARTS = ['href', 'origin', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'hash'];

const partsOf = (Class, ...values) => {
  try {
    const made = new Class(...values);
    return PARTS.map((part) => made[part]);
  } catch (error) {
    return error.name;
  }
};

test('a URL has the parts that Node gives it', () => {
  const bases = [undefined, 'http://a.b/c/d?q#f', 'https://u:p@h:8/x/', 'foo://h/p/q', 'file:///a/b', 'foo:/a/b/c'];
  const inputs = [
    'http://EXAMPLE.com:80/a/../b/./c?x=y#z', 'http:/x', 'http:x', '//x/y', '/p', '../../../p', '?q', '#f', '', 'http://a b/', 'http://[1:2::3:4]:3/',
    'http://[::ffff:1.2.3.4]/', 'http://[1:0:0:2:0:0:0:3]', 'http://[1::2::3]', 'http://1.2.3', 'http://0x7f.1/', 'http://256.1.1.1', 'http://0300.1',
    'http://ü.example/ö?ä#ß', 'http://faß.de', 'http://日本語。jp', 'http://u:p:q@h/', 'http://@h', 'http://h:', 'http://h:99999', 'http://', 'foo:///', 'foo:bar',
    'data:text/plain,a b#c d', 'file://localhost/y', ' ht\ntp://x ', 'http://x\\y\\z?\\', 'http://x/%zz%41', 'http://x/"<>`{}|', "http://x/?\"<>'`{}|",
    'http://x/..', 'http://x/a/%2E/', 'http://h%41/', 'http://h%2f/', 'http://a..b/', 'http://x/\ud800', 'http://😀.x/', 'foo:////x', 'foo:/..//x', '1http://x', 'blob:x',
  ];
  for (const base of bases) for (const input of inputs) assert.deepEqual(partsOf(url.URL, input, base), partsOf(URL, input, base), `${input} ${base}`);
  const letters = ['h', 'a', '.', '/', '\\', '?', '#', '@', ':', '%', '2', 'e', '[', ']', '1', '0', 'x', 'ü', '\t', '&', '=', '..', 'http:', '//'];
  const random = generator(7);
  for (let n = 0; n < 20_000; n += 1) {
    const input = Array.from({ length: random(10) }, () => letters[random(letters.length)]).join('');
    const base = bases[random(3)];
    for (const values of [[input, base], [`http://${input}`]]) assert.deepEqual(partsOf(url.URL, ...values), partsOf(URL, ...values), JSON.stringify(values));
  }
});

test('a part of a URL can be set, and its query', () => {
  const set = (Class, part, value) => {
    const made = new Class('http://u:p@h:8/x?y=1&z=2#f');
    try {
      made[part] = value;
    } catch (error) {
      return error.name;
    }
    return [made.href, [...made.searchParams]];
  };
  for (const part of PARTS.filter((part) => part !== 'origin')) {
    for (const value of ['https:', 'http://x/?a=b', 'a b', '99', '/a/../b', '?q=ä', 'ü', 'h:443', '[::1]:4']) {
      if (part === 'port' && value.includes(':')) continue;
      assert.deepEqual(set(url.URL, part, value), set(URL, part, value), `${part} = ${value}`);
    }
  }
  const steps = (Class) => {
    const made = new Class('http://x/?b=1&a=2&b=3');
    const query = made.searchParams;
    const seen = [query.get('b'), query.getAll('b'), query.has('a', '2'), query.has('a', '3'), query.size];
    query.set('b', 'ä ö&');
    query.append('c', '*-._~!');
    seen.push(made.href);
    query.delete('a');
    query.sort();
    made.search = '?z=%20+%41';
    query.forEach((value, name) => seen.push([name, value]));
    return [...seen, `${query}`, [...query.keys()], [...query.values()]];
  };
  assert.deepEqual(steps(url.URL), steps(URL));
  const made = (Class) => [{ a: '1', b: 'x y' }, [['a', '1'], ['a', '2']], 'a=1&&b=+%zz', new Class('q=1')].map((init) => `${new Class(init)}`);
  assert.deepEqual(made(url.URLSearchParams), made(URLSearchParams));
});

test('bytes become the text that Node makes of them, in pieces too', () => {
  const pool = [0x61, 0x7f, 0x80, 0xbf, 0xc0, 0xc2, 0xdf, 0xe0, 0xa0, 0x9f, 0xed, 0xef, 0xbb, 0xf0, 0x90, 0x8f, 0xf4, 0xf5, 0xff, 0xe2, 0x82, 0xac];
  const random = generator(3);
  const streamed = (Class, bytes, sizes) => {
    const decoder = new Class();
    let [text, at] = ['', 0];
    for (const size of sizes) {
      text += decoder.decode(bytes.subarray(at, at + size), { stream: true });
      at += size;
    }
    return text + decoder.decode(bytes.subarray(at));
  };
  for (let n = 0; n < 20_000; n += 1) {
    const bytes = Uint8Array.from({ length: random(9) }, () => pool[random(pool.length)]);
    const sizes = [random(4), random(4), random(4)];
    assert.equal(new encoding.TextDecoder().decode(bytes), new TextDecoder().decode(bytes), `${bytes}`);
    assert.equal(streamed(encoding.TextDecoder, bytes, sizes), streamed(TextDecoder, bytes, sizes), `${bytes} ${sizes}`);
  }
  const fatal = new encoding.TextDecoder('utf-8', { fatal: true });
  assert.throws(() => fatal.decode(Uint8Array.of(0xff)), TypeError);
  assert.throws(() => new encoding.TextDecoder('latin1'), RangeError);
});

test('headers are combined, ordered and checked', () => {
  const made = (Class) => {
    const headers = new Class([['B', ' 1 '], ['a', '2'], ['b', '3'], ['Set-Cookie', 'x'], ['set-cookie', 'y']]);
    headers.set('C', '4');
    headers.delete('A');
    return [[...headers], headers.get('b'), headers.has('A'), headers.get('d'), headers.getSetCookie(), [...headers.keys()], [...new Class({ X: '1' })]];
  };
  assert.deepEqual(made(Headers), made(globalThis.Headers));
  for (const [name, value] of [['a b', '1'], ['', '1'], ['a', '1\n2'], ['a', 'ü€']]) assert.throws(() => new Headers([[name, value]]), TypeError);
});

test('a body is read once, or copied before', async () => {
  const source = () => {
    const chunks = ['{"a"', ':1}'].map((text) => Buffer.from(text));
    return { read: async () => chunks.shift(), cancel: () => chunks.splice(0) };
  };
  const response = new Response(new BodyStream(source()));
  const copy = response.clone();
  assert.deepEqual([await response.json(), await copy.text(), response.bodyUsed], [{ a: 1 }, '{"a":1}', true]);
  await assert.rejects(response.text(), TypeError);
  assert.throws(() => response.clone(), TypeError);
  const seen = [];
  for await (const chunk of new Response(new BodyStream(source())).body) seen.push(chunk.length);
  assert.deepEqual(seen, [4, 3]);
  const reader = new Response(new BodyStream(source())).body.getReader();
  assert.equal((await reader.read()).value.length, 4);
  await reader.cancel();
  assert.equal((await reader.read()).done, true);
  assert.equal(await new Response(Uint8Array.of(0xef, 0xbb, 0xbf, 0x61, 0xff)).text(), 'a\ufffd');
  assert.deepEqual([new Response('', { status: 204 }).ok, new Response('', { status: 404 }).ok, await new Response().text()], [true, false, '']);
  assert.deepEqual([Response.json({ a: 1 }).headers.get('content-type'), await Response.json({ a: 1 }).text()], ['application/json', '{"a":1}']);
});

test('a request has its parts, and refuses what cannot be sent', async () => {
  const request = new Request('http://x/a b', { method: 'post', body: new url.URLSearchParams({ a: 'ä' }), headers: { X: '1' } });
  assert.deepEqual([request.url, request.method, request.headers.get('x')], ['http://x/a%20b', 'POST', '1']);
  assert.equal(request.headers.get('content-type'), 'application/x-www-form-urlencoded;charset=UTF-8');
  const copy = new Request(request, { headers: { Y: '2' } });
  assert.deepEqual([await copy.text(), copy.method, copy.headers.get('x'), copy.headers.get('y')], ['a=%C3%A4', 'POST', null, '2']);
  assert.equal(await request.clone().text(), 'a=%C3%A4');
  const refused = [['nowhere', {}], ['http://x', { method: 'a b' }], ['http://x', { body: 'x' }], ['http://x', { method: 'POST', body: {} }], ['http://x', { redirect: 'no' }]];
  for (const [target, init] of refused) assert.throws(() => new Request(target, init), TypeError);
});

test('a form is written as Node writes it', async () => {
  const made = async (forms, Sent) => {
    const form = new forms.FormData();
    form.append('a"b', 'x\ny');
    form.append('file', new forms.Blob(['ü', Uint8Array.of(0, 255)], { type: 'Image/PNG' }), 'a "b".png');
    form.append('file', new forms.File(['z'], 'z.txt'));
    form.append('gone', '1');
    form.delete('gone');
    form.set('c', '2');
    const sent = new Sent('http://x', { method: 'POST', body: form });
    const boundary = /boundary=(.*)/.exec(sent.headers.get('content-type'))[1];
    const text = Buffer.from(await sent.arrayBuffer()).toString('latin1').replaceAll(boundary, 'BOUNDARY');
    return [text.toLowerCase().trim(), [...form.keys()], form.get('c'), form.has('gone'), form.getAll('file').map(({ name, size }) => [name, size])];
  };
  assert.deepEqual(await made({ Blob, File, FormData }, Request), await made(globalThis, globalThis.Request));
  const blob = new Blob(['abc', new Blob(['d'])], { type: 'T' });
  assert.deepEqual([blob.size, blob.type, await blob.slice(1, 3).text(), (await blob.bytes()).length], [4, 't', 'bc', 4]);
  assert.equal(new Request('http://x', { method: 'POST', body: blob }).headers.get('content-type'), 't');
});

test('a signal is aborted once, by its controller, its time or another one', async () => {
  const controller = new abort.AbortController();
  const any = abort.AbortSignal.any([new abort.AbortController().signal, controller.signal]);
  const seen = [];
  any.addEventListener('abort', () => seen.push('any'));
  controller.signal.addEventListener('abort', { handleEvent: ({ type }) => seen.push(type) }, { once: true });
  const unheard = () => seen.push('unheard');
  controller.signal.addEventListener('abort', unheard);
  controller.signal.removeEventListener('abort', unheard);
  controller.signal.onabort = () => seen.push('on');
  controller.abort(new RangeError('enough'));
  controller.abort('again');
  assert.deepEqual([seen.sort(), any.reason.message, any.aborted], [['abort', 'any', 'on'], 'enough', true]);
  assert.throws(() => controller.signal.throwIfAborted(), RangeError);
  assert.equal(abort.AbortSignal.any([abort.AbortSignal.abort('first'), controller.signal]).reason, 'first');
  assert.equal(abort.AbortSignal.abort().reason.name, 'AbortError');
  const late = abort.AbortSignal.timeout(1);
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(late.reason.name, 'TimeoutError');
});
