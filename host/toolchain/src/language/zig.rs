//! Zig: a module over the SDK of C.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::super::Say;
use super::super::build::{BuildSettings, Built};
use super::super::find::Search;
use super::super::make::{self, Job};
use super::super::project::Kind;
use super::super::room::Room;
use super::super::sdk::files;
use super::c::{WORLD, ZIG, include, local_files, note_program, sdk_sources, zig};
use super::{File, Language};

pub(super) struct Zig;

const TOOL: &[File] = &[
    ("tool.zig", include_str!("../template/zig/tool.zig")),
    ("Makefile", include_str!("../template/zig/Makefile")),
    ("README.md", include_str!("../template/zig/README.md")),
    (".gitignore", include_str!("../template/c/gitignore")),
];

impl Language for Zig {
    fn name(&self) -> &'static str {
        "zig"
    }

    fn title(&self) -> &'static str {
        "Zig"
    }

    fn marks(&self) -> &'static [&'static str] {
        &["tool.zig"]
    }

    fn template(&self, kind: Kind) -> &'static [File] {
        match kind {
            Kind::Tool => TOOL,
            Kind::Hook => &[],
        }
    }

    fn local_files(&self, sdk: &Path) -> Result<Vec<(String, String)>> {
        local_files(sdk, &["c"])
    }

    /// Its own file. Those of C are carried for C.
    fn sdk(&self) -> &'static [File] {
        files!["guest-sdk/zig/toolcell.zig"]
    }

    fn test_command(&self) -> &'static str {
        "make test"
    }

    fn rooms(&self, _: &Search) -> Vec<&'static Room> {
        vec![&ZIG]
    }

    fn made_beside(&self) -> &'static [&'static str] {
        &["target", ".zig-cache", "zig-out"]
    }

    fn build(&self, dir: &Path, settings: &BuildSettings, say: Say) -> Result<Built> {
        make::build(self, dir, settings, &compile, say)
    }
}

fn compile(job: &Job, say: Say) -> Result<PathBuf> {
    let module = job.work.join("module.wasm");
    let mut output = OsString::from("-femit-bin=");
    output.push(&module);
    let mut sdk = OsString::from("-Mtoolcell=");
    sdk.push(job.sdk.join("guest-sdk").join("zig").join("toolcell.zig"));
    let mut command = zig(job, "build-exe")?;
    command.args(["-target", "wasm32-wasi", "-mexec-model=reactor", "-rdynamic", "-lc", "-OReleaseSmall", "-fstrip"]);
    command.args(["--gc-sections"]).arg(output).arg(include(job, "c"));
    command.args(["-cflags", "-std=c11", "--"]).args(sdk_sources(job));
    command.args(["--dep", "toolcell", "-Mroot=tool.zig"]).arg(sdk);
    say("compiling Zig; the first build also compiles the C library, which takes a minute");
    let program = Path::new(command.get_program()).to_owned();
    job.run(command, say)?;
    note_program(job.dir, "zig.mk", "ZIG", &program)?;
    job.componentize(&module, Some(WORLD))
}
