/** Write toolcell tools in TypeScript, or in JavaScript with the same types through JSDoc. */

// Schemas

/** Accepts values of type `T`. Made by the functions of `t`. */
export interface Schema<T> {
  readonly json: object;
  /** Exists in types alone. */
  readonly value?: T;
}

/** A property that may be absent; with a default, `run` gets that instead of `undefined`. */
export interface OptionalSchema<T, HasDefault extends boolean> extends Schema<T> {
  readonly isOptional: true;
  readonly hasDefault?: HasDefault;
}

/** The properties of an object. */
export type Properties = Readonly<Record<string, Schema<any>>>;

type Absent<P extends Properties> = {
  [K in keyof P]: P[K] extends OptionalSchema<any, infer D> ? (D extends true ? never : K) : never;
}[keyof P];

/** The type of the values that a schema accepts. */
export type Infer<S extends Schema<any>> = S extends Schema<infer T> ? T : never;

/** The type of an object with these properties. */
export type InferObject<P extends Properties> = Simplify<
  { [K in Exclude<keyof P, Absent<P>>]: Infer<P[K]> } & { [K in Absent<P>]?: Infer<P[K]> }
>;

type Simplify<T> = { [K in keyof T]: T[K] } & {};

export interface TextLimits {
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  format?: string;
}

export interface NumberLimits {
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  multipleOf?: number;
}

export interface ListLimits {
  minItems?: number;
  maxItems?: number;
  uniqueItems?: boolean;
}

export const t: {
  string(description?: string, limits?: TextLimits): Schema<string>;
  number(description?: string, limits?: NumberLimits): Schema<number>;
  integer(description?: string, limits?: NumberLimits): Schema<number>;
  boolean(description?: string): Schema<boolean>;
  /** One of several texts. */
  choice<const C extends readonly [string, ...string[]]>(choices: C, description?: string): Schema<C[number]>;
  /** Names a file or folder: the call gets no other one, and a relative path arrives as an absolute one. */
  path(description?: string, limits?: TextLimits): Schema<string>;
  /** Names what the call reaches, if `access` names `network`; otherwise it is a text. The tool cannot send a request itself. */
  url(description?: string, limits?: TextLimits): Schema<string>;
  list<T>(items: Schema<T>, description?: string, limits?: ListLimits): Schema<T[]>;
  /** An object with properties of any name. */
  map<T>(values: Schema<T>, description?: string): Schema<Record<string, T>>;
  object<P extends Properties>(properties: P, description?: string): Schema<InferObject<P>>;
  nullable<T>(schema: Schema<T>): Schema<T | null>;
  /** A property that may be absent. */
  optional<T>(schema: Schema<T>): OptionalSchema<T, false>;
  optional<T>(schema: Schema<T>, value: NoInfer<T>): OptionalSchema<T, true>;
  /** Any value, or those that a JSON Schema of your own accepts. */
  json<T = unknown>(schema?: object, description?: string): Schema<T>;
};

// Tools

export type AccessKind =
  | 'file_read'
  | 'file_write'
  | 'network'
  | 'browser'
  | 'credential'
  | 'payment'
  | 'external_send'
  | 'code_execution';

/** What a tool says of itself besides its types: the fields of the short form of a toolkit, in camel case. */
export interface Facts {
  title?: string;
  aliases?: readonly string[];
  searchHint?: string;
  /** What the operator has to grant. Default: `file_read` if an argument is a path, else nothing. */
  access?: readonly AccessKind[];
  resources?: readonly string[];
  writeEffects?: readonly ('none' | 'local_draft' | 'local_persistent' | 'remote_mutation' | 'irreversible')[];
  networkScope?: string;
  credentialRefs?: readonly string[];
  environment?: readonly string[];
  /** Patterns of tools that the tool calls. */
  toolCalls?: readonly string[];
  riskLevel?: 'low' | 'medium' | 'high' | 'critical';
  approvalRequired?: boolean;
  approvalReason?: string;
  dataSensitivity?: string;
  /** Default: whether the tool can change nothing. */
  isReadOnly?: boolean;
  isConcurrencySafe?: boolean;
  isDestructive?: boolean;
  isOpenWorld?: boolean;
  requiresBackground?: boolean;
  timeoutMs?: number;
  examples?: readonly object[];
  defaults?: object;
  sensitiveFields?: readonly string[];
  redactionRules?: readonly object[];
  contentTypes?: readonly string[];
  credentialUses?: readonly object[];
  /** An open word. */
  toolKind?: string;
}

export interface Context {
  /** The host's id of this call. */
  readonly invocationId: string;
  /** 1 for the first try. */
  readonly attempt: number;
  /** The caller's working directory, if a granted folder holds it. */
  readonly cwd?: string;
  /** A folder of this call's own, for a tool whose `writeEffects` name `local_draft`. */
  readonly scratch?: string;
}

/** One content block, such as `{ type: 'text', text: 'three' }`. */
export interface Content {
  type: string;
  [field: string]: unknown;
}

export interface OutputParts<T = unknown> {
  /** Blocks for the model. */
  content?: Content[];
  /** Conforms to the tool's `output`, if it has one. */
  structured?: T;
  /** One line for a person; a model never gets it. */
  summary?: string;
}

export class Output<T = unknown> {
  private constructor();
  private readonly type: T;
}

export class Partial<T = unknown> {
  private constructor();
  private readonly type: T;
}

/** Several parts of one result. */
export function output<T>(parts: OutputParts<T>): Output<T>;
/** Something usable, and what is missing of it. */
export function partial<R>(result: R, error: ToolError): Partial<R extends Output<infer T> ? T : R>;

/** What `run` may return, or promise: text, a structured value, or both. */
export type Result<T> = T | Output<T> | Partial<T>;

export interface Definition<I extends Properties, R> extends Facts {
  name: string;
  /** Tells a model what the tool does. */
  description: string;
  input: I;
  /** Looks at the arguments before the call is decided on, without files and network. What it throws refuses the call. */
  check?(input: InferObject<I>): void;
  /** Throws what a call lacks to start. */
  preflight?(input: InferObject<I>): void;
  /** Says what one call would do. It may only narrow what the tool declares. */
  classify?(input: InferObject<I>): CallFacts;
  run(input: InferObject<I>, context: Context): R;
}

/** What one call would do; what is absent is unstated. */
export interface CallFacts {
  isReadOnly?: boolean;
  isConcurrencySafe?: boolean;
  isDestructive?: boolean;
  isOpenWorld?: boolean;
}

export interface Tool {
  readonly name: string;
}

type Structured<O> = O extends Schema<infer T> ? T : O extends Properties ? InferObject<O> : never;
type Plain = string | void | object;
/** Otherwise a promise would be an object like others, whatever it is of. */
type Promised<R> = R extends PromiseLike<infer T> ? (T extends Plain ? R : { 'run must give a text, an object or nothing': never }) : R;

/** Declares a tool: `input` gives both its schema and the type of what `run` gets. */
export function tool<const I extends Properties, O extends Schema<any> | Properties>(
  definition: Definition<I, Result<Structured<O>> | Promise<Result<Structured<O>>>> & { output: O },
): Tool;
export function tool<const I extends Properties, R extends Plain>(
  definition: Definition<I, Promised<R>> & { output?: undefined },
): Tool;

export interface Toolkit {
  readonly namespace: string;
  readonly tools: readonly Tool[];
}

/** The default export of the main module. */
export function toolkit(namespace: string, tools: readonly Tool[]): Toolkit;

// Errors

export type ErrorClass =
  | 'invalid_arguments'
  | 'capability_gap'
  | 'setup_required'
  | 'credential_missing'
  | 'timeout'
  | 'rate_limited'
  | 'dependency_unavailable'
  | 'execution_failed'
  | 'partial_failure'
  | 'result_too_large'
  | 'canceled'
  | (string & {});

/** A failure that the tool reports. Anything else that is thrown fails the call too, with its stack in the record. */
export class ToolError extends Error {
  /** `code`: stable, snake_case, the tool's own. `message`: safe for the model to read. */
  constructor(
    code: string,
    message: string,
    options?: {
      /** Default: `execution_failed`. */
      class?: ErrorClass;
      /** For the record only. */
      detail?: string;
      /** After which the same call may succeed. */
      retryAfterMs?: number;
    },
  );
  readonly code: string;
  readonly class: ErrorClass;
  readonly detail?: string;
  readonly retryAfterMs?: number;
}

// While a tool runs

export interface Update {
  message?: string;
  /** 0 to 100. */
  percent?: number;
  currentStep?: string;
  totalSteps?: number;
  bytesRead?: number;
  bytesWritten?: number;
  lineCount?: number;
}

/** Reports progress. */
export function progress(message: string, percent?: number): void;
export function progress(update: Update): void;
/** Sends blocks that are usable before the call ends. Returns their reference. */
export function partialResult(content: Content[]): string;

type Line = (message: string, fields?: object) => void;
/** Writes to the call's log, which a model never gets. `console` writes there too. */
export const log: { readonly trace: Line; readonly debug: Line; readonly info: Line; readonly warn: Line; readonly error: Line };

export type AbortReason = 'user-interruption' | 'sibling-error' | 'timeout' | 'fallback' | 'runtime-shutdown';

/** Why the call should stop, if that was requested or its time is over. */
export function requested(): AbortReason | undefined;
/** Tells the host that the tool is cleaning up. */
export function acknowledge(): void;
/** Ends the tool with a `ToolError` of class `canceled`, if a stop was requested. */
export function checkpoint(): void;
/** Waits, and nothing else of the tool goes on meanwhile, unlike with `setTimeout`. A stop that is requested is seen afterwards. */
export function sleep(milliseconds: number): void;

/**
 * Resolves once nothing else goes on: no timer and no request is left that continues something. A call does not wait for that: what
 * goes on when `run` has its result ends with the call.
 */
export function idle(): Promise<void>;

/** Waits, and ends at once if a stop is requested before or meanwhile. Returns why. In tests no time passes. */
export function wait(milliseconds: number): AbortReason | undefined;

/**
 * Declares the settings of the operator: `config` of a `[[tool]]` in `toolcell.toml`. They are no place for secrets. Call it once, in
 * module code; the function that it returns gives them in a call.
 */
export function configuration<const P extends Properties>(settings: P): () => InferObject<P>;

/** The value of an environment variable that `environment` of the tool names and the operator granted. */
export function environment(name: string): string | undefined;

export type Answer<T> = { action: 'accept'; content: T } | { action: 'decline' } | { action: 'cancel' };

export interface Question<P extends Properties = Properties> {
  /** Names the answer within the call. */
  key: string;
  message: string;
  /** A flat form: texts, numbers, booleans and choices. */
  form: P;
}

/**
 * Asks the caller's user. The tool stops here; once there is an answer, `run` is called again from the beginning, and this
 * returns the answer. So ask before you change anything.
 */
export function ask<const P extends Properties>(key: string, message: string, form: P): Answer<InferObject<P>>;
/** Asks several questions at once. */
export function askAll(questions: readonly Question[]): Answer<Record<string, unknown>>[];
/** The filled form, or a `ToolError` of class `canceled`. */
export function accepted<T>(answer: Answer<T>): T;
/** Keeps a JSON value, of at most 64 KiB, for the run after the next question. */
export function remember(value: unknown): void;
export function remembered<T = unknown>(): T | undefined;

/** Changes the context of the caller, such as of an agent. */
export function modifyContext(key: string, value: unknown): void;

export interface ToolAnswer {
  invocationId: string;
  content: Content[];
  structured?: any;
  /** What is missing of a partial answer. */
  missing?: ToolError;
}

/** The tools that this call may call: those that `toolCalls` names and the operator granted. */
export function callableTools(): { name: string; description: string }[];
/** Calls another tool by its qualified name, and waits for its end. Its failure is thrown as `ToolError`. */
export function callTool(name: string, input: object): ToolAnswer;

/** Writes a file that belongs to the answer. Returns the block for its content. */
export function artifact(
  name: string,
  mediaType: string,
  chunks: string | Uint8Array | Iterable<string | Uint8Array>,
): Content;

/** Files in the folders that the call was granted. Failures are a `ToolError` with code `file_error` or `no_folder`. */
export const files: {
  read(path: string): Uint8Array;
  readText(path: string): string;
  write(path: string, bytes: Uint8Array): void;
  writeText(path: string, text: string): void;
  list(path: string): { name: string; isFolder: boolean }[];
};
