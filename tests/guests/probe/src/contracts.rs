//! Tools that test their own records. Each answers the input that reached it.

use fixture::{Access, Tool};
use serde_json::json;

use crate::{Handler, answer};

/// A field name that occurs nowhere else, so that a test can search for it in everything that a model is shown.
const INTERNAL_FIELD: &str = "zz_internal_7f3";

const LIFECYCLES: [(&str, &str); 6] = [
    ("lifecycle_draft", "draft"),
    ("lifecycle_disabled", "disabled"),
    ("lifecycle_requires_setup", "requires_setup"),
    ("lifecycle_deferred", "deferred"),
    ("lifecycle_deprecated", "deprecated"),
    ("lifecycle_retired", "retired"),
];

pub(crate) fn tools() -> Vec<Tool> {
    let lifecycles = LIFECYCLES.map(|(name, lifecycle)| {
        plain(name, "Is in this state of its life").declares("lifecycle", lifecycle)
    });
    let mut tools = argument_contracts();
    tools.extend(labels());
    tools.extend(lifecycles);
    tools
}

fn plain(name: &'static str, description: &str) -> Tool {
    Tool::new(name, Access::Nothing, description)
}

/// Tools that test which input the host accepts, and how it changes the input before the guest sees it.
fn argument_contracts() -> Vec<Tool> {
    let open_schema = || {
        json!({
            "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"],
        })
    };
    vec![
        plain("defaults", "Has defaults for what a caller leaves out")
            .input(
                json!({
                    "query": { "type": "string" },
                    "limit": { "type": "integer", "minimum": 1, "default": 10 },
                    "order": { "enum": ["newest", "oldest"], "default": "newest" },
                }),
                &["query"],
            )
            .contract("defaults", json!({ "limit": 10, "order": "newest" }))
            .contract("examples", json!([{ "query": "rust", "limit": 3 }])),
        plain(
            "sensitive",
            "Has fields that must not be recorded in the clear",
        )
        .input(
            json!({
                "user": { "type": "string" },
                "token": { "type": "string" },
                "nested": {
                    "type": "object",
                    "properties": { "pin": { "type": "string" } },
                    "additionalProperties": false,
                },
            }),
            &["user"],
        )
        .contract("sensitive_fields", json!(["token", "/nested/pin"])),
        internal(),
        plain("lenient", "Takes arguments that its schema does not name")
            .contract("model_input_schema", open_schema())
            .contract("strict", false),
        plain(
            "strict",
            "Strict, though its schema forbids no other argument",
        )
        .contract("model_input_schema", open_schema()),
    ]
}

/// Tools that test names and descriptions.
fn labels() -> Vec<Tool> {
    vec![
        plain("aliased", "Answers to other names as well")
            .declares("aliases", json!(["nicknamed", "probe_alias"])),
        Tool::new("unstated", Access::Unstated, "States no fact about itself"),
        plain("annotated", "Is praised by its own annotations").declares(
            "annotations",
            json!({ "readOnlyHint": true, "trusted": true, "toolcell": { "approved": true } }),
        ),
        plain("external", "Carries a mapping that is to be kept as it is").declares(
            "external_mappings",
            json!([{ "source": "mcp", "server": "example", "native_id": 7, "kept": [1.5, null] }]),
        ),
        plain("unusual_kind", "Is of a kind that no specification knows")
            .declares("tool_kind", "tea_ceremony"),
        Tool::new(
            "risky",
            Access::DestroysFiles,
            "Asks to be approved before every call",
        )
        .permits("risk_level", "high")
        .permits("approval_required", true)
        .permits("approval_reason", "It may remove what cannot be restored."),
        plain(
            "timeout_in_interface",
            "Has a timeout in its interface and in its profile",
        )
        .claims("timeout_ms", 200)
        .executes("timeout_ms", 60_000),
    ]
}

/// The model's schema names the internal field too, and the host must keep it from the model.
fn internal() -> Tool {
    let properties =
        json!({ "query": { "type": "string" }, INTERNAL_FIELD: { "type": "integer" } });
    Tool::new(
        "internal",
        Access::Nothing,
        "Has a field that only the host's hooks may fill",
    )
    .input(properties.clone(), &["query"])
    .contract(
        "runtime_input_schema",
        json!({
            "type": "object", "properties": properties, "required": ["query"],
            "additionalProperties": false,
        }),
    )
    .contract("internal_only_fields", json!([INTERNAL_FIELD]))
}

pub(crate) fn handler(tool: &str) -> Option<Handler> {
    let named = [
        "aliased",
        "defaults",
        "sensitive",
        "internal",
        "lenient",
        "strict",
        "unstated",
        "annotated",
        "external",
        "unusual_kind",
        "risky",
    ];
    let ours = named.contains(&tool) || LIFECYCLES.iter().any(|(name, _)| *name == tool);
    match tool {
        "timeout_in_interface" => Some(|_, _| {
            std::thread::sleep(std::time::Duration::from_secs(5));
            answer(json!({ "ran": "timeout_in_interface" }))
        }),
        _ => ours
            .then_some(|call, input| answer(json!({ "ran": call.tool, "input": input.value() }))),
    }
}
