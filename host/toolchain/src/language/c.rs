//! C, and what C++ and Zig share with it: Zig's compiler, the SDK's functions, and the world of a component.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::super::ProgressSink;
use super::super::make::CompileJob;
use super::super::record;
use super::super::sdk::files;
use super::super::sources::{FileGroup, SourceScope};
use super::super::toolchain_cache::{ToolchainPart, program};
use super::fetched::{FetchedToolchain, outside, reached};
use super::{EmbeddedFile, LanguageRow, every_name, utf8};

/// Zig compiles C and C++, too, with their libraries for WASI.
pub(in super::super) static ZIG: ToolchainPart = ToolchainPart {
    name: "ziglang-0.17.0",
    contents: "Zig 0.17.0, a compiler of C, C++ and Zig",
    registry: "PyPI",
    download_mb: 101,
    disk_mb: 500,
    needs: &[("python3", "install Python 3.9 or later, with pip")],
    made_of: String::new,
    set_up: |set_up, say| set_up.pip(ZIG_REQUIREMENT, say),
};

/// Wheels for Linux and macOS, each on x86-64 and ARM.
const ZIG_REQUIREMENT: &str = "ziglang==0.17.0 \
    --hash=sha256:97079827064a7492cce5541ceb438ae8003ce1e54e399676da2d62fb7a5dc08b \
    --hash=sha256:d2804f94f54f7fcf8169f4b212a619ad688a4e2e6592e976f0cf2e58e2cd8af3 \
    --hash=sha256:87274af689c4128051b26c80f6f676757e0a81c2fdc137fd8b5679e928e4bc4f \
    --hash=sha256:4d910f0e363ddb60a6b8ddb55235617797a8ccbcb6c5c7132a949d9f833eea42\n";

pub(super) const SDK: &[EmbeddedFile] = files![
    "guest-sdk/c/toolcell.c",
    "guest-sdk/c/toolcell.h",
    "guest-sdk/c/toolcell_component.c",
    "guest-sdk/c/toolcell_declare.c",
    "guest-sdk/c/toolcell_http.c",
    "guest-sdk/c/toolcell_memory.c",
    "guest-sdk/c/toolcell_testing.c",
    "guest-sdk/c/wit/deps/clocks/clocks.wit",
    "guest-sdk/c/wit/deps/http/http.wit",
    "guest-sdk/c/wit/deps/io/streams.wit",
    "guest-sdk/c/wit/world.wit",
];

pub(super) const WORLD: (&[EmbeddedFile], &str) = (
    &[
        (
            "world.wit",
            include_str!("../../../../guest-sdk/c/wit/world.wit"),
        ),
        (
            "deps/clocks/clocks.wit",
            include_str!("../../../../guest-sdk/c/wit/deps/clocks/clocks.wit"),
        ),
        (
            "deps/http/http.wit",
            include_str!("../../../../guest-sdk/c/wit/deps/http/http.wit"),
        ),
        (
            "deps/io/poll.wit",
            include_str!("../../../../wit/deps/io/poll.wit"),
        ),
        (
            "deps/io/streams.wit",
            include_str!("../../../../guest-sdk/c/wit/deps/io/streams.wit"),
        ),
        (
            "deps/tool/tool.wit",
            include_str!("../../../../wit/tool.wit"),
        ),
    ],
    "tool",
);

const TOOL: &[EmbeddedFile] = &[
    ("tool.c", include_str!("../template/c/tool.c")),
    ("tool_test.c", include_str!("../template/c/tool_test.c")),
    ("Makefile", include_str!("../template/c/Makefile")),
    ("README.md", include_str!("../template/c/README.md")),
    (".gitignore", include_str!("../template/c/gitignore")),
];

pub(super) static C: LanguageRow = LanguageRow {
    name: "c",
    title: "C",
    marks: &["tool.c"],
    tool: TOOL,
    hook: &[],
    local_files: |sdk| local_files(sdk, &["c"]),
    refuses_name: every_name,
    sdk: SDK,
    test_command: "make test",
    fetched: Some(FetchedToolchain {
        part: &ZIG,
        made_beside: &["./target"],
        steering: &[],
        beside: |dir| included(dir, "c"),
        read: |job| graph(job, "c"),
        skips: false,
        compile,
    }),
};

fn compile(job: &CompileJob, say: ProgressSink) -> Result<PathBuf> {
    let module = job.work.join("module.wasm");
    let mut zig = zig(job, "cc")?;
    zig.args(REACTOR)
        .args([C_STANDARD, "-Wall", "-Wextra", "-I."])
        .arg(include(job, "c"));
    zig.args(project_sources(job.dir, "c")?)
        .args(sdk_sources(job))
        .args(STRIPPED)
        .arg("-o")
        .arg(&module);
    let said = (
        "compiling C",
        "compiles the C library, which takes a minute",
    );
    job.compile(&ZIG, said, zig, say)?;
    job.componentize(&module, Some(WORLD))
}

/// The headers hide the functions of POSIX, such as `getline`, from strict C.
pub(super) const C_STANDARD: &str = "-std=gnu11";

/// In bytes, equal to the stack of calls, which the host limits. It is part of the memory of each call; the default is
/// 16 MiB.
pub(super) const STACK: &str = "2097152";

/// The linker removes unused functions of such a library. An import that is left would be one of the component.
pub(super) const REACTOR: [&str; 6] = [
    "-target",
    "wasm32-wasi",
    "-mexec-model=reactor",
    "-Os",
    "-ffunction-sections",
    "-fdata-sections",
];
pub(super) const STRIPPED: [&str; 2] = [
    "-Wl,--gc-sections,--strip-debug",
    "-Wl,-z,stack-size=2097152",
];

pub(crate) const ZIG_PROGRAM: &str = "python/ziglang/zig";

pub(super) fn zig(job: &CompileJob, subcommand: &str) -> Result<Command> {
    let part = job.part_folder(&ZIG);
    let mut command = job.command(&program(&part, ZIG_PROGRAM)?);
    command.arg(subcommand);
    command
        .env("ZIG_GLOBAL_CACHE_DIR", part.join("cache"))
        .env("ZIG_LOCAL_CACHE_DIR", job.work.join("zig"));
    Ok(command)
}

pub(super) fn include(job: &CompileJob, language: &str) -> OsString {
    let mut option = OsString::from("-I");
    option.push(job.sdk.join("guest-sdk").join(language));
    option
}

pub(super) fn sdk_sources(job: &CompileJob) -> Vec<PathBuf> {
    let folder = job.sdk.join("guest-sdk").join("c");
    let names = [
        "toolcell.c",
        "toolcell_component.c",
        "toolcell_declare.c",
        "toolcell_http.c",
        "toolcell_memory.c",
    ];
    names.iter().map(|name| folder.join(name)).collect()
}

fn sources(dir: &Path, extension: &str) -> FileGroup {
    let ends = vec![format!(".{extension}")];
    let tests = format!("_test.{extension}");
    FileGroup {
        folder: dir.to_owned(),
        ends,
        tests,
        deep: true,
    }
}

pub(super) fn project_sources(dir: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let files = sources(dir, extension).files()?;
    // A name can begin with a hyphen, which would make it an option.
    Ok(files
        .iter()
        .map(|file| Path::new(".").join(file.strip_prefix(dir).unwrap_or(file)))
        .collect())
}

/// The headers elsewhere that the sources name by a path, such as `#include "../shared/a.h"`, and those that these
/// name. A path that a macro makes is not found.
pub(super) fn included(dir: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    Ok(outside(
        dir,
        named(dir, sources(dir, extension).files().unwrap_or_default())?,
    ))
}

/// Includes what the files `first` lead to.
pub(super) fn named(dir: &Path, first: Vec<PathBuf>) -> Result<Vec<PathBuf>> {
    reached(dir, first, |file, text| {
        let folders = [file.parent().unwrap_or(dir), dir];
        text.lines()
            .flat_map(included_in)
            .flat_map(|name| folders.map(|folder| folder.join(name)))
            .collect()
    })
}

/// The project's sources, and their includes.
pub(super) fn graph(job: &CompileJob, extension: &str) -> Result<SourceScope> {
    let group = sources(job.dir, extension);
    let mut scope = SourceScope::of_files(named(job.dir, group.files()?)?);
    scope.groups.insert(group);
    Ok(scope)
}

fn included_in(line: &str) -> Vec<&str> {
    let of_zig = ["@cInclude(", "@import(", "@embedFile("]
        .into_iter()
        .flat_map(move |function| line.split(function).skip(1));
    let of_zig =
        of_zig.filter_map(|rest| Some(rest.trim_start().strip_prefix('"')?.split_once('"')?.0));
    of_zig.chain(directive(line)).collect()
}

fn directive(line: &str) -> Option<&str> {
    let rest = line
        .trim_start()
        .strip_prefix('#')?
        .trim_start()
        .strip_prefix("include")?
        .trim_start();
    let end = if rest.starts_with('<') { '>' } else { '"' };
    let name = rest.strip_prefix(['<', '"'])?;
    Some(name.split_once(end)?.0)
}

pub(super) fn local_files(sdk: &Path, languages: &[&str]) -> Result<Vec<(String, String)>> {
    let folder = std::path::absolute(sdk)
        .context("cannot find the SDK")?
        .join("guest-sdk");
    let text = utf8(&folder)?;
    if text.contains(['\n', '\r', '"', '`']) {
        bail!(
            "{text} contains characters that a Makefile cannot: choose another folder with TOOLCELL_HOME"
        );
    }
    let flags: String = languages
        .iter()
        .map(|language| format!("-I{text}/{language}\n"))
        .collect();
    Ok(vec![
        (
            "sdk.mk".to_owned(),
            format!(
                "# Written by toolcell: where its SDK is.\nSDK := {}\n",
                for_make(text)
            ),
        ),
        ("compile_flags.txt".to_owned(), flags),
    ])
}

/// Tells `make test` the compiler in `target/FILE`, so that no other one has to be installed.
pub(super) fn note_program(dir: &Path, file: &str, variable: &str, program: &Path) -> Result<()> {
    let text = for_make(utf8(program)?);
    let folder = dir.join("target");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let line = format!("{variable} ?= {text}\n");
    record::replace(&folder.join(file), line.as_bytes())
}

fn for_make(text: &str) -> String {
    text.replace('$', "$$").replace('#', "\\#")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_no_part_of_a_component() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "tool.c",
            "tool_test.c",
            "-a.c",
            "tool.h",
            "tool.cpp",
            "lib/x.c",
            "tests/y.c",
            "target/z.c",
        ] {
            super::super::super::project::write(&dir.path().join(name), "").unwrap();
        }
        assert_eq!(
            project_sources(dir.path(), "c").unwrap(),
            ["./-a.c", "./lib/x.c", "./tool.c"].map(PathBuf::from)
        );
    }

    #[test]
    fn a_makefile_gets_the_path_as_it_is() {
        let files = local_files(Path::new("/a b/$c#d"), &["c", "cpp"]).unwrap();
        let text = |name: &str| {
            files
                .iter()
                .find(|(path, _)| path == name)
                .unwrap()
                .1
                .clone()
        };
        assert!(
            text("sdk.mk").ends_with("\nSDK := /a b/$$c\\#d/guest-sdk\n"),
            "{files:?}"
        );
        assert_eq!(
            text("compile_flags.txt"),
            "-I/a b/$c#d/guest-sdk/c\n-I/a b/$c#d/guest-sdk/cpp\n"
        );
        assert!(local_files(Path::new("/a\nb"), &["c"]).is_err());
    }
}
