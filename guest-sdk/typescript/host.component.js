// The host's side in a component. Each import that no function of the bundle uses is left out of it, so that a component
// imports what its tool uses and no more.
import { report as reportUpdate, partialResult as sendPartial } from 'toolcell:tool/progress@0.2.0';
import { log as logLine } from 'toolcell:tool/log@0.2.0';
import { requested as stopRequested, acknowledge as stopSeen } from 'toolcell:tool/cancellation@0.2.0';
import { ask as askUser, responses as userResponses, resumeState as savedState } from 'toolcell:tool/interaction@0.2.0';
import { modify } from 'toolcell:tool/context-modifiers@0.2.0';
import { call as callOther, list as listCallable } from 'toolcell:tool/tools@0.2.0';
import { create as createArtifact, Artifact } from 'toolcell:tool/artifacts@0.2.0';
import { getEnvironment } from 'wasi:cli/environment@0.2.6';
import { subscribeDuration } from 'wasi:clocks/monotonic-clock@0.2.6';
import { getRandomBytes } from 'wasi:random/random@0.2.6';
import { getDirectories } from 'wasi:filesystem/preopens@0.2.6';
import { ToolError, fromRecord } from './error.js';
import { decode, encode, joined } from './utf8.js';

export { idle, later } from './loop.js';
export { decode, encode };

let current;
let saved = '';
let granted;

export const begin = (context) => {
  current = context;
  // Those of the snapshot are not those of a call.
  granted = undefined;
};
export const end = () => {
  current = undefined;
};
export const isRunning = () => current !== undefined;
// The instance of a call that asks ends without an exception that JavaScript sees.
export const isControl = () => false;

export const report = (update) => reportUpdate(update);
export const partialResult = (content) => sendPartial(content);
export const log = (level, message, fields) => logLine(level, message, fields);
export const requested = () => stopRequested();
export const acknowledge = () => stopSeen();
export const responses = () => userResponses();
export const resumeState = () => decode(savedState());
export const remember = (state) => {
  saved = state;
};
export const ask = (requests) => askUser(requests, encode(saved));
export const environment = () => getEnvironment();
export const randomBytes = (count) => getRandomBytes(count);

/** Runs with a resource of the host and gives that back, because a call may hold a limited number, and no collection frees one. */
function using(resource, run) {
  try {
    return run(resource);
  } finally {
    resource[Symbol.dispose]();
  }
}

export function sleep(milliseconds) {
  using(subscribeDuration(Math.round(milliseconds * 1e6)), (end) => end.block());
}

/** In milliseconds: how late a wait may see that a stop is requested. */
const LATE = 20;

/** Ends early if a stop is requested. componentize-qjs cannot link `cancellation-signal`, whose resource is one of WASI. */
export function wait(milliseconds) {
  for (let left = milliseconds; left > 0 && !stopRequested(); left -= LATE) sleep(Math.min(left, LATE));
}

export function modifyContext(key, value) {
  try {
    modify(key, value);
  } catch (error) {
    throw refused('context_not_modified', error);
  }
}

const refused = (code, error) => {
  const { tag, val } = error?.payload ?? error ?? {};
  return new ToolError(code, String(val ?? tag ?? error));
};

export const callable = () => listCallable();

export function callTool(name, input) {
  try {
    return callOther(name, input);
  } catch (error) {
    const record = error?.payload ?? error;
    throw record?.class ? fromRecord(record) : error;
  }
}

export function openArtifact(name, mediaType) {
  try {
    const artifact = createArtifact(name, mediaType);
    return {
      write: (chunk) => artifact.write(chunk),
      finish: () => Artifact.finish(artifact),
      discard: () => artifact[Symbol.dispose](),
    };
  } catch (error) {
    throw refused('artifact_failed', error);
  }
}

/** Normalizes `.` and `..`, and puts the working directory before a relative path. */
function absolute(path) {
  const whole = path.startsWith('/') ? path : `${current?.cwd ?? ''}/${path}`;
  const names = [];
  for (const name of whole.split('/')) {
    if (name === '..') names.pop();
    else if (name !== '' && name !== '.') names.push(name);
  }
  return `/${names.join('/')}`;
}

const failing = (what, path, run) => {
  try {
    return run();
  } catch (error) {
    if (error instanceof ToolError) throw error;
    const code = error?.payload ?? error;
    throw new ToolError('file_error', `cannot ${what} ${path}: ${typeof code === 'string' ? code : JSON.stringify(code)}`);
  }
};

function open(path, openFlags, flags, run) {
  const whole = absolute(path);
  let best;
  // Each list has handles of its own.
  granted ??= getDirectories();
  for (const [folder, name] of granted) {
    const holds = whole === name || whole.startsWith(name === '/' ? '/' : `${name}/`);
    if (holds && name.length >= (best?.name.length ?? 0)) best = { folder, name };
  }
  if (!best) throw new ToolError('no_folder', `${path} lies in no folder that this call was granted`);
  const rest = whole.slice(best.name.length).replace(/^\/+/, '');
  return using(best.folder.openAt({ symlinkFollow: true }, rest || '.', openFlags, flags), run);
}

export const readFile = (path) => failing('read', path, () => open(path, {}, { read: true }, wholeOf));

function wholeOf(file) {
  const chunks = [];
  let length = 0;
  for (;;) {
    const [bytes, isEnd] = file.read(1 << 16, length);
    chunks.push(bytes);
    length += bytes.length;
    if (isEnd || bytes.length === 0) break;
  }
  return joined(chunks, length);
}

export function writeFile(path, bytes) {
  const write = (file) => {
    for (let at = 0; at < bytes.length; ) {
      const written = Number(file.write(bytes.subarray(at, at + (1 << 16)), at));
      if (written === 0) throw new ToolError('file_error', `cannot write ${path}: nothing was written`);
      at += written;
    }
  };
  failing('write', path, () => open(path, { create: true, truncate: true }, { write: true }, write));
}

export function listFolder(path) {
  const list = (folder) => using(folder.readDirectory(), entriesOf);
  return failing('list', path, () => open(path, { directory: true }, { read: true }, list));
}

function entriesOf(entries) {
  const found = [];
  for (let entry; (entry = entries.readDirectoryEntry()); ) {
    found.push({ name: entry.name, isFolder: entry.type === 'directory' });
  }
  return found.sort((a, b) => (a.name < b.name ? -1 : 1));
}
