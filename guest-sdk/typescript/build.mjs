// Makes the component of a tool: node build.mjs TOOLCHAIN PROJECT WIT OUTPUT
//   TOOLCHAIN  the folder of node_modules with esbuild, componentize-qjs and typescript, in the versions of its lock file
//   PROJECT    the tool's folder, with its package.json
//   WIT        the folder of the contract
//   OUTPUT     the component
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

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
  const run = spawnSync(process.execPath, [tsc, '--noEmit', '--pretty', 'false', '-p', config], { stdio: ['ignore', 2, 2] });
  if (run.status !== 0) throw new Complaint('the types do not fit');
}

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

async function bundle(main) {
  const { build } = require('esbuild');
  const entry = [
    `import { component } from ${JSON.stringify(join(sdk, 'component.js'))};`,
    `import kit from ${JSON.stringify(resolve(project, main))};`,
    'export const guest = component(kit);',
  ];
  const made = await build({
    stdin: { contents: entry.join('\n'), resolveDir: project, sourcefile: 'entry.js' },
    absWorkingDir: project,
    bundle: true,
    write: false,
    metafile: true,
    format: 'esm',
    // "neutral" would ignore the `main` of packages; nothing of a browser or of Node exists in QuickJS.
    platform: 'neutral',
    mainFields: ['module', 'main'],
    conditions: ['toolcell'],
    target: 'es2023',
    // Names are kept, because stack traces go into the record of a failed call.
    minifySyntax: true,
    legalComments: 'none',
    logLevel: 'warning',
    plugins: [contractImports],
  });
  const [{ imports }] = Object.values(made.metafile.outputs);
  // `<data:..>` is no file.
  const inputs = Object.keys(made.metafile.inputs).filter((file) => file !== 'entry.js' && !file.startsWith('<'));
  refuseOutside(inputs.map((file) => resolve(project, file)));
  return { source: made.outputFiles[0].text, imports: [...new Set(imports.map(({ path }) => path))].sort() };
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

/** The contract, and a world of what the bundle imports. */
function writeWit(folder, imports) {
  const deps = join(folder, 'deps');
  mkdirSync(join(deps, 'toolcell'), { recursive: true });
  const own = readdirSync(contract).filter((file) => file.endsWith('.wit'));
  for (const file of own) cpSync(join(contract, file), join(deps, 'toolcell', file));
  cpSync(join(contract, 'deps'), deps, { recursive: true });
  cpSync(join(sdk, 'wit'), deps, { recursive: true });
  const lines = imports.map((name) => `  import ${name};`);
  const world = ['package toolcell:build;', 'world component {', ...lines, '  export toolcell:tool/guest@0.2.0;', '}', ''];
  writeFileSync(join(folder, 'world.wit'), world.join('\n'));
}

/** A hash of all that decides what the component is: two snapshots of the same sources differ, and a component that changes
 * without its sources would lose what was approved for it. */
function digest(source, wit) {
  const lock = readFileSync(join(sdk, 'toolchain', 'package-lock.json'), 'utf8');
  const files = readdirSync(wit, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const texts = files.map((entry) => readFileSync(join(entry.parentPath ?? entry.path, entry.name), 'utf8')).sort();
  return createHash('sha256').update(JSON.stringify([source, lock, texts])).digest('hex');
}

async function main() {
  const { main: module } = manifest();
  checkTypes();
  const { source, imports } = await bundle(module);
  mkdirSync(dirname(output), { recursive: true });
  const folder = mkdtempSync(join(dirname(output), 'wit-'));
  try {
    writeWit(folder, imports);
    const inputs = digest(source, folder);
    const known = `${output}.inputs`;
    if (existsSync(output) && existsSync(known) && readFileSync(known, 'utf8') === inputs) return;
    rmSync(known, { force: true });
    const { componentize } = require('componentize-qjs');
    const options = { witPath: folder, world: 'component', jsSource: source, sync: true, optSize: true };
    const { component } = await componentize(options).catch((error) => {
      // Most often an exception of the module code, which runs here.
      throw new Complaint(error.message.replace(/^[: ]+/, ''));
    });
    writeFileSync(output, component);
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
