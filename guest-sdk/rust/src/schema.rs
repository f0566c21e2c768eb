use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::RecursiveTransform};
use serde_json::{Value, json};

use super::doc::paragraphs;

/// The input schema of a tool: `T` as serde deserialises it.
pub fn of_input<T: JsonSchema>() -> Value {
    generate::<T>(SchemaSettings::draft2020_12().for_deserialize())
}

/// The schema of a form for a person. A form has no null: an optional field is left out instead.
pub(crate) fn of_form<T: JsonSchema>() -> Value {
    let mut schema = of_input::<T>();
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    for kind in fields
        .into_iter()
        .flat_map(|fields| fields.values_mut())
        .filter_map(|field| field.get_mut("type"))
    {
        if let Some(kinds) = kind.as_array_mut() {
            kinds.retain(|kind| kind != "null");
            if let [one] = kinds.as_slice() {
                *kind = one.clone();
            }
        }
    }
    schema
}

/// The output schema of a tool: `T` as serde serialises it.
pub(crate) fn of_output<T: JsonSchema>() -> Value {
    generate::<T>(SchemaSettings::draft2020_12().for_serialize())
}

/// Generates a self-contained schema. Subschemas are inlined, because many models read `$ref` badly; only a recursive
/// type keeps `$defs`.
fn generate<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let mut settings = settings.with_transform(RecursiveTransform(plain));
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // The name of a Rust type says nothing to a model.
    schema.remove("title");
    schema.to_value()
}

/// Writes what is Rust's own as a model knows it.
fn plain(schema: &mut Schema) {
    if let Some(description) = schema.get("description").and_then(Value::as_str) {
        let description = paragraphs(description);
        schema.insert("description".to_owned(), description.into());
    }
    numbers(schema);
}

/// Turns Rust's number formats, which JSON Schema does not know, into the bounds that they mean.
fn numbers(schema: &mut Schema) {
    let Some(format) = schema.get("format").and_then(Value::as_str) else {
        return;
    };
    let bounds = match format {
        "int8" => Some((json!(i8::MIN), json!(i8::MAX))),
        "uint8" => Some((json!(0), json!(u8::MAX))),
        "int16" => Some((json!(i16::MIN), json!(i16::MAX))),
        "uint16" => Some((json!(0), json!(u16::MAX))),
        "int32" => Some((json!(i32::MIN), json!(i32::MAX))),
        "uint32" => Some((json!(0), json!(u32::MAX))),
        "int" | "uint" | "int64" | "uint64" | "int128" | "uint128" | "float" | "double" => None,
        _ => return,
    };
    schema.remove("format");
    if let Some((minimum, maximum)) = bounds {
        let object = schema.ensure_object();
        object.entry("minimum").or_insert(minimum);
        object.entry("maximum").or_insert(maximum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Search {
        /// What to
        /// look for.
        pattern: String,
        #[serde(default)]
        limit: u32,
        mode: Option<Mode>,
    }

    #[derive(serde::Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[allow(dead_code)]
    enum Mode {
        Fast,
        Exact,
    }

    #[derive(serde::Serialize, JsonSchema)]
    struct Tree {
        children: Vec<Tree>,
    }

    #[test]
    fn an_input_schema_is_closed_self_contained_and_plain() {
        let schema = of_input::<Search>();
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["required"], json!(["pattern"]));
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(
            schema["properties"]["pattern"]["description"],
            "What to look for."
        );
        let limit = &schema["properties"]["limit"];
        assert_eq!(
            (&limit["minimum"], &limit["maximum"]),
            (&json!(0), &json!(u32::MAX))
        );
        let text = schema.to_string();
        assert!(
            !text.contains("$ref") && !text.contains("$schema") && !text.contains("uint32"),
            "{text}"
        );
        assert!(schema.get("title").is_none());
    }

    #[test]
    fn a_form_leaves_out_what_is_optional() {
        #[derive(serde::Deserialize, JsonSchema)]
        #[allow(dead_code)]
        struct Form {
            name: String,
            age: Option<u8>,
        }
        let schema = of_form::<Form>();
        assert_eq!(schema["properties"]["age"]["type"], "integer");
        assert_eq!(schema["required"], json!(["name"]));
    }

    #[test]
    fn a_recursive_type_carries_its_definitions() {
        let schema = of_output::<Tree>();
        let reference = schema["properties"]["children"]["items"]["$ref"]
            .as_str()
            .unwrap();
        assert!(
            schema.pointer(reference.trim_start_matches('#')).is_some(),
            "{schema}"
        );
    }
}
