//! Rust: cargo builds, with a toolchain that `find` finds or sets up.

use std::path::Path;

use anyhow::{Context, Result};

use super::super::build::{self, BuildOutcome, BuildSettings, quoted};
use super::super::find::ToolchainSearch;
use super::super::project::ProjectKind;
use super::super::sources::SourceScope;
use super::super::survey::{self, SurveyFinding};
use super::super::toolchain_cache::{self, ToolchainPart};
use super::super::{ProgressSink, c_code, sdk};
use super::c::ZIG;
use super::{EmbeddedFile, LanguageBackend, renew_local_files};

pub(super) struct RustLanguage;

const MANIFEST: EmbeddedFile = ("Cargo.toml", include_str!("../template/rust/manifest.toml"));
const GITIGNORE: EmbeddedFile = (".gitignore", include_str!("../template/rust/gitignore"));
const CONFIG: &str = include_str!("../template/rust/cargo-config.toml");

const TOOL: &[EmbeddedFile] = &[
    MANIFEST,
    ("src/lib.rs", include_str!("../template/rust/lib.rs")),
    ("README.md", include_str!("../template/rust/README.md")),
    GITIGNORE,
];
const HOOK: &[EmbeddedFile] = &[
    MANIFEST,
    ("src/lib.rs", include_str!("../template/rust/hook.rs")),
    ("README.md", include_str!("../template/rust/hook.md")),
    GITIGNORE,
];

/// Languages have such a list each, in which a new file of the SDK gets its line.
const SDK: &[EmbeddedFile] = sdk::files![
    "guest-sdk/rust/Cargo.toml",
    "guest-sdk/rust/README.md",
    "guest-sdk/rust/macros/Cargo.toml",
    "guest-sdk/rust/macros/src/attributes.rs",
    "guest-sdk/rust/macros/src/hook.rs",
    "guest-sdk/rust/macros/src/lib.rs",
    "guest-sdk/rust/macros/src/tool.rs",
    "guest-sdk/rust/macros/src/toolkit.rs",
    "guest-sdk/rust/src/artifact.rs",
    "guest-sdk/rust/src/cancellation.rs",
    "guest-sdk/rust/src/component.rs",
    "guest-sdk/rust/src/configuration.rs",
    "guest-sdk/rust/src/context.rs",
    "guest-sdk/rust/src/context_modifiers.rs",
    "guest-sdk/rust/src/doc.rs",
    "guest-sdk/rust/src/error.rs",
    "guest-sdk/rust/src/hook.rs",
    "guest-sdk/rust/src/hook_component.rs",
    "guest-sdk/rust/src/http/mod.rs",
    "guest-sdk/rust/src/http/wire.rs",
    "guest-sdk/rust/src/interaction.rs",
    "guest-sdk/rust/src/lib.rs",
    "guest-sdk/rust/src/log.rs",
    "guest-sdk/rust/src/output.rs",
    "guest-sdk/rust/src/progress.rs",
    "guest-sdk/rust/src/schema.rs",
    "guest-sdk/rust/src/testing.rs",
    "guest-sdk/rust/src/toolkit.rs",
    "guest-sdk/rust/src/tools.rs",
];

/// Names that a crate cannot have, or that would shadow another crate.
const TAKEN: [&str; 51] = [
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "toolcell-guest",
    "toolcell_guest",
    "trait",
    "true",
    "type",
    "unsafe",
    "use",
    "where",
    "while",
    "yield",
];

impl LanguageBackend for RustLanguage {
    fn name(&self) -> &'static str {
        "rust"
    }

    fn title(&self) -> &'static str {
        "Rust"
    }

    fn marks(&self) -> &'static [&'static str] {
        &["Cargo.toml"]
    }

    fn template(&self, kind: ProjectKind) -> &'static [EmbeddedFile] {
        match kind {
            ProjectKind::Tool => TOOL,
            ProjectKind::Hook => HOOK,
        }
    }

    fn local_files(&self, sdk: &Path) -> Result<Vec<(String, String)>> {
        let folder = std::path::absolute(sdk)
            .context("cannot find the SDK")?
            .join("guest-sdk")
            .join("rust");
        let text = folder
            .to_str()
            .with_context(|| format!("{} is not UTF-8", folder.display()))?;
        Ok(vec![(
            ".cargo/config.toml".to_owned(),
            CONFIG.replace("{{sdk}}", &quoted(text)?),
        )])
    }

    fn refuses_name(&self, name: &str) -> Option<&'static str> {
        TAKEN
            .contains(&name)
            .then_some("it means something else in Rust")
    }

    fn sdk(&self) -> &'static [EmbeddedFile] {
        SDK
    }

    fn test_command(&self) -> &'static str {
        "cargo test"
    }

    /// A compiler for C, if the package in the folder of the search asks for one. Cargo's own toolchain is `find`'s.
    fn parts(&self, search: &ToolchainSearch) -> Vec<&'static ToolchainPart> {
        if c_code::is_wanted(&search.dir) {
            vec![&ZIG]
        } else {
            Vec::new()
        }
    }

    fn fetches(&self, search: &ToolchainSearch) -> Vec<String> {
        // rustup's programs run the toolchain that a file in the current folder names, which can be in that folder.
        let elsewhere = ToolchainSearch {
            dir: "/".into(),
            ..search.clone()
        };
        survey::fetches(&elsewhere)
            .into_iter()
            .chain(toolchain_cache::missing(&self.parts(search), search))
            .collect()
    }

    fn scope(&self, dir: &Path) -> SourceScope {
        let mut scope = SourceScope::default();
        scope.add(dir);
        scope
    }

    fn build(
        &self,
        dir: &Path,
        settings: &BuildSettings,
        say: ProgressSink,
    ) -> Result<BuildOutcome> {
        if let Some(sdk) = &settings.sdk {
            renew_local_files(self, dir, sdk)?;
        }
        build::build(dir, settings, say)
    }

    fn survey(&self, search: &ToolchainSearch) -> Vec<SurveyFinding> {
        survey::survey(search)
    }
}
