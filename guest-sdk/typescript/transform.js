// The hooks of register.js, which Node runs in a thread of their own.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

let esbuild;

export function initialize({ toolchain }) {
  esbuild = createRequire(join(toolchain, 'package.json'))('esbuild');
}

export async function load(url, context, next) {
  if (!url.startsWith('file:') || !/\.m?ts$/.test(new URL(url).pathname)) return next(url, context);
  const sourcefile = fileURLToPath(url);
  const options = { loader: 'ts', format: 'esm', sourcefile, sourcemap: 'inline', target: 'node20' };
  const { code } = await esbuild.transform(readFileSync(sourcefile, 'utf8'), options);
  return { format: 'module', source: code, shortCircuit: true };
}
