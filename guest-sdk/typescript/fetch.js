// `fetch` of browsers. Redirects are followed as browsers do; the host decides on each request anew, and adds secrets by its origin.
import { exchange } from './http.js';
import { BodyStream, Headers, Request, Response } from './message.js';
import { URL } from './url.js';

const REDIRECTS_MAX = 20;
const REDIRECTS = [301, 302, 303, 307, 308];
/** Headers that are for one origin alone. */
const CREDENTIALS = ['authorization', 'cookie', 'proxy-authorization'];

const refused = (why, cause) => Object.assign(new TypeError(`fetch failed: ${why}`), { cause });

export async function fetch(input, init) {
  const request = new Request(input, init);
  const { signal, redirect } = request;
  signal.throwIfAborted();
  const headers = new Headers(request.headers);
  if (!headers.has('accept')) headers.set('accept', '*/*');
  const body = request.body ? await request.bytes() : undefined;
  let step = { url: new URL(request.url), method: request.method, headers, body };
  for (let count = 0; ; count += 1) {
    const answer = await sent(step, signal);
    const location = REDIRECTS.includes(answer.status) ? answer.headers.find(([name]) => name.toLowerCase() === 'location')?.[1] : undefined;
    if (location === undefined || redirect === 'manual') return responseOf(answer, step.url, count > 0);
    answer.body.cancel();
    if (redirect === 'error') throw refused(`${step.url.origin} redirects`);
    if (count === REDIRECTS_MAX) throw refused(`more than ${REDIRECTS_MAX} redirects`);
    step = redirected(step, answer.status, location);
  }
}

async function sent({ url, method, headers, body }, signal) {
  if (!['http:', 'https:'].includes(url.protocol)) throw refused(`${url.protocol} is neither http: nor https:`);
  if (url.username !== '' || url.password !== '') throw refused('a URL with a user name or a password');
  try {
    return await exchange({ method, url, headers: [...headers], body, signal });
  } catch (cause) {
    if (signal.aborted) throw signal.reason;
    throw refused(cause.message, cause);
  }
}

function redirected({ url, method, headers, body }, status, location) {
  if (!URL.canParse(location, url)) throw refused(`${url.origin} redirects to what is no URL`);
  const next = new URL(location, url);
  if (next.hash === '') next.hash = url.hash;
  const kept = new Headers(headers);
  if (next.origin !== url.origin) for (const name of CREDENTIALS) kept.delete(name);
  const becomesGet = (status === 303 && !['GET', 'HEAD'].includes(method)) || ([301, 302].includes(status) && method === 'POST');
  if (!becomesGet) return { url: next, method, headers: kept, body };
  for (const name of ['content-type', 'content-length', 'content-encoding', 'content-language', 'content-location']) kept.delete(name);
  return { url: next, method: 'GET', headers: kept, body: undefined };
}

function responseOf({ status, headers, body }, url, wasRedirected) {
  // Whatever the server says: these have none.
  const isEmpty = [101, 204, 205, 304].includes(status);
  if (isEmpty) body.cancel();
  const response = new Response(isEmpty ? null : new BodyStream(body), { headers });
  const shown = new URL(url.href);
  shown.hash = '';
  return Object.assign(response, { status, url: shown.href, redirected: wasRedirected, type: 'basic' });
}
