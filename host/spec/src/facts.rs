use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::TypedFields;

/// Kind of subject for rules and sandboxes. An extension (AT-IF-07).
///
/// ```
/// use toolcell_spec::SubjectKind;
///
/// assert_eq!(serde_json::to_value(SubjectKind::Url)?, "url");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubjectKind {
    /// Absolute, or from the caller's working directory. The guest gets it absolute.
    Path,
    Url,
    /// An issue, a mailbox, a table, or anything else with a name.
    Resource,
    /// A command line, or a list of program and arguments.
    Command,
    NativeOperationId,
}

/// An argument that names something.
///
/// ```
/// use serde_json::json;
/// use toolcell_spec::SubjectField;
///
/// let schema = json!({ "properties": { "path": { "type": "string" } } });
/// assert!(SubjectField::argument("/path", &schema).is_ok());
/// assert!(SubjectField::argument("/pahth", &schema).is_err(), "the misspelt pointer would narrow nothing");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectField {
    /// RFC 6901; `*` stands for every item of an array.
    pub pointer: String,
    pub kind: SubjectKind,
    /// Default of the schema for an absent argument.
    pub default: Option<String>,
}

const NO_ARGUMENT: &str =
    "leads to no argument; name it as in the properties of model_input_schema";
const REFERENCE: &str = "leads through a `$ref`, which is not followed here: write the schema out in its place in model_input_schema";

impl SubjectField {
    /// Schema of the argument that the first step names. Fails if a step leads nowhere in `schema`, or through a
    /// `$ref`: such a subject would narrow nothing, unnoticed.
    pub fn argument<'a>(pointer: &str, schema: &'a Value) -> Result<&'a Value, String> {
        let fail = |why: &str| format!("permission_subjects: {pointer:?} {why}");
        let mut steps = pointer.split('/');
        if steps.next() != Some("") {
            return Err(fail("is not a JSON Pointer"));
        }
        let argument = steps
            .next()
            .and_then(|name| field(schema, name))
            .ok_or_else(|| fail(NO_ARGUMENT))?;
        let mut schema = argument;
        for step in steps {
            match inner(schema, step).map_err(fail)? {
                Some(inner) => schema = inner,
                None => break,
            }
        }
        Ok(argument)
    }
}

fn field<'a>(schema: &'a Value, step: &str) -> Option<&'a Value> {
    let name = step.replace("~1", "/").replace("~0", "~");
    schema.get("properties")?.get(&name)
}

/// `None` if `schema` does not describe the value. Fails if `schema` excludes the step, has `properties` without it, or
/// may describe it behind a `$ref`.
fn inner<'a>(schema: &'a Value, step: &str) -> Result<Option<&'a Value>, &'static str> {
    let has = |name: &str| schema.get(name).is_some();
    let may_be = |kind: &str| match schema.get("type") {
        Some(Value::String(known)) => known == kind,
        Some(Value::Array(known)) => known.iter().any(|known| known == kind),
        _ => true,
    };
    let tuple = schema.list("prefixItems");
    let items = schema.get("items");
    let index = step.parse::<usize>().ok();
    let item = match index {
        Some(index) => tuple.get(index).or(items),
        // The first item of a closed tuple represents the others.
        None if step == "*" => items
            .filter(|items| items.as_bool() != Some(false))
            .or_else(|| tuple.first()),
        None => None,
    };
    let fits = match index {
        Some(_) => may_be("array") || may_be("object"),
        None if step == "*" => may_be("array"),
        None => may_be("object") && !has("items") && !has("prefixItems"),
    };
    match field(schema, step).or(item) {
        Some(Value::Bool(false)) => Err(NO_ARGUMENT),
        Some(inner) => Ok(Some(inner)),
        None if has("$ref") || has("$dynamicRef") => Err(REFERENCE),
        None if !fits || has("properties") => Err(NO_ARGUMENT),
        None => Ok(None),
    }
}

/// Facts of a tool or an input (AT-IF-06). `None` means unstated, not `false`.
///
/// ```
/// use toolcell_spec::SafetyFacts;
///
/// /// `true` if the tool says that it changes nothing.
/// fn is_harmless(facts: &SafetyFacts) -> bool {
///     facts.is_read_only == Some(true)
/// }
/// assert!(!is_harmless(&SafetyFacts::default()), "nothing is claimed");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SafetyFacts {
    pub is_read_only: Option<bool>,
    pub is_concurrency_safe: Option<bool>,
    pub is_destructive: Option<bool>,
    pub is_open_world: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::SubjectField;
    use serde_json::{Value, json};

    #[test]
    fn every_step_of_a_subject_is_held_against_the_schema() {
        let text = json!({"type": "string"});
        let target = json!({"type": ["object", "null"], "properties": {"path": text, "a/b": {"properties": {"*": text}}}});
        let schema = json!({"properties": {
            "target": target,
            "list": {"type": "array", "items": target},
            "pair": {"prefixItems": [target, text], "items": false},
            "open": {},
            "any": true,
            "never": {"properties": {"path": false}},
            "map": {"type": "object"},
            "text": text,
            "linked": {"$ref": "#/$defs/target"},
            "both": {"$ref": "#/$defs/target", "properties": {"path": text}},
            "one": {"anyOf": [target, text]},
        }});
        let outcome = |pointer| SubjectField::argument(pointer, &schema);
        for pointer in [
            "/target",
            "/target/path",
            "/target/a~1b/*",
            "/list/*/path",
            "/list/0/path",
            "/pair/0/path",
            "/pair/*/path",
            "/open/x/*/y",
            "/any/x",
            "/map/x",
            "/map/0",
            "/linked",
            "/both/path",
            "/one/x",
        ] {
            let argument = pointer.split('/').nth(1).unwrap();
            assert_eq!(
                outcome(pointer),
                Ok(&schema["properties"][argument]),
                "{pointer}"
            );
        }
        for pointer in [
            "",
            "/",
            "//path",
            "/pahth",
            "/target/pahth",
            "/target/path/x",
            "/target/*",
            "/target/a~1b/x",
            "/list/path",
            "/list/*/pahth",
            "/pair/1/path",
            "/pair/2",
            "/never/path",
            "/map/*",
            "/text/x",
            "/text/0",
        ] {
            let error = outcome(pointer).unwrap_err();
            assert!(error.contains("leads to no argument"), "{pointer}: {error}");
        }
        for pointer in ["/linked/path", "/both/pahth"] {
            assert!(
                outcome(pointer).unwrap_err().contains("`$ref`"),
                "{pointer}"
            );
        }
        assert!(SubjectField::argument("/x", &Value::Null).is_err());
    }
}
