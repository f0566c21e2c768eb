//! Contradictions between a tool's records, of which one claim would be lost.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::Deserialize;
use serde_json::Value;

use crate::{
    ExternalMapping, SubjectField, SubjectKind, ToolInterface, TypedFields, is_subject, native_ids,
    operation_ids, pointer_steps, property_names,
};

use super::RECORDS;
use super::findings::{Findings, ToolkitPlace};
use super::references::{IndexedRecord, LinkedRecords};

/// Contract, field, and the interface's field.
const SCHEMAS: [(&str, &str, &str); 3] = [
    ("input_contract", "model_input_schema", "model_input_schema"),
    (
        "input_contract",
        "runtime_input_schema",
        "runtime_input_schema",
    ),
    ("output_contract", "structured_schema", "output_schema"),
];

pub(super) fn check(tool: &LinkedRecords<'_>, tool_id: &str, findings: &mut Findings) {
    let top = ToolkitPlace::TOP;
    let lists = RECORDS.map(|list| top.field(list));
    let [declarations, interfaces, executions, permissions] = &lists;
    let declaration = declarations.item(tool.declaration.at);
    if let Some(interface) = tool.interface {
        let place = interfaces.item(interface.at);
        identity(
            tool.declaration.value,
            tool_id,
            interface.value,
            &place,
            findings,
        );
        shown_identity(tool.declaration.value, interface.value, &place, findings);
        schemas(tool.declaration.value, interface.value, &place, findings);
        subjects(tool.declaration.value, interface.value, &place, findings);
        matcher(interface.value, has_native_ids(tool), &place, findings);
    }
    sandbox(tool, interfaces, findings);
    defaults(
        tool.declaration.value,
        tool.interface.map(|interface| interface.value),
        &declaration,
        findings,
    );
    named_fields(tool, &declaration, findings);
    if let Some(execution) = tool.execution_profile {
        execution_profile(tool, execution, &executions.item(execution.at), findings);
    }
    if let Some(permission) = tool.permission_profile {
        permission_profile(
            tool,
            permission.value,
            &permissions.item(permission.at),
            findings,
        );
    }
}

/// Refuses an interface of another tool.
fn identity(
    declaration: &Value,
    tool_id: &str,
    interface: &Value,
    place: &ToolkitPlace<'_>,
    findings: &mut Findings,
) {
    if let Some(of) = interface.text("tool_id").filter(|of| *of != tool_id) {
        findings.error(
            &place.field("tool_id"),
            format!("the interface of {tool_id:?} names another tool: {of:?}"),
        );
    }
    if let (Some(name), Some(known)) = (interface.text("name"), declaration.text("name"))
        && name != known
    {
        findings.error(
            &place.field("name"),
            format!("the interface of {known:?} names another tool: {name:?}"),
        );
    }
    if let (Some(namespace), Some(known)) =
        (interface.text("namespace"), declaration.text("namespace"))
        && namespace != known
    {
        let message = format!(
            "the interface of {tool_id:?} names another namespace than {known:?}: {namespace:?}"
        );
        findings.error(&place.field("namespace"), message);
    }
}

/// Notes what an interface says beside the declaration, which counts. Native ids come from the mappings alone
/// (AT-IF-01).
fn shown_identity(
    declaration: &Value,
    interface: &Value,
    place: &ToolkitPlace<'_>,
    findings: &mut Findings,
) {
    for (field, counts) in [
        ("aliases", "aliases"),
        ("search_hint", "search_hint"),
        ("user_facing_name", "title"),
    ] {
        let known = declaration
            .get(counts)
            .filter(|known| field == counts || !known.is_null());
        let differs = |value: &Value| known != Some(value) && (field == counts || known.is_some());
        if interface.get(field).is_some_and(differs) {
            findings.note(
                &place.field(field),
                "has no effect: what the declaration says counts, and differs",
            );
        }
    }
    let known: HashSet<Value> = native_ids(&mappings(declaration, Some(interface)))
        .into_iter()
        .collect();
    let said = interface.list("native_ids");
    if said.iter().any(|id| !known.contains(id)) {
        findings.note(
            &place.field("native_ids"),
            "has no effect: the ids are those in external_mappings",
        );
    }
}

/// Refuses two schemas for one purpose: only one would be checked.
fn schemas(
    declaration: &Value,
    interface: &Value,
    place: &ToolkitPlace<'_>,
    findings: &mut Findings,
) {
    for (contract, field, of_interface) in SCHEMAS {
        let own = declaration
            .get(contract)
            .and_then(|contract| contract.get(field))
            .filter(|own| !own.is_null());
        let other = interface.get(of_interface).filter(|other| !other.is_null());
        if let (Some(own), Some(other)) = (own, other)
            && own != other
        {
            let message = format!(
                "differs from {contract}.{field} of the tool's declaration; remove one of them"
            );
            findings.error(&place.field(of_interface), message);
        }
    }
}

/// Refuses a subject without an argument, because it would narrow nothing.
fn subjects(
    declaration: &Value,
    interface: &Value,
    place: &ToolkitPlace<'_>,
    findings: &mut Findings,
) {
    fn schema(holder: &Value) -> Option<&Value> {
        holder
            .get("model_input_schema")
            .filter(|schema| !schema.is_null())
    }
    let Some(Value::Object(subjects)) = interface.get("permission_subjects") else {
        return;
    };
    let own = declaration.get("input_contract").and_then(schema);
    let schema = own.or_else(|| schema(interface)).unwrap_or(&Value::Null);
    let place = place.field("permission_subjects");
    for pointer in subjects.keys() {
        if let Err(problem) = SubjectField::argument(pointer, schema) {
            findings.error(&place.field(pointer), problem);
        }
    }
}

fn matcher(
    interface: &Value,
    has_native_ids: bool,
    place: &ToolkitPlace<'_>,
    findings: &mut Findings,
) {
    let Ok(parsed) = ToolInterface::deserialize(interface) else {
        return;
    };
    if !parsed.is_matched(has_native_ids) {
        findings.note(
            &place.field("permission_matcher"),
            "this host does not evaluate it: each call needs an approval, unless a rule allows the tool; name the arguments \
             in permission_subjects, and the kind of one of them here",
        );
    }
}

fn has_native_ids(tool: &LinkedRecords<'_>) -> bool {
    let interface = tool.interface.map(|interface| interface.value);
    !operation_ids(&mappings(tool.declaration.value, interface)).is_empty()
}

/// The mappings of a tool to other protocols, as far as they are valid.
fn mappings(declaration: &Value, interface: Option<&Value>) -> Vec<ExternalMapping> {
    let records = std::iter::once(declaration).chain(interface);
    records
        .flat_map(|record| record.list("external_mappings"))
        .filter_map(|mapping| ExternalMapping::deserialize(mapping).ok())
        .collect()
}

/// Refuses a sandbox other than the permission profile's (AT-IF-06).
fn sandbox(tool: &LinkedRecords<'_>, interfaces: &ToolkitPlace<'_>, findings: &mut Findings) {
    let Some(interface) = tool.interface else {
        return;
    };
    let asked = asked_sandbox(tool);
    let of_profile = profile_sandbox(tool);
    if let (Some(asked), Some(of_profile)) = (asked, of_profile)
        && asked != of_profile
    {
        let message = format!(
            "the permission profile of the tool names another one: {of_profile:?}; remove one of them"
        );
        findings.error(
            &interfaces.item(interface.at).field("sandbox_profile"),
            message,
        );
    }
}

/// Refuses a profile requested nowhere else: the host writes the applied one here.
fn execution_profile(
    tool: &LinkedRecords<'_>,
    execution: IndexedRecord<'_>,
    place: &ToolkitPlace<'_>,
    findings: &mut Findings,
) {
    let asked = execution
        .value
        .text("sandbox_profile")
        .filter(|asked| *asked != "granted");
    if asked.is_some() && asked != profile_sandbox(tool).or_else(|| asked_sandbox(tool)) {
        let message = "has no effect here: name the same profile in sandbox_profile of the permission profile";
        findings.error(&place.field("sandbox_profile"), message);
    }
}

fn profile_sandbox<'a>(tool: &LinkedRecords<'a>) -> Option<&'a str> {
    tool.permission_profile?.value.text("sandbox_profile")
}

/// `granted` asks for none.
fn asked_sandbox<'a>(tool: &LinkedRecords<'a>) -> Option<&'a str> {
    tool.interface?
        .value
        .text("sandbox_profile")
        .filter(|asked| !asked.is_empty() && *asked != "granted")
}

fn permission_profile(
    tool: &LinkedRecords<'_>,
    profile: &Value,
    place: &ToolkitPlace<'_>,
    findings: &mut Findings,
) {
    let effects = profile.list("write_effects");
    if effects.len() > 1 && effects.iter().any(|effect| effect == "none") {
        findings.error(
            &place.field("write_effects"),
            "`none` contradicts the other effects; remove it, or them",
        );
    }
    let subjects = tool
        .interface
        .and_then(|interface| interface.value.get("permission_subjects"));
    // What cannot be read has an error of its own.
    let read =
        subjects.and_then(|subjects| BTreeMap::<String, SubjectKind>::deserialize(subjects).ok());
    let subjects = read.unwrap_or_default();
    let has_native_ids = has_native_ids(tool);
    let place = place.field("rule_matching_fields");
    for (at, field) in profile.list("rule_matching_fields").iter().enumerate() {
        let field = field.as_str().unwrap_or_default();
        if !is_subject(field, &subjects, has_native_ids) {
            let message = format!(
                "permission_subjects names no argument of the kind {field:?}: each call needs an approval, unless a rule \
                 allows the tool; name the argument there, or remove this"
            );
            findings.note(&place.item(at), message);
        }
    }
}

/// Notes defaults that their own schema refuses: calls that need them fail.
fn defaults(
    declaration: &Value,
    interface: Option<&Value>,
    place: &ToolkitPlace<'_>,
    findings: &mut Findings,
) {
    let Some(contract) = declaration.get("input_contract") else {
        return;
    };
    let Some(Value::Object(defaults)) = contract.get("defaults") else {
        return;
    };
    let own = contract
        .get("model_input_schema")
        .filter(|schema| !schema.is_null());
    let Some(schema) = own.or_else(|| interface?.get("model_input_schema")) else {
        return;
    };
    let place = place.field("input_contract");
    let place = place.field("defaults");
    for (name, value) in defaults {
        let of = schema
            .get("properties")
            .and_then(|properties| properties.get(name));
        if of.is_some_and(|of| !may_be(of, value)) {
            findings.note(
                &place.field(name),
                "its own schema refuses this default: a call that needs it fails",
            );
        }
    }
}

/// Checks `type`, `enum` and `const` only.
fn may_be(schema: &Value, value: &Value) -> bool {
    let is = |kind: &Value| match (kind.as_str(), value) {
        (Some("null"), value) => value.is_null(),
        (Some("boolean"), value) => value.is_boolean(),
        (Some("string"), value) => value.is_string(),
        (Some("array"), value) => value.is_array(),
        (Some("object"), value) => value.is_object(),
        (Some("number"), value) => value.is_number(),
        (Some("integer"), value) => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => true,
    };
    let has_type = match schema.get("type") {
        None => true,
        Some(Value::Array(kinds)) => kinds.iter().any(is),
        Some(kind) => is(kind),
    };
    let is_listed = schema
        .get("enum")
        .and_then(Value::as_array)
        .is_none_or(|known| known.contains(value));
    has_type && is_listed && schema.get("const").is_none_or(|only| only == value)
}

/// Notes listed fields that no schema describes: an open schema permits them.
fn named_fields(tool: &LinkedRecords<'_>, place: &ToolkitPlace<'_>, findings: &mut Findings) {
    for (contract, field) in [
        ("input_contract", "sensitive_fields"),
        ("input_contract", "internal_only_fields"),
        ("output_contract", "redaction_rules"),
    ] {
        let Some(contract_value) = tool.declaration.value.get(contract) else {
            continue;
        };
        let names = contract_value.list(field);
        if names.is_empty() {
            continue;
        }
        let mut described = BTreeSet::new();
        for (holder, own, other) in SCHEMAS {
            if holder == contract {
                let schemas = [
                    contract_value.get(own),
                    tool.interface
                        .and_then(|interface| interface.value.get(other)),
                ];
                schemas
                    .into_iter()
                    .flatten()
                    .for_each(|schema| property_names(schema, &mut described));
            }
        }
        let inner = place.field(contract);
        let list = inner.field(field);
        for (at, name) in names.iter().enumerate() {
            if let Some(last) = name.as_str().and_then(last_name)
                && !described.contains(last.as_str())
            {
                findings.note(
                    &list.item(at),
                    format!("no schema describes {last:?}: correct the name, unless it may come"),
                );
            }
        }
    }
}

fn last_name(field: &str) -> Option<String> {
    let Some(pointer) = field.strip_prefix('/') else {
        return Some(field.to_owned()).filter(|name| !name.is_empty());
    };
    let is_named = |step: &String| step != "*" && step.parse::<usize>().is_err();
    pointer_steps(pointer).into_iter().rfind(is_named)
}
