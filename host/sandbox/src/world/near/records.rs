//! The records of IronClaw's tools: pure functions.

use std::collections::HashMap;

use serde_json::{Value, json};
use toolcell_spec::dialect::near::{Manifest, Tool};
use toolcell_spec::dialect::sections::{component_name, module_name};
use toolcell_spec::{AccessKind, JSON_VALUES_MAX, read_json};

use crate::world::foreign_tool::{ForeignTool, LeftOut, mapped, names, namespace};

pub(super) const NAMESPACE: &str = "near";
/// The declaration keeps the capability id of a tool under it.
const PROTOCOL: &str = "near:agent";
const SCHEMA_BYTES_MAX: usize = 1 << 20;
const DIGEST_CHARS: usize = 8;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HostFunctions {
    http: bool,
    files: bool,
    tools: bool,
}

impl HostFunctions {
    pub(super) fn add(&mut self, function: &str) {
        match function {
            "http-request" => self.http = true,
            "workspace-read" => self.files = true,
            "tool-invoke" => self.tools = true,
            _ => {}
        }
    }

    fn access(self) -> Vec<AccessKind> {
        let kinds = [
            (self.files, AccessKind::FileRead),
            (self.http, AccessKind::Network),
        ];
        kinds
            .into_iter()
            .filter_map(|(imported, kind)| imported.then_some(kind))
            .collect()
    }
}

/// The component says nothing of itself but its arguments and what it does.
pub(super) fn single(
    bytes: &[u8],
    schema: &str,
    description: String,
    imported: HostFunctions,
) -> Result<ForeignTool, String> {
    if schema.len() > SCHEMA_BYTES_MAX {
        return Err(format!(
            "it has {} bytes, of at most {SCHEMA_BYTES_MAX}",
            schema.len()
        ));
    }
    let schema: Value = read_json(schema, JSON_VALUES_MAX)?;
    if !schema.is_object() {
        return Err("it is not a JSON object".to_owned());
    }
    let named = names([name(bytes).as_str()])
        .into_iter()
        .next()
        .unwrap_or_default();
    let mut tool = ForeignTool::careful(named, description, schema, &[]);
    tool.access = imported.access();
    tool.facts.is_open_world = (imported.http || imported.tools).then_some(true);
    tool.tool_calls = calls(imported.tools);
    Ok(tool)
}

fn name(bytes: &[u8]) -> String {
    let own = component_name(bytes)
        .or_else(|| module_name(bytes))
        .map(|name| name.trim_end_matches(".wasm"));
    match own.filter(|name| !name.is_empty()) {
        Some(name) => name.to_owned(),
        None => format!(
            "tool-{}",
            blake3::hash(bytes)
                .to_hex()
                .chars()
                .take(DIGEST_CHARS)
                .collect::<String>()
        ),
    }
}

fn calls(any: bool) -> Vec<String> {
    if any {
        vec!["*".to_owned()]
    } else {
        Vec::new()
    }
}

pub(super) fn of_manifest(
    manifest: &Manifest,
    imported: HostFunctions,
) -> (Vec<ForeignTool>, Vec<LeftOut>) {
    let offered: Vec<&Tool> = manifest
        .tools
        .iter()
        .filter(|tool| !tool.is_denied())
        .collect();
    let denied = manifest.tools.iter().filter(|tool| tool.is_denied());
    let left_out = |tool: &Tool| LeftOut {
        name: tool.id.clone(),
        reason: "its manifest denies its calls".to_owned(),
    };
    let names = names(offered.iter().map(|tool| manifest.bare_name(tool)));
    let tools = offered
        .iter()
        .zip(names)
        .map(|(tool, name)| one(tool, name, imported))
        .collect();
    (tools, denied.map(left_out).collect())
}

fn one(tool: &Tool, name: String, imported: HostFunctions) -> ForeignTool {
    let mut declared = ForeignTool::careful(
        name,
        tool.description.clone(),
        tool.input_schema.clone(),
        &[],
    );
    declared.output_schema.clone_from(&tool.output_schema);
    declared.access = tool.access();
    declared.effects = tool.write_effects();
    declared.facts = tool.facts();
    declared.network_scope = tool.network_scope();
    declared.credentials = tool
        .credentials
        .iter()
        .map(|credential| credential.to_use())
        .collect();
    declared.tool_calls = calls(tool.calls_tools() && imported.tools);
    declared.approval_required = tool.asks();
    declared.mapping = Some(json!({ "source": PROTOCOL, "capability_id": tool.id }));
    declared
}

pub(super) fn namespace_of(manifest: &Manifest) -> String {
    namespace(&manifest.id, NAMESPACE)
}

pub(super) fn capabilities(toolkit: &str) -> HashMap<String, String> {
    mapped(toolkit, PROTOCOL, "capability_id")
}

#[cfg(test)]
mod tests {
    use toolcell_spec::dialect::agent_tool;
    use toolcell_spec::{Toolkit, WriteEffect};

    use super::*;
    use crate::world::foreign_tool::toolkit;

    #[track_caller]
    fn accepted(text: &str, notes: usize) -> Toolkit {
        let described = agent_tool::toolkit(text).unwrap_or_else(|errors| panic!("{errors:?}"));
        assert_eq!(described.notes.len(), notes, "{:?}", described.notes);
        described.toolkit
    }

    fn imported(functions: &[&str]) -> HostFunctions {
        let mut imported = HostFunctions::default();
        functions.iter().for_each(|function| imported.add(function));
        imported
    }

    fn alone(functions: &[&str]) -> Toolkit {
        let tool = single(
            b"",
            r#"{"type": "object"}"#,
            "Does it.".to_owned(),
            imported(functions),
        )
        .unwrap();
        accepted(&toolkit(NAMESPACE, &[tool], &[]), 0)
    }

    #[test]
    fn what_a_tool_asks_for_follows_from_what_it_imports() {
        let kit = alone(&["log", "now-millis", "secret-exists"]);
        let profile = &kit.permission_profiles[0];
        assert!(
            profile.access_kinds.is_empty()
                && profile.tool_calls.is_empty()
                && profile.credential_refs.is_empty()
        );
        assert_eq!(kit.interfaces[0].facts().is_open_world, None);
        let kit = alone(&["http-request"]);
        assert_eq!(
            kit.permission_profiles[0].access_kinds,
            [AccessKind::Network]
        );
        assert_eq!(
            kit.permission_profiles[0].write_effects,
            [WriteEffect::RemoteMutation]
        );
        assert_eq!(
            (
                kit.interfaces[0].facts().is_open_world,
                kit.interfaces[0].facts().is_read_only
            ),
            (Some(true), None)
        );
        let kit = alone(&["workspace-read", "tool-invoke"]);
        assert_eq!(
            kit.permission_profiles[0].access_kinds,
            [AccessKind::FileRead]
        );
        assert_eq!(kit.permission_profiles[0].tool_calls, ["*"]);
    }

    #[test]
    fn a_tool_without_a_name_has_one_that_no_other_component_has() {
        let one = name(b"one");
        let other = name(b"other");
        assert!(
            one != other && one.starts_with("tool-") && one.len() == 13,
            "{one} {other}"
        );
    }

    #[test]
    fn a_schema_that_is_no_object_is_refused() {
        let large = format!("{{\"title\": \"{}\"}}", "x".repeat(SCHEMA_BYTES_MAX));
        for schema in ["", "[]", "\"object\"", "{", large.as_str()] {
            assert!(
                single(b"", schema, String::new(), HostFunctions::default()).is_err(),
                "{schema:.20}"
            );
        }
    }

    fn manifest() -> Manifest {
        let tool = |id: &str, permission: &str| {
            json!({
                "id": id,
                "description": "Does it.",
                "effects": ["network", "use_secret", "external_write"],
                "default_permission": permission,
                "input_schema": {"type": "object"},
                "credentials": [{
                    "handle": "token",
                    "audience": {"scheme": "https", "host": "api.github.com"},
                    "injection": {"type": "query_param", "name": "key"},
                }],
            })
        };
        let tools = [
            tool("github.a", "allow"),
            tool("github.b c", "ask"),
            tool("github.d", "deny"),
            tool("b c", "allow"),
        ];
        Manifest::read(
            &json!({"id": "github", "tools": tools})
                .to_string()
                .replace("b c", "b/c"),
        )
        .unwrap()
    }

    #[test]
    fn the_tools_of_a_manifest_are_told_apart_by_their_capabilities() {
        let (tools, left_out) = of_manifest(&manifest(), imported(&["http-request"]));
        let text = toolkit(&namespace_of(&manifest()), &tools, &left_out);
        let kit = accepted(&text, 1);
        let names: Vec<String> = kit
            .declarations
            .iter()
            .map(|tool| tool.qualified_name())
            .collect();
        assert_eq!(names, ["github.a", "github.b-c", "github.b-c-2"]);
        let capabilities = capabilities(&text);
        assert_eq!(capabilities.len(), 3);
        assert_eq!(capabilities["b-c"], "github.b/c");
        assert_eq!(capabilities["b-c-2"], "b/c");
        let profile = &kit.permission_profiles[1];
        assert_eq!(
            profile.access_kinds,
            [AccessKind::Network, AccessKind::Credential]
        );
        assert_eq!(
            profile.network_scope.as_deref(),
            Some("https://api.github.com")
        );
        assert_eq!(
            (
                profile.credential_refs[0].as_str(),
                profile.credential_uses[0].query.as_deref()
            ),
            ("token", Some("key"))
        );
        assert_eq!(
            (
                profile.approval_required,
                kit.permission_profiles[0].approval_required
            ),
            (Some(true), None)
        );
    }

    #[test]
    fn a_toolkit_without_a_manifest_has_no_capabilities() {
        assert!(capabilities("").is_empty());
        let tool = single(b"", "{}", String::new(), HostFunctions::default()).unwrap();
        assert!(capabilities(&toolkit(NAMESPACE, &[tool], &[])).is_empty());
    }
}
