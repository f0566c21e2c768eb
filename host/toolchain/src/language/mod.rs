//! The languages that tools are written in: one file for each, behind one trait. All but Rust are rows of one type
//! (`fetched.rs`).
//!
//! A language has its templates in `../template/NAME/`, and its SDK in `guest-sdk/NAME/` of the repository. Both are
//! embedded in this program, so that only the language's own registry is fetched from: templates with `include_str!`, the
//! SDK with `sdk::files!`. A new language is one file here, a line `mod`, and an entry of [`LANGUAGES`].

mod c;
mod cpp;
mod fetched;
mod go;
mod javascript;
mod python;
mod rust;
mod typescript;
mod zig;

pub(super) use c::{ZIG, program as zig_program};

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};

use super::build::{BuildOutcome, BuildSettings};
use super::find::ToolchainSearch;
use super::project::ProjectKind;
use super::sources::SourceScope;
use super::survey::SurveyFinding;
use super::toolchain_cache::{self, ToolchainPart};
use super::{ProgressSink, make, sources};

/// Path and text of an embedded file. In a template, `{{name}}` stands for the project's name.
pub(super) type EmbeddedFile = (&'static str, &'static str);
/// Paths in a project, and the texts of their files.
pub(super) type ProjectFiles = Vec<(String, String)>;

/// One language.
pub(super) trait LanguageBackend: Sync {
    /// The word of `--lang`, such as `python`.
    fn name(&self) -> &'static str;

    /// The name for people, such as `Python`.
    fn title(&self) -> &'static str;

    /// The files that a project has at these paths, all of them. A folder with these files is a source folder, and is
    /// never taken for a folder of components.
    fn marks(&self) -> &'static [&'static str];

    /// The files of a new project; empty for a kind that the language has no template for.
    fn template(&self, kind: ProjectKind) -> &'static [EmbeddedFile];

    /// The files of a new project that are only for this machine, such as links to the SDK: a path in the project, and
    /// the text. The template's `.gitignore` names them, and a build writes those that are missing. `sdk` is what
    /// `write_sdk` returned: the SDK is in its `guest-sdk/NAME`, the contract in `wit`.
    fn local_files(&self, sdk: &Path) -> Result<ProjectFiles> {
        let _ = sdk;
        Ok(Vec::new())
    }

    /// Why `name`, which [`super::project`] accepts otherwise, cannot be a project's name in this language.
    fn refuses_name(&self, name: &str) -> Option<&'static str> {
        let _ = name;
        None
    }

    /// The SDK's sources, in the layout of the repository: `guest-sdk/NAME/..`.
    fn sdk(&self) -> &'static [EmbeddedFile];

    /// The command that runs a project's unit tests natively, in the project's folder.
    fn test_command(&self) -> &'static str;

    /// The parts of the toolchain that toolcell keeps in its cache: fetched if they are not there. `search` can find a
    /// program of the user that takes the place of one.
    fn parts(&self, search: &ToolchainSearch) -> Vec<&'static ToolchainPart> {
        let _ = search;
        Vec::new()
    }

    /// The downloads of a build of the project in the folder of `search`: a sentence for each missing part. Runs no
    /// program in that folder.
    fn fetches(&self, search: &ToolchainSearch) -> Vec<String> {
        toolchain_cache::missing(&self.parts(search), search)
    }

    /// Everything that can decide what a build of the project in `dir` makes: more than a build reads. Folders count
    /// without what no build reads.
    fn scope(&self, dir: &Path) -> SourceScope {
        let mut scope = SourceScope::default();
        scope.folders.insert(dir.to_owned());
        let beside = self.beside(dir).unwrap_or_else(|why| {
            scope.refuse(&why);
            Vec::new()
        });
        for place in beside {
            let places = if place.is_dir() {
                &mut scope.folders
            } else {
                &mut scope.files
            };
            places.insert(place);
        }
        scope.skipped.insert(dir.join(OUTPUT));
        for name in self.made_beside() {
            match name.strip_prefix("./") {
                Some(path) => scope.skipped.insert(dir.join(path)),
                None => scope.skipped_names.insert((*name).to_owned()),
            };
        }
        for folder in dir.ancestors() {
            self.steering()
                .iter()
                .for_each(|name| scope.add_file(folder.join(name)));
        }
        scope
    }

    /// Folders and files elsewhere that a build of the project in `dir` reads; an error if there can be more of them than
    /// are found.
    fn beside(&self, dir: &Path) -> Result<Vec<PathBuf>> {
        let _ = dir;
        Ok(Vec::new())
    }

    /// Folders that the language's programs write into a project, and that no build reads: by name, wherever they are
    /// (`__pycache__`), or by their path in the project (`./.venv`).
    fn made_beside(&self) -> &'static [&'static str] {
        &[]
    }

    /// Names of files that steer a build from the project's folder and from every folder above it: `tsconfig.json`.
    fn steering(&self) -> &'static [&'static str] {
        &[]
    }

    /// The files that the compilation of `job` read, or would have read if they existed.
    fn read(&self, job: &make::CompileJob) -> Result<SourceScope> {
        Ok(self.scope(job.dir))
    }

    /// `true` if a build of unchanged sources is skipped: [`LanguageBackend::scope`] has everything that a build reads.
    fn skips(&self) -> bool {
        false
    }

    /// Builds the project in `dir`, which is canonical, and keeps the record of it. `super::make::build` does all of it
    /// but the compilation:
    /// `make::build(self, dir, settings, &compile, say)` with `fn compile(job: &Job, say: ProgressSink) -> Result<PathBuf>`.
    fn build(
        &self,
        dir: &Path,
        settings: &BuildSettings,
        say: ProgressSink,
    ) -> Result<BuildOutcome>;

    /// The report for `toolcell doctor`. Changes nothing.
    fn survey(&self, search: &ToolchainSearch) -> Vec<SurveyFinding> {
        vec![toolchain_cache::finding(
            self.title(),
            &self.parts(search),
            search,
        )]
    }
}

/// The folder of a project that gets the user's copy of the component.
pub(super) const OUTPUT: &str = "target/toolcell";

/// Every language, in the order of the help. A folder with the marks of several is of the first one.
pub(super) static LANGUAGES: &[&dyn LanguageBackend] = &[
    &rust::RustLanguage,
    &c::C,
    &cpp::CPP,
    &zig::LANGUAGE,
    &go::GO,
    &python::PYTHON,
    &typescript::TYPESCRIPT,
    // Last: its only mark is `package.json`, which projects in other languages have too.
    &javascript::JAVASCRIPT,
];

/// A language, chosen by its name or by the files of a folder.
#[derive(Clone, Copy)]
pub struct Language(pub(super) &'static dyn LanguageBackend);

impl Language {
    /// All languages.
    pub fn all() -> impl Iterator<Item = Self> {
        LANGUAGES.iter().copied().map(Self)
    }

    /// The language of the project in `dir`; `None` if it has the files of none.
    pub fn detect(dir: &Path) -> Option<Self> {
        Self::all().find(|lang| lang.0.marks().iter().all(|mark| dir.join(mark).is_file()))
    }

    /// The word for it on the command line.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// The name of the language.
    pub fn title(self) -> &'static str {
        self.0.title()
    }

    /// The command that runs the native tests of a new project.
    pub fn test_command(self) -> &'static str {
        self.0.test_command()
    }

    /// The report on its toolchain for `toolcell doctor`.
    pub fn survey(self, search: &ToolchainSearch) -> Vec<SurveyFinding> {
        self.0.survey(search)
    }

    /// The downloads of a build of the project in the folder of `search`: a sentence for each part.
    pub fn fetches(self, search: &ToolchainSearch) -> Vec<String> {
        self.0.fetches(search)
    }

    pub(super) fn scope(self, dir: &Path) -> SourceScope {
        self.0.scope(dir)
    }
}

impl std::fmt::Debug for Language {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name())
    }
}

impl PartialEq for Language {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl FromStr for Language {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match Self::all().find(|lang| lang.name() == text) {
            Some(lang) => Ok(lang),
            None => bail!("there is no template for {text:?}: choose {}", names()),
        }
    }
}

/// The names of all languages, for messages: `rust, python or go`.
pub fn names() -> String {
    let names: Vec<&str> = LANGUAGES.iter().map(|language| language.name()).collect();
    match names.as_slice() {
        [more @ .., last] if !more.is_empty() => format!("{} or {last}", more.join(", ")),
        one => one.concat(),
    }
}

/// The error for a folder that is no project.
pub fn no_project(dir: &Path) -> String {
    let marks: Vec<String> = LANGUAGES
        .iter()
        .map(|language| format!("{} ({})", language.marks().join(" and "), language.title()))
        .collect();
    format!(
        "{} is not a source folder: it has none of {}: name a tool's folder, or make one with `toolcell new NAME`",
        dir.display(),
        marks.join(", ")
    )
}

/// Builds the project in `dir`, in its own language.
pub fn build(dir: &Path, settings: &BuildSettings, say: ProgressSink) -> Result<BuildOutcome> {
    let dir = std::fs::canonicalize(dir)
        .with_context(|| format!("cannot find the folder {}", dir.display()))?;
    match Language::detect(&dir) {
        Some(lang) => lang.0.build(&dir, settings, say),
        None => bail!(no_project(&dir)),
    }
}

/// The scope of the project in `dir`, before any build of it.
pub(super) fn scope(dir: &Path) -> SourceScope {
    Language::detect(dir).map_or_else(
        || {
            let mut scope = sources::SourceScope::default();
            scope.add(dir);
            scope
        },
        |lang| lang.scope(dir),
    )
}

/// Makes the project's existing local files point to the SDK of this toolcell: tests and editors would otherwise use an
/// older SDK. Keeps the user's changes in them.
pub(super) fn renew_local_files(
    language: &dyn LanguageBackend,
    dir: &Path,
    sdk: &Path,
) -> Result<()> {
    let sdk = std::path::absolute(sdk).context("cannot find the SDK")?;
    for (path, _) in language.local_files(&sdk)? {
        let file = dir.join(path);
        if !std::fs::symlink_metadata(&file).is_ok_and(|found| found.is_file()) {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(&file) else {
            continue;
        };
        let renewed = with_sdk(&text, &sdk).unwrap_or_default();
        if !renewed.is_empty() {
            super::record::replace(&file, renewed.as_bytes())?;
        }
    }
    Ok(())
}

/// `text` with the folder `sdk` in place of each folder beside it that has another version of the SDK: their names are
/// hashes. `None` for a folder that is not UTF-8.
fn with_sdk(text: &str, sdk: &Path) -> Option<String> {
    const INSIDE: &str = "/guest-sdk";
    let name = sdk.file_name()?.to_str()?;
    let beside = format!("{}/", sdk.parent()?.to_str()?);
    let mut parts = text.split(beside.as_str());
    let mut made = parts.next()?.to_owned();
    for part in parts {
        let is_hash =
            |old: &str| old.len() == name.len() && old.bytes().all(|byte| byte.is_ascii_hexdigit());
        let (folder, rest) = match part.split_once(INSIDE) {
            Some((old, rest)) if is_hash(old) => (name, format!("{INSIDE}{rest}")),
            _ => ("", part.to_owned()),
        };
        made.extend([beside.as_str(), folder, rest.as_str()]);
    }
    Some(made)
}

/// Writes the files of a project that belong to this machine alone, where they are missing. Returns them.
pub(super) fn write_local_files(
    language: &dyn LanguageBackend,
    dir: &Path,
    sdk: &Path,
) -> Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    for (path, text) in language.local_files(sdk)? {
        let file = dir.join(path);
        if !file.exists() {
            super::project::write(&file, &text)?;
            written.push(file);
        }
    }
    Ok(written)
}
