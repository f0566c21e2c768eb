//! The toolkit of an ACT component, of its own list of tools.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use toolcell_spec::{AccessKind, JSON_VALUES_MAX, read_unique_json};

use super::section::ActSection;
use super::types::{ActMetadata, ToolDefinition, value};
use crate::world::foreign_tool::{self, ForeignTool, LeftOut};

/// Naming many tools that have one name takes the square of their number.
const TOOLS_MAX: usize = 256;
/// Limit of all tools together. Parsed, schemas take many times as much memory.
const SCHEMAS_BYTES_MAX: usize = 1 << 20;
const NAME_BYTES_MAX: usize = 256;
const SOURCE: &str = "act";

/// Fails for too many tools, too large schemas, or no tool that can be offered.
pub(super) fn toolkit(
    tools: Vec<ToolDefinition>,
    section: Option<&ActSection>,
    imports: &[String],
    namespace: Option<&str>,
) -> Result<String, String> {
    bounded(&tools)?;
    let names = foreign_tool::names(tools.iter().map(|tool| tool.name.as_str()));
    let mut offered = Vec::new();
    let mut left_out = Vec::new();
    let mut own_names = HashSet::new();
    for (tool, name) in tools.into_iter().zip(names) {
        let own = tool.name.clone();
        let first = own_names.insert(own.clone());
        match offer(tool, name, section, imports, first) {
            Ok(mut tool) => {
                if tool.name != own {
                    tool.mapping = Some(json!({ "source": SOURCE, "name": own }));
                }
                offered.push(tool);
            }
            Err(reason) => left_out.push(LeftOut { name: own, reason }),
        }
    }
    if let Some(first) = left_out.first().filter(|_| offered.is_empty()) {
        return Err(format!(
            "none of its tools can be offered: {}",
            first.reason
        ));
    }
    let own = section
        .and_then(|section| section.name.as_deref())
        .unwrap_or_default();
    let own = foreign_tool::namespace(own, "act");
    Ok(foreign_tool::toolkit(
        namespace.unwrap_or(&own),
        &offered,
        &left_out,
    ))
}

/// No limit of the guest ends what the host does with its list.
fn bounded(tools: &[ToolDefinition]) -> Result<(), String> {
    if tools.len() > TOOLS_MAX {
        return Err(format!(
            "the component lists {} tools; at most {TOOLS_MAX} are allowed",
            tools.len()
        ));
    }
    let bytes = tools.iter().fold(0_usize, |sum, tool| {
        sum.saturating_add(tool.parameters_schema.len())
    });
    if bytes > SCHEMAS_BYTES_MAX {
        let max = SCHEMAS_BYTES_MAX;
        return Err(format!(
            "the schemas of the component's tools have {bytes} bytes; at most {max} are allowed"
        ));
    }
    Ok(())
}

/// The error says why the tool cannot be offered.
fn offer(
    tool: ToolDefinition,
    name: String,
    section: Option<&ActSection>,
    imports: &[String],
    first: bool,
) -> Result<ForeignTool, String> {
    if !first {
        return Err("another tool of the component has the same name".to_owned());
    }
    if tool.name.len() > NAME_BYTES_MAX {
        return Err(format!("its name is longer than {NAME_BYTES_MAX} bytes"));
    }
    let schema = read_unique_json(&tool.parameters_schema, JSON_VALUES_MAX);
    let schema =
        schema.map_err(|error| format!("the schema of its parameters is not JSON: {error}"))?;
    let dialect = schema
        .get("$schema")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !schema.is_object() || dialect.contains("json-structure.org") {
        return Err("its parameters are not described by a JSON Schema".to_owned());
    }
    let mut description = tool.description.into_text();
    for (key, words) in [
        ("std:usage-hints", "Use it"),
        ("std:anti-usage-hints", "Do not use it"),
    ] {
        if let Some(Value::String(hint)) = value(&tool.metadata, key) {
            description.push_str(&format!("\n\n{words}: {hint}"));
        }
    }
    let flag = |key| value(&tool.metadata, key).as_ref().and_then(Value::as_bool);
    let mut declared = ForeignTool::careful(name, description, schema, imports);
    declared.facts.is_read_only = flag("std:read-only");
    declared.facts.is_destructive = flag("std:destructive");
    declared.timeout_ms = timeout(&tool.metadata);
    declared.access = access(section, imports, declared.facts.is_read_only == Some(true));
    let network = declared.access.contains(&AccessKind::Network);
    declared.network_scope = section
        .filter(|_| network)
        .and_then(|section| section.network_scope.clone());
    Ok(declared)
}

fn timeout(metadata: &ActMetadata) -> Option<u64> {
    value(metadata, "std:timeout-ms")?
        .as_u64()
        .filter(|ms| *ms > 0)
}

/// The component's imports, limited by its section; without one at most the network, because language runtimes import
/// files even for pure code.
fn access(section: Option<&ActSection>, imports: &[String], read_only: bool) -> Vec<AccessKind> {
    let imported = |start: &str| imports.iter().any(|import| import.starts_with(start));
    let declared = section.map_or(&[AccessKind::Network][..], |section| &section.access);
    let wanted = declared.iter().filter(|kind| match kind {
        AccessKind::Network => imported("wasi:http/"),
        AccessKind::FileWrite => imported("wasi:filesystem/") && !read_only,
        _ => imported("wasi:filesystem/"),
    });
    wanted.copied().collect()
}

/// Names that the toolkit changed.
pub(super) fn own_names(toolkit: &str) -> HashMap<String, String> {
    foreign_tool::mapped(toolkit, SOURCE, "name")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolcell_spec::dialect::agent_tool::{self, LoadedToolkit};
    use toolcell_spec::{AccessKind, RiskLevel, Toolkit};

    use super::super::cbor;
    use super::super::types::{LocalizedString, ToolDefinition};
    use super::{ActSection, own_names, toolkit};

    fn tool(name: &str, metadata: &[(&str, Value)]) -> ToolDefinition {
        let metadata = metadata
            .iter()
            .map(|(key, value)| ((*key).to_owned(), cbor::from_json(value).unwrap()));
        ToolDefinition {
            name: name.to_owned(),
            description: LocalizedString::Plain("Does it.".to_owned()),
            parameters_schema: r#"{"type":"object","properties":{"a":{"type":"string"}}}"#
                .to_owned(),
            metadata: metadata.collect(),
        }
    }

    fn imports(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[track_caller]
    fn accepted(
        tools: Vec<ToolDefinition>,
        section: Option<&ActSection>,
        names: &[&str],
    ) -> Toolkit {
        let text = toolkit(tools, section, &imports(names), None).unwrap();
        let LoadedToolkit { toolkit, notes, .. } =
            agent_tool::toolkit(&text).unwrap_or_else(|errors| panic!("{errors:?}"));
        assert!(notes.is_empty(), "{notes:?}");
        toolkit
    }

    const BOTH: [&str; 2] = [
        "wasi:filesystem/types@0.2.6",
        "wasi:http/outgoing-handler@0.2.6",
    ];

    #[test]
    fn what_a_tool_claims_is_in_its_records_and_no_more() {
        let claims = [
            ("std:read-only", json!(true)),
            ("std:destructive", json!(false)),
            ("std:idempotent", json!(true)),
            ("std:timeout-ms", json!(250)),
            ("std:usage-hints", json!("for tests")),
        ];
        let kit = accepted(
            vec![
                tool("a", &claims),
                tool("b", &[("std:read-only", json!("yes"))]),
            ],
            None,
            &BOTH,
        );
        let [claimed, plain] = &kit.interfaces[..] else {
            panic!()
        };
        assert_eq!(
            (claimed.facts().is_read_only, claimed.facts().is_destructive),
            (Some(true), Some(false))
        );
        assert_eq!(claimed.timeout_ms, Some(250));
        assert_eq!(
            kit.declarations[0].description,
            "Does it.\n\nUse it: for tests"
        );
        assert_eq!(
            (
                plain.facts().is_read_only,
                plain.facts().is_concurrency_safe
            ),
            (None, None)
        );
        assert_eq!(kit.declarations[0].qualified_name(), "act.a");
        assert!(
            kit.permission_profiles
                .iter()
                .all(|profile| profile.risk_level == RiskLevel::Medium)
        );
    }

    #[test]
    fn the_section_is_a_ceiling_on_what_the_imports_could_ask_for() {
        let granted = |section: Option<&ActSection>, claims: &[(&str, Value)], imports: &[&str]| {
            let kit = accepted(vec![tool("a", claims)], section, imports);
            let profile = kit.permission_profiles.into_iter().next().unwrap();
            (profile.access_kinds, profile.network_scope.unwrap())
        };
        use AccessKind::{FileRead, FileWrite, Network};
        assert_eq!(granted(None, &[], &BOTH), (vec![Network], "any".to_owned()));
        assert_eq!(
            granted(Some(&ActSection::default()), &[], &BOTH),
            (vec![], "none".to_owned())
        );
        let all = ActSection {
            name: Some("my:db".to_owned()),
            access: vec![FileRead, FileWrite, Network],
            network_scope: Some("https://a.example:*".to_owned()),
        };
        let scope = "https://a.example:*".to_owned();
        assert_eq!(
            granted(Some(&all), &[], &BOTH),
            (vec![FileRead, FileWrite, Network], scope.clone())
        );
        // A tool that says that it only reads gets no files to write.
        let reads = [("std:read-only", json!(true))];
        assert_eq!(
            granted(Some(&all), &reads, &BOTH),
            (vec![FileRead, Network], scope)
        );
        // A component can use only its imports.
        assert_eq!(
            granted(Some(&all), &[], &BOTH[..1]),
            (vec![FileRead, FileWrite], "none".to_owned())
        );
        assert_eq!(
            accepted(vec![tool("a", &[])], Some(&all), &[]).declarations[0].qualified_name(),
            "my-db.a"
        );
    }

    #[test]
    fn a_name_that_is_not_valid_here_is_kept_for_the_call() {
        let text = toolkit(
            vec![tool("db.query", &[]), tool("plain", &[])],
            None,
            &[],
            None,
        )
        .unwrap();
        let names = own_names(&text);
        assert_eq!((names.len(), names["db-query"].as_str()), (1, "db.query"));
        assert!(agent_tool::toolkit(&text).unwrap().notes.is_empty());
        assert!(own_names(&toolkit(vec![tool("plain", &[])], None, &[], None).unwrap()).is_empty());
        assert!(own_names("").is_empty());
    }

    #[test]
    fn a_list_of_too_many_tools_or_too_large_schemas_is_refused() {
        let same = |count: usize| vec![tool("a", &[]); count];
        assert!(toolkit(same(256), None, &[], None).is_ok());
        assert_eq!(
            toolkit(same(257), None, &[], None).unwrap_err(),
            "the component lists 257 tools; at most 256 are allowed"
        );
        let schema = format!(
            r#"{{"type":"object","description":"{}"}}"#,
            "x".repeat(600 << 10)
        );
        let large = |name: &str| ToolDefinition {
            parameters_schema: schema.clone(),
            ..tool(name, &[])
        };
        assert!(toolkit(vec![large("a")], None, &[], None).is_ok());
        let refused = toolkit(vec![large("a"), large("b")], None, &[], None).unwrap_err();
        assert!(
            refused.contains("bytes; at most 1048576 are allowed"),
            "{refused}"
        );
    }

    #[test]
    fn a_tool_that_cannot_be_offered_is_left_out_with_the_reason() {
        let with_schema = |name: &str, schema: &str| ToolDefinition {
            parameters_schema: schema.to_owned(),
            ..tool(name, &[])
        };
        let structure =
            r#"{"$schema":"https://json-structure.org/meta/core/v0/#","type":"object"}"#;
        let tools = vec![
            tool("a", &[]),
            tool("a", &[]),
            with_schema("b", "{"),
            with_schema("c", "true"),
            with_schema("d", structure),
            tool(&"x".repeat(300), &[]),
        ];
        let LoadedToolkit {
            toolkit: kit,
            notes,
            ..
        } = agent_tool::toolkit(&toolkit(tools, None, &[], None).unwrap()).unwrap();
        assert_eq!(kit.declarations.len(), 1);
        for (note, why) in notes.iter().zip([
            "same name",
            "not JSON",
            "a JSON Schema",
            "a JSON Schema",
            "256 bytes",
        ]) {
            assert!(
                note.message.starts_with("not offered as a tool: ") && note.message.contains(why),
                "{note:?}"
            );
        }
        assert_eq!(notes.len(), 5);
        let none = toolkit(vec![with_schema("b", "7")], None, &[], None).unwrap_err();
        assert!(
            none.contains("none of its tools can be offered: its parameters"),
            "{none}"
        );
    }
}
