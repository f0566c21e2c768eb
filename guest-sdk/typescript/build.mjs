// Makes the component of a tool: node build.mjs TOOLCHAIN PROJECT WIT OUTPUT
//   TOOLCHAIN  the folder of node_modules with esbuild, componentize-qjs and typescript, in the versions of its lock file
//   PROJECT    the tool's folder, with its package.json
//   WIT        the folder of the contract
//   OUTPUT     the component; OUTPUT.sources lists the files that were read
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, realpathSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { placed } from './places.js';
import { steady } from './steady.mjs';
import { engines } from './wasm.mjs';

const sdk = realpathSync(dirname(fileURLToPath(import.meta.url)));
const [toolchain, project, contract, output] = process.argv.slice(2).map((path) => (existsSync(path) ? realpathSync(path) : resolve(path)));
if (!output) throw new Error('usage: node build.mjs TOOLCHAIN PROJECT WIT OUTPUT');
const require = createRequire(join(toolchain, 'package.json'));

class Complaint extends Error {}

function manifest() {
  const file = join(project, 'package.json');
  if (!existsSync(file)) throw new Complaint(`no package.json in ${project}`);
  const read = JSON.parse(readFileSync(file, 'utf8'));
  if (typeof read.main !== 'string') throw new Complaint(`${file} has no "main": name the module of the toolkit, such as src/tool.ts`);
  const wanted = Object.keys(read.dependencies ?? {});
  const missing = wanted.filter((name) => !existsSync(join(project, 'node_modules', name)));
  if (missing.length > 0) throw new Complaint(`not installed: ${missing.join(', ')}: run \`npm install\` in ${project} first`);
  return read;
}

/** Types are checked if the project has a tsconfig.json, or a jsconfig.json for the JSDoc comments of JavaScript. */
function checkTypes() {
  const config = ['tsconfig.json', 'jsconfig.json'].map((name) => join(project, name)).find(existsSync);
  if (!config) return;
  const tsc = require.resolve('typescript/bin/tsc');
  const run = spawnSync(process.execPath, [tsc, '--noEmit', '--pretty', 'false', '-p', config], { encoding: 'utf8', maxBuffer: 1 << 28 });
  // The compiler would have the types of Node.js installed, which the sandbox has nothing of.
  const advice = /(Do|Did) you (need|mean) to install type definitions for node\?.*|Cannot find type definition file for 'node'\./g;
  // It gives none for what browsers have too.
  const missing = /Cannot find name '(set|clear)Immediate'\./g;
  const said = `${run.stdout ?? ''}${run.stderr ?? ''}`.replace(advice, NOTHING_OF_NODE);
  process.stderr.write(said.replace(missing, `$& ${NOTHING_OF_NODE}`));
  if (run.status !== 0) throw new Complaint('the types do not fit');
}

const NOTHING_OF_NODE = 'It is part of Node.js, and the sandbox has nothing of it.';

/** Imports of the contract have no effect of their own: those that no function uses are left out. */
const contractImports = {
  name: 'contract',
  setup(build) {
    build.onResolve({ filter: /^(toolcell|wasi):/ }, ({ path }) => ({ path, external: true, sideEffects: false }));
    build.onResolve({ filter: /^node:/ }, ({ path }) => ({
      errors: [{ text: `${path} is part of Node.js, and the sandbox has nothing of it` }],
    }));
    // The SDK of this program, whichever copy the project has.
    build.onResolve({ filter: /^(#toolcell|toolcell-guest)$/ }, () => ({ path: join(sdk, 'index.js'), sideEffects: false }));
  },
};

/** Globals that a component has only if its sources use them, because it imports no more than it needs. */
const GLOBALS = {
  'encoding.js': ['TextEncoder', 'TextDecoder'],
  'abort.js': ['AbortController', 'AbortSignal'],
  'url.js': ['URL', 'URLSearchParams'],
  'message.js': ['Headers', 'Request', 'Response'],
  'form.js': ['Blob', 'File', 'FormData'],
  'fetch.js': ['fetch'],
};

/** Files of `GLOBALS`. */
async function globalsOf(main, exported) {
  // A global is one that no scope declares: esbuild replaces these, and `globalThis.NAME`.
  const mark = (name) => `toolcell$${name}`;
  const define = Object.fromEntries(Object.values(GLOBALS).flat().flatMap((name) => [[name, mark(name)], [`globalThis.${name}`, mark(name)]]));
  const { outputFiles } = await built(main, exported, [], { define });
  const text = outputFiles.find(({ path }) => path.endsWith('.js')).text;
  // Libraries keep the global object under names of their own.
  const isUsed = (name) => text.includes(mark(name)) || new RegExp(`\\b(\\w*[gG]lobalThis|self|window|global)\\.${name}\\b`).test(text);
  return Object.keys(GLOBALS).filter((file) => GLOBALS[file].some(isUsed));
}

function built(main, exported, globals, more) {
  const { build } = require('esbuild');
  const path = (file) => JSON.stringify(join(sdk, file));
  const names = globals.flatMap((file) => GLOBALS[file]).join(', ');
  const contents = [
    `import { component } from ${path('component.js')};`,
    ...(globals.length > 0 ? ["import 'toolcell-globals';"] : []),
    `import kit from ${JSON.stringify(resolve(project, main))};`,
    `export const { ${['guest', ...exported].join(', ')} } = component(kit, ${JSON.stringify(exported.join(' '))});`,
  ].join('\n');
  const setting = globals.map((file) => `import { ${GLOBALS[file].join(', ')} } from ${path(file)};`);
  const setGlobals = {
    name: 'globals',
    setup(build) {
      build.onResolve({ filter: /^toolcell-globals$/ }, ({ path }) => ({ path, namespace: 'toolcell', sideEffects: true }));
      const code = [...setting, `Object.assign(globalThis, { ${names} });`].join('\n');
      build.onLoad({ filter: /^/, namespace: 'toolcell' }, () => ({ contents: code, resolveDir: project }));
    },
  };
  return build({
    stdin: { contents, resolveDir: project, sourcefile: 'entry.js' },
    absWorkingDir: project,
    bundle: true,
    write: false,
    metafile: true,
    format: 'esm',
    // Packages have other files for what is not Node.
    platform: 'browser',
    conditions: ['toolcell', 'worker'],
    target: 'es2023',
    // Names are kept, because stack traces go into the record of a failed call. Comments are not, because they name files
    // of this machine.
    minifySyntax: true,
    minifyWhitespace: true,
    // For the places of errors.
    sourcemap: 'external',
    outfile: join(project, 'bundle.js'),
    legalComments: 'none',
    logLevel: 'warning',
    plugins: [contractImports, setGlobals],
    ...more,
    define: { 'process.env.NODE_ENV': '"production"', ...more?.define },
  });
}

async function bundle(main, exported) {
  const made = await built(main, exported, await globalsOf(main, exported));
  const { imports } = made.metafile.outputs['bundle.js'];
  // `<data:..>` and `toolcell:..` are no files.
  const inputs = Object.keys(made.metafile.inputs).filter((file) => file !== 'entry.js' && !/^(<|toolcell:)/.test(file));
  const files = inputs.map((file) => resolve(project, file));
  refuseOutside(files);
  const text = (end) => made.outputFiles.find(({ path }) => path.endsWith(end)).text;
  const world = [...new Set(imports.map(({ path }) => path))].sort();
  const places = placesOf(JSON.parse(text('.map')));
  // Behind the bundle, whose places stay as they are.
  const source = `${text('.js')}\nglobalThis.toolcellPlaces=${JSON.stringify(places)};\n`;
  return { source, places, imports: world, files };
}

/** The files that decided what the bundle is: its modules, and the manifests beside and above them in the project. */
function sourcesOf(files) {
  const found = new Set([join(project, 'package.json')]);
  for (const file of files.filter((file) => file.startsWith(project + sep))) {
    found.add(file);
    for (let folder = dirname(file); folder.startsWith(project + sep); folder = dirname(folder)) {
      // Whether it is there or not: a new one can change what a module is.
      if (relative(project, folder).split(sep).includes('node_modules')) found.add(join(folder, 'package.json'));
    }
  }
  return [...found].sort();
}

/** The table of `places.js` for a source map. No path of this machine is in it. */
function placesOf(map) {
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  const files = map.sources.map((source) => {
    const file = resolve(project, source);
    return file.startsWith(project + sep) ? relative(project, file) : `toolcell/${basename(file)}`;
  });
  const isOwn = files.map((file) => !file.startsWith('toolcell/') && !file.split(sep).includes('node_modules'));
  const at = [];
  let [file, row, last] = [0, 0, ''];
  map.mappings.split(';').forEach((line, index) => {
    let from = 0;
    for (const segment of line.split(',').filter(Boolean)) {
      const fields = [];
      let [value, shift] = [0, 0];
      for (const letter of segment) {
        const digit = letters.indexOf(letter);
        value += (digit & 31) << shift;
        shift += 5;
        if (digit & 32) continue;
        fields.push(value & 1 ? -(value >> 1) : value >> 1);
        [value, shift] = [0, 0];
      }
      from += fields[0];
      file += fields[1] ?? 0;
      row += fields[2] ?? 0;
      const place = [file, isOwn[file] ? row + 1 : 0];
      if (String(place) !== last) at.push(index + 1, from, ...place);
      last = String(place);
    }
  });
  return { files, at };
}

/** The files that decide how the engine is changed. */
const ENGINE = ['steady.mjs', 'jobs.mjs', 'wasm.mjs'];

/** The engine that the snapshot is taken with, which is made once for each version of it. */
function engine() {
  const native = Object.keys(require.cache).find((file) => file.endsWith('.node') && file.includes('componentize-qjs'));
  if (!native) throw new Error('componentize-qjs has no native module');
  const code = ENGINE.map((file) => readFileSync(join(sdk, file), 'utf8'));
  const known = join(toolchain, `steady-${createHash('sha256').update(JSON.stringify(code)).digest('hex').slice(0, 16)}.wasm`);
  if (existsSync(known)) return readFileSync(known);
  // The smallest is the one of `optSize` and `sync`.
  const [smallest] = engines(readFileSync(native));
  if (!smallest) throw new Error('componentize-qjs has no engine that this build knows');
  const made = steady(smallest);
  const temporary = `${known}.${process.pid}`;
  writeFileSync(temporary, made);
  renameSync(temporary, known);
  return made;
}

/** The user agreed to build the files of the project, and toolcell notices a change of those alone. */
function refuseOutside(inputs) {
  const isIn = (file, folder) => file.startsWith(folder + sep);
  const isSource = (file) => {
    if (!isIn(file, project)) return false;
    const folders = relative(project, file).split(sep).slice(0, -1);
    // Wherever they are, toolcell takes neither the data of git nor `target` beside a manifest of cargo for sources.
    const isMade = (name, at) => name === '.git' || (name === 'target' && existsSync(join(project, ...folders.slice(0, at), 'Cargo.toml')));
    return folders[0] !== '.toolcell' && folders[0] !== 'target' && !folders.some(isMade);
  };
  const outside = inputs.find((file) => !isSource(file) && !isIn(file, sdk));
  if (outside) throw new Complaint(`${outside} is imported and lies outside of the project's sources: copy it into ${project}`);
}

/**
 * componentize-qjs has interfaces of WASI at hand while it takes the snapshot, and cannot link one that it lacks and that has their
 * resources, as `wasi:http` has those of `wasi:io`. So a bundle that uses it imports them by other names, of the same length, and the
 * component gets the real ones.
 */
const ALIASES = ['wasi:http/', 'wasi:io/', 'wasi:clocks/'].map((name) => ({ name, alias: name.replace('wasi:', 'w-si:') }));
const aliased = (text) => ALIASES.reduce((made, { name, alias }) => made.replaceAll(name, alias), text);

function renamed(component) {
  for (const { name, alias } of ALIASES) {
    for (let at = component.indexOf(alias); at >= 0; at = component.indexOf(alias, at)) component.write(name, at);
  }
  return component;
}

/** The contract, and a world of what the bundle imports and exports. */
function writeWit(folder, imports, exported, isAliased) {
  const deps = join(folder, 'deps');
  mkdirSync(join(deps, 'toolcell'), { recursive: true });
  const own = readdirSync(contract).filter((file) => file.endsWith('.wit'));
  for (const file of own) cpSync(join(contract, file), join(deps, 'toolcell', file));
  cpSync(join(contract, 'deps'), deps, { recursive: true });
  cpSync(join(sdk, 'wit'), deps, { recursive: true });
  const lines = imports.map((name) => `  import ${name};`);
  const exports = ['guest', ...exported].map((name) => `  export toolcell:tool/${name}@0.2.0;`);
  const world = ['package toolcell:build;', 'world component {', ...lines, ...exports, '}', ''];
  writeFileSync(join(folder, 'world.wit'), world.join('\n'));
  if (!isAliased) return;
  // The name of a package has no slash behind it.
  for (const file of filesIn(folder)) writeFileSync(file, aliased(readFileSync(file, 'utf8').replaceAll(/^package wasi:(http|io|clocks)@/gm, 'package w-si:$1@')));
}

const filesIn = (folder) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name));

/** A hash of all that decides what the component is. */
function digest(source, wit) {
  const lock = ['toolchain/package-lock.json', ...ENGINE].map((file) => readFileSync(join(sdk, file), 'utf8'));
  const texts = filesIn(wit).map((file) => readFileSync(file, 'utf8')).sort();
  return createHash('sha256').update(JSON.stringify([source, lock, texts])).digest('hex');
}

/** What the toolkit exports beside `guest` is known once its module code has run, in the engine: `component.js` throws it. */
class OtherExports extends Error {
  static of(message) {
    const names = message.match(/toolcell exports: ([a-z ]*);/)?.[1];
    return names === undefined ? undefined : Object.assign(new OtherExports(), { names: names.split(' ').filter(Boolean) });
  }
}

async function main() {
  const { main: module } = manifest();
  const remembered = `${output}.exports`;
  const before = existsSync(remembered) ? JSON.parse(readFileSync(remembered, 'utf8')) : [];
  try {
    await make(module, before, checkTypes);
  } catch (error) {
    if (!(error instanceof OtherExports)) throw error;
    await make(module, error.names, () => {});
    writeFileSync(remembered, JSON.stringify(error.names));
  }
}

async function make(module, exported, check) {
  // First, because it says what the sandbox lacks in its own words.
  const { source, places, imports, files } = await bundle(module, exported);
  check();
  mkdirSync(dirname(output), { recursive: true });
  writeFileSync(`${output}.sources`, JSON.stringify(sourcesOf(files)));
  const folder = mkdtempSync(join(dirname(output), 'wit-'));
  try {
    const isAliased = imports.some((name) => name.startsWith('wasi:http/'));
    writeWit(folder, imports, exported, isAliased);
    const inputs = digest(source, folder);
    const known = `${output}.inputs`;
    if (existsSync(output) && existsSync(known) && readFileSync(known, 'utf8') === inputs) return;
    rmSync(known, { force: true });
    const { componentize } = require('componentize-qjs');
    // In the bundle, the names of imports alone have these quotes before them.
    const jsSource = isAliased ? source.replaceAll(/from"wasi:[^"]*"/g, aliased) : source;
    const options = { witPath: folder, world: 'component', jsSource, runtimeBytes: engine() };
    const { component } = await componentize(options).catch((error) => {
      const other = OtherExports.of(error.message);
      if (other) throw other;
      // Most often an exception of the module code, which runs here.
      throw new Complaint(placed(error.message.replace(/^[: ]+/, ''), places));
    });
    writeFileSync(output, isAliased ? renamed(component) : component);
    writeFileSync(known, inputs);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

try {
  await main();
} catch (error) {
  // esbuild has printed its own errors, each with its place.
  const text = error instanceof Complaint ? error.message : error?.errors ? 'the sources do not bundle' : (error?.stack ?? String(error));
  process.stderr.write(`error: ${text}\n`);
  process.exitCode = 1;
}
