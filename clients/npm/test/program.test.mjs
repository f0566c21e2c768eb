// Where the program is found, what the package needs, and which options it has.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { test } from "node:test";

import { PACKAGE, scratch } from "./support.mjs";

function program(path) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, "#!/bin/sh\n");
  chmodSync(path, 0o755);
  return path;
}

test("the option, then the variable, then the package of the platform, then the path", (test) => {
  const folder = scratch(test);
  const [option, variable, onPath] = ["option", "variable", "path"].map((name) => program(join(folder, name, "toolcell")));
  const lib = join(folder, "node_modules/toolcell/lib");
  cpSync(join(PACKAGE, "lib"), lib, { recursive: true });
  const platform = join(folder, `node_modules/@toolcell/${process.platform}-${process.arch}`);
  const installed = program(join(platform, "bin/toolcell"));
  writeFileSync(join(platform, "package.json"), "{}");
  const url = pathToFileURL(join(lib, "program.js")).href;
  const find = (argument, env, cwd) => {
    const script = `import { findProgram } from ${JSON.stringify(url)};
      try { console.log(findProgram(process.argv[1])); } catch (error) { console.log(error.message); }`;
    const args = ["--input-type=module", "-e", script, ...(argument ? [argument] : [])];
    return execFileSync(process.execPath, args, { env, cwd, encoding: "utf8" }).trim();
  };
  const env = { PATH: dirname(onPath) };
  assert.equal(find(option, { ...env, TOOLCELL: variable }), option);
  assert.equal(find("toolcell", env), onPath, "a name is looked up in PATH");
  assert.equal(find(undefined, { ...env, TOOLCELL: variable }), variable);
  assert.match(find(undefined, { ...env, TOOLCELL: "/no/such/program" }), /the variable TOOLCELL names "\/no\/such\/program"/);
  assert.equal(find(undefined, env), installed);
  rmSync(platform, { recursive: true });
  assert.equal(find(undefined, env), onPath);
  for (const path of ["", ".", "::", ":path"]) {
    const here = find(undefined, { PATH: path }, dirname(onPath));
    assert.match(here, /there is no package @toolcell\//, `a relative entry of PATH: ${path}`);
  }
  assert.match(find(undefined, { PATH: "/nowhere" }), /there is no package @toolcell\//);
});

test("it needs nothing but Node, and for a framework that framework", () => {
  const manifest = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8"));
  assert.equal(manifest.dependencies, undefined);
  const optional = Object.entries(manifest.peerDependenciesMeta).map(([name, { optional }]) => optional && name);
  assert.deepEqual(optional, Object.keys(manifest.peerDependencies));
  for (const file of readdirSync(join(PACKAGE, "lib"))) {
    for (const [, name] of readFileSync(join(PACKAGE, "lib", file), "utf8").matchAll(/ from "([^"]+)"/g)) {
      const isOwn = name.startsWith("./") && !name.startsWith("./ai");
      const isOfFramework = file.startsWith("ai") && (name === "ai" || name.startsWith("./ai"));
      assert.ok(isOwn || isOfFramework || builtinModules.includes(name.replace("node:", "")), `${file}: ${name}`);
    }
  }
});

test("every option is one of the program", async () => {
  const { argumentsOf } = await import("../lib/options.js");
  const helped = execFileSync(process.env.TOOLCELL, ["mcp", "--help"], { encoding: "utf8" });
  const source = readFileSync(join(PACKAGE, "lib/options.d.ts"), "utf8");
  const fields = [...source.matchAll(/^ {4}(\w+)\?: (.*);$/gm)].filter(([, name]) => name !== "tools");
  assert.ok(fields.length > 20, source);
  const values = [["readonly", ["x"]], ["number", 1], ["boolean", true]];
  const given = (type) => values.find(([kind]) => type.startsWith(kind))?.[1] ?? "x";
  const options = Object.fromEntries(fields.map(([, name, type]) => [name, given(type)]));
  for (const argument of argumentsOf(options, []).slice(1, -1)) {
    const [option] = argument.split("=");
    assert.ok([" <", "[=<", "\n"].some((end) => helped.includes(option + end)), argument);
  }
  const some = { allowRead: ["a", "b"], timeout: 1500, memory: "64MiB", config: false, tools: ["-t"] };
  const made = ["mcp", "--allow-read=a", "--allow-read=b", "--memory=64MiB", "--timeout=1500ms", "--no-config", "--", "-t"];
  assert.deepEqual(argumentsOf(some, []), made);
  for (const [workspace, said] of [["w", ["--workspace=w"]], [true, ["--workspace"]], [false, []]]) {
    assert.deepEqual(argumentsOf({ workspace }, []), ["mcp", ...said, "--"]);
  }
});
