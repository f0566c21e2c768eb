//! C++: a header over the SDK of C, compiled by Zig's compiler.

use std::path::PathBuf;

use anyhow::{Error, Result};

use super::super::ProgressSink;
use super::super::make::CompileJob;
use super::super::sdk::files;
use super::c::{
    C_STANDARD, REACTOR, STRIPPED, WORLD, ZIG, graph, include, included, local_files,
    project_sources, sdk_sources, zig,
};
use super::fetched::FetchedToolchain;
use super::{EmbeddedFile, LanguageRow, every_name};

const TOOL: &[EmbeddedFile] = &[
    ("tool.cpp", include_str!("../template/cpp/tool.cpp")),
    (
        "tool_test.cpp",
        include_str!("../template/cpp/tool_test.cpp"),
    ),
    ("Makefile", include_str!("../template/cpp/Makefile")),
    ("README.md", include_str!("../template/c/README.md")),
    (".gitignore", include_str!("../template/c/gitignore")),
];

pub(super) static CPP: LanguageRow = LanguageRow {
    name: "cpp",
    title: "C++",
    marks: &["tool.cpp"],
    tool: TOOL,
    hook: &[],
    local_files: |sdk| local_files(sdk, &["c", "cpp"]),
    refuses_name: every_name,
    // Its own files. Those of C are carried for C.
    sdk: files![
        "guest-sdk/cpp/toolcell.hpp",
        "guest-sdk/cpp/toolcell_types.hpp",
    ],
    test_command: "make test",
    fetched: Some(FetchedToolchain {
        part: &ZIG,
        made_beside: &["./target"],
        steering: &[],
        beside: |dir| included(dir, "cpp"),
        read: |job| graph(job, "cpp"),
        skips: false,
        compile,
    }),
};

/// The C++ library lacks these in the sandbox; names of the compiler and the linker.
const LACKING: [&str; 10] = [
    "basic_ifstream",
    "basic_ofstream",
    "basic_fstream",
    "filesystem::",
    "named 'mutex'",
    "named 'lock_guard'",
    "named 'thread'",
    "named 'jthread'",
    "named 'condition_variable'",
    "named 'async'",
];

fn explained(error: Error) -> Error {
    let text = error.to_string();
    if LACKING.iter().any(|name| text.contains(name)) {
        Error::msg(format!(
            "{text}\nthe C++ library of the sandbox has no <fstream>, std::filesystem, std::thread and std::mutex: read and write \
             files with fopen and the functions of POSIX, and leave out threads and locks"
        ))
    } else {
        error
    }
}

fn compile(job: &CompileJob, say: ProgressSink) -> Result<PathBuf> {
    let module = job.work.join("module.wasm");
    let mut objects = Vec::new();
    // Apart, because they are C.
    for source in sdk_sources(job) {
        let object = job
            .work
            .join(source.with_extension("o").file_name().unwrap_or_default());
        let mut zig = zig(job, "cc")?;
        zig.args(REACTOR)
            .arg(C_STANDARD)
            .arg(include(job, "c"))
            .arg("-c")
            .arg(&source)
            .arg("-o")
            .arg(&object);
        job.run(zig, say)?;
        objects.push(object);
    }
    let mut zig = zig(job, "c++")?;
    zig.args(REACTOR).args([
        "-std=gnu++20",
        "-fno-exceptions",
        "-fno-rtti",
        "-Wall",
        "-Wextra",
        "-I.",
    ]);
    zig.arg(include(job, "c"))
        .arg(include(job, "cpp"))
        .args(project_sources(job.dir, "cpp")?)
        .args(objects);
    zig.args(STRIPPED).arg("-o").arg(&module);
    let said = (
        "compiling C++",
        "compiles its libraries, which takes a minute or two",
    );
    job.compile(&ZIG, said, zig, say).map_err(explained)?;
    job.componentize(&module, Some(WORLD))
}
