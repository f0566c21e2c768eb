use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Content, ExternalMapping, Extra, MutationSource, SchemaVersion, Strategy, TypedFields,
};

/// `lifecycle` (AT-LIFE-01..07).
///
/// ```
/// use toolcell_spec::Lifecycle;
///
/// assert!(Lifecycle::Available.is_offered() && !Lifecycle::Deprecated.is_offered());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// Not finished; refused.
    Draft,
    /// Listed, and runs.
    Available,
    /// Switched off; refused.
    Disabled,
    /// Refused until it is set up.
    RequiresSetup,
    /// Refused until its schema is loaded.
    Deferred,
    /// Not listed; runs for callers that know its name.
    Deprecated,
    /// Withdrawn; refused.
    Retired,
}

impl Lifecycle {
    /// Returns whether listings show the tool. A deprecated tool still runs for callers that know its name
    /// (AT-LIFE-06); calls of a deferred one are refused, because its schema is not loaded.
    pub fn is_offered(self) -> bool {
        self == Self::Available
    }
}

/// `tool_kind` (AT-KIND-01..17): an open word; the known ones have conservative defaults.
///
/// ```
/// use toolcell_spec::ToolKind;
///
/// let kind = ToolKind("web_search".to_owned());
/// assert!(kind.is_known() && kind.is_open_world());
/// ```
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

    /// Returns whether a tool of this kind reaches beyond the host unless it is scoped (requirements 1.2.2).
    pub fn is_open_world(&self) -> bool {
        matches!(
            self.0.as_str(),
            "browser_action"
                | "shell_command"
                | "web_search"
                | "mcp_tool"
                | "openapi_operation"
                | "peer_agent_tool"
        )
    }
}

/// `tool_declaration` (AT-DECL-01..18).
///
/// ```
/// use serde_json::json;
/// use toolcell_spec::ToolDeclaration;
///
/// let declaration: ToolDeclaration = serde_json::from_value(json!({
///     "schema_version": "0.2.0",
///     "namespace": "files",
///     "name": "read",
///     "description": "Reads a file.",
///     "lifecycle": "available",
///     "tool_kind": "file_operation",
/// }))?;
/// assert_eq!(declaration.qualified_name(), "files.read");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolDeclaration {
    pub schema_version: SchemaVersion,
    /// `namespace.name` if it is empty in a guest's description.
    #[serde(default)]
    pub tool_id: String,
    /// First part of the qualified name (AT-DECL-03).
    pub namespace: String,
    /// Second part of the qualified name (AT-DECL-04).
    pub name: String,
    /// Other names by which the tool can be called (AT-DECL-05).
    #[serde(default)]
    pub aliases: Vec<String>,
    pub search_hint: Option<String>,
    pub title: Option<String>,
    /// Description for a model (AT-DECL-08).
    pub description: String,
    /// Controls whether the tool is listed and runs.
    pub lifecycle: Lifecycle,
    /// Kind of the tool.
    pub tool_kind: ToolKind,
    #[serde(default)]
    pub capability_refs: Vec<String>,
    /// Contract of the arguments; without one the tool takes only `{}`.
    pub input_contract: Option<InputContract>,
    /// Contract of the output.
    pub output_contract: Option<OutputContract>,
    pub interface_ref: Option<String>,
    pub execution_profile_ref: Option<String>,
    pub permission_profile_ref: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external_mappings: Vec<ExternalMapping>,
    /// Untrusted: stored, but never read by policy, scheduler or sandbox (AT-DECL-18).
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

/// `argument_mode` (AT-IN-08). Calls of a tool with another one than `json` are refused.
///
/// ```
/// use toolcell_spec::ArgumentMode;
///
/// assert_eq!(serde_json::to_value(ArgumentMode::Json)?, "json");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentMode {
    /// One JSON object.
    Json,
    /// A text. Not supported.
    Text,
    /// A file. Not supported.
    File,
    /// JSON with references. Not supported.
    Multipart,
    /// A stream of bytes. Not supported.
    Stream,
    /// Anything else. Not supported.
    Custom,
}

/// Right of one source to change a call's arguments, in a [`MutationPolicy`].
///
/// ```
/// use toolcell_spec::MutationRight;
///
/// assert_eq!(serde_json::to_value(MutationRight::InternalOnly)?, "internal_only");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MutationRight {
    /// Everything, as far as the schema allows it.
    Allow,
    /// Nothing.
    Deny,
    /// The internal-only fields.
    InternalOnly,
}

/// `mutation_policy` (AT-IN-09): who may change the arguments of a call on its way, and which of them.
///
/// ```
/// use toolcell_spec::{MutationPolicy, MutationRight, MutationSource};
///
/// let policy: MutationPolicy = serde_json::from_str(r#"{"hooks": "deny"}"#)?;
/// assert_eq!(policy.right(MutationSource::Hook), MutationRight::Deny);
/// assert_eq!(policy.right(MutationSource::PermissionPrompt), MutationRight::Allow);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MutationPolicy {
    /// One word for all sources.
    All(MutationRight),
    /// One word for each source, and the only fields that they may change.
    Each {
        /// Default: `allow`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hooks: Option<MutationRight>,
        /// Approvers who edit the arguments. Default: `allow`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        permission_prompt: Option<MutationRight>,
        /// JSON Pointers, or names at any depth. Default: every field.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        fields: Vec<String>,
    },
}

impl MutationPolicy {
    /// Reads a policy; `None` if it has a word that is not known.
    pub fn read(policy: &Value) -> Option<Self> {
        const KNOWN: [&str; 3] = ["hooks", "permission_prompt", "fields"];
        let is_known = policy
            .as_object()
            .is_none_or(|words| words.keys().all(|word| KNOWN.contains(&word.as_str())));
        Self::deserialize(policy).ok().filter(|_| is_known)
    }

    /// Right of `source`. Values set by the host, such as defaults, are the tool's own contract.
    pub fn right(&self, source: MutationSource) -> MutationRight {
        match self {
            Self::All(right)
                if matches!(
                    source,
                    MutationSource::Hook | MutationSource::PermissionPrompt
                ) =>
            {
                *right
            }
            Self::Each { hooks, .. } if source == MutationSource::Hook => {
                hooks.unwrap_or(MutationRight::Allow)
            }
            Self::Each {
                permission_prompt, ..
            } if source == MutationSource::PermissionPrompt => {
                permission_prompt.unwrap_or(MutationRight::Allow)
            }
            _ => MutationRight::Allow,
        }
    }

    /// The only fields that may be changed; empty: every field.
    pub fn fields(&self) -> &[String] {
        match self {
            Self::All(_) => &[],
            Self::Each { fields, .. } => fields,
        }
    }
}

/// `tool_input_contract` (AT-IN-01..11).
///
/// ```
/// use toolcell_spec::InputContract;
///
/// let contract: InputContract = serde_json::from_str(r#"{"strict": true, "sensitive_fields": ["/token"]}"#)?;
/// assert!(contract.strict && contract.model_input_schema.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InputContract {
    /// JSON Schema of the arguments, for a model.
    pub model_input_schema: Option<Value>,
    /// Schema of `call_input` after hooks and approval; default: the model schema.
    pub runtime_input_schema: Option<Value>,
    /// `true` if properties that the schema does not name are refused, even if the schema does not say so.
    #[serde(default)]
    pub strict: bool,
    /// Added to `call_input` where the caller gave no value; never to `model_input`.
    #[serde(default, skip_serializing_if = "Extra::is_empty")]
    pub defaults: Extra,
    /// Sample arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Value>,
    /// Arguments that are not recorded (AT-IN-06): JSON Pointers (`/a/b`, `*` for every item), or names at any depth.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitive_fields: Vec<String>,
    /// Fields that are never in a model-facing schema, and never accepted from a model (AT-N-10).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub internal_only_fields: Vec<String>,
    /// How the arguments are passed.
    pub argument_mode: Option<ArgumentMode>,
    /// Sources that may change the arguments, as [`MutationPolicy`] reads it (AT-IN-09). Default: hooks and approvers,
    /// within the schema.
    pub mutation_policy: Option<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// `tool_output_contract` (AT-OUT-01..09).
///
/// ```
/// use toolcell_spec::OutputContract;
///
/// let contract = OutputContract { max_inline_bytes: Some(4 << 10), ..OutputContract::default() };
/// assert!(contract.content_types.is_empty(), "all block types are allowed");
/// ```
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutputContract {
    /// JSON Schema of the structured output.
    pub structured_schema: Option<Value>,
    /// The only block types that the tool may return; empty allows all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub content_types: Vec<String>,
    /// Maximum size of inline output, in bytes (AT-OUT-05).
    pub max_inline_bytes: Option<u64>,
    /// Maximum length of inline output, in characters (AT-OUT-05).
    pub max_inline_chars: Option<u64>,
    /// The parts of the output that only the tool may see (AT-OUT-08).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redaction_rules: Vec<RedactionRule>,
    /// The artifacts without which an output is only partial (AT-OUT-04).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifact_expectations: Vec<ArtifactExpectation>,
    /// How the output is kept at most (AT-OUT-06). It only narrows what the operator allows.
    pub persistence_policy_ref: Option<Strategy>,
    /// Text for a model instead of an output that was dropped or redacted (AT-OUT-09).
    pub fallback_summary: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// One of `artifact_expectations`: a block of type `artifact_ref` or `file` with this name and media type. A field that
/// is absent matches any.
///
/// ```
/// use serde_json::json;
/// use toolcell_spec::{ArtifactExpectation, Content};
///
/// let report: ArtifactExpectation = serde_json::from_value(json!({ "media_type": "text/csv" }))?;
/// assert!(report.is_met(&[Content::new("file", json!({ "data": "", "media_type": "text/csv" }))]));
/// assert!(!report.is_met(&[Content::text("a,b")]));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArtifactExpectation {
    pub name: Option<String>,
    pub media_type: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl ArtifactExpectation {
    /// Returns whether one of the blocks is the artifact.
    pub fn is_met(&self, content: &[Content]) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted
                .as_deref()
                .is_none_or(|wanted| found.is_some_and(|found| found == wanted))
        };
        content.iter().any(|block| {
            matches!(block.kind.as_str(), "artifact_ref" | "file")
                && is(&self.name, block.fields.text("name"))
                && is(&self.media_type, block.media_type())
        })
    }
}

/// One of `redaction_rules`.
///
/// ```
/// use toolcell_spec::RedactionRule;
///
/// let rule: RedactionRule = serde_json::from_str(r#""/session/token""#)?;
/// assert_eq!(rule, RedactionRule::Field("/session/token".to_owned()));
/// # Ok::<(), serde_json::Error>(())
/// ```
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
