// Validates the manifest of an MCP bundle: lint.mjs NODE_MODULES MANIFEST
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, file] = process.argv.slice(2);
const { MANIFEST_SCHEMAS } = await import(pathToFileURL(join(modules, "@anthropic-ai/mcpb/dist/shared/constants.js")));
const manifest = JSON.parse(readFileSync(file, "utf8"));
const schema = MANIFEST_SCHEMAS[manifest.manifest_version];
if (schema === undefined) throw new Error(`manifest_version ${manifest.manifest_version} is unknown`);
const wrong = schema.safeParse(manifest).error?.issues ?? [];
for (const issue of wrong) console.error(`${file}: ${issue.path.join(".")}: ${issue.message}`);
process.exit(wrong.length === 0 ? 0 : 1);
