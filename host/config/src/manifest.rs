//! Reads `manifest.toml` of an IronClaw extension, and the schemas beside it that it refers to.
//!
//! An extension comes from others. None of its files may be a link, because a link could lead to any file of the user, whose
//! content would become part of a component.

use std::fs::{File, Metadata};
use std::path::{Component, Path};

use anyhow::{Context, ensure};
use rustix::fs::OFlags;
use serde::Deserialize;
use serde_json::Value;
use toolcell_spec::dialect::near::{
    Audience, Credential, DefaultPermission, Effect, Injection, MANIFEST_BYTES_MAX, Manifest,
    SCHEMA_VERSION, Tool,
};
use toolcell_spec::{JSON_VALUES_MAX, read_json};

use super::config_text::line;
use super::file;

/// Whom a tool is for, if it is for models.
const FOR_MODELS: &str = "model";
/// The kind of runtime of an extension that is a component.
const COMPONENT: &str = "wasm";

/// The fields that matter here; a manifest has others, about the assistant that it was written for.
#[derive(Deserialize)]
struct ExtensionManifest {
    schema_version: String,
    id: String,
    runtime: Option<ExtensionRuntime>,
    #[serde(default)]
    tools: Vec<SourceTool>,
}

#[derive(Deserialize)]
struct ExtensionRuntime {
    kind: String,
}

#[derive(Deserialize)]
struct SourceTool {
    id: String,
    description: String,
    #[serde(default)]
    effects: Vec<Effect>,
    default_permission: DefaultPermission,
    visibility: Option<String>,
    input_schema_ref: String,
    output_schema_ref: Option<String>,
    #[serde(default)]
    credentials: Vec<SourceCredential>,
}

#[derive(Deserialize)]
struct SourceCredential {
    handle: String,
    audience: Audience,
    injection: Injection,
}

/// Returns the manifest `file` with its schemas.
///
/// # Errors
///
/// A file that is a link, not a regular file, too large or not a manifest of a component. The error names the file, and the
/// place in it.
pub fn extension_manifest(file: &Path) -> anyhow::Result<Manifest> {
    let place = || format!("cannot use the manifest {}", file.display());
    let text = text(file, MANIFEST_BYTES_MAX)?;
    let source: ExtensionManifest = toml::from_str(&text)
        .map_err(|error| {
            let at = error.span().map(|span| span.start).unwrap_or_default();
            anyhow::anyhow!("line {}: {}", line(text.as_bytes(), at), error.message())
        })
        .with_context(place)?;
    let folder = match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let manifest = manifest(source, folder).with_context(place)?;
    // As the sandbox reads it from the component.
    let written = serde_json::to_string(&manifest)?;
    Manifest::read(&written)
        .map_err(anyhow::Error::msg)
        .with_context(place)
}

fn manifest(source: ExtensionManifest, folder: &Path) -> anyhow::Result<Manifest> {
    let version = &source.schema_version;
    ensure!(
        version == SCHEMA_VERSION,
        "schema_version: {version:?} is not {SCHEMA_VERSION}, which this host reads"
    );
    if let Some(ExtensionRuntime { kind }) = &source.runtime {
        ensure!(
            kind == COMPONENT,
            "runtime.kind: {kind:?} is not {COMPONENT}, so that the extension has no component"
        );
    }
    let mut room = MANIFEST_BYTES_MAX;
    let mut tools = Vec::with_capacity(source.tools.len());
    for (at, tool) in source.tools.into_iter().enumerate() {
        tools.push(self::tool(tool, folder, &mut room).with_context(|| format!("tools[{at}]"))?);
    }
    Ok(Manifest {
        id: source.id,
        tools,
    })
}

fn tool(source: SourceTool, folder: &Path, room: &mut usize) -> anyhow::Result<Tool> {
    let input_schema =
        schema(folder, &source.input_schema_ref, room).context("input_schema_ref")?;
    let output_schema = source
        .output_schema_ref
        .map(|named| schema(folder, &named, room))
        .transpose();
    let is_for_models = source.visibility.is_none_or(|whom| whom == FOR_MODELS);
    let credential = |SourceCredential {
                          handle,
                          audience,
                          injection,
                      }| Credential {
        handle,
        audience,
        injection,
    };
    Ok(Tool {
        id: source.id,
        description: source.description,
        effects: source.effects,
        // A tool for its own assistant alone must not become one for every caller.
        default_permission: if is_for_models {
            source.default_permission
        } else {
            DefaultPermission::Deny
        },
        input_schema,
        output_schema: output_schema.context("output_schema_ref")?,
        credentials: source.credentials.into_iter().map(credential).collect(),
    })
}

/// Reads the schema at `named`, a path below `folder`. All schemas together fit into `room`.
fn schema(folder: &Path, named: &str, room: &mut usize) -> anyhow::Result<Value> {
    let path = Path::new(named);
    let is_below = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)))
        && !named.is_empty();
    ensure!(
        is_below,
        "{named:?} is not a path below the folder of the manifest"
    );
    let folder = folder
        .canonicalize()
        .with_context(|| format!("cannot find the folder {}", folder.display()))?;
    let whole = folder.join(path);
    let real = whole
        .canonicalize()
        .with_context(|| format!("cannot read {}", whole.display()))?;
    ensure!(
        real == whole,
        "{named:?} leads through a link; put the file itself there"
    );
    let text = text(&whole, MANIFEST_BYTES_MAX)?;
    *room = room.checked_sub(text.len()).with_context(|| {
        format!("{named:?}: the schemas together have more than {MANIFEST_BYTES_MAX} bytes")
    })?;
    read_json(&text, JSON_VALUES_MAX)
        .map_err(anyhow::Error::msg)
        .with_context(|| format!("{named:?} is not JSON"))
}

/// Reads a text file of at most `bytes_max` bytes that is no link.
pub(super) fn text(path: &Path, bytes_max: usize) -> anyhow::Result<String> {
    let shown = path.display();
    ensure!(
        !path.is_symlink(),
        "cannot read {shown}: it is a link, which could lead to any file; name the file itself"
    );
    let any = |_: &Path, _: &File, _: &Metadata| Ok(());
    let bytes = file::read(path, OFlags::NOFOLLOW, bytes_max as u64, any)?;
    let bytes = bytes.with_context(|| format!("cannot read {shown}: it does not exist"))?;
    String::from_utf8(bytes).with_context(|| format!("cannot read {shown}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const MANIFEST: &str = r#"
schema_version = "reborn.extension_manifest.v3"
id = "github"
name = "GitHub"
trust = "third_party"

[runtime]
kind = "wasm"
module = "wasm/github.wasm"

[[tools]]
id = "github.get_issue"
description = "Fetches an issue."
effects = ["network", "use_secret"]
default_permission = "allow"
visibility = "model"
input_schema_ref = "schemas/get_issue.json"
prompt_doc_ref = "prompts/get_issue.md"

[[tools.credentials]]
handle = "github_token"
vendor = "github"
audience = { scheme = "https", host = "api.github.com" }
injection = { type = "header", name = "authorization", prefix = "token " }

[[tools]]
id = "github.internal"
description = "For the assistant alone."
default_permission = "allow"
visibility = "host_internal"
input_schema_ref = "schemas/get_issue.json"
output_schema_ref = "schemas/get_issue.json"
"#;

    /// A folder with a manifest, and the schema that it refers to.
    fn folder(manifest: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("schemas")).unwrap();
        std::fs::write(
            folder.path().join("schemas/get_issue.json"),
            r#"{"type": "object"}"#,
        )
        .unwrap();
        std::fs::write(folder.path().join("manifest.toml"), manifest).unwrap();
        folder
    }

    fn read(folder: &tempfile::TempDir) -> Result<Manifest, String> {
        extension_manifest(&folder.path().join("manifest.toml"))
            .map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_manifest_is_read_with_its_schemas() {
        let manifest = read(&folder(MANIFEST)).unwrap();
        let [issue, internal] = &manifest.tools[..] else {
            panic!("{manifest:?}")
        };
        assert_eq!(
            (manifest.id.as_str(), issue.id.as_str()),
            ("github", "github.get_issue")
        );
        assert_eq!(issue.input_schema["type"], "object");
        assert_eq!(
            issue.network_scope().as_deref(),
            Some("https://api.github.com")
        );
        assert!(!issue.is_denied() && issue.output_schema.is_none());
        assert!(
            internal.is_denied() && internal.effects.is_empty() && internal.output_schema.is_some()
        );
    }

    #[test]
    fn a_manifest_that_cannot_be_used_is_refused_at_its_place() {
        for (from, to, why) in [
            ("manifest.v3", "manifest.v2", "schema_version: "),
            ("kind = \"wasm\"", "kind = \"mcp\"", "runtime.kind: "),
            (
                "\"network\", ",
                "\"teleport\", ",
                "unknown variant `teleport`",
            ),
            (
                "effects = [\"network\", \"use_secret\"]",
                "effects = [\"network\"]",
                "tools[0].effects: ",
            ),
            (
                "host = \"api.github.com\"",
                "host = \"api.github.com\", path = \"/repos\"",
                "unknown field `path`",
            ),
            (
                "\"schemas/get_issue.json\"",
                "\"../get_issue.json\"",
                "tools[0]: input_schema_ref: \"../get_issue.json\"",
            ),
            (
                "\"schemas/get_issue.json\"",
                "\"/etc/passwd\"",
                "tools[0]: input_schema_ref: \"/etc/passwd\"",
            ),
            (
                "\"schemas/get_issue.json\"",
                "\"missing.json\"",
                "tools[0]: input_schema_ref: cannot read",
            ),
            (
                "\"schemas/get_issue.json\"",
                "\"manifest.toml\"",
                "is not JSON",
            ),
            (
                "\"schemas/get_issue.json\"",
                "\"schemas\"",
                "not a regular file",
            ),
            (
                "id = \"github.internal\"",
                "id = \"github.get_issue\"",
                "tools[1].id: ",
            ),
            ("id = \"github\"", "id = ", ": line "),
        ] {
            let text = MANIFEST.replacen(from, to, 1);
            assert_ne!(text, MANIFEST, "{from}");
            let error = read(&folder(&text)).unwrap_err();
            assert!(
                error.contains(why) && error.contains("manifest.toml"),
                "{from}: {error}"
            );
        }
    }

    #[test]
    fn no_file_of_an_extension_may_be_a_link_or_too_large() {
        let own = folder(MANIFEST);
        let secret = own.path().join("outside.json");
        std::fs::write(&secret, "{}").unwrap();
        let linked = folder(MANIFEST);
        let schema = linked.path().join("schemas/get_issue.json");
        std::fs::remove_file(&schema).unwrap();
        symlink(&secret, &schema).unwrap();
        assert!(read(&linked).unwrap_err().contains("leads through a link"));
        let linked = folder(MANIFEST);
        std::fs::remove_dir_all(linked.path().join("schemas")).unwrap();
        symlink(own.path().join("schemas"), linked.path().join("schemas")).unwrap();
        assert!(read(&linked).unwrap_err().contains("leads through a link"));
        let linked = folder(MANIFEST);
        std::fs::remove_file(linked.path().join("manifest.toml")).unwrap();
        symlink(
            own.path().join("manifest.toml"),
            linked.path().join("manifest.toml"),
        )
        .unwrap();
        assert!(read(&linked).unwrap_err().contains("it is a link"));
        let large = folder(&format!("{MANIFEST}\n#{}", "x".repeat(MANIFEST_BYTES_MAX)));
        assert!(
            read(&large)
                .unwrap_err()
                .contains("is larger than 1048576 bytes")
        );
        let wide = folder(MANIFEST);
        let schema = format!("{{\"title\": \"{}\"}}", "x".repeat(MANIFEST_BYTES_MAX / 2));
        std::fs::write(wide.path().join("schemas/get_issue.json"), schema).unwrap();
        assert!(
            read(&wide)
                .unwrap_err()
                .contains("the schemas together have more than")
        );
    }
}
