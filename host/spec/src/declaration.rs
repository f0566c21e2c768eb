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
    /// Calls are refused.
    Draft,
    Available,
    /// Calls are refused.
    Disabled,
    /// Calls are refused until the setup.
    RequiresSetup,
    /// Calls are refused until its schema is loaded.
    Deferred,
    /// The tool is not listed, but runs.
    Deprecated,
    /// Calls are refused.
    Retired,
}

impl Lifecycle {
    /// Listings omit deprecated tools, which still run (AT-LIFE-06).
    pub fn is_offered(self) -> bool {
        self == Self::Available
    }
}

/// An open word (AT-KIND-01..17); known ones have conservative defaults.
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

    /// `true` if unscoped tools reach beyond the host (requirements 1.2.2).
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
    /// Empty in a description means `namespace.name`.
    #[serde(default)]
    pub tool_id: String,
    /// First part of the name (AT-DECL-03).
    pub namespace: String,
    /// Second part (AT-DECL-04).
    pub name: String,
    /// Further callable names (AT-DECL-05).
    #[serde(default)]
    pub aliases: Vec<String>,
    pub search_hint: Option<String>,
    pub title: Option<String>,
    /// For a model (AT-DECL-08).
    pub description: String,
    pub lifecycle: Lifecycle,
    pub tool_kind: ToolKind,
    #[serde(default)]
    pub capability_refs: Vec<String>,
    /// Without one, the tool takes only `{}`.
    pub input_contract: Option<InputContract>,
    pub output_contract: Option<OutputContract>,
    pub interface_ref: Option<String>,
    pub execution_profile_ref: Option<String>,
    pub permission_profile_ref: Option<String>,
    pub external_mappings: Option<Vec<ExternalMapping>>,
    /// Untrusted: never read by policy, scheduler or sandbox (AT-DECL-18).
    pub annotations: Option<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl ToolDeclaration {
    /// Unique where a bare name may not be.
    pub fn qualified_name(&self) -> String {
        format!("{}.{}", self.namespace, self.name)
    }
}

/// `argument_mode` (AT-IN-08). Only `json` is supported.
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
    Json,
    Text,
    File,
    Multipart,
    Stream,
    Custom,
}

/// One source's right in a [`MutationPolicy`].
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
    /// As far as the schema allows it.
    Allow,
    Deny,
    InternalOnly,
}

/// `mutation_policy` (AT-IN-09).
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
    All(MutationRight),
    /// One word for each source, and the only changeable fields.
    Each {
        /// Default: `allow`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hooks: Option<MutationRight>,
        /// Default: `allow`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        permission_prompt: Option<MutationRight>,
        /// JSON Pointers, or names at any depth. Default: every field.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        fields: Vec<String>,
    },
}

impl MutationPolicy {
    /// `None` if the policy has an unknown word.
    pub fn read(policy: &Value) -> Option<Self> {
        const KNOWN: [&str; 3] = ["hooks", "permission_prompt", "fields"];
        let is_known = policy
            .as_object()
            .is_none_or(|words| words.keys().all(|word| KNOWN.contains(&word.as_str())));
        Self::deserialize(policy).ok().filter(|_| is_known)
    }

    /// The host's values, such as defaults, are the tool's own contract.
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

    /// Empty: every field.
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
    pub model_input_schema: Option<Value>,
    /// Applies after hooks and approval; default: the model schema.
    pub runtime_input_schema: Option<Value>,
    /// `true` refuses properties that the schema does not name.
    #[serde(default)]
    pub strict: bool,
    /// Values for `call_input`, never for `model_input`.
    #[serde(default, skip_serializing_if = "Extra::is_empty")]
    pub defaults: Extra,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Value>,
    /// Arguments that are not recorded (AT-IN-06): JSON Pointers (`/a/b`, `*` for every item), or names at any depth.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitive_fields: Vec<String>,
    /// Fields that no model sees or sets (AT-N-10).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub internal_only_fields: Vec<String>,
    pub argument_mode: Option<ArgumentMode>,
    /// A [`MutationPolicy`] (AT-IN-09). Default: hooks and approvers, within the schema.
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
    pub structured_schema: Option<Value>,
    /// Empty allows all block types.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub content_types: Vec<String>,
    /// In bytes (AT-OUT-05).
    pub max_inline_bytes: Option<u64>,
    /// In characters (AT-OUT-05).
    pub max_inline_chars: Option<u64>,
    /// Hide parts from all but the tool (AT-OUT-08).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redaction_rules: Vec<RedactionRule>,
    /// Without them, an output is only partial (AT-OUT-04).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifact_expectations: Vec<ArtifactExpectation>,
    /// Narrows what the operator allows (AT-OUT-06).
    pub persistence_policy_ref: Option<Strategy>,
    /// Replaces a dropped or redacted output for a model (AT-OUT-09).
    pub fallback_summary: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// `rendering_boundary` (AT-OUT-07): what of an output is for the model. People see all of it.
///
/// ```
/// use toolcell_spec::RenderingBoundary;
///
/// assert_eq!(serde_json::to_value(RenderingBoundary::StructuredContent)?, "structured_content");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RenderingBoundary {
    /// The blocks, and the structured output.
    #[default]
    Content,
    /// The structured output alone.
    StructuredContent,
}

impl OutputContract {
    /// No call runs with an unknown word.
    pub fn rendering_boundary(&self) -> RenderingBoundary {
        let word = self.extra.get("rendering_boundary");
        word.and_then(|word| RenderingBoundary::deserialize(word).ok())
            .unwrap_or_default()
    }
}

/// An `artifact_ref` or `file` block with this name and media type; an absent field matches any.
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
    /// JSON Pointer, or a name at any depth; `""` is all of the structured output.
    Field(String),
    /// Applies to all texts of the tool.
    Pattern {
        pattern: String,
        #[serde(flatten)]
        extra: Extra,
    },
}
