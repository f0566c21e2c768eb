//! C++: a header over the SDK of C, compiled by Zig's compiler.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::super::Say;
use super::super::build::{BuildSettings, Built};
use super::super::find::Search;
use super::super::make::{self, Job};
use super::super::project::Kind;
use super::super::room::Room;
use super::super::sdk::files;
use super::c::{REACTOR, STRIPPED, WORLD, ZIG, include, local_files, project_sources, sdk_sources, zig};
use super::{File, Language};

pub(super) struct Cpp;

const TOOL: &[File] = &[
    ("tool.cpp", include_str!("../template/cpp/tool.cpp")),
    ("tool_test.cpp", include_str!("../template/cpp/tool_test.cpp")),
    ("Makefile", include_str!("../template/cpp/Makefile")),
    ("README.md", include_str!("../template/c/README.md")),
    (".gitignore", include_str!("../template/c/gitignore")),
];

impl Language for Cpp {
    fn name(&self) -> &'static str {
        "cpp"
    }

    fn title(&self) -> &'static str {
        "C++"
    }

    fn marks(&self) -> &'static [&'static str] {
        &["tool.cpp"]
    }

    fn template(&self, kind: Kind) -> &'static [File] {
        match kind {
            Kind::Tool => TOOL,
            Kind::Hook => &[],
        }
    }

    fn local_files(&self, sdk: &Path) -> Result<Vec<(String, String)>> {
        local_files(sdk, &["c", "cpp"])
    }

    /// Its own file. Those of C are carried for C.
    fn sdk(&self) -> &'static [File] {
        files!["guest-sdk/cpp/toolcell.hpp"]
    }

    fn test_command(&self) -> &'static str {
        "make test"
    }

    fn rooms(&self, _: &Search) -> Vec<&'static Room> {
        vec![&ZIG]
    }

    fn made_beside(&self) -> &'static [&'static str] {
        &["target"]
    }

    fn build(&self, dir: &Path, settings: &BuildSettings, say: Say) -> Result<Built> {
        make::build(self, dir, settings, &compile, say)
    }
}

fn compile(job: &Job, say: Say) -> Result<PathBuf> {
    let module = job.work.join("module.wasm");
    let mut objects = Vec::new();
    // Apart, because they are C.
    for source in sdk_sources(job) {
        let object = job.work.join(source.with_extension("o").file_name().unwrap_or_default());
        let mut zig = zig(job, "cc")?;
        zig.args(REACTOR).arg("-std=c11").arg(include(job, "c")).arg("-c").arg(&source).arg("-o").arg(&object);
        job.run(zig, say)?;
        objects.push(object);
    }
    let mut zig = zig(job, "c++")?;
    zig.args(REACTOR).args(["-std=c++20", "-fno-exceptions", "-fno-rtti", "-Wall", "-Wextra", "-I."]);
    zig.arg(include(job, "c")).arg(include(job, "cpp")).args(project_sources(job.dir, "cpp")?).args(objects);
    zig.args(STRIPPED).arg("-o").arg(&module);
    say("compiling C++; the first build also compiles its libraries, which takes a minute or two");
    job.run(zig, say)?;
    job.componentize(&module, Some(WORLD))
}
