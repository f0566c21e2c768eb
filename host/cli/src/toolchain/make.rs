//! Builds a project of a language other than Rust: the toolchain's rooms, the lock, the digest of the sources, the
//! component and its record. The language adds the compilation.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};

use super::build::{BuildSettings, Built, output_folder};
use super::find::{Search, ToolchainSource, short_hash};
use super::language::{File, Language, write_local_files};
use super::record::{self, Made};
use super::room::{Room, checked};
use super::sources::Listing;
use super::{Say, build_cache, process};

/// Makes the component of a [`Job`], and returns its file.
pub(super) type Compile<'a> = &'a dyn Fn(&Job, Say) -> Result<PathBuf>;

/// One compilation.
pub(super) struct Job<'a> {
    /// The project's folder, canonical.
    pub(super) dir: &'a Path,
    /// The project's name: that of its folder.
    pub(super) name: &'a str,
    /// A folder for what the compilation makes, kept for the next build of this project.
    pub(super) work: PathBuf,
    /// The folder with `guest-sdk/LANG` and `wit`.
    pub(super) sdk: &'a Path,
    pub(super) search: &'a Search,
}

impl Job<'_> {
    /// The folder of a room that the language named.
    pub(super) fn room(&self, room: &Room) -> PathBuf {
        room.folder(self.search)
    }

    /// A command in the project's folder.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = process::command(program, &self.search.path);
        command.current_dir(self.dir);
        command
    }

    /// A command of the program `name` on PATH, in the project's folder.
    pub(super) fn on_path(&self, name: &str) -> Result<Command> {
        let program = self.search.which(name).ok_or_else(|| anyhow!("no {name} on PATH"))?;
        Ok(self.command(&program))
    }

    /// Runs a step; its failure has what it printed.
    pub(super) fn run(&self, command: Command, say: Say) -> Result<()> {
        checked(command, None, say).with_context(|| format!("{} does not build", self.name))
    }

    /// Writes the component of a core module, which uses WASI preview 1 or nothing, into `work`. `world`: the world of
    /// the WIT that the module implements, such as `Some((super::sdk::CONTRACT, "tool"))`; `None` if the compiler
    /// already wrote it into the module.
    pub(super) fn componentize(&self, module: &Path, world: Option<(&[File], &str)>) -> Result<PathBuf> {
        let bytes = std::fs::read(module).with_context(|| format!("cannot read {}", module.display()))?;
        let component = toolcell::component_of_library(&bytes, world)?;
        let file = self.work.join(format!("{}.component.wasm", self.name));
        record::replace(&file, &component)?;
        Ok(file)
    }
}

/// Builds the project in `dir`, and keeps the record of what was built from which sources.
pub(super) fn build(
    language: &dyn Language,
    dir: &Path,
    settings: &BuildSettings,
    compile: Compile,
    say: Say,
) -> Result<Built> {
    let search = Search { dir: dir.to_owned(), offline: settings.offline, ..settings.search.clone() };
    for room in language.rooms(&search) {
        room.ready(&search, say)?;
    }
    let sdk = settings.sdk.as_deref().context("the build has no copy of the SDK")?;
    let sdk = std::path::absolute(sdk).context("cannot find the SDK")?;
    let name = dir.file_name().and_then(OsStr::to_str).context("the project's folder has no name in UTF-8")?;
    let compiling = settings.target_dir.clone().unwrap_or_else(|| search.cache_dir.join("builds"));
    let compiling = std::path::absolute(compiling).context("cannot find the folder of builds")?;
    let _held = record::lock(&compiling, say)?;
    let id = short_hash(&format!("{} {}", language.name(), dir.display()));
    let work = compiling.join(format!("{}{id}", build_cache::BUILD));
    std::fs::create_dir_all(&work).with_context(|| format!("cannot create {}", work.display()))?;
    write_local_files(language, dir, &sdk)?;

    let earlier = record::read(&settings.records, dir);
    let known = earlier.map_or(Listing::default(), |record| record.sources);
    let scope = language.scope(dir);
    let before = Listing::of(&scope, &known)?;
    let job = Job { dir, name, work, sdk: &sdk, search: &search };
    let made = compile(&job, say)?;
    let sources = Listing::of(&scope, &before)?;
    if let Some((path, what)) = sources.changes(&before).first() {
        bail!("{} {what} since the build began: build again", path.display());
    }

    let component = std::fs::read(&made).with_context(|| format!("cannot read {}", made.display()))?;
    let wasm = output_folder(dir)?.join(format!("{name}.wasm"));
    let fresh = std::fs::read(&wasm).is_ok_and(|found| found == component);
    record::replace(&wasm, &component)?;
    let digest = sources.digest();
    record::write(&settings.records, Made { dir, component: &component, name, initial_memory: 0, scope, sources })?;
    build_cache::touch(&job.work);
    build_cache::prune(&compiling, build_cache::BYTES_MAX);
    Ok(Built { wasm, name: name.to_owned(), fresh, sources: digest, source: ToolchainSource::Room })
}
