//! `toolcell build`: runs cargo for the guest's target. Cargo runs build scripts and macros as the user, so this is
//! called only when the user asked for a build.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use toolcell_spec::dialect::sections;
use toolcell_system::named_file;

use super::find::{Toolchain, ToolchainSearch, find};
use super::language::quoted_path;
use super::process::{self, OutputPipe};
use super::record::{self, BuildRecord};
use super::sources::{SourceListing, SourceScope};
use super::workspace::{CargoPackage, SDK, Workspace, manifest, setting};
use super::{ProgressSink, TARGET, build_cache, c_code};

/// In bytes: room for the stack and for a heap that a small tool never has to grow.
const INITIAL_MEMORY: u64 = 2 << 20;
/// Added for larger static data, in bytes; sizes are rounded up to it.
const SPARE_MEMORY: u64 = 1 << 20;

pub struct BuildSettings {
    /// The build overwrites its `dir`.
    pub search: ToolchainSearch,
    /// See [`super::standing`].
    pub records: PathBuf,
    /// Cargo compiles here, in a subfolder named after the toolchain. Default: `toolcell` in the target folder of the
    /// workspace, so that its tools share dependencies, but no lock with the user's own cargo.
    pub target_dir: Option<PathBuf>,
    /// A local copy of the SDK (see `write_sdk`), for tools that name the SDK by its version alone.
    pub sdk: Option<PathBuf>,
    /// Names and texts of custom sections for a tool's folder. Default: nothing.
    pub sections: fn(&Path) -> Vec<(&'static str, String)>,
}

impl BuildSettings {
    pub fn new(search: ToolchainSearch, records: impl Into<PathBuf>) -> Self {
        let records = records.into();
        let sections = |_: &Path| Vec::new();
        BuildSettings {
            search,
            records,
            target_dir: None,
            sdk: None,
            sections,
        }
    }

    pub(super) fn search_in(&self, dir: &Path) -> ToolchainSearch {
        ToolchainSearch {
            dir: dir.to_owned(),
            ..self.search.clone()
        }
    }

    /// Keeps the component of a compilation in the folder `work`: the user's copy, and the record `made`.
    pub(super) fn finish(
        &self,
        wasm: &Path,
        made: BuildRecord,
        work: &Path,
    ) -> Result<BuildOutcome> {
        let mut component =
            std::fs::read(wasm).with_context(|| format!("cannot read {}", wasm.display()))?;
        for (name, text) in (self.sections)(&made.dir) {
            component =
                sections::with_custom(&component, name, text.as_bytes()).map_err(|why| {
                    anyhow!("cannot write the section {name} of the component: {why}")
                })?;
        }
        let built = BuildOutcome::keep(&made, &component)?;
        record::write(&self.records, made, &component)?;
        build_cache::touch(work);
        if let Some(parent) = work.parent().filter(|_| !built.fresh) {
            build_cache::prune(parent, build_cache::BYTES_MAX);
        }
        Ok(built)
    }
}

#[derive(Debug)]
pub struct BuildOutcome {
    /// `<tool>/target/toolcell/<package>.wasm`
    pub wasm: PathBuf,
    pub name: String,
    /// `true` if nothing had to be compiled.
    pub fresh: bool,
    /// A digest, in hex.
    pub sources: String,
}

impl BuildOutcome {
    pub(super) fn keep(record: &BuildRecord, component: &[u8]) -> Result<Self> {
        let wasm = output_folder(&record.dir)?.join(&record.component);
        let found = named_file::read(&wasm, component.len() as u64);
        let fresh = found.is_ok_and(|found| found == component);
        record::replace(&wasm, component)?;
        let name = record.component.file_stem().unwrap_or_default();
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            wasm,
            fresh,
            sources: record.sources.digest(),
        })
    }
}

/// `dir` is canonical.
pub(super) fn build(
    dir: &Path,
    settings: &BuildSettings,
    say: ProgressSink,
) -> Result<BuildOutcome> {
    let search = settings.search_in(dir);
    let toolchain = find(&search, say)?;
    let workspace = Workspace::read(dir, &toolchain)?;
    let package = workspace.package_at(dir)?;
    package.check_component()?;
    let sdk = settings.sdk.as_deref().filter(|_| workspace.wants_sdk());
    let sdk = sdk
        .map(std::path::absolute)
        .transpose()
        .context("cannot find the SDK")?;
    let job = PackageBuild {
        dir,
        settings,
        toolchain: &toolchain,
        workspace: &workspace,
        package,
        sdk,
        c_compiler: c_code::compiler(&search, say)?,
    };

    let _held = record::lock(&job.compiling(), dir, say)?;
    let earlier = record::read(&settings.records, dir);
    let (known, mut initial_memory) = earlier
        .map_or((SourceListing::default(), INITIAL_MEMORY), |r| {
            (r.sources, r.initial_memory)
        });
    let before = SourceListing::read(&workspace.near(package, dir), &known)?;
    let (wasm, fresh) = job.compile_with(&mut initial_memory, say)?;
    let scope = job.scope(&wasm)?;
    let sources = SourceListing::read(&scope, &before)?;
    workspace.refuse_changes(&before, &sources)?;

    let made = BuildRecord {
        initial_memory,
        scope,
        sources,
        around: workspace.around(dir),
        ..BuildRecord::new(dir, &package.name)
    };
    let built = settings.finish(&wasm, made, &job.target_dir())?;
    Ok(BuildOutcome { fresh, ..built })
}

/// The folder has its own `.gitignore`, because in a workspace this is not the `target` that git already ignores.
fn output_folder(dir: &Path) -> Result<PathBuf> {
    let folder = dir.join("target").join("toolcell");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let ignore = folder.join(".gitignore");
    if !ignore.exists() {
        record::replace(&ignore, b"*\n")?;
    }
    Ok(folder)
}

/// Rounds up to whole steps of [`SPARE_MEMORY`], and adds one.
fn enough_for(bytes: u64) -> u64 {
    bytes
        .div_ceil(SPARE_MEMORY)
        .saturating_add(1)
        .saturating_mul(SPARE_MEMORY)
}

struct PackageBuild<'a> {
    dir: &'a Path,
    settings: &'a BuildSettings,
    toolchain: &'a Toolchain,
    workspace: &'a Workspace,
    package: &'a CargoPackage,
    sdk: Option<PathBuf>,
    /// Its folder, if the package wants one.
    c_compiler: Option<PathBuf>,
}

enum CompileOutcome {
    /// The component's file, and whether nothing had to be compiled for it.
    Done(PathBuf, bool),
    /// The linker needs these bytes of initial memory.
    NeedsMemory(u64),
}

#[derive(Deserialize)]
struct CargoMessage {
    reason: String,
    #[serde(default)]
    package_id: String,
    #[serde(default)]
    filenames: Vec<PathBuf>,
    #[serde(default)]
    fresh: bool,
}

impl PackageBuild<'_> {
    /// Runs `cargo rustc`, because then the linker's flag applies to this crate only: the user's own flags stay in
    /// force, and dependencies are not compiled again.
    fn compile(&self, initial_memory: u64, say: ProgressSink) -> Result<CompileOutcome> {
        let mut command = self.toolchain.cargo(self.dir);
        command.args([
            "rustc",
            "--release",
            "--lib",
            "--target",
            TARGET,
            "--color",
            "never",
        ]);
        // Without the rlib that tests need, link-time optimisation is possible.
        command.args([
            "--crate-type",
            "cdylib",
            "--message-format",
            "json-render-diagnostics",
        ]);
        command.arg("--target-dir").arg(self.target_dir());
        if let Some(sdk) = &self.sdk {
            command.args(["--config", &patch(sdk)?]);
        }
        if let Some(part) = &self.c_compiler {
            c_code::use_in(&mut command, part, &self.target_dir())?;
        }
        command.args([
            "--",
            "-C",
            &format!("link-arg=--initial-memory={initial_memory}"),
        ]);

        let mut artifact = None;
        let mut on_out = |line: &str| artifact = self.artifact_in(line).or(artifact.take());
        let (status, complaint) = run_cargo(command, &mut on_out, say)?;
        let name = &self.package.name;
        if !status.success() {
            if let Some(bytes) = memory_wanted(&complaint) {
                return Ok(CompileOutcome::NeedsMemory(bytes));
            }
            let advice = c_code::advice(&complaint).filter(|_| self.c_compiler.is_none());
            let advice = advice.map(|advice| format!("\n{advice}"));
            bail!(
                "{name} does not build:\n{complaint}{}",
                advice.unwrap_or_default()
            );
        }
        // Warnings, if any.
        complaint.lines().for_each(say);
        artifact
            .map(|(wasm, fresh)| CompileOutcome::Done(wasm, fresh))
            .ok_or_else(|| anyhow!("cargo built {name}, but no .wasm file came of it"))
    }

    fn artifact_in(&self, line: &str) -> Option<(PathBuf, bool)> {
        let message: CargoMessage = serde_json::from_str(line).ok()?;
        if message.reason != "compiler-artifact" || message.package_id != self.package.id {
            return None;
        }
        let mut files = message.filenames.into_iter();
        let wasm = files.find(|file| file.extension() == Some(OsStr::new("wasm")))?;
        Some((wasm, message.fresh))
    }

    fn compiling(&self) -> PathBuf {
        match &self.settings.target_dir {
            Some(folder) => std::path::absolute(folder).unwrap_or_else(|_| folder.clone()),
            None => self.workspace.target_directory.join("toolcell"),
        }
    }

    fn target_dir(&self) -> PathBuf {
        self.compiling()
            .join(format!("{}{}", build_cache::BUILD, self.toolchain.id))
    }

    /// Compiles, and a second time if the linker needs more than `memory`, which is then what it needs.
    fn compile_with(&self, memory: &mut u64, say: ProgressSink) -> Result<(PathBuf, bool)> {
        let name = &self.package.name;
        match self.compile(*memory, say)? {
            CompileOutcome::Done(wasm, fresh) => return Ok((wasm, fresh)),
            CompileOutcome::NeedsMemory(bytes) => *memory = enough_for(bytes),
        }
        say(&format!(
            "{name} starts with {} MiB of memory: its data is large",
            *memory >> 20
        ));
        match self.compile(*memory, say)? {
            CompileOutcome::Done(wasm, fresh) => Ok((wasm, fresh)),
            CompileOutcome::NeedsMemory(bytes) => bail!(
                "{name} needs {bytes} bytes of memory at start, but another setting holds it smaller: look for \
                 --initial-memory in its build script and in .cargo/config.toml"
            ),
        }
    }

    /// Everything that the build read. The whole folder of a package with a build script counts, because a script can
    /// read any file of it.
    fn scope(&self, wasm: &Path) -> Result<SourceScope> {
        let list = wasm.with_extension("d");
        let text = std::fs::read_to_string(&list)
            .with_context(|| format!("cannot read cargo's list {}", list.display()))?;
        let made = self.target_dir();
        let mut scope = self.workspace.steering(self.dir);
        let mut packages = BTreeSet::from([self.dir.to_owned()]);
        for file in sources_in(&text) {
            let file = self.dir.join(file);
            // What a build script wrote follows from the script.
            if !file.starts_with(&made) {
                packages.extend(package_of(&file).map(Path::to_owned));
                scope.add_file(file);
            }
        }
        for folder in packages {
            scope.add_steering(&folder);
            // Cargo runs a file of this name once it is there.
            scope.add_file(folder.join("build.rs"));
            if has_build_script(&folder) {
                scope.folders.insert(folder);
            }
        }
        Ok(scope)
    }
}

fn has_build_script(folder: &Path) -> bool {
    match setting(&manifest(folder), &["package", "build"]) {
        Some(toml::Value::Boolean(is_on)) => *is_on,
        Some(_) => true,
        None => folder.join("build.rs").is_file(),
    }
}

fn package_of(source: &Path) -> Option<&Path> {
    let mut folders = source.ancestors().skip(1);
    folders.find(|folder| folder.join("Cargo.toml").is_file())
}

/// Makes cargo take the SDK from `sdk` instead of the registry. The SDK's macros are a path dependency of it.
fn patch(sdk: &Path) -> Result<String> {
    let folder = sdk.join("guest-sdk").join("rust");
    if !folder.join("Cargo.toml").is_file() {
        bail!("no SDK in {}", folder.display());
    }
    let path = quoted_path(&folder)?;
    Ok(format!("patch.crates-io.{SDK}.path={path}"))
}

/// A space in a name is escaped.
fn sources_in(rule: &str) -> Vec<PathBuf> {
    let line = rule.lines().next().unwrap_or_default();
    let files = line.split_once(".wasm: ").map_or("", |(_, files)| files);
    // No path has a NUL.
    let files = files.replace("\\ ", "\0");
    let names = files.split(' ').filter(|name| !name.is_empty());
    names.map(|name| name.replace('\0', " ").into()).collect()
}

/// Status lines go to `say`, standard output to `on_out`. Returns what else cargo printed.
pub(super) fn run_cargo(
    command: Command,
    on_out: &mut dyn FnMut(&str),
    say: ProgressSink,
) -> Result<(ExitStatus, String)> {
    let mut lines = Vec::new();
    let status = process::run(command, None, &mut |stream, line| match stream {
        OutputPipe::Out => on_out(line),
        OutputPipe::Err if is_status(line) => say(line),
        OutputPipe::Err => lines.push(line.to_owned()),
    })?;
    Ok((status, lines.join("\n").trim_end().to_owned()))
}

/// A status line is a verb, right-aligned in twelve columns.
fn is_status(line: &str) -> bool {
    let Some((verb, rest)) = line.split_at_checked(12) else {
        return false;
    };
    let verb = verb.trim_start();
    rest.starts_with(' ')
        && verb.starts_with(|letter: char| letter.is_ascii_uppercase())
        && verb.chars().all(char::is_alphabetic)
}

fn memory_wanted(complaint: &str) -> Option<u64> {
    let (_, after) = complaint.split_once("initial memory too small, ")?;
    after.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_progress_is_told_from_the_compilers_words() {
        for line in [
            "   Compiling serde v1.0.0",
            "    Finished `release` profile",
            "     Locking 3 packages",
        ] {
            assert!(is_status(line), "{line}");
        }
        for line in [
            "error: expected `;`",
            "   --> src/lib.rs:1:1",
            "warning: unused",
            "            |",
            "",
            "é",
        ] {
            assert!(!is_status(line), "{line}");
        }
    }

    #[test]
    fn the_linkers_wish_is_read_and_rounded_up() {
        let complaint =
            "  = note: rust-lld: error: initial memory too small, 5308416 bytes needed\n";
        assert_eq!(memory_wanted(complaint), Some(5_308_416));
        assert_eq!(memory_wanted("error: linking failed"), None);
        assert_eq!(enough_for(5_308_416), 7 << 20);
    }

    #[test]
    fn cargos_list_of_sources_is_read_with_its_escapes() {
        let rule = "/t/wasm32-wasip2/release/a.wasm: /w/a/src/lib.rs /w/with\\ space/x.rs\n\n/w/a/src/lib.rs:\n";
        assert_eq!(
            sources_in(rule),
            [
                PathBuf::from("/w/a/src/lib.rs"),
                PathBuf::from("/w/with space/x.rs")
            ]
        );
        assert!(sources_in("").is_empty());
    }

    #[test]
    fn the_sdk_must_be_where_it_is_said_to_be() {
        let folder = tempfile::tempdir().unwrap();
        assert!(
            patch(folder.path())
                .unwrap_err()
                .to_string()
                .starts_with("no SDK in ")
        );
        let sdk = folder.path().join("guest-sdk/rust");
        std::fs::create_dir_all(&sdk).unwrap();
        std::fs::write(sdk.join("Cargo.toml"), "").unwrap();
        assert_eq!(
            patch(folder.path()).unwrap(),
            format!("patch.crates-io.toolcell-guest.path=\"{}\"", sdk.display())
        );
    }
}
