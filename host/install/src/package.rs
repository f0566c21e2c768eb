//! A tool's metadata in the manifest of its source folder, in each language.

use std::io::Read;
use std::path::Path;

use serde_json::Value;

use crate::{component, local};

const FILE_BYTES_MAX: u64 = 16 << 20;
const LICENCES: [&str; 4] = ["license", "licence", "copying", "unlicense"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackageInfo {
    pub name: String,
    pub version: Option<String>,
    /// An SPDX expression, as its author wrote it.
    pub licence: Option<String>,
    pub description: Option<String>,
    pub source: Option<String>,
    pub authors: Option<String>,
    pub has_readme: bool,
    pub has_licence_file: bool,
}

impl PackageInfo {
    pub fn of_folder(folder: &Path) -> Self {
        let found = cargo(folder)
            .or_else(|| python(folder))
            .or_else(|| zig(folder))
            .or_else(|| directives(folder))
            .or_else(|| npm(folder));
        let mut package = found.unwrap_or_default();
        if package.name.is_empty() {
            let name = folder
                .canonicalize()
                .ok()
                .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
            package.name = name.unwrap_or_default();
        }
        for entry in std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
        {
            let name = entry.file_name().to_string_lossy().to_ascii_lowercase();
            package.has_readme |= name.starts_with("readme");
            package.has_licence_file |= LICENCES.iter().any(|start| name.starts_with(start));
        }
        package
    }

    pub fn sections_of(folder: &Path) -> Vec<(&'static str, String)> {
        let Self {
            version,
            licence,
            description,
            source,
            authors,
            ..
        } = Self::of_folder(folder);
        let sections = [
            ("version", version),
            ("licenses", licence),
            ("description", description),
            ("source", source),
            ("authors", authors),
        ];
        sections
            .into_iter()
            .filter_map(|(name, text)| Some((name, text?)))
            .collect()
    }

    pub fn of_component(bytes: &[u8], name: &str) -> Self {
        let written = |section: &str| component::written(bytes, section);
        Self {
            name: name.to_owned(),
            version: written("version"),
            licence: written("licenses"),
            description: written("description"),
            source: written("source").or_else(|| written("homepage")),
            authors: written("authors"),
            has_readme: false,
            has_licence_file: false,
        }
    }
}

/// `None` if the file is not regular, too large or not text.
pub(crate) fn text(file: &Path) -> Option<String> {
    let mut text = String::new();
    let read = local::open(file)
        .ok()?
        .take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .ok()?;
    (read as u64 <= FILE_BYTES_MAX).then_some(text)
}

fn cargo(folder: &Path) -> Option<PackageInfo> {
    let manifest: toml::Table = toml::from_str(&text(&folder.join("Cargo.toml"))?).ok()?;
    let package = manifest.get("package")?.as_table()?;
    // A field with `workspace = true` is in the manifest of the workspace, which is in a folder above.
    let workspace = || {
        let above = folder.canonicalize().ok()?;
        above.ancestors().find_map(|folder| {
            let manifest: toml::Table = toml::from_str(&text(&folder.join("Cargo.toml"))?).ok()?;
            manifest.get("workspace")?.get("package").cloned()
        })
    };
    let field = |name: &str| match package.get(name)? {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Table(table) if table.get("workspace")?.as_bool()? => {
            workspace()?.get(name)?.as_str().map(str::to_owned)
        }
        _ => None,
    };
    Some(PackageInfo {
        name: field("name")?,
        version: field("version"),
        licence: field("license"),
        description: field("description"),
        source: field("repository"),
        authors: joined(package.get("authors"), toml::Value::as_str),
        ..PackageInfo::default()
    })
}

fn joined(
    authors: Option<&toml::Value>,
    name: impl Fn(&toml::Value) -> Option<&str>,
) -> Option<String> {
    let names: Vec<&str> = authors?.as_array()?.iter().filter_map(name).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Fields that are a string or, as the name, a literal: `.version = "1.0.0"`, `.name = .tool`.
fn zig(folder: &Path) -> Option<PackageInfo> {
    let manifest = text(&folder.join("build.zig.zon"))?;
    // The first of a name: dependencies have fields of these names too, and come later.
    let field = |name: &str| {
        let key = format!(".{name}");
        let lines = manifest
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default().trim());
        let value = lines
            .filter_map(|line| line.strip_prefix(&key)?.trim_start().strip_prefix('='))
            .next()?
            .trim();
        let value = value.trim_end_matches(',').trim();
        let value = match value.strip_prefix('.') {
            Some(literal) => literal.trim_start_matches("@\"").trim_end_matches('"'),
            None => value.strip_prefix('"')?.strip_suffix('"')?,
        };
        Some(value.to_owned()).filter(|value| !value.is_empty() && !value.contains('"'))
    };
    Some(PackageInfo {
        name: field("name").unwrap_or_default(),
        version: field("version"),
        licence: field("license"),
        description: field("description"),
        ..PackageInfo::default()
    })
}

/// Comments such as `// toolcell:version 0.1.0`, of languages whose projects have no manifest with a version.
fn directives(folder: &Path) -> Option<PackageInfo> {
    let files = ["go.mod", "tool.c", "tool.cpp", "tool.zig"];
    let text = files.iter().find_map(|name| text(&folder.join(name)))?;
    let said = |name: &str| {
        let value = text.lines().find_map(|line| {
            let words = line.trim_start_matches(['/', '*', ' ']);
            words
                .strip_prefix("toolcell:")?
                .strip_prefix(name)?
                .strip_prefix(' ')
        });
        let value = value?.trim_end_matches("*/").trim();
        (!value.is_empty()).then(|| value.to_owned())
    };
    Some(PackageInfo {
        version: said("version"),
        licence: said("license"),
        description: said("description"),
        source: said("source"),
        authors: said("authors"),
        ..PackageInfo::default()
    })
}

fn npm(folder: &Path) -> Option<PackageInfo> {
    let manifest: Value = serde_json::from_str(&text(&folder.join("package.json"))?).ok()?;
    let field = |pointer: &str| manifest.pointer(pointer)?.as_str().map(str::to_owned);
    Some(PackageInfo {
        name: field("/name").unwrap_or_default(),
        version: field("/version"),
        licence: field("/license"),
        description: field("/description"),
        source: field("/repository/url").or_else(|| field("/repository")),
        authors: field("/author/name").or_else(|| field("/author")),
        ..PackageInfo::default()
    })
}

fn python(folder: &Path) -> Option<PackageInfo> {
    let manifest: toml::Table = toml::from_str(&text(&folder.join("pyproject.toml"))?).ok()?;
    let project = manifest.get("project")?;
    let field = |name: &str| project.get(name)?.as_str().map(str::to_owned);
    let licence = || {
        project
            .get("license")?
            .get("text")?
            .as_str()
            .map(str::to_owned)
    };
    let url = |name: &&str| project.get("urls")?.get(*name)?.as_str().map(str::to_owned);
    Some(PackageInfo {
        name: field("name").unwrap_or_default(),
        version: field("version"),
        licence: field("license").or_else(licence),
        description: field("description"),
        source: ["Repository", "Source", "Homepage"].iter().find_map(url),
        authors: joined(project.get("authors"), |author| {
            author.get("name")?.as_str()
        }),
        ..PackageInfo::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)], folder: &str) -> PackageInfo {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let file = root.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        PackageInfo::of_folder(&root.path().join(folder))
    }

    #[test]
    fn a_named_pipe_is_no_manifest_and_blocks_nothing() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("tool");
        std::fs::create_dir(&folder).unwrap();
        for name in ["Cargo.toml", "package.json", "pyproject.toml"] {
            let made = std::process::Command::new("mkfifo")
                .arg(folder.join(name))
                .status()
                .unwrap();
            assert!(made.success());
        }
        assert_eq!(
            PackageInfo::of_folder(&folder),
            PackageInfo {
                name: "tool".to_owned(),
                ..PackageInfo::default()
            }
        );
    }

    #[test]
    fn a_comment_says_it_where_there_is_no_manifest() {
        let said = |files: &[(&str, &str)]| {
            let package = of(files, ".");
            (package.version, package.licence)
        };
        let known =
            |version: &str, licence: &str| (Some(version.to_owned()), Some(licence.to_owned()));
        assert_eq!(
            said(&[(
                "tool.c",
                "/* toolcell:version 0.1.0 */\n/* toolcell:license MIT OR Apache-2.0 */\nint x;"
            )]),
            known("0.1.0", "MIT OR Apache-2.0")
        );
        assert_eq!(
            said(&[(
                "go.mod",
                "module a\n\n// toolcell:version 2.0.0\n// toolcell:license MIT\n"
            )]),
            known("2.0.0", "MIT")
        );
        assert_eq!(
            said(&[(
                "tool.zig",
                "const text = \"toolcell:version 1\";\n// toolcell:license\n"
            )]),
            (None, None)
        );
    }

    #[test]
    fn each_language_says_it_in_its_own_manifest() {
        let workspace = "[workspace.package]\nlicense = \"MIT\"\nversion = \"3.0.0\"";
        let tool = "[package]\nname = \"a\"\nversion.workspace = true\nlicense = { workspace = true }\n\
                    description = \"Does it.\"\nrepository = \"https://example.org/a\"";
        let cargo = of(
            &[
                ("Cargo.toml", workspace),
                ("t/Cargo.toml", tool),
                ("t/README.md", ""),
            ],
            "t",
        );
        let known = |package: &PackageInfo| {
            (
                package.name.clone(),
                package.version.clone().unwrap(),
                package.licence.clone().unwrap(),
            )
        };
        assert_eq!(
            known(&cargo),
            ("a".to_owned(), "3.0.0".to_owned(), "MIT".to_owned())
        );
        assert!(cargo.has_readme && !cargo.has_licence_file);
        let npm = r#"{"name": "@x/b", "version": "1.0.0", "license": "MIT", "repository": {"url": "https://example.org"}}"#;
        let npm = of(&[("package.json", npm), ("LICENCE.txt", "")], "");
        assert_eq!(
            known(&npm),
            ("@x/b".to_owned(), "1.0.0".to_owned(), "MIT".to_owned())
        );
        assert!(npm.has_licence_file && npm.source.as_deref() == Some("https://example.org"));
        let python = "[project]\nname = \"c\"\nversion = \"2\"\nlicense = { text = \"MIT\" }\n[project.urls]\nSource = \"u\"";
        let python = of(&[("pyproject.toml", python)], "");
        assert_eq!(
            (known(&python), python.source.as_deref()),
            (("c".into(), "2".into(), "MIT".into()), Some("u"))
        );
        assert_eq!(of(&[("z/tool.c", "")], "z").name, "z");
        let zig = ".{\n    .name = .counter,\n    .version = \"2.1.0\", // semantic\n    .paths = .{\"\"},\n}\n";
        let zig = of(&[("build.zig.zon", zig)], "");
        assert_eq!(
            (zig.name.as_str(), zig.version.as_deref(), zig.licence),
            ("counter", Some("2.1.0"), None)
        );
    }

    #[test]
    fn the_manifest_is_written_into_the_component_in_the_sections_that_are_read() {
        let root = tempfile::tempdir().unwrap();
        let manifest = "[package]\nname = \"a\"\nversion = \"1.2.0\"\nlicense = \"MIT\"\nauthors = [\"A <a@b.c>\", \"B\"]";
        std::fs::write(root.path().join("Cargo.toml"), manifest).unwrap();
        let mut component = b"\0asm\x0d\0\x01\0".to_vec();
        for (name, text) in PackageInfo::sections_of(root.path()) {
            component =
                toolcell_spec::dialect::sections::with_custom(&component, name, text.as_bytes())
                    .unwrap();
        }
        let read = PackageInfo::of_component(&component, "a");
        let written = PackageInfo::of_folder(root.path());
        assert_eq!(read, written);
        assert_eq!(
            (read.version.as_deref(), read.authors.as_deref()),
            (Some("1.2.0"), Some("A <a@b.c>, B"))
        );
    }
}
