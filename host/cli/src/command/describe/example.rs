//! The command line that calls a tool, with placeholders for the values.

use serde_json::{Map, Value, json};
use toolcell_engine::catalog::{ArgumentForm, Tool};
use toolcell_policy::secret::SecretStore;
use toolcell_spec::{AccessKind, Lifecycle, PermissionProfile};

use super::super::show::{self, quoted};
use super::schema::{Reader, alternatives, is_null, properties};

/// In bytes; longer ones belong into a file.
const ARGUMENTS_BYTES_MAX: usize = 1_000;
/// In characters.
const PLACEHOLDER_CHARS_MAX: usize = 32;
const DEPTH_MAX: usize = 4;

/// `None` if no call of `tool` can succeed, although it is enabled.
pub(super) fn command(tool: &Tool, called: &str) -> Option<String> {
    let callable = matches!(
        tool.declaration().lifecycle,
        Lifecycle::Available | Lifecycle::Deprecated
    );
    let profile = tool.permission_profile();
    // A name with a comma or an `@` in an option could grant another secret.
    let named = profile
        .credential_refs
        .iter()
        .all(|name| SecretStore::check_name(name).is_ok());
    if !callable || !named || not_grantable(profile).next().is_some() {
        return None;
    }
    let mut command = format!(
        "toolcell call {} {}",
        quoted(called),
        quoted(&arguments(tool))
    );
    for option in options(profile) {
        command += &format!(" {}", quoted(&option));
    }
    Some(command)
}

pub(super) fn not_grantable(profile: &PermissionProfile) -> impl Iterator<Item = &AccessKind> {
    use AccessKind::*;
    profile
        .access_kinds
        .iter()
        .filter(|kind| matches!(kind, Browser | Payment | ExternalSend | CodeExecution))
}

fn options(profile: &PermissionProfile) -> Vec<String> {
    let mut options = Vec::new();
    if profile.wants_file_write() {
        // It includes reading.
        options.push("--allow-write=DIR".to_owned());
    } else if profile.wants(&AccessKind::FileRead) {
        options.push("--allow-read=DIR".to_owned());
    }
    if profile.wants(&AccessKind::Network) {
        options.push("--allow-net=HOST".to_owned());
    }
    if profile.wants(&AccessKind::Credential) {
        options.extend(
            profile
                .credential_refs
                .iter()
                .map(|name| format!("--allow-secret={name}@https://HOST")),
        );
    }
    options
}

/// The tool's own example, or else its required arguments with placeholders.
fn arguments(tool: &Tool) -> String {
    let contract = tool.declaration().input_contract.as_ref();
    let examples = contract.map_or(&[][..], |contract| contract.examples.as_slice());
    let mut candidates = examples
        .iter()
        .map(Value::to_string)
        .filter(|text| text.len() <= ARGUMENTS_BYTES_MAX);
    let text = candidates.next().unwrap_or_else(|| {
        let schema = tool.contract().listed_schema();
        let mut reader = Reader::new(schema);
        let mut filled = fields(&mut reader, schema, 0);
        let form = tool
            .contract()
            .listed()
            .forms()
            .and_then(|forms| Some((forms.tag.as_deref(), forms.forms.first()?)));
        if let (Some((tag, form)), Value::Object(filled)) = (form, &mut filled) {
            complete(&mut reader, schema, tag, form, filled);
        }
        filled.to_string()
    });
    if text.len() > ARGUMENTS_BYTES_MAX {
        return "@FILE".to_owned();
    }
    // Escaped as JSON, so that the line means the same where it is pasted.
    show::json_for_terminals(&text).into_owned()
}

fn complete<'a>(
    reader: &mut Reader<'a>,
    schema: &'a Value,
    tag: Option<&str>,
    form: &ArgumentForm,
    filled: &mut Map<String, Value>,
) {
    if let (Some(tag), Some(value)) = (tag, form.values.first()) {
        filled.insert(tag.to_owned(), value.clone());
    }
    for (name, schema, _) in properties(schema) {
        if form.required.iter().any(|required| required == name) && !filled.contains_key(name) {
            filled.insert(name.to_owned(), placeholder(reader, name, schema, 0));
        }
    }
}

fn fields<'a>(reader: &mut Reader<'a>, schema: &'a Value, depth: usize) -> Value {
    let Some(object) = reader.object(schema).filter(|_| depth <= DEPTH_MAX) else {
        return json!({});
    };
    let mut filled = Map::new();
    for (name, schema, required) in properties(object) {
        if !reader.step() {
            break;
        }
        if required {
            filled.insert(name.to_owned(), placeholder(reader, name, schema, depth));
        }
    }
    Value::Object(filled)
}

fn placeholder<'a>(reader: &mut Reader<'a>, name: &str, schema: &'a Value, depth: usize) -> Value {
    if depth > DEPTH_MAX || !reader.step() {
        return Value::Null;
    }
    let schema = reader.resolved(schema);
    let first = |keyword: &str| schema.get(keyword)?.as_array()?.first();
    let stated = schema
        .get("default")
        .filter(|value| !value.is_null())
        .or_else(|| schema.get("const"));
    if let Some(value) = stated
        .or_else(|| first("enum"))
        .or_else(|| first("examples"))
    {
        return value.clone();
    }
    let mut branches = alternatives(schema).into_iter().flatten();
    if let Some(branch) = branches.find(|branch| !is_null(branch)) {
        return placeholder(reader, name, branch, depth + 1);
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds
            .iter()
            .find_map(|kind| kind.as_str().filter(|kind| *kind != "null")),
        Some(Value::String(kind)) => Some(kind.as_str()),
        _ => None,
    };
    match kind {
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        Some("boolean") => json!(false),
        Some("array") => match schema
            .get("items")
            .filter(|_| schema.get("minItems").is_some())
        {
            Some(items) => json!([placeholder(reader, name, items, depth + 1)]),
            None => json!([]),
        },
        Some("object") => fields(reader, schema, depth + 1),
        Some("null") => Value::Null,
        _ => Value::String(
            name.chars()
                .take(PLACEHOLDER_CHARS_MAX)
                .collect::<String>()
                .to_uppercase(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(schema: &Value) -> Value {
        fields(&mut Reader::new(schema), schema, 0)
    }

    #[test]
    fn what_is_required_gets_a_value_of_its_type() {
        let schema = json!({
            "required": ["text", "count", "mode", "many", "inner", "maybe", "all"],
            "properties": {
                "text": {"type": "string"},
                "count": {"type": "integer", "minimum": 3},
                "mode": {"enum": ["fast", "exact"]},
                "many": {"type": "array", "minItems": 1, "items": {"type": "number"}},
                "inner": {"type": "object", "required": ["x"], "properties": {"x": {"type": "boolean"}, "y": {}}},
                "maybe": {"anyOf": [{"type": "null"}, {"type": "string"}]},
                "all": {"type": "array"},
                "more": {"type": "string"},
            },
        });
        let expected = json!({
            "text": "TEXT", "count": 3, "mode": "fast", "many": [1], "inner": {"x": false}, "maybe": "MAYBE", "all": [],
        });
        assert_eq!(filled(&schema), expected);
        assert_eq!(filled(&json!(true)), json!({}));
    }

    #[test]
    fn a_schema_that_demands_itself_ends() {
        let tree = json!({"type": "object", "required": ["a", "b"], "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}});
        assert!(filled(&tree).to_string().len() < 10_000);
    }

    #[test]
    fn a_shell_reads_a_word_back() {
        for (word, shown) in [
            ("tools/files#read", "tools/files#read"),
            ("{\"a\": \"it's\"}", "'{\"a\": \"it'\\''s\"}'"),
            ("my tool", "'my tool'"),
            ("", "''"),
            ("#x", "'#x'"),
            ("~x", "'~x'"),
        ] {
            assert_eq!(quoted(word), shown);
        }
    }
}
