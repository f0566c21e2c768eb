/** What a tool finds in the sandbox besides the language itself: see globals.js. A project includes it in its tsconfig.json. */

declare var console: {
  trace(...values: unknown[]): void;
  debug(...values: unknown[]): void;
  log(...values: unknown[]): void;
  info(...values: unknown[]): void;
  warn(...values: unknown[]): void;
  error(...values: unknown[]): void;
};

declare class TextEncoder {
  readonly encoding: 'utf-8';
  encode(text?: string): Uint8Array;
}

declare class TextDecoder {
  constructor(label?: 'utf-8' | 'utf8' | 'UTF-8', options?: { fatal?: boolean; ignoreBOM?: boolean });
  readonly encoding: 'utf-8';
  readonly fatal: boolean;
  readonly ignoreBOM: boolean;
  decode(bytes?: Uint8Array | ArrayBuffer, options?: { stream?: boolean }): string;
}

declare var crypto: {
  getRandomValues<T extends Uint8Array | Uint16Array | Uint32Array>(target: T): T;
  randomUUID(): string;
};

declare var performance: {
  /** Milliseconds, with fractions. Only differences mean something. */
  now(): number;
  readonly timeOrigin: number;
};

/** The bytes of base64, a character each. */
declare function atob(base64: string): string;
/** Base64 of a text whose characters are bytes. */
declare function btoa(bytes: string): string;

/** After at least `delay` milliseconds; 1 if it is less. */
declare function setTimeout(job: (...values: any[]) => void, delay?: number, ...values: unknown[]): number;
declare function setInterval(job: (...values: any[]) => void, delay?: number, ...values: unknown[]): number;
declare function clearTimeout(timer: number | undefined): void;
declare function clearInterval(timer: number | undefined): void;
declare function queueMicrotask(job: () => void): void;

/**
 * Called for a promise that is rejected and that nothing handles, and for an exception of a timer, without a promise. Unless it
 * prevents that, the call fails with the reason.
 */
declare var onunhandledrejection:
  | ((event: { readonly reason: unknown; readonly promise?: Promise<unknown>; preventDefault(): void }) => void)
  | undefined;

declare class DOMException extends Error {
  constructor(message?: string, name?: string);
  readonly code: number;
}

declare class AbortSignal {
  private constructor();
  readonly aborted: boolean;
  readonly reason: any;
  onabort: ((event: { readonly type: string }) => void) | null;
  throwIfAborted(): void;
  addEventListener(type: 'abort', listener: (event: { readonly type: string }) => void, options?: { once?: boolean }): void;
  removeEventListener(type: 'abort', listener: (event: { readonly type: string }) => void): void;
  static abort(reason?: unknown): AbortSignal;
  static timeout(milliseconds: number): AbortSignal;
  static any(signals: Iterable<AbortSignal>): AbortSignal;
}

declare class AbortController {
  readonly signal: AbortSignal;
  abort(reason?: unknown): void;
}

declare class URL {
  constructor(url: string | URL, base?: string | URL);
  static canParse(url: string | URL, base?: string | URL): boolean;
  static parse(url: string | URL, base?: string | URL): URL | null;
  href: string;
  readonly origin: string;
  protocol: string;
  username: string;
  password: string;
  host: string;
  hostname: string;
  port: string;
  pathname: string;
  search: string;
  readonly searchParams: URLSearchParams;
  hash: string;
  toString(): string;
  toJSON(): string;
}

declare class URLSearchParams implements Iterable<[string, string]> {
  constructor(init?: string | Iterable<readonly [string, string]> | Record<string, string>);
  readonly size: number;
  append(name: string, value: string): void;
  delete(name: string, value?: string): void;
  get(name: string): string | null;
  getAll(name: string): string[];
  has(name: string, value?: string): boolean;
  set(name: string, value: string): void;
  sort(): void;
  forEach(call: (value: string, name: string) => void): void;
  entries(): IterableIterator<[string, string]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  toString(): string;
  [Symbol.iterator](): IterableIterator<[string, string]>;
}

type HeadersInit = Headers | Iterable<readonly [string, string]> | Record<string, string>;
/** There are no streams. */
type BodyInit = string | Uint8Array | ArrayBuffer | URLSearchParams | FormData | Blob;

interface RequestInit {
  method?: string;
  headers?: HeadersInit;
  body?: BodyInit | null;
  /** Default: `follow`, of at most 20. */
  redirect?: 'follow' | 'error' | 'manual';
  signal?: AbortSignal | null;
}

interface ResponseInit {
  status?: number;
  statusText?: string;
  headers?: HeadersInit;
}

declare class Headers implements Iterable<[string, string]> {
  constructor(init?: HeadersInit);
  append(name: string, value: string): void;
  delete(name: string): void;
  get(name: string): string | null;
  getSetCookie(): string[];
  has(name: string): boolean;
  set(name: string, value: string): void;
  forEach(call: (value: string, name: string) => void): void;
  entries(): IterableIterator<[string, string]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
}

/** The chunks of a body, as they arrive. */
interface BodyStream extends AsyncIterable<Uint8Array> {
  readonly locked: boolean;
  cancel(): Promise<void>;
  getReader(): {
    read(): Promise<{ done: boolean; value: Uint8Array | undefined }>;
    cancel(): Promise<void>;
    releaseLock(): void;
  };
}

declare class Blob {
  constructor(parts?: Iterable<string | Uint8Array | ArrayBuffer | Blob>, options?: { type?: string });
  readonly size: number;
  readonly type: string;
  slice(start?: number, end?: number, type?: string): Blob;
  bytes(): Promise<Uint8Array>;
  arrayBuffer(): Promise<ArrayBuffer>;
  text(): Promise<string>;
}

declare class File extends Blob {
  constructor(
    parts: Iterable<string | Uint8Array | ArrayBuffer | Blob>,
    name: string,
    options?: { type?: string; lastModified?: number },
  );
  readonly name: string;
  readonly lastModified: number;
}

declare class FormData implements Iterable<[string, string | File]> {
  append(name: string, value: string | Blob, filename?: string): void;
  set(name: string, value: string | Blob, filename?: string): void;
  delete(name: string): void;
  get(name: string): string | File | null;
  getAll(name: string): (string | File)[];
  has(name: string): boolean;
  forEach(call: (value: string | File, name: string) => void): void;
  entries(): IterableIterator<[string, string | File]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string | File>;
  [Symbol.iterator](): IterableIterator<[string, string | File]>;
}

interface Body {
  readonly headers: Headers;
  readonly body: BodyStream | null;
  readonly bodyUsed: boolean;
  text(): Promise<string>;
  json(): Promise<any>;
  bytes(): Promise<Uint8Array>;
  arrayBuffer(): Promise<ArrayBuffer>;
  blob(): Promise<Blob>;
}

interface Request extends Body {}
declare class Request {
  constructor(input: string | URL | Request, init?: RequestInit);
  readonly url: string;
  readonly method: string;
  readonly redirect: 'follow' | 'error' | 'manual';
  readonly signal: AbortSignal;
  clone(): Request;
}

interface Response extends Body {}
declare class Response {
  constructor(body?: BodyInit | null, init?: ResponseInit);
  static json(value: unknown, init?: ResponseInit): Response;
  readonly ok: boolean;
  readonly status: number;
  /** Empty: the host passes none on. */
  readonly statusText: string;
  readonly url: string;
  readonly redirected: boolean;
  clone(): Response;
}

/**
 * Sends a request, as far as the call was granted. One that fails is rejected with a TypeError, whose `cause` has the host's reason
 * as `code`; one that was not granted decides how a call ends that fails afterwards.
 */
declare function fetch(input: string | URL | Request, init?: RequestInit): Promise<Response>;
