use std::sync::Arc;

use rmcp::model::{MetaObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use toolcell_spec::Effects;

use super::both::widened;
use super::meta_of;
use crate::{ListedTool, visible};

/// Claude Code saves a longer result to a file, and without this one of over 50,000 characters
/// (<https://code.claude.com/docs/en/mcp>). The largest one here has the 64 KiB that stay inline, in both of its forms.
pub(super) const RESULT_CHARS: (&str, usize) = ("anthropic/maxResultSizeChars", 128 << 10);

/// For clients (requirements 3.1).
pub fn tool(listed: ListedTool<'_>) -> Tool {
    let description = listed.said();
    let mut tool = Tool::new(
        listed.name.to_owned(),
        description,
        Arc::new(listed.parameters()),
    );
    tool.title = listed.title.map(visible);
    // Clients of 2025-11-25 refuse a whole list if one output schema does not describe an object.
    // One that judges the output as a whole is not announced, because they refuse results that break it: the words of an
    // answer are added to the output.
    tool.output_schema = listed
        .output_schema
        .filter(|schema| is_object(schema))
        .and_then(widened)
        .map(Arc::new);
    tool.annotations = Some(annotations(&listed));
    tool.meta = Some(meta(&listed));
    tool
}

pub fn surface(id: &str) -> MetaObject {
    meta_of("toolcell/surface_id", id.into())
}

fn is_object(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "object")
}

/// From what the tool can do. Idempotence is open, because only the tool knows.
fn annotations(listed: &ListedTool<'_>) -> ToolAnnotations {
    let Effects {
        is_read_only,
        is_destructive,
        is_open_world,
    } = listed.effects();
    let mut annotations = ToolAnnotations::new()
        .read_only(is_read_only)
        .open_world(is_open_world);
    if !is_read_only {
        annotations = annotations.destructive(is_destructive);
    }
    annotations.title = listed.title.map(visible);
    annotations
}

fn meta(listed: &ListedTool<'_>) -> MetaObject {
    let declaration = listed.declaration;
    let facts = json!({
        "tool_id": declaration.tool_id,
        "namespace": declaration.namespace,
        "aliases": declaration.aliases,
        "tool_kind": declaration.tool_kind,
        "component": listed.component,
    });
    let mut meta = meta_of("toolcell/tool", facts);
    meta.0
        .insert(RESULT_CHARS.0.to_owned(), RESULT_CHARS.1.into());
    meta
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::tool;
    use crate::ListedTool;
    use toolcell_spec::{PermissionProfile, ToolDeclaration, ToolInterface};

    fn described(
        declaration: Value,
        interface: Value,
        permission: Value,
        output: Option<Value>,
    ) -> Value {
        let mut whole = json!({
            "schema_version": "0.2.0", "tool_id": "a.b", "namespace": "a", "name": "b", "title": "B",
            "description": "does b", "lifecycle": "available", "tool_kind": "function",
        });
        whole
            .as_object_mut()
            .unwrap()
            .extend(declaration.as_object().unwrap().clone());
        let declaration: ToolDeclaration = serde_json::from_value(whole).unwrap();
        let mut facts = json!({ "schema_version": "0.2.0", "interface_id": "i", "tool_id": "a.b" });
        facts
            .as_object_mut()
            .unwrap()
            .extend(interface.as_object().unwrap().clone());
        let interface: ToolInterface = serde_json::from_value(facts).unwrap();
        let mut profile =
            json!({ "schema_version": "0.2.0", "permission_profile_id": "p", "risk_level": "low" });
        profile
            .as_object_mut()
            .unwrap()
            .extend(permission.as_object().unwrap().clone());
        let permission: PermissionProfile = serde_json::from_value(profile).unwrap();
        let described = tool(ListedTool {
            name: "b",
            title: declaration.title.as_deref(),
            description: &declaration.description,
            declaration: &declaration,
            interface: Some(&interface),
            permission: &permission,
            note: "",
            input_schema: &json!({ "properties": { "x": {} } }),
            output_schema: output.as_ref(),
            component: "sha256:00",
            strict_schemas: true,
        });
        serde_json::to_value(described).unwrap()
    }

    #[test]
    fn a_tool_has_its_names_schemas_and_identity() {
        let output = json!({ "type": "object", "properties": { "n": {} } });
        let tool = described(json!({}), json!({}), json!({}), Some(output.clone()));
        assert_eq!(
            (tool["name"].as_str(), tool["title"].as_str()),
            (Some("b"), Some("B"))
        );
        assert_eq!(
            tool["inputSchema"],
            json!({ "properties": { "x": {} }, "type": "object" })
        );
        let announced = &tool["outputSchema"];
        assert_eq!(
            (&announced["type"], &announced["properties"]["n"]),
            (&output["type"], &json!({}))
        );
        assert!(announced["properties"]["text"].is_object(), "{announced}");
        assert_eq!(tool["_meta"]["toolcell/tool"]["tool_id"], "a.b");
        assert_eq!(tool["_meta"]["anthropic/maxResultSizeChars"], 131_072);
        let list = described(
            json!({}),
            json!({}),
            json!({}),
            Some(json!({ "type": "array" })),
        );
        assert!(list.get("outputSchema").is_none());
    }

    #[test]
    fn hints_follow_what_a_tool_can_do_and_claims_only_add_to_it() {
        let says = json!({ "is_read_only": true, "is_open_world": false });
        let harmless = described(
            json!({}),
            says.clone(),
            json!({ "write_effects": ["none"] }),
            None,
        );
        assert_eq!(
            harmless["annotations"],
            json!({ "title": "B", "readOnlyHint": true, "openWorldHint": false })
        );
        let silent = described(json!({}), json!({}), json!({}), None)["annotations"].clone();
        let hints = json!({ "title": "B", "readOnlyHint": false, "destructiveHint": true, "openWorldHint": true });
        assert_eq!(silent, hints, "what is not said counts against the tool");
        let reads = json!({ "access_kinds": ["file_read"] });
        for (kind, open) in [
            ("file_operation", false),
            ("browser_action", true),
            ("shell_command", true),
            ("web_search", true),
            ("mcp_tool", true),
            ("openapi_operation", true),
            ("peer_agent_tool", true),
        ] {
            let tool = described(json!({ "tool_kind": kind }), json!({}), reads.clone(), None);
            assert_eq!(tool["annotations"]["openWorldHint"], open, "{kind}");
            let scoped = described(
                json!({ "tool_kind": kind }),
                says.clone(),
                reads.clone(),
                None,
            );
            assert_eq!(scoped["annotations"]["openWorldHint"], false, "{kind}");
        }
        let claims =
            json!({ "is_read_only": true, "is_destructive": false, "is_open_world": false });
        let writes =
            json!({ "access_kinds": ["file_write"], "write_effects": ["local_persistent"] });
        let liar = described(json!({}), claims.clone(), writes, None)["annotations"].clone();
        assert_eq!(
            (&liar["readOnlyHint"], &liar["destructiveHint"]),
            (&json!(false), &json!(true))
        );
        let sends = described(
            json!({}),
            claims,
            json!({ "access_kinds": ["network"] }),
            None,
        )["annotations"]
            .clone();
        assert_eq!(
            (&sends["readOnlyHint"], &sends["openWorldHint"]),
            (&json!(false), &json!(true))
        );
        let warns = json!({ "is_destructive": true, "is_open_world": true });
        let careful = described(json!({}), warns, json!({}), None)["annotations"].clone();
        assert_eq!(
            (&careful["destructiveHint"], &careful["openWorldHint"]),
            (&json!(true), &json!(true))
        );
    }
}
