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
  constructor(label?: 'utf-8' | 'utf8' | 'UTF-8');
  readonly encoding: 'utf-8';
  decode(bytes?: Uint8Array | ArrayBuffer): string;
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
