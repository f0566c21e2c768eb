//! Rust: cargo builds, with a toolchain that `find` finds or sets up.

use super::{EmbeddedFile, LanguageRow, quoted_path, sdk_folder};
use crate::{sdk, workspace};

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

/// A new file of the SDK gets its line here.
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

/// A crate cannot have them, or they would shadow another crate, beside the SDK's.
const TAKEN: [&str; 49] = [
    "abstract", "alloc", "as", "async", "await", "become", "box", "break", "const", "continue",
    "core", "crate", "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen",
    "if", "impl", "in", "let", "loop", "macro", "match", "mod", "move", "mut", "pub", "ref",
    "return", "self", "static", "std", "struct", "super", "test", "trait", "true", "type",
    "unsafe", "use", "where", "while", "yield",
];

pub(super) static RUST: LanguageRow = LanguageRow {
    name: "rust",
    title: "Rust",
    marks: &["Cargo.toml"],
    tool: TOOL,
    hook: HOOK,
    local_files: |sdk| {
        let sdk = quoted_path(&sdk_folder(sdk, "rust")?)?;
        let text = CONFIG.replace("{{sdk}}", &sdk);
        Ok(vec![(".cargo/config.toml".to_owned(), text)])
    },
    refuses_name: |name| {
        let is_taken = TAKEN.contains(&name) || name.replace('_', "-") == workspace::SDK;
        is_taken.then_some("it means something else in Rust")
    },
    sdk: SDK,
    test_command: "cargo test",
    fetched: None,
};
