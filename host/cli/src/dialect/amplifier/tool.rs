use std::collections::HashSet;

use serde_json::{Value, json};

use crate::dialect::name::distinct;
use crate::dialect::{Listed, visible};

/// Builds the description of a tool. Its name should be one of [`names`]; another one is made snake_case, and may then be
/// that of another tool.
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

/// The names under which `tools` are mounted, in their order: snake_case, and each of them once (AM-01). A name that
/// comes back is looked up; it is never parsed.
pub fn names(tools: &[&str]) -> Vec<String> {
    // Names that stay as they are come first, so that a tool cannot lose its own to another tool's changed name.
    let mut taken: HashSet<String> =
        tools.iter().filter(|name| snake_case(name) == **name).map(|name| (*name).to_owned()).collect();
    let mut short = |name: &&str| {
        let short = snake_case(name);
        if short == **name {
            return short;
        }
        let short = if taken.contains(&short) { distinct(&short, name) } else { short };
        taken.insert(short.clone());
        short
    };
    tools.iter().map(&mut short).collect()
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

    use super::{names, tool};
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

    #[test]
    fn names_are_snake_case_and_each_occurs_once() {
        assert_eq!(names(&["readFile", "b__c.d", "HTTPGet", "x2Y"]), ["read_file", "b__c_d", "httpget", "x2_y"]);
        let close = names(&["read-file", "readFile", "read_file", "read.file"]);
        assert_eq!(close[2], "read_file");
        assert!(close[0].starts_with("read_file_") && close[0].len() == "read_file_".len() + 6, "{close:?}");
        let distinct: std::collections::HashSet<_> = close.iter().collect();
        assert_eq!(distinct.len(), close.len(), "{close:?}");
    }
}
