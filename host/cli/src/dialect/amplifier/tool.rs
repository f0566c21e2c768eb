use serde_json::{Value, json};

use crate::dialect::{Listed, visible};

/// Builds the description of a tool. Its name should be one that [`NameRule::SnakeCase`](crate::dialect::NameRule) gave it;
/// another one is made snake_case, and may then be that of another tool (AM-01).
pub fn tool(listed: &Listed<'_>) -> Value {
    json!({
        "name": snake_case(listed.name),
        "description": visible(listed.description),
        "input_schema": input_schema(listed.input_schema),
        "metadata": {
            "tool_id": listed.declaration.tool_id,
            "namespace": listed.declaration.namespace,
            "component": listed.component,
        },
    })
}

fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len());
    let mut follows_word = false;
    for c in name.chars() {
        if c.is_ascii_uppercase() && follows_word {
            snake.push('_');
        }
        follows_word = c.is_ascii_lowercase() || c.is_ascii_digit();
        snake.push(if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' });
    }
    snake
}

/// A tool without a schema accepts any object (AM-04).
fn input_schema(schema: &Value) -> Value {
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    schema.entry("type").or_insert_with(|| "object".into());
    Value::Object(schema)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolcell_core::record::{PermissionProfile, ToolDeclaration};

    use super::tool;
    use crate::dialect::Listed;

    fn described(name: &str, description: &str, schema: &Value) -> Value {
        let declaration: ToolDeclaration = serde_json::from_value(json!({
            "schema_version": "0.2.0", "tool_id": "a.read-file", "namespace": "a", "name": "read-file",
            "description": description, "lifecycle": "available", "tool_kind": "function",
        }))
        .unwrap();
        let profile = json!({ "schema_version": "0.2.0", "permission_profile_id": "p", "risk_level": "low" });
        let permission: PermissionProfile = serde_json::from_value(profile).unwrap();
        tool(&Listed {
            name,
            title: None,
            description: &declaration.description,
            declaration: &declaration,
            interface: None,
            permission: &permission,
            input_schema: schema,
            output_schema: None,
            component: "sha256:00",
        })
    }

    #[test]
    fn a_tool_has_a_name_a_description_and_a_schema_of_an_object() {
        let schema = json!({ "type": "object", "properties": { "path": {} } });
        let described_one = described("read-file", "reads\u{200b} a file", &schema);
        assert_eq!(described_one["name"], "read_file");
        assert_eq!(described_one["description"], "reads a file");
        assert_eq!(described_one["input_schema"], schema);
        let metadata = json!({ "tool_id": "a.read-file", "namespace": "a", "component": "sha256:00" });
        assert_eq!(described_one["metadata"], metadata);
        assert_eq!(described("x", "d", &Value::Null)["input_schema"], json!({ "type": "object" }));
    }
}
