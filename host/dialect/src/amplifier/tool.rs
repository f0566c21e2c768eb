use serde_json::{Value, json};

use crate::{ListedTool, NameRule};

/// Names outside [`DialectNames`](crate::DialectNames) become snake_case and may collide (AM-01). Without a schema, any
/// object is accepted (AM-04).
pub fn tool(listed: &ListedTool<'_>) -> Value {
    json!({
        "name": NameRule::SnakeCase.fit(listed.name),
        "description": listed.said(),
        "input_schema": listed.parameters(),
        "metadata": {
            "tool_id": listed.declaration.tool_id,
            "namespace": listed.declaration.namespace,
            "component": listed.component,
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolcell_spec::{PermissionProfile, ToolDeclaration};

    use super::tool;
    use crate::ListedTool;

    fn described(name: &str, description: &str, schema: &Value) -> Value {
        let declaration: ToolDeclaration = serde_json::from_value(json!({
            "schema_version": "0.2.0", "tool_id": "a.read-file", "namespace": "a", "name": "read-file",
            "description": description, "lifecycle": "available", "tool_kind": "function",
        }))
        .unwrap();
        let profile =
            json!({ "schema_version": "0.2.0", "permission_profile_id": "p", "risk_level": "low" });
        let permission: PermissionProfile = serde_json::from_value(profile).unwrap();
        tool(&ListedTool {
            name,
            title: None,
            description: &declaration.description,
            declaration: &declaration,
            interface: None,
            permission: &permission,
            note: "",
            input_schema: schema,
            output_schema: None,
            component: "sha256:00",
            strict_schemas: true,
        })
    }

    #[test]
    fn a_tool_has_a_name_a_description_and_a_schema_of_an_object() {
        let schema = json!({ "type": "object", "properties": { "path": {} } });
        let described_one = described("read-file", "reads\u{200b} a file", &schema);
        assert_eq!(described_one["name"], "read_file");
        assert_eq!(described_one["description"], "reads a file");
        assert_eq!(described_one["input_schema"], schema);
        let metadata =
            json!({ "tool_id": "a.read-file", "namespace": "a", "component": "sha256:00" });
        assert_eq!(described_one["metadata"], metadata);
        assert_eq!(
            described("x", "d", &Value::Null)["input_schema"],
            json!({ "type": "object" })
        );
    }
}
