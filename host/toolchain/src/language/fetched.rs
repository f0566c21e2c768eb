//! The toolchains that toolcell fetches, of each language but Rust.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::{OUTPUT, utf8};
use crate::ProgressSink;
use crate::make::CompileJob;
use crate::sources::{SourceScope, naming_text};
use crate::toolchain_cache::ToolchainPart;

/// A language whose toolchain is fetched.
pub(crate) struct FetchedToolchain {
    pub(crate) part: &'static ToolchainPart,
    /// Folders that the language's programs write, and that no build reads: by name, wherever they are (`__pycache__`),
    /// or by their path in the project (`./.venv`).
    pub(crate) made_beside: &'static [&'static str],
    /// They steer a build from the project's folder and every folder above it, as `tsconfig.json`.
    pub(crate) steering: &'static [&'static str],
    /// The places elsewhere that a build reads; an error if there can be more than are found.
    pub(crate) beside: fn(&Path) -> Result<Vec<PathBuf>>,
    /// The files that the compilation read, or would have read if they existed, except those that steer it.
    pub(crate) read: fn(&CompileJob) -> Result<SourceScope>,
    /// `true` if a build of unchanged sources is skipped: [`FetchedToolchain::scope`] has everything that a build
    /// reads.
    pub(crate) skips: bool,
    pub(crate) compile: fn(&CompileJob, ProgressSink) -> Result<PathBuf>,
}

impl FetchedToolchain {
    pub(crate) fn scope(&self, dir: &Path) -> SourceScope {
        let mut scope = SourceScope::default();
        scope.folders.insert(dir.to_owned());
        let beside = (self.beside)(dir).unwrap_or_else(|why| {
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
        for name in self.made_beside {
            match name.strip_prefix("./") {
                Some(path) => scope.skipped.insert(dir.join(path)),
                None => scope.skipped_names.insert((*name).to_owned()),
            };
        }
        scope.add_above(dir, self.steering);
        scope
    }

    pub(crate) fn read(&self, job: &CompileJob) -> Result<SourceScope> {
        let mut scope = (self.read)(job)?;
        scope.add_above(job.dir, self.steering);
        Ok(scope)
    }
}

pub(super) fn nothing(_: &Path) -> Result<Vec<PathBuf>> {
    Ok(Vec::new())
}

/// Files read for what they name, and files that all of them name: a project is looked at before its user agreed to
/// anything.
const REACHED_MAX: usize = 1000;
pub(super) const NAMED_MAX: usize = 100_000;

/// The files `first` and all that they name, directly or not, which need not exist. Fails on more than [`REACHED_MAX`]
/// files or [`NAMED_MAX`] names, or a file that is too large.
pub(super) fn reached(
    dir: &Path,
    first: Vec<PathBuf>,
    named: impl Fn(&Path, &str) -> Vec<PathBuf>,
) -> Result<Vec<PathBuf>> {
    let mut open = first;
    let mut seen = BTreeSet::new();
    let mut names = 0;
    while let Some(file) = open.pop() {
        let Ok(file) = file.canonicalize() else {
            continue;
        };
        if !file.is_file() || !seen.insert(file.clone()) {
            continue;
        }
        let mut more = named(&file, &naming_text(&file)?.unwrap_or_default());
        names += more.len();
        if seen.len() > REACHED_MAX || names > NAMED_MAX {
            bail!(
                "the sources in {} name more than {REACHED_MAX} files, or have more than {NAMED_MAX} places that name \
                 one: too many to look at before a build",
                dir.display()
            );
        }
        open.append(&mut more);
    }
    Ok(seen.into_iter().collect())
}

pub(super) fn outside(dir: &Path, files: Vec<PathBuf>) -> Vec<PathBuf> {
    files
        .into_iter()
        .filter(|file| !file.starts_with(dir))
        .collect()
}

/// The SDK's build program wrote the list beside the component: an array of absolute paths in JSON.
pub(super) fn listed(component: &Path) -> Result<SourceScope> {
    let list = PathBuf::from(format!("{}.sources", utf8(component)?));
    let text = std::fs::read(&list).with_context(|| format!("cannot read {}", list.display()))?;
    let files: Vec<PathBuf> =
        serde_json::from_slice(&text).with_context(|| format!("cannot read {}", list.display()))?;
    Ok(SourceScope::of_files(files))
}

#[cfg(test)]
mod tests {
    use super::super::{LanguageRow, c, cpp, go, javascript, typescript, zig};
    use super::*;
    use crate::project::write;
    use crate::sources::SourceListing;

    fn sources(language: &LanguageRow, dir: &Path) -> Vec<PathBuf> {
        let listing = SourceListing::read(&language.scope(dir), &SourceListing::default()).unwrap();
        listing
            .changes(&SourceListing::default())
            .into_iter()
            .map(|(path, _)| path)
            .collect()
    }

    #[test]
    fn a_folder_of_sources_may_be_named_target_if_it_is_not_that_of_the_project() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["target/native/made", "deep/target/table"] {
            write(&path(name), "").unwrap();
        }
        for language in [&c::C, &cpp::CPP, &zig::LANGUAGE, &go::GO] {
            assert_eq!(
                sources(language, dir.path()),
                [path("deep/target/table")],
                "{}",
                language.name
            );
        }
    }

    #[test]
    fn headers_beside_the_project_count_with_those_that_they_include() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let dir = place.join("tool");
        let tool = "#include \"toolcell.h\"\n#include <stdio.h>\n # include \"deep/own.h\"\n#include \"../shared/a.h\"\n";
        for (name, text) in [
            ("tool/tool.c", tool),
            ("tool/tool.cpp", tool),
            ("tool/tool.zig", "const own = @import(\"deep/own.zig\");\n"),
            (
                "tool/deep/own.zig",
                "const c = @cImport({ @cInclude(\"../shared/c.h\"); @cInclude(\"../../shared/a.h\"); });\n",
            ),
            (
                "tool/deep/own.h",
                "#include <../shared/c.h>\n#include \"own.h\"\n",
            ),
            ("shared/a.h", "#pragma once\n#include \"b.h\"\n"),
            ("shared/b.h", "#include \"a.h\"\n#include \"/none/x.h\"\n"),
            ("shared/c.h", ""),
            ("shared/other.h", ""),
        ] {
            write(&place.join(name), text).unwrap();
        }
        for language in [&c::C, &cpp::CPP, &zig::LANGUAGE] {
            let found = sources(language, &dir);
            let elsewhere: Vec<_> = found
                .iter()
                .filter(|path| !path.starts_with(&dir))
                .collect();
            let expected = ["a.h", "b.h", "c.h"].map(|name| place.join("shared").join(name));
            assert_eq!(
                elsewhere,
                expected.iter().collect::<Vec<_>>(),
                "{}",
                language.name
            );
        }
    }

    #[test]
    fn a_configuration_of_typescript_counts_with_those_that_it_extends() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let dir = place.join("tool");
        let config = "{ // why\n  \"extends\" : [ \"../shared/base\", \"kit/strict.json\", \"./own.json\", ],\n}";
        for (name, text) in [
            ("tool/tsconfig.json", config),
            ("tool/jsconfig.json", config),
            ("tool/own.json", "{}"),
            (
                "shared/base.json",
                "{\"extends\":\"..\\/last.json\",\"compilerOptions\":{\"paths\":{}}}",
            ),
            ("shared/other.json", ""),
            ("last.json", "{ \"extends\": \"./shared/base.json\" }"),
            ("node_modules/kit/strict.json", ""),
            ("node_modules/kit/loose.json", ""),
        ] {
            write(&place.join(name), text).unwrap();
        }
        for language in [&typescript::TYPESCRIPT, &javascript::JAVASCRIPT] {
            let found = sources(language, &dir);
            let elsewhere: Vec<_> = found
                .iter()
                .filter(|path| !path.starts_with(&dir))
                .collect();
            let expected = [
                "last.json",
                "node_modules/kit/strict.json",
                "shared/base.json",
            ]
            .map(|name| place.join(name));
            assert_eq!(
                elsewhere,
                expected.iter().collect::<Vec<_>>(),
                "{}",
                language.name
            );
        }
    }

    #[test]
    fn a_project_that_names_countless_files_is_refused_soon() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        for name in 0..2000 {
            write(&dir.join(format!("{name}.h")), "").unwrap();
        }
        let asked = std::cell::Cell::new(0);
        let found = reached(Path::new("/none"), vec![dir.join("0.h")], |_, _| {
            asked.set(asked.get() + 1);
            (0..2000)
                .map(|name| dir.join(format!("{name}.h")))
                .collect()
        });
        let why = found.unwrap_err().to_string();
        assert!(
            why.contains("more than 1000 files") && asked.get() < 100,
            "{why} after {}",
            asked.get()
        );
    }

    #[test]
    fn what_a_file_names_behind_a_limit_is_refused_and_not_cut_off() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let filler = "/".repeat(1 << 20);
        for (language, name, naming) in [
            (&go::GO, "go.mod", "\nreplace example.com/one => ../one\n"),
            (&c::C, "tool.c", "\n#include \"../shared/a.h\"\n"),
            (
                &typescript::TYPESCRIPT,
                "tsconfig.json",
                "\n{\"extends\": \"../base.json\"}",
            ),
        ] {
            let dir = place.join(language.name);
            write(&dir.join(name), &format!("{filler}{naming}")).unwrap();
            let refused = SourceListing::read(&language.scope(&dir), &SourceListing::default())
                .unwrap_err()
                .to_string();
            assert!(
                refused.contains(&format!("{name} has more than 1048576 bytes")),
                "{refused}"
            );
            write(&dir.join(name), naming).unwrap();
            SourceListing::read(&language.scope(&dir), &SourceListing::default()).unwrap();
        }
    }

    #[test]
    fn a_module_of_go_in_a_folder_beside_the_project_counts() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        for name in ["one/a.go", "two words/b.go", "three/c.go", "fetched/d.go"] {
            write(&place.join(name), "").unwrap();
        }
        let module = "module tool\n\nreplace example.com/one => ../one // why\nreplace (\n\texample.com/two v1.0.0 => \
            \"../two words\"\n\texample.com/d => example.com/fetched v1.0.0\n)\n// replace x => ../three\n";
        let dir = place.join("tool");
        write(&dir.join("go.mod"), module).unwrap();
        let found = sources(&go::GO, &dir);
        assert_eq!(
            found,
            [
                place.join("one/a.go"),
                dir.join("go.mod"),
                place.join("two words/b.go")
            ]
        );
    }
}
