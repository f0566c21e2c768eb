//! `toolcell new`: a small project that builds, tests and runs as it is.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::language::{Language, write_local_files};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProjectKind {
    #[default]
    Tool,
    Hook,
}

/// Creates the project whole or not at all; `sdk` is from `write_sdk`.
pub fn new_project(
    parent: &Path,
    name: &str,
    lang: Language,
    kind: ProjectKind,
    sdk: Option<&Path>,
) -> Result<PathBuf> {
    check_name(name)?;
    if let Some(why) = (lang.0.refuses_name)(name) {
        bail!("{name:?} cannot be a project's name: {why}");
    }
    let files = lang.0.template(kind);
    if files.is_empty() {
        bail!(
            "there is no template of a hook in {}: hooks are written in Rust, with --lang rust",
            lang.title()
        );
    }
    let place = parent.join(name);
    if place.symlink_metadata().is_ok() {
        bail!(
            "{} is there already: choose another name, or remove it",
            place.display()
        );
    }
    std::fs::create_dir_all(parent)
        .with_context(|| format!("cannot create {}", parent.display()))?;
    let temporary = tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .tempdir_in(parent)
        .with_context(|| format!("cannot write into {}", parent.display()))?;
    // A subfolder, because the temporary folder itself is accessible to the user only.
    let folder = temporary.path().join(name);
    for (file, text) in files {
        write(&folder.join(file), &text.replace("{{name}}", name))?;
    }
    if let Some(sdk) = sdk {
        write_local_files(lang.0, &folder, sdk)?;
    }
    // Fails if a non-empty folder of this name appeared meanwhile.
    std::fs::rename(&folder, &place)
        .with_context(|| format!("cannot create {}", place.display()))?;
    Ok(place)
}

pub(super) fn write(file: &Path, text: &str) -> Result<()> {
    let write = || {
        file.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::write(file, text)
    };
    write().with_context(|| format!("cannot write {}", file.display()))
}

/// The name becomes a folder, a package and the first part of every tool's id.
fn check_name(name: &str) -> Result<()> {
    const RULE: &str = "a name begins with a lower-case letter and goes on with lower-case letters, digits, `-` and `_`";
    let fits = |letter: char| {
        letter.is_ascii_lowercase() || letter.is_ascii_digit() || matches!(letter, '-' | '_')
    };
    if !name.starts_with(|letter: char| letter.is_ascii_lowercase()) || !name.chars().all(fits) {
        bail!("{name:?} cannot be a project's name: {RULE}");
    }
    if name.len() > 64 {
        bail!("{name:?} cannot be a project's name: it has more than 64 letters");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust() -> Language {
        "rust".parse().unwrap()
    }

    fn refusal(name: &str) -> Option<String> {
        let parent = tempfile::tempdir().unwrap();
        new_project(parent.path(), name, rust(), ProjectKind::Tool, None)
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn a_name_is_a_crates_and_a_folders() {
        for name in ["a", "word-count", "tool_2", &"a".repeat(64)] {
            assert_eq!(refusal(name), None);
        }
        for name in [
            "",
            "2x",
            "-x",
            "Upper",
            "a b",
            "a/b",
            "..",
            "a.b",
            "ä",
            "fn",
            "self",
            "std",
            "toolcell-guest",
            "trait",
        ] {
            let error = refusal(name).unwrap();
            assert!(
                error.starts_with(&format!("{name:?} cannot be a project's name: ")),
                "{error}"
            );
        }
        assert!(check_name(&"a".repeat(65)).is_err());
    }

    #[test]
    fn a_language_without_a_template_is_told_which_there_are() {
        assert_eq!(rust().name(), "rust");
        assert_eq!(
            "cobol".parse::<Language>().unwrap_err().to_string(),
            format!(
                "there is no template for \"cobol\": choose {}",
                super::super::language::names()
            )
        );
    }

    #[test]
    fn a_project_is_written_whole_with_its_name_in_it() {
        let parent = tempfile::tempdir().unwrap();
        let sdk = Path::new("/data/sdk/x");
        let project = new_project(
            parent.path(),
            "word-count",
            rust(),
            ProjectKind::Tool,
            Some(sdk),
        )
        .unwrap();
        assert_eq!(project, parent.path().join("word-count"));
        let read = |file: &str| std::fs::read_to_string(project.join(file)).unwrap();
        assert!(read("Cargo.toml").contains("name = \"word-count\"\n"));
        assert!(read("src/lib.rs").contains("namespace: \"word-count\""));
        assert!(read("README.md").starts_with("# word-count\n"));
        assert!(read(".gitignore").contains("/.cargo/config.toml\n"));
        assert!(read(".cargo/config.toml").contains("{ path = \"/data/sdk/x/guest-sdk/rust\" }"));
        for file in [
            "Cargo.toml",
            "src/lib.rs",
            "README.md",
            ".gitignore",
            ".cargo/config.toml",
        ] {
            assert!(!read(file).contains("{{"), "{file} has a blank left");
        }
        let left: Vec<_> = std::fs::read_dir(parent.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["word-count"]);
    }

    #[test]
    fn the_tool_of_the_template_is_short() {
        let tool = include_str!("template/rust/lib.rs")
            .split("#[test]")
            .next()
            .unwrap();
        assert!(tool.lines().count() < 20);
    }

    #[test]
    fn nothing_that_is_there_is_overwritten_and_nothing_half_made_stays() {
        let parent = tempfile::tempdir().unwrap();
        std::fs::create_dir(parent.path().join("mine")).unwrap();
        let error = new_project(parent.path(), "mine", rust(), ProjectKind::Tool, None)
            .unwrap_err()
            .to_string();
        assert!(
            error.ends_with("is there already: choose another name, or remove it"),
            "{error}"
        );

        std::fs::write(parent.path().join("file"), "").unwrap();
        let error = new_project(
            &parent.path().join("file"),
            "tool",
            rust(),
            ProjectKind::Hook,
            None,
        )
        .unwrap_err();
        assert!(
            format!("{error:#}").starts_with("cannot create "),
            "{error:#}"
        );

        let mut left: Vec<_> = std::fs::read_dir(parent.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["file", "mine"]);
    }
}
