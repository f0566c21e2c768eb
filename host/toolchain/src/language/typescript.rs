//! TypeScript, and what JavaScript shares with it: Node.js runs `build.mjs` of the SDK, with fetched programs.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::super::ProgressSink;
use super::super::make::CompileJob;
use super::super::sdk::files;
use super::super::sources::SourceScope;
use super::super::toolchain_cache::ToolchainPart;
use super::fetched::{FetchedToolchain, NAMED_MAX, listed, outside, reached};
use super::{EmbeddedFile, LanguageRow, every_name, quoted_path, sdk_folder, utf8};

const TOOL: &[EmbeddedFile] = &[
    (
        "package.json",
        include_str!("../template/typescript/package.json"),
    ),
    (
        "tsconfig.json",
        include_str!("../template/typescript/tsconfig.json"),
    ),
    (
        "src/tool.ts",
        include_str!("../template/typescript/tool.ts"),
    ),
    (
        "test/tool.test.ts",
        include_str!("../template/typescript/tool.test.ts"),
    ),
    (
        "README.md",
        include_str!("../template/typescript/README.md"),
    ),
    (
        ".gitignore",
        include_str!("../template/typescript/gitignore"),
    ),
];

const SDK: &[EmbeddedFile] = files![
    "guest-sdk/typescript/README.md",
    "guest-sdk/typescript/abort.js",
    "guest-sdk/typescript/build.mjs",
    "guest-sdk/typescript/component.js",
    "guest-sdk/typescript/console.js",
    "guest-sdk/typescript/encoding.js",
    "guest-sdk/typescript/error.js",
    "guest-sdk/typescript/fetch.js",
    "guest-sdk/typescript/files.js",
    "guest-sdk/typescript/form.js",
    "guest-sdk/typescript/globals.d.ts",
    "guest-sdk/typescript/globals.js",
    "guest-sdk/typescript/host.component.js",
    "guest-sdk/typescript/host.native.js",
    "guest-sdk/typescript/http.js",
    "guest-sdk/typescript/index.d.ts",
    "guest-sdk/typescript/index.js",
    "guest-sdk/typescript/jobs.mjs",
    "guest-sdk/typescript/loop.js",
    "guest-sdk/typescript/message.js",
    "guest-sdk/typescript/more.js",
    "guest-sdk/typescript/package.json",
    "guest-sdk/typescript/places.js",
    "guest-sdk/typescript/register.js",
    "guest-sdk/typescript/schema.js",
    "guest-sdk/typescript/steady.mjs",
    "guest-sdk/typescript/testing.d.ts",
    "guest-sdk/typescript/testing.js",
    "guest-sdk/typescript/text.js",
    "guest-sdk/typescript/toolchain/package-lock.json",
    "guest-sdk/typescript/toolchain/package.json",
    "guest-sdk/typescript/toolkit.js",
    "guest-sdk/typescript/transform.js",
    "guest-sdk/typescript/url.js",
    "guest-sdk/typescript/utf8.js",
    "guest-sdk/typescript/wasm.mjs",
    "guest-sdk/typescript/wit/cli/cli.wit",
    "guest-sdk/typescript/wit/clocks/clocks.wit",
    "guest-sdk/typescript/wit/filesystem/filesystem.wit",
    "guest-sdk/typescript/wit/http/http.wit",
    "guest-sdk/typescript/wit/io/streams.wit",
    "guest-sdk/typescript/wit/random/random.wit",
];

/// Sizes are for Linux on x86-64.
pub(super) static PART: ToolchainPart = ToolchainPart {
    name: "componentize-qjs-0.4.5-esbuild-0.28.2-typescript-5.9.3",
    contents: "componentize-qjs 0.4.5, esbuild 0.28.2 and typescript 5.9.3",
    registry: "npm",
    download_mb: 22,
    disk_mb: 72,
    needs: &[
        ("node", "install Node.js 20 or later"),
        ("npm", "install npm, which most packages of Node.js contain"),
    ],
    made_of: String::new,
    set_up: |set_up, say| {
        let package = include_str!("../../../../guest-sdk/typescript/toolchain/package.json");
        let lock = include_str!("../../../../guest-sdk/typescript/toolchain/package-lock.json");
        set_up.npm(package, lock, say)
    },
};

/// A project finds the SDK here, by the `imports` of its package.json.
const LOCAL: &str = ".toolcell";

pub(super) static TYPESCRIPT: LanguageRow = LanguageRow {
    name: "typescript",
    title: "TypeScript",
    marks: &["package.json", "tsconfig.json"],
    tool: TOOL,
    hook: &[],
    local_files,
    refuses_name: every_name,
    sdk: SDK,
    test_command: "npm test",
    fetched: Some(FetchedToolchain {
        part: &PART,
        made_beside: MADE_BESIDE,
        steering: STEERING,
        beside: |dir| Ok(outside(dir, extended(dir)?)),
        read,
        skips: false,
        compile,
    }),
};

/// `build.mjs` refuses modules of this folder.
pub(super) const MADE_BESIDE: &[&str] = &["./.toolcell"];

/// Read by esbuild and tsc from a project's folder and its parents.
pub(super) const STEERING: &[&str] = &["package.json", "tsconfig.json", "jsconfig.json"];

/// Includes the configurations that they extend by a path, a list of paths, or the name of a package.
pub(super) fn extended(dir: &Path) -> Result<Vec<PathBuf>> {
    let own = |folder: &Path| ["tsconfig.json", "jsconfig.json"].map(|name| folder.join(name));
    reached(
        dir,
        dir.ancestors().flat_map(own).collect(),
        |file, text| {
            let folder = file.parent().unwrap_or(dir);
            // One more than may be named, so that the rest is refused and takes no memory.
            named_in(text)
                .iter()
                .flat_map(|name| candidates(folder, name))
                .take(NAMED_MAX + 1)
                .collect()
        },
    )
}

/// Behind each `"extends":`, in JSON with comments and trailing commas.
fn named_in(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for rest in text.split("\"extends\"").skip(1) {
        let Some(value) = rest.trim_start().strip_prefix(':') else {
            continue;
        };
        let value = value.trim_start();
        let end = if value.starts_with('[') {
            value.find(']')
        } else {
            value.find([',', '}', '\n'])
        };
        let value = end.and_then(|end| value.get(..end)).unwrap_or(value);
        // Every second part is between quotes.
        found.extend(
            value
                .split('"')
                .skip(1)
                .step_by(2)
                .map(|name| name.replace("\\/", "/")),
        );
    }
    found
}

fn candidates(folder: &Path, name: &str) -> Vec<PathBuf> {
    let is_path = name.starts_with(['.', '/']);
    let places: Vec<PathBuf> = if is_path {
        vec![folder.join(name)]
    } else {
        folder
            .ancestors()
            .map(|above| above.join("node_modules").join(name))
            .collect()
    };
    let spellings = |place: PathBuf| {
        let mut json = place.clone().into_os_string();
        json.push(".json");
        [
            PathBuf::from(json),
            place.join("tsconfig.json"),
            place.join("package.json"),
            place,
        ]
    };
    places.into_iter().flat_map(spellings).collect()
}

/// Lead to the SDK's modules, for editors and for native tests.
pub(super) fn local_files(sdk: &Path) -> Result<Vec<(String, String)>> {
    let folder = sdk_folder(sdk, "typescript")?;
    let path = |file: &str| quoted_path(&folder.join(file));
    // Node reads what it imports as a URL; tsc reads a path.
    let url = |file: &str| {
        path(file).map(|text| {
            text.replace('%', "%25")
                .replace('?', "%3F")
                .replace('#', "%23")
        })
    };
    let export = |from: String| format!("export * from {from};\n");
    let register = url("register.js")?;
    let texts = [
        ("index.js", export(url("index.js")?)),
        ("index.d.ts", export(path("index.js")?)),
        ("testing.js", export(url("testing.js")?)),
        ("testing.d.ts", export(path("testing.js")?)),
        (
            "globals.d.ts",
            format!("/// <reference path={} />\n", path("globals.d.ts")?),
        ),
        (
            "register.js",
            format!(
                "import {{ register }} from {register};\n\nregister(new URL('toolchain', import.meta.url));\n"
            ),
        ),
        ("package.json", "{ \"type\": \"module\" }\n".to_owned()),
    ];
    Ok(texts
        .into_iter()
        .map(|(name, text)| (format!("{LOCAL}/{name}"), text))
        .collect())
}

pub(super) fn compile(job: &CompileJob, say: ProgressSink) -> Result<PathBuf> {
    let toolchain = job.part_folder(&PART);
    write_local_files(job, &toolchain)?;
    let component = component(job);
    let mut node = job.on_path("node")?;
    node.arg(job.sdk.join("guest-sdk/typescript/build.mjs"));
    node.args([
        toolchain.as_path(),
        job.dir,
        &job.sdk.join("wit"),
        &component,
    ]);
    say("checking types, bundling, and running the module code once in QuickJS");
    job.run(node, say)?;
    Ok(component)
}

pub(super) fn read(job: &CompileJob) -> Result<SourceScope> {
    let mut scope = listed(&component(job))?;
    scope.files.extend(extended(job.dir)?);
    Ok(scope)
}

fn component(job: &CompileJob) -> PathBuf {
    job.work.join(format!("{}.component.wasm", job.name))
}

fn write_local_files(job: &CompileJob, toolchain: &Path) -> Result<()> {
    let mut texts = local_files(job.sdk)?;
    let place = utf8(toolchain)?;
    texts.push((format!("{LOCAL}/toolchain"), format!("{place}\n")));
    job.refresh(texts)
}
