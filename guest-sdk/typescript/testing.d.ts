/** Calls tools on this machine, without a sandbox, and reads back what they said. */
import type { AbortReason, CallFacts, Content, ErrorClass, Toolkit, ToolError, Update } from './index.js';

export type { ErrorClass };

/** Forgets what earlier calls said, and the answers and the stop of the test. */
export function reset(): void;
/**
 * Calls a tool: its text, its structured value, or its parts. A failure is thrown as `ToolError`. Checks no schema. If `run` is
 * asynchronous, so is this. Timers and `fetch` are those of Node.
 */
export function call(kit: Toolkit, name: string, input: object, context?: { cwd?: string; scratch?: string }): any;
/** Runs the check of a tool, which throws what refuses the call. */
export function check(kit: Toolkit, name: string, input: object): void;
/** Runs the preflight of a tool, which throws what the call lacks. */
export function preflight(kit: Toolkit, name: string, input: object): void;
/** What a tool says of one call. */
export function classify(kit: Toolkit, name: string, input: object): CallFacts;
/** Sets the settings of the operator. */
export function configure(settings: object): void;
/** What the host reads of the toolkit. */
export function describe(kit: Toolkit): { namespace: string; tools: any[] };
export function progress(): Update[];
export function logs(): { level: string; message: string; fields?: object }[];
export function partials(): Content[][];
export function contextModifiers(): Record<string, unknown>;
export function artifacts(): { name: string; mediaType: string; bytes: Uint8Array; isFinished: boolean }[];
/** Offers a tool to those under test: its text, or its structured value. */
export function offer(name: string, answer: (input: any) => string | object): void;
/** Milliseconds that tools slept; no time passes in a test. */
export function slept(): number;
export function acknowledged(): boolean;
/** Requests a stop, at once or once the tool has slept `after` milliseconds. */
export function cancel(reason?: AbortReason, after?: number): void;
/** Answers a question: with the filled form, or as a user who declines or closes it. */
export function respond(key: string, content: object | 'decline' | 'cancel'): void;
/** What `remembered` returns. */
export function resumeWith(value: unknown): void;
export type { ToolError };
