use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ExternalMapping, Extra, SchemaVersion};

/// `lifecycle` (AT-LIFE-01..07).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    Draft,
    Available,
    Disabled,
    RequiresSetup,
    Deferred,
    Deprecated,
    Retired,
}

impl Lifecycle {
    /// Whether listings show the tool. A deprecated tool still runs for callers that know its name (AT-LIFE-06); a call
    /// of a deferred one is refused, because its schema is not loaded.
    pub fn is_offered(self) -> bool {
        self == Self::Available
    }
}

/// `tool_kind` (AT-KIND-01..17): an open word; the known ones have conservative defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolKind(pub String);

impl ToolKind {
    pub const KNOWN: [&str; 17] = [
        "function",
        "mcp_tool",
        "openapi_operation",
        "native_tool",
        "browser_action",
        "shell_command",
        "code_execution",
        "file_operation",
        "web_search",
        "retrieval",
        "model_task",
        "skill_tool",
        "peer_agent_tool",
        "policy_check",
        "artifact_operation",
        "evidence_export",
        "custom",
    ];

    pub fn is_known(&self) -> bool {
        Self::KNOWN.contains(&self.0.as_str())
    }

    /// Whether a tool of this kind reaches beyond the host unless it is scoped (requirements 1.2.2).
    pub fn is_open_world(&self) -> bool {
        matches!(
            self.0.as_str(),
            "browser_action" | "shell_command" | "web_search" | "mcp_tool" | "openapi_operation" | "peer_agent_tool"
        )
    }
}

/// `tool_declaration` (AT-DECL-01..18).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolDeclaration {
    pub schema_version: SchemaVersion,
    /// `namespace.name` if it is empty in a guest's description.
    #[serde(default)]
    pub tool_id: String,
    pub namespace: String,
    pub name: String,
    #[serde(default)]
    pub aliases: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search_hint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub description: String,
    pub lifecycle: Lifecycle,
    pub tool_kind: ToolKind,
    #[serde(default)]
    pub capability_refs: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_contract: Option<InputContract>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_contract: Option<OutputContract>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface_ref: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_profile_ref: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_profile_ref: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external_mappings: Vec<ExternalMapping>,
    /// Untrusted: stored, but never read by policy, scheduler or sandbox (AT-DECL-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl ToolDeclaration {
    /// `namespace.name`: unique where a bare name may not be.
    pub fn qualified_name(&self) -> String {
        format!("{}.{}", self.namespace, self.name)
    }
}

/// `argument_mode` (AT-IN-08), with the only value that this host supports. A component with another one does not load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentMode {
    /// One JSON object.
    Json,
}

/// `tool_input_contract` (AT-IN-01..11).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InputContract {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_input_schema: Option<Value>,
    /// Schema of `call_input` after hooks and approval; default: the model schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_input_schema: Option<Value>,
    /// Whether properties that the schema does not name are refused, even if the schema does not say so.
    #[serde(default)]
    pub strict: bool,
    /// Added to `call_input` where the caller gave no value; never to `model_input`.
    #[serde(default, skip_serializing_if = "Extra::is_empty")]
    pub defaults: Extra,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Value>,
    /// Arguments that are not recorded (AT-IN-06): JSON Pointers (`/a/b`, `*` for every item), or names at any depth.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitive_fields: Vec<String>,
    /// Fields that are never in a model-facing schema, and never accepted from a model (AT-N-10).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub internal_only_fields: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument_mode: Option<ArgumentMode>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// `tool_output_contract` (AT-OUT-01..09).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutputContract {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_schema: Option<Value>,
    /// The only block types that the tool may return; empty allows all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub content_types: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_inline_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_inline_chars: Option<u64>,
    /// The parts of the output that only the tool may see (AT-OUT-08).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redaction_rules: Vec<RedactionRule>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// One of `redaction_rules`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RedactionRule {
    /// A field of the structured output: a JSON Pointer, or a name at any depth. `""` is all of the output.
    Field(String),
    /// Every match of a regular expression, in all texts of the tool.
    Pattern {
        pattern: String,
        #[serde(flatten)]
        extra: Extra,
    },
}
