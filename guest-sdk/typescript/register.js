// Lets Node run TypeScript. Node 22.18 and later do so themselves; for others, esbuild of the toolchain transforms each file.
import { existsSync, readFileSync } from 'node:fs';
import { register as hook } from 'node:module';

/** `place`: the URL of a file with the path of the toolchain, which `toolcell build` writes. */
export function register(place) {
  if (process.features.typescript) return;
  if (!existsSync(place)) {
    throw new Error(`Node ${process.versions.node} runs no TypeScript itself: run \`toolcell build\` first, or use Node 22.18 or later`);
  }
  const data = { toolchain: readFileSync(place, 'utf8').trim() };
  hook('./transform.js', { parentURL: import.meta.url, data });
}
