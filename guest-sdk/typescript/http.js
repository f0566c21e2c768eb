// Requests through the host, which decides on each: one exchange, without redirects. There are no sockets in the sandbox.
import { handle } from 'wasi:http/outgoing-handler@0.2.6';
import { Fields, OutgoingBody, OutgoingRequest } from 'wasi:http/types@0.2.6';
import { isInCall, ready } from './loop.js';

const METHODS = ['get', 'head', 'post', 'put', 'delete', 'connect', 'options', 'trace', 'patch'];
const CHUNK = 1 << 16;

const free = (resource) => resource[Symbol.dispose]();

/** An `Error` for a failure of the host, whose `code` is the case of `error-code`. */
function failure(thrown) {
  const { tag = String(thrown), val } = thrown?.payload ?? thrown ?? {};
  const more = val === undefined || val === null ? '' : `: ${typeof val === 'string' ? val : JSON.stringify(val)}`;
  return Object.assign(new Error(`${tag}${more}`), { code: tag });
}

/** Runs a function of the host, whose failure is an `Error`. */
const trying = (run) => {
  try {
    return run();
  } catch (thrown) {
    throw thrown?.code ? thrown : failure(thrown);
  }
};

/** Sends a request. Resolves with the head of the answer and its body, as a source for `BodyStream`. */
export async function exchange({ method, url, headers, body, signal }) {
  if (!isInCall()) throw new Error('module code runs while the component is built, and sends no requests');
  const { future, outgoing } = trying(() => begin(method, url, headers, body));
  // The server may answer before it has read all; what it did not read is no failure of the answer.
  if (outgoing) write(outgoing, body, signal).catch(() => {});
  try {
    await ready(future.subscribe(), signal);
    // An option of a result of a result.
    const { val } = future.get();
    if (val.tag === 'err') throw failure(val.val);
    return received(val.val, signal);
  } finally {
    free(future);
  }
}

function begin(method, url, headers, body) {
  const own = headers.filter(([name]) => name !== 'content-length');
  const request = new OutgoingRequest(fieldsOf(body ? [...own, ['content-length', `${body.length}`]] : own));
  const known = METHODS.includes(method.toLowerCase());
  request.setMethod(known ? { tag: method.toLowerCase() } : { tag: 'other', val: method });
  request.setScheme({ tag: url.protocol === 'https:' ? 'HTTPS' : 'HTTP' });
  request.setAuthority(url.host);
  request.setPathWithQuery(url.pathname + url.search);
  const outgoing = body ? request.body() : undefined;
  return { outgoing, future: handle(request, undefined) };
}

/** Values of headers are bytes, and each is a letter. */
const bytesOf = (value) => Uint8Array.fromBase64(btoa(value));
const lettersOf = (bytes) => atob(bytes.toBase64());

function fieldsOf(headers) {
  const entries = headers.map(([name, value]) => [name, bytesOf(value)]);
  try {
    return Fields.fromList(entries);
  } catch (thrown) {
    const isRefused = (entry) => {
      try {
        free(Fields.fromList([entry]));
        return false;
      } catch {
        return true;
      }
    };
    const { code } = failure(thrown);
    throw Object.assign(new Error(`the header ${entries.find(isRefused)?.[0]} is ${code}`), { code });
  }
}

async function write(outgoing, bytes, signal) {
  const stream = outgoing.write();
  try {
    for (let at = 0; at < bytes.length; ) {
      const room = stream.checkWrite();
      const part = bytes.subarray(at, at + room);
      if (room > 0) stream.write(part);
      else await ready(stream.subscribe(), signal);
      at += part.length;
    }
    stream.flush();
    while (stream.checkWrite() === 0) await ready(stream.subscribe(), signal);
  } finally {
    free(stream);
  }
  OutgoingBody.finish(outgoing, undefined);
}

function received(response, signal) {
  const fields = response.headers();
  const headers = fields.entries().map(([name, value]) => [name, lettersOf(value)]);
  free(fields);
  const status = response.status();
  const body = response.consume();
  free(response);
  return { status, headers, body: source(body, signal) };
}

/** Bodies that are open. A collection of the engine would free one before its stream, which ends the call. */
const open = new Set();

function source(body, signal) {
  let parts = { body, stream: body.stream() };
  let stopWaiting;
  open.add(parts);
  const close = () => {
    if (!parts) return;
    const { body, stream } = parts;
    open.delete(parts);
    parts = undefined;
    stopWaiting?.();
    free(stream);
    free(body);
  };
  return {
    async read() {
      try {
        while (parts) {
          signal?.throwIfAborted();
          const chunk = next(parts.stream);
          if (chunk === undefined) close();
          else if (chunk.length > 0) return chunk;
          else await ready(parts.stream.subscribe(), signal, (stop) => (stopWaiting = stop));
        }
      } catch (error) {
        close();
        throw error;
      }
      return undefined;
    },
    cancel: close,
  };
}

/** The bytes that are there; `undefined` at the end. */
function next(stream) {
  try {
    return stream.read(CHUNK);
  } catch (thrown) {
    const { tag, val } = thrown?.payload ?? thrown;
    if (tag === 'closed') return undefined;
    const words = val.toDebugString();
    free(val);
    throw new TypeError(`the body broke off: ${words}`);
  }
}
