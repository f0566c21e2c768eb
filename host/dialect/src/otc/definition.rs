use serde_json::{Map, Value, json};
use toolcell_spec::{ARTIFACT, OutputRetention, Strategy, ToolDeclaration, TypedFields};

use super::value_schema::Translation;
use super::{OtcMode, OtcToolName, Requirement, secrets};
use crate::{ListedTool, visible};

/// `$schema` of a definition (OTC-D-01).
const SCHEMA: &str = "https://github.com/toolcell/toolcell/schemas/otc/tool-definition.schema.json";

/// Descriptions hold what the format cannot say of the arguments (requirements 1.34).
pub fn definition(listed: &ListedTool<'_>, mode: OtcMode) -> Value {
    let declaration = listed.declaration;
    let named = OtcToolName::new(declaration, listed.component);
    let (parameters, note) = parameters(listed, mode);
    let mut description = listed.said();
    if let Some(note) = note {
        description = format!("{description}\n{note}").trim_start().to_owned();
    }
    let name = named.fully_qualified(mode);
    let mut definition = Map::new();
    let mut say = |key: &str, value: Value| _ = definition.insert(key.to_owned(), value);
    match mode {
        OtcMode::Otc => say("$schema", SCHEMA.into()),
        OtcMode::OtcSeed => {
            say("$schema", SCHEMA.into());
            say("id", name.clone().into());
        }
        OtcMode::Arcade => {}
    }
    // Requests name a tool by its name, so the title, which need not be unique, is no name.
    say("name", declaration.name.clone().into());
    say("fully_qualified_name", name.into());
    say("description", description.into());
    // No component says what its namespace is for, so these are facts of the host.
    let toolkit = format!(
        "Tools of the namespace {}, in a WebAssembly component: the version is its digest.",
        visible(&named.toolkit)
    );
    say(
        "toolkit",
        json!({ "name": named.toolkit, "description": toolkit, "version": named.version }),
    );
    say("input", json!({ "parameters": parameters }));
    say("output", output(listed, mode));
    say("requirements", requirements(listed, mode));
    if let (OtcMode::Arcade, Some(title)) = (mode, listed.title) {
        say("_meta", json!({ "toolcell/title": visible(title) }));
    }
    Value::Object(definition)
}

fn parameters(listed: &ListedTool<'_>, mode: OtcMode) -> (Vec<Value>, Option<String>) {
    let root = listed.input_schema;
    let translation = Translation::new(root, mode);
    let schema = translation.resolved(root);
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.is_some_and(|names| names.iter().any(|required| required == name));
    let properties = schema.fields("properties");
    let parameter = |(name, property): (&String, &Value)| {
        let shown = translation.value_schema(property);
        let description = translation.resolved(property).text("description");
        let mut description = description.map(visible).unwrap_or_default();
        if shown.is_lossy {
            let separator = if description.is_empty() { "" } else { " " };
            description = format!("{description}{separator}{}", translation.note(property));
        }
        let mut parameter = json!({
            "name": name,
            "required": is_required(name),
            "value_schema": shown.value_schema,
            "inferrable": !is_sensitive(listed.declaration, name),
        });
        if let (false, Some(fields)) = (description.is_empty(), parameter.as_object_mut()) {
            fields.insert("description".to_owned(), description.into());
        }
        parameter
    };
    let parameters = properties.into_iter().flatten().map(parameter).collect();
    (parameters, lost(schema))
}

/// A note on the schema beyond its properties, also on whether others are allowed: the format has no word for that.
fn lost(schema: &Value) -> Option<String> {
    const SAID: [&str; 12] = [
        "type",
        "properties",
        "required",
        "$schema",
        "$id",
        "$defs",
        "definitions",
        "title",
        "description",
        "$comment",
        "additionalProperties",
        "examples",
    ];
    let fields = schema.as_object()?;
    let others: Vec<&str> = fields
        .keys()
        .map(String::as_str)
        .filter(|name| !SAID.contains(name))
        .collect();
    let takes_more = match fields.get("additionalProperties") {
        Some(more) => *more != Value::Bool(false),
        None => fields.get("properties").is_none(),
    };
    let takes_more = takes_more && !fields.contains_key("unevaluatedProperties");
    match (others.as_slice(), takes_more) {
        ([], false) => None,
        ([], true) => Some("[takes other parameters, too]".to_owned()),
        (others, _) => Some(visible(&format!(
            "[the parameters together must satisfy a JSON Schema that this format cannot express: {}]",
            others.join(", ")
        ))),
    }
}

/// A secret, which no model infers (OTC-D-09).
fn is_sensitive(declaration: &ToolDeclaration, name: &str) -> bool {
    let fields = declaration
        .input_contract
        .iter()
        .flat_map(|contract| &contract.sensitive_fields);
    fields
        .into_iter()
        .any(|field| match field.strip_prefix('/') {
            None => field == name,
            Some(pointer) => {
                let first = pointer.split('/').next().unwrap_or_default();
                first == "*" || first.replace("~1", "/").replace("~0", "~") == name
            }
        })
}

fn output(listed: &ListedTool<'_>, mode: OtcMode) -> Value {
    let mut output = Map::new();
    output.insert(
        "available_modes".to_owned(),
        json!(available_modes(listed, mode)),
    );
    if let Some(schema) = listed.output_schema {
        let translation = Translation::new(schema, mode);
        let shown = translation.value_schema(schema);
        let description = translation.resolved(schema).text("description");
        let mut description = description.map(visible).unwrap_or_default();
        if shown
            .value_schema
            .get("val_type")
            .is_some_and(|kind| kind == "array")
            && mode != OtcMode::Arcade
        {
            description.push_str(" [the list is the field `value` of an object]");
        }
        if shown.is_lossy {
            description = format!("{description} {}", translation.note(schema));
        }
        if !description.is_empty() {
            output.insert("description".to_owned(), description.trim_start().into());
        }
        output.insert("value_schema".to_owned(), shown.value_schema);
    }
    Value::Object(output)
}

/// Arms of possible responses (OTC-D-10).
fn available_modes(listed: &ListedTool<'_>, mode: OtcMode) -> Vec<&'static str> {
    let contract = listed.declaration.output_contract.as_ref();
    let types: &[String] = contract.map_or(&[], |contract| contract.content_types.as_slice());
    let only_artifacts = !types.is_empty() && types.iter().all(|kind| kind == ARTIFACT);
    let is_structured = listed.output_schema.is_some();
    let mut modes = Vec::with_capacity(5);
    if !only_artifacts || is_structured || mode == OtcMode::Arcade {
        modes.push("value");
    }
    modes.push("error");
    // Output without a schema may be empty.
    if listed.output_schema.is_none_or(allows_null) {
        modes.push("null");
    }
    // Arcade's responses have no such arm.
    if mode != OtcMode::Arcade && can_be_artifact(listed, types) {
        modes.push("artifact");
    }
    if Requirement::from_profile(listed.permission).is_some() {
        modes.push("requires_authorization");
    }
    modes
}

fn can_be_artifact(listed: &ListedTool<'_>, types: &[String]) -> bool {
    let contract = listed.declaration.output_contract.as_ref();
    let expects = contract.is_some_and(|contract| !contract.artifact_expectations.is_empty());
    let kept = contract.and_then(|contract| contract.persistence_policy_ref);
    let kept = kept.into_iter().chain(
        listed
            .interface
            .and_then(|interface| interface.persistence_policy_ref),
    );
    let keeping = kept
        .map(OutputRetention::by)
        .fold(OutputRetention::by(Strategy::Inline), OutputRetention::and);
    let scalar = listed.output_schema.and_then(|schema| schema.get("type"));
    let is_small = scalar.is_some_and(|kind| {
        matches!(
            kind.as_str(),
            Some("boolean" | "number" | "integer" | "null")
        )
    });
    let is_declared = types.iter().any(|kind| kind == ARTIFACT);
    expects || is_declared || (keeping.can_persist() && !is_small)
}

fn allows_null(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "null"),
        Some(kind) => kind == "null",
        None => !schema
            .as_object()
            .is_some_and(|fields| fields.contains_key("$ref")),
    }
}

fn requirements(listed: &ListedTool<'_>, mode: OtcMode) -> Value {
    let key = match mode {
        OtcMode::Otc | OtcMode::OtcSeed => "key_id",
        OtcMode::Arcade => "key",
    };
    let names = secrets(listed.permission);
    let items: Vec<Value> = names.iter().map(|name| json!({ key: name })).collect();
    let secrets = if items.is_empty() {
        Value::Null
    } else {
        Value::Array(items)
    };
    let authorization = Requirement::from_profile(listed.permission);
    let authorization = authorization.map_or(Value::Null, |requirement| requirement.to_value(mode));
    json!({ "secrets": secrets, "authorization": authorization })
}
