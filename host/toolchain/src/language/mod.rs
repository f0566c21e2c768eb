//! The languages that tools are written in: one file for each, with a row of what differs.
//!
//! The templates in `../template/NAME/` and the SDK in `guest-sdk/NAME/` are embedded, so that only the language's own
//! registry is fetched from. A new language is one file here, a line `mod`, and an entry of [`LANGUAGES`].

mod c;
mod cpp;
mod fetched;
mod go;
mod javascript;
mod python;
mod rust;
mod typescript;
mod zig;

pub(super) use c::{ZIG, ZIG_PROGRAM};

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};

use super::build::{self, BuildOutcome, BuildSettings};
use super::find::ToolchainSearch;
use super::project::ProjectKind;
use super::sources::SourceScope;
use super::survey::{self, SurveyFinding};
use super::toolchain_cache::{self, ToolchainPart};
use super::{ProgressSink, c_code, make};
pub(super) use fetched::FetchedToolchain;

/// Path and text. In a template, `{{name}}` stands for the project's name.
pub(super) type EmbeddedFile = (&'static str, &'static str);
pub(super) type ProjectFiles = Vec<(String, String)>;

pub(super) struct LanguageRow {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// All of these files mark a source folder, which is never taken for a folder of components.
    pub(super) marks: &'static [&'static str],
    pub(super) tool: &'static [EmbeddedFile],
    /// Empty if the language has no template for one.
    pub(super) hook: &'static [EmbeddedFile],
    /// Files only for this machine, such as links to the SDK. The template's `.gitignore` names them, and a build
    /// writes those that are missing. The argument is what `write_sdk` returned.
    pub(super) local_files: fn(&Path) -> Result<ProjectFiles>,
    /// A reason against a name that [`super::project`] accepts otherwise.
    pub(super) refuses_name: fn(&str) -> Option<&'static str>,
    /// The layout is the repository's: `guest-sdk/NAME/..`.
    pub(super) sdk: &'static [EmbeddedFile],
    /// Runs the unit tests natively, in the project's folder.
    pub(super) test_command: &'static str,
    /// `None` for Rust, whose toolchain [`super::find`] finds or sets up.
    pub(super) fetched: Option<FetchedToolchain>,
}

fn every_name(_: &str) -> Option<&'static str> {
    None
}

impl LanguageRow {
    /// Empty for a kind that the language has no template for.
    pub(super) fn template(&self, kind: ProjectKind) -> &'static [EmbeddedFile] {
        match kind {
            ProjectKind::Tool => self.tool,
            ProjectKind::Hook => self.hook,
        }
    }

    /// More than a build reads. Folders count without what no build reads.
    pub(super) fn scope(&self, dir: &Path) -> SourceScope {
        match &self.fetched {
            Some(toolchain) => toolchain.scope(dir),
            None => SourceScope::of_cargo(dir),
        }
    }

    /// `dir` is canonical. Keeps the record of the build.
    pub(super) fn build(
        &self,
        dir: &Path,
        settings: &BuildSettings,
        say: ProgressSink,
    ) -> Result<BuildOutcome> {
        if let Some(sdk) = &settings.sdk {
            renew_local_files(self, dir, sdk)?;
        }
        match &self.fetched {
            Some(toolchain) => {
                make::build((self, toolchain), dir, settings, &toolchain.compile, say)
            }
            None => build::build(dir, settings, say),
        }
    }
}

fn sdk_folder(sdk: &Path, language: &str) -> Result<PathBuf> {
    let sdk = std::path::absolute(sdk).context("cannot find the SDK")?;
    Ok(sdk.join("guest-sdk").join(language))
}

pub(super) fn utf8(path: &Path) -> Result<&str> {
    path.to_str()
        .with_context(|| format!("{} is not UTF-8", path.display()))
}

/// A string of TOML, Go or JavaScript, which have the escapes of JSON.
pub(super) fn quoted_path(path: &Path) -> Result<String> {
    serde_json::to_string(utf8(path)?).context("quote a path")
}

pub(super) const OUTPUT: &str = "target/toolcell";

/// A folder with the marks of several languages is of the first one.
pub(super) static LANGUAGES: &[&LanguageRow] = &[
    &rust::RUST,
    &c::C,
    &cpp::CPP,
    &zig::LANGUAGE,
    &go::GO,
    &python::PYTHON,
    &typescript::TYPESCRIPT,
    // Last: its only mark is `package.json`, which projects in other languages have too.
    &javascript::JAVASCRIPT,
];

#[derive(Clone, Copy)]
pub struct Language(pub(super) &'static LanguageRow);

impl Language {
    pub fn all() -> impl Iterator<Item = Self> {
        LANGUAGES.iter().copied().map(Self)
    }

    /// `None` if `dir` has the files of none.
    pub fn detect(dir: &Path) -> Option<Self> {
        Self::all().find(|lang| lang.0.marks.iter().all(|mark| dir.join(mark).is_file()))
    }

    pub fn name(self) -> &'static str {
        self.0.name
    }

    pub fn title(self) -> &'static str {
        self.0.title
    }

    pub fn test_command(self) -> &'static str {
        self.0.test_command
    }

    /// The report on its toolchain for `toolcell doctor`. Changes nothing.
    pub fn survey(self, search: &ToolchainSearch) -> Vec<SurveyFinding> {
        match &self.0.fetched {
            Some(toolchain) => vec![toolchain_cache::finding(
                self.title(),
                toolchain.part,
                search,
            )],
            None => survey::survey(search),
        }
    }

    /// The downloads of a build of the project in the folder of `search`: a sentence for each missing part. Runs no program
    /// in that folder.
    pub fn fetches(self, search: &ToolchainSearch) -> Vec<String> {
        let part = match &self.0.fetched {
            Some(toolchain) => Some(toolchain.part),
            None => c_code::is_wanted(&search.dir).then_some(&ZIG),
        };
        let missing = part.filter(|part| !part.is_ready(search));
        let missing = missing.map(ToolchainPart::sentence);
        if self.0.fetched.is_some() {
            return missing.into_iter().collect();
        }
        // rustup's programs run the toolchain that a file in the current folder names, which can be in that folder.
        let elsewhere = ToolchainSearch {
            dir: "/".into(),
            ..search.clone()
        };
        let rust = survey::fetches(&elsewhere);
        rust.into_iter().chain(missing).collect()
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

pub fn names() -> String {
    let names: Vec<&str> = LANGUAGES.iter().map(|language| language.name).collect();
    match names.as_slice() {
        [more @ .., last] if !more.is_empty() => format!("{} or {last}", more.join(", ")),
        one => one.concat(),
    }
}

pub fn no_project(dir: &Path) -> String {
    let marks: Vec<String> = LANGUAGES
        .iter()
        .map(|language| format!("{} ({})", language.marks.join(" and "), language.title))
        .collect();
    format!(
        "{} is not a source folder: it has none of {}: name a tool's folder, or make one with `toolcell new NAME`",
        dir.display(),
        marks.join(", ")
    )
}

pub fn build(dir: &Path, settings: &BuildSettings, say: ProgressSink) -> Result<BuildOutcome> {
    let dir = std::fs::canonicalize(dir)
        .with_context(|| format!("cannot find the folder {}", dir.display()))?;
    match Language::detect(&dir) {
        Some(lang) => lang.0.build(&dir, settings, say),
        None => bail!(no_project(&dir)),
    }
}

pub(super) fn scope(dir: &Path) -> SourceScope {
    Language::detect(dir).map_or_else(|| SourceScope::of_cargo(dir), |lang| lang.0.scope(dir))
}

/// Points existing local files to this toolcell's SDK: tests and editors would otherwise use an older one. Keeps the
/// user's changes in them.
fn renew_local_files(language: &LanguageRow, dir: &Path, sdk: &Path) -> Result<()> {
    let sdk = std::path::absolute(sdk).context("cannot find the SDK")?;
    for (path, _) in (language.local_files)(&sdk)? {
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

/// Replaces the folders of other versions beside `sdk`: their names are hashes. `None` for a folder that is not UTF-8.
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

pub(super) fn write_local_files(language: &LanguageRow, dir: &Path, sdk: &Path) -> Result<()> {
    for (path, text) in (language.local_files)(sdk)? {
        let file = dir.join(path);
        if !file.exists() {
            super::project::write(&file, &text)?;
        }
    }
    Ok(())
}
