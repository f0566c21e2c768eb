//! Zig: a module over the SDK of C.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::super::ProgressSink;
use super::super::make::CompileJob;
use super::super::sdk::files;
use super::super::sources::SourceScope;
use super::c::{
    C_STANDARD, STACK, WORLD, ZIG, include, included, local_files, named, note_program,
    sdk_sources, zig,
};
use super::fetched::FetchedToolchain;
use super::{EmbeddedFile, LanguageRow, every_name};

const TOOL: &[EmbeddedFile] = &[
    ("tool.zig", include_str!("../template/zig/tool.zig")),
    ("Makefile", include_str!("../template/zig/Makefile")),
    ("README.md", include_str!("../template/zig/README.md")),
    (".gitignore", include_str!("../template/c/gitignore")),
];

pub(super) static LANGUAGE: LanguageRow = LanguageRow {
    name: "zig",
    title: "Zig",
    marks: &["tool.zig"],
    tool: TOOL,
    hook: &[],
    local_files: |sdk| local_files(sdk, &["c"]),
    refuses_name: every_name,
    // Its own files. Those of C are carried for C.
    sdk: files![
        "guest-sdk/zig/http.zig",
        "guest-sdk/zig/schema.zig",
        "guest-sdk/zig/testing.zig",
        "guest-sdk/zig/toolcell.zig",
    ],
    test_command: "make test",
    fetched: Some(FetchedToolchain {
        part: &ZIG,
        made_beside: &["./target", ".zig-cache", "zig-out"],
        steering: &[],
        beside: |dir| included(dir, "zig"),
        read,
        skips: true,
        compile,
    }),
};

/// The root module, and what it imports, embeds and includes, directly or not. Zig takes names that are written out
/// alone.
fn read(job: &CompileJob) -> Result<SourceScope> {
    named(job.dir, vec![job.dir.join("tool.zig")]).map(SourceScope::of_files)
}

fn compile(job: &CompileJob, say: ProgressSink) -> Result<PathBuf> {
    let module = job.work.join("module.wasm");
    let mut output = OsString::from("-femit-bin=");
    output.push(&module);
    let mut sdk = OsString::from("-Mtoolcell=");
    sdk.push(job.sdk.join("guest-sdk").join("zig").join("toolcell.zig"));
    let mut command = zig(job, "build-exe")?;
    // With Zig's checks, as in tests: an index out of bounds or an overflow ends the call, and gives no wrong answer.
    command.args([
        "-target",
        "wasm32-wasi",
        "-mexec-model=reactor",
        "-rdynamic",
        "-lc",
        "-OReleaseSafe",
        "-fstrip",
    ]);
    // The SDK's C is compiled as it is for C.
    command.arg("-fno-sanitize-c");
    command
        .args(["--gc-sections", "--stack", STACK])
        .arg(output)
        .arg(include(job, "c"));
    command
        .args(["-cflags", C_STANDARD, "--"])
        .args(sdk_sources(job));
    command
        .args(["--dep", "toolcell", "-Mroot=tool.zig"])
        .arg(sdk);
    let program = Path::new(command.get_program()).to_owned();
    let said = (
        "compiling Zig",
        "compiles the C library, which takes a minute",
    );
    job.compile(&ZIG, said, command, say)?;
    note_program(job.dir, "zig.mk", "ZIG", &program)?;
    job.componentize(&module, Some(WORLD))
}
