//! All known fields of a toolkit: values, limits on calls, and support by this host.

use serde::Deserialize;
use serde_json::Value;

use crate::{
    AccessKind, ArgumentMode, ContextModifierPolicy, EnabledState, ExternalMapping, Extra,
    GUEST_BLOCKS, Lifecycle, MutationPolicy, NonInteractive, PermissionChannel, ResourceLock,
    RiskLevel, SAME_AS, SchemaVersion, SchemaVisibility, Strategy, SubjectKind, WriteEffect,
};

use super::findings::{Findings, ToolkitPlace};
use super::hints;
use super::mappings;
use super::shape::{FieldShape, ObjectShape, ValueShape, is, known_word, none_of, word};
use super::unknown;

const FACTS: [&str; 4] = [
    "is_read_only",
    "is_concurrency_safe",
    "is_destructive",
    "is_open_world",
];

const LOCKS_MAX: usize = 32;
const LOCK_BYTES_MAX: usize = 200;

/// A namespace, a dot and a name fit.
const TOOL_PATTERN_BYTES_MAX: usize = 200;

pub(super) static OBJECTS: [&ObjectShape; 10] = [
    &TOOLKIT,
    &DECLARATION,
    &INPUT_CONTRACT,
    &OUTPUT_CONTRACT,
    &INTERFACE,
    &EXECUTION_PROFILE,
    &PERMISSION_PROFILE,
    &CREDENTIAL_USE,
    &REDACTION_RULE,
    &ARTIFACT_EXPECTATION,
];

const fn text(name: &'static str) -> FieldShape {
    FieldShape::new(name, ValueShape::Is(is::<Option<String>>))
}

const fn flag(name: &'static str) -> FieldShape {
    FieldShape::new(name, ValueShape::Is(is::<Option<bool>>))
}

const fn count(name: &'static str) -> FieldShape {
    FieldShape::new(name, ValueShape::Is(is::<Option<u64>>))
}

/// The host writes the flag from what it observes.
const fn seen(name: &'static str) -> FieldShape {
    FieldShape::new(name, ValueShape::Is(is::<bool>))
}

const fn texts(name: &'static str) -> FieldShape {
    FieldShape::new(name, ValueShape::Each(is::<String>))
}

const fn required(name: &'static str) -> FieldShape {
    FieldShape::new(name, ValueShape::Is(is::<String>)).required()
}

const fn schema(name: &'static str) -> FieldShape {
    FieldShape::new(name, ValueShape::Is(any)).narrows()
}

const fn refused(name: &'static str, advice: &'static str) -> FieldShape {
    FieldShape::new(name, ValueShape::Refused(advice)).narrows()
}

/// Refuses calls, because this host lacks the limit.
const fn gap(name: &'static str, advice: &'static str) -> FieldShape {
    FieldShape::new(name, ValueShape::Gap(advice)).narrows()
}

const fn hint(name: &'static str, instead: &'static str) -> FieldShape {
    FieldShape::new(name, ValueShape::Hint(instead))
}

const VERSION: FieldShape = FieldShape::new("schema_version", ValueShape::Look(version)).required();
/// No other policies can be referred to.
const PERSISTENCE: FieldShape =
    FieldShape::new("persistence_policy_ref", ValueShape::Is(word::<Strategy>)).narrows();
const MAPPINGS: FieldShape = FieldShape::new("external_mappings", ValueShape::Each(mapping));
const MAPPINGS_TEXT: FieldShape = text(mappings::TEXT);

pub(super) static TOOLKIT: ObjectShape = ObjectShape {
    name: "the toolkit",
    common_names: false,
    fields: &[
        FieldShape::new("declarations", ValueShape::Objects(&DECLARATION))
            .required()
            .narrows(),
        FieldShape::new("interfaces", ValueShape::Objects(&INTERFACE)).narrows(),
        FieldShape::new(
            "execution_profiles",
            ValueShape::Objects(&EXECUTION_PROFILE),
        )
        .narrows(),
        FieldShape::new(
            "permission_profiles",
            ValueShape::Objects(&PERMISSION_PROFILE),
        )
        .narrows(),
        FieldShape::new("not_offered", ValueShape::Look(not_offered)),
    ],
};

static DECLARATION: ObjectShape = ObjectShape {
    name: "declarations",
    common_names: false,
    fields: &[
        VERSION,
        FieldShape::new("tool_id", ValueShape::Is(is::<String>)),
        required("namespace"),
        required("name"),
        texts("aliases"),
        text("search_hint"),
        text("title"),
        required("description"),
        FieldShape::new("lifecycle", ValueShape::Is(known_word::<Lifecycle>))
            .required()
            .narrows(),
        required("tool_kind"),
        texts("capability_refs"),
        FieldShape::new("input_contract", ValueShape::Object(&INPUT_CONTRACT)).narrows(),
        FieldShape::new("output_contract", ValueShape::Object(&OUTPUT_CONTRACT)).narrows(),
        text("interface_ref").narrows(),
        text("execution_profile_ref").narrows(),
        text("permission_profile_ref").narrows(),
        refused(
            "execution_profile",
            "the declaration refers to another one; remove it, or the reference",
        ),
        refused(
            "permission_profile",
            "the declaration refers to another one; remove it, or the reference",
        ),
        MAPPINGS,
        MAPPINGS_TEXT,
        FieldShape::new("annotations", ValueShape::Look(unknown::annotations)),
    ],
};

static INPUT_CONTRACT: ObjectShape = ObjectShape {
    name: "input_contract",
    common_names: false,
    fields: &[
        schema("model_input_schema"),
        schema("runtime_input_schema"),
        FieldShape::new("strict", ValueShape::Is(is::<bool>)).narrows(),
        FieldShape::new("defaults", ValueShape::Is(is::<Extra>)),
        FieldShape::new("examples", ValueShape::Is(is::<Vec<Value>>)),
        texts("sensitive_fields").narrows(),
        texts("internal_only_fields").narrows(),
        FieldShape::new("argument_mode", ValueShape::Look(argument_mode)).narrows(),
        FieldShape::new("media_mode", ValueShape::Look(media_mode)).narrows(),
        FieldShape::new("mutation_policy", ValueShape::Look(mutation_policy)).narrows(),
        refused(
            "schema",
            "model_input_schema says what the arguments are; remove one of them",
        ),
    ],
};

static OUTPUT_CONTRACT: ObjectShape = ObjectShape {
    name: "output_contract",
    common_names: false,
    fields: &[
        schema("structured_schema"),
        FieldShape::new("content_types", ValueShape::Each(content_type)).narrows(),
        count("max_inline_bytes").narrows(),
        count("max_inline_chars").narrows(),
        FieldShape::new("redaction_rules", ValueShape::Look(redaction_rules)).narrows(),
        FieldShape::new(
            "artifact_expectations",
            ValueShape::Objects(&ARTIFACT_EXPECTATION),
        )
        .narrows(),
        PERSISTENCE,
        gap(
            "redaction_policy_refs",
            "it has no such policy; use redaction_rules",
        ),
        refused(
            "schema",
            "structured_schema says what the output is; remove one of them",
        ),
        FieldShape::new(
            "rendering_boundary",
            ValueShape::Look(hints::rendering_boundary),
        )
        .narrows(),
        text("fallback_summary"),
    ],
};

static INTERFACE: ObjectShape = ObjectShape {
    name: "interfaces",
    common_names: false,
    fields: &[
        VERSION,
        required("interface_id"),
        required("tool_id"),
        text("name"),
        texts("aliases"),
        text("search_hint"),
        schema("model_input_schema"),
        schema("runtime_input_schema"),
        schema("output_schema"),
        flag("strict").narrows(),
        text("namespace"),
        FieldShape::new("native_ids", ValueShape::Each(any)),
        text("user_facing_name"),
        FieldShape::new(
            "schema_visibility",
            ValueShape::Is(word::<SchemaVisibility>),
        )
        .narrows(),
        FieldShape::new("is_enabled", ValueShape::Look(is_enabled)).narrows(),
        FieldShape::new("is_read_only", ValueShape::Look(fact)).narrows(),
        FieldShape::new("is_concurrency_safe", ValueShape::Look(fact)).narrows(),
        FieldShape::new("is_destructive", ValueShape::Look(fact)).narrows(),
        FieldShape::new("is_open_world", ValueShape::Look(fact)).narrows(),
        flag("requires_user_interaction").narrows(),
        text("sandbox_profile").narrows(),
        // Its effect depends on the subjects: see `claims`.
        text("permission_matcher").narrows(),
        flag("requires_exclusive_context").narrows(),
        FieldShape::new("resource_locks", ValueShape::Look(resource_locks)).narrows(),
        FieldShape::new(
            "interrupt_behavior",
            ValueShape::Look(hints::interrupt_behavior),
        ),
        hint(
            "abort_semantics",
            "the host stops any guest, and writes how; one that imports cancellation is asked first",
        ),
        hint(
            "progress_schema",
            "progress has the fields of tool_progress, and the host writes its schema",
        ),
        FieldShape::new(
            "classifier_input",
            ValueShape::Look(hints::classifier_input),
        ),
        FieldShape::new("permission_subjects", ValueShape::Look(subjects)).narrows(),
        count("timeout_ms").narrows(),
        FieldShape::new(
            "context_modifier_policy",
            ValueShape::Is(word::<ContextModifierPolicy>),
        )
        .narrows(),
        count("max_inline_chars").narrows(),
        text("execution_profile_ref").narrows(),
        text("permission_profile_ref").narrows(),
        PERSISTENCE,
        FieldShape::new(
            "empty_result_policy",
            ValueShape::Look(hints::empty_result_policy),
        ),
        gap(
            "redaction_policy_refs",
            "it has no such policy; use redaction_rules",
        ),
        hint(
            "rendering",
            "people see the content and the summary of a result",
        ),
        flag("should_defer"),
        flag("always_load"),
        MAPPINGS,
        MAPPINGS_TEXT,
    ],
};

static EXECUTION_PROFILE: ObjectShape = ObjectShape {
    name: "execution_profiles",
    common_names: false,
    fields: &[
        VERSION,
        required("execution_profile_id"),
        required("execution_kind"),
        seen("supports_progress"),
        seen("supports_cancel"),
        seen("supports_resume"),
        seen("supports_retries"),
        seen("supports_partial_results"),
        seen("supports_background"),
        flag("requires_background"),
        seen("supports_artifacts"),
        seen("supports_context_modifiers"),
        seen("sandboxed"),
        text("sandbox_profile").narrows(),
        count("timeout_ms").narrows(),
        refused("fuel_limit", LIMITS),
        refused("memory_limit_bytes", LIMITS),
        refused("table_elements_limit", LIMITS),
        refused("instances_limit", LIMITS),
        refused("stack_limit_bytes", LIMITS),
        refused("max_output_bytes", LIMITS),
        MAPPINGS,
        MAPPINGS_TEXT,
    ],
};

const LIMITS: &str = "limits other than timeout_ms are the caller's; remove the field";

static PERMISSION_PROFILE: ObjectShape = ObjectShape {
    name: "permission_profiles",
    common_names: false,
    fields: &[
        VERSION,
        required("permission_profile_id"),
        FieldShape::new("risk_level", ValueShape::Is(known_word::<RiskLevel>))
            .required()
            .narrows(),
        FieldShape::new("access_kinds", ValueShape::Each(known_word::<AccessKind>)).narrows(),
        FieldShape::new("write_effects", ValueShape::Each(known_word::<WriteEffect>)).narrows(),
        text("network_scope").narrows(),
        gap(
            "tenant_scope",
            "it knows no tenants; serve each tenant with a host of its own, and remove the field",
        ),
        texts("credential_refs").narrows(),
        FieldShape::new("credential_uses", ValueShape::Objects(&CREDENTIAL_USE)).narrows(),
        text("sandbox_profile").narrows(),
        flag("approval_required").narrows(),
        text("approval_reason"),
        FieldShape::new(
            "permission_channel",
            ValueShape::Is(word::<PermissionChannel>),
        )
        .narrows(),
        FieldShape::new("non_interactive", ValueShape::Is(word::<NonInteractive>)).narrows(),
        // Its effect depends on the interface: see `claims`.
        texts("rule_matching_fields"),
        text("data_sensitivity").narrows(),
        FieldShape::new("retention_hint", ValueShape::Look(hints::retention_hint)).narrows(),
        flag("redaction_required").narrows(),
        FieldShape::new("policy_refs", ValueShape::Look(policy_refs)).narrows(),
        texts("environment").narrows(),
        FieldShape::new("tool_calls", ValueShape::Each(tool_pattern)).narrows(),
        flag("user_info"),
    ],
};

static CREDENTIAL_USE: ObjectShape = ObjectShape {
    name: "credential_uses",
    common_names: true,
    fields: &[
        required("ref"),
        text("header").narrows(),
        text("prefix").narrows(),
        text("query").narrows(),
        FieldShape::new("authorization", ValueShape::Is(authorization)),
    ],
};

static ARTIFACT_EXPECTATION: ObjectShape = ObjectShape {
    name: "artifact_expectations",
    common_names: true,
    fields: &[text("name"), text("media_type")],
};

static REDACTION_RULE: ObjectShape = ObjectShape {
    name: "redaction_rules",
    common_names: true,
    fields: &[required("pattern").narrows()],
};

fn any(_: &Value) -> Result<(), String> {
    Ok(())
}

/// Open Tool Calling's demands on credentials (OTC-D-13).
fn authorization(value: &Value) -> Result<(), String> {
    let has_provider = value.get("provider_type").is_some_and(Value::is_string);
    if has_provider || value.as_str() == Some("token") {
        Ok(())
    } else {
        Err("is neither the word token nor an object with a provider_type".to_owned())
    }
}

/// Records and terminals show the pattern.
fn tool_pattern(value: &Value) -> Result<(), String> {
    let text = value.as_str().ok_or_else(|| "is not a text".to_owned())?;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '*');
    if !text.is_empty() && text.len() <= TOOL_PATTERN_BYTES_MAX && text.chars().all(fits) {
        Ok(())
    } else {
        Err(format!(
            "is neither the qualified name of a tool nor a pattern, such as files.read or files.*, of at most \
             {TOOL_PATTERN_BYTES_MAX} characters"
        ))
    }
}

fn mapping(value: &Value) -> Result<(), String> {
    let mapping = ExternalMapping::deserialize(value).map_err(|error| error.to_string())?;
    mapping.security_schemes().map(drop).map_err(str::to_owned)
}

fn version(findings: &mut Findings, place: &ToolkitPlace<'_>, value: &Value) {
    let Some(text) = value.as_str() else {
        return findings.error(place, "is not a text");
    };
    match SchemaVersion::deserialize(value) {
        Ok(version) if version.is_supported() => {
            if text != SchemaVersion::CURRENT {
                let current = SchemaVersion::CURRENT;
                findings.note(
                    place,
                    format!("this host reads {current}; what {text} adds to it has no effect"),
                );
            }
        }
        _ => findings.error(
            place,
            format!("schema_version {text} is not one that this host reads"),
        ),
    }
}

/// `structured_content` stands for no blocks.
fn content_type(value: &Value) -> Result<(), String> {
    const WITHOUT_BLOCKS: &str = "structured_content";
    let known = value
        .as_str()
        .is_some_and(|word| GUEST_BLOCKS.contains(&word) || word == WITHOUT_BLOCKS);
    if known {
        Ok(())
    } else {
        Err(none_of(value, &GUEST_BLOCKS))
    }
}

/// `NAME: REASON` of parts that could not become tools.
fn not_offered(findings: &mut Findings, place: &ToolkitPlace<'_>, value: &Value) {
    for (at, part) in value.as_array().into_iter().flatten().enumerate() {
        if let Some(part) = part.as_str() {
            findings.note(&place.item(at), format!("not offered as a tool: {part}"));
        }
    }
}

fn redaction_rules(findings: &mut Findings, place: &ToolkitPlace<'_>, value: &Value) {
    let Value::Array(rules) = value else {
        return findings.error(place, "is not a list");
    };
    for (at, rule) in rules.iter().enumerate() {
        if !rule.is_string() {
            unknown::object(findings, &place.item(at), &REDACTION_RULE, rule);
        }
    }
}

/// Any predicate but a feature gate or a fact disables the tool, because the host does not evaluate it (AT-IF-04).
fn is_enabled(findings: &mut Findings, place: &ToolkitPlace<'_>, value: &Value) {
    match EnabledState::deserialize(value) {
        Ok(enabled) if enabled.feature().is_some() => {}
        Ok(EnabledState::Gate(predicate)) if is_same_as(&predicate) => {}
        Ok(EnabledState::Gate(_)) => {
            let why = "the tool is not enabled: this host evaluates no predicate but feature:NAME and same_as:FACT";
            findings.note(place, why);
        }
        Ok(EnabledState::Flag(_)) => {}
        Err(_) if value.is_null() => {}
        Err(_) => findings.error(place, "is neither true nor false nor a predicate"),
    }
}

/// Honours only `json` (AT-IN-08).
fn argument_mode(findings: &mut Findings, place: &ToolkitPlace<'_>, value: &Value) {
    match word::<ArgumentMode>(value) {
        Err(problem) => findings.error(place, problem),
        Ok(()) if value.is_null() || value == "json" => {}
        Ok(()) => findings.gap(place, "arguments are one JSON object; write json"),
    }
}

/// Tools for other media than JSON cannot be called (AT-IN-10).
fn media_mode(findings: &mut Findings, place: &ToolkitPlace<'_>, value: &Value) {
    let is_json = |mode: &Value| {
        mode.as_str()
            .is_some_and(|mode| matches!(mode, "json" | "application/json"))
    };
    let takes_json = match value {
        Value::Null => true,
        Value::Array(modes) => modes.is_empty() || modes.iter().any(is_json),
        mode => is_json(mode),
    };
    if !takes_json {
        findings.gap(
            place,
            "arguments are JSON; name application/json among the media that the tool takes",
        );
    }
}

/// An unknown word could forbid more than is known (AT-IN-09).
fn mutation_policy(findings: &mut Findings, place: &ToolkitPlace<'_>, value: &Value) {
    let is_nothing = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
    if !is_nothing && MutationPolicy::read(value).is_none() {
        findings.gap(
            place,
            "it knows the words allow, deny and internal_only, for all sources or for each of hooks and permission_prompt, \
             and a list of fields",
        );
    }
}

fn resource_locks(findings: &mut Findings, place: &ToolkitPlace<'_>, value: &Value) {
    let Ok(locks) = Vec::<ResourceLock>::deserialize(value) else {
        return findings.error(
            place,
            "is not a list of objects such as {\"resource\": \"printer\", \"mode\": \"exclusive\"}",
        );
    };
    let fits = |lock: &ResourceLock| (1..=LOCK_BYTES_MAX).contains(&lock.resource.len());
    if locks.len() > LOCKS_MAX || !locks.iter().all(fits) {
        let message = format!(
            "has at most {LOCKS_MAX} locks, each with a name of 1 to {LOCK_BYTES_MAX} bytes"
        );
        findings.error(place, message);
    }
}

/// A policy that this host lacks can allow nothing (AT-PERM-17).
fn policy_refs(findings: &mut Findings, place: &ToolkitPlace<'_>, value: &Value) {
    match Vec::<String>::deserialize(value) {
        Ok(refs) if refs.is_empty() => {}
        Ok(_) => findings.note(
            place,
            "this host has no such policies: each call needs an approval, unless a rule of toolcell.toml allows the tool",
        ),
        Err(error) => findings.error(place, error.to_string()),
    }
}

fn is_same_as(predicate: &str) -> bool {
    predicate
        .strip_prefix(SAME_AS)
        .is_some_and(|fact| FACTS.contains(&fact))
}

/// Predicates, `KIND:NAME`, count as unstated, which is conservative (AT-N-03); other values were meant to state something.
fn fact(findings: &mut Findings, place: &ToolkitPlace<'_>, value: &Value) {
    match value {
        Value::Bool(_) | Value::Null => {}
        Value::String(text) if is_same_as(text) => {}
        Value::String(text) if text.contains(':') => {
            findings.note(place, "a predicate counts as unstated; what the component classifies counts for each call");
        }
        _ => findings.error(place, "is neither true nor false nor a predicate"),
    }
}

fn subjects(findings: &mut Findings, place: &ToolkitPlace<'_>, value: &Value) {
    let Value::Object(subjects) = value else {
        return findings.error(place, "is not an object");
    };
    for (pointer, kind) in subjects {
        if let Err(problem) = known_word::<SubjectKind>(kind) {
            findings.error(&place.field(pointer), problem);
        }
    }
}
