use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use strum::IntoStaticStr;

use super::{Lifecycle, SchemaVersion, Timestamp, ToolRef};

/// Lifetime and users of a surface (AT-SCOPE-01..09). toolcell builds surfaces of a command, a session, a workspace, a role
/// and a request to a model. `peer-agent` and `model-request`, as the specification also spells, are read as well.
///
/// ```
/// use toolcell_spec::SurfaceScope;
///
/// let read: SurfaceScope = serde_json::from_str(r#""peer-agent""#)?;
/// assert_eq!(serde_json::to_string(&read)?, r#""peer_agent""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SurfaceScope {
    Turn,
    /// A command, which names its tools, or the calls that one tool makes.
    Task,
    /// A client's session of MCP, or what one principal sends.
    Session,
    Tenant,
    Skill,
    #[serde(alias = "peer-agent")]
    PeerAgent,
    Workspace,
    Role,
    /// The tools that a model got in one request, which `toolcell respond` answers.
    #[serde(alias = "model-request")]
    ModelRequest,
}

/// Reason against a call through a surface (AT-REASON-01..08).
///
/// ```
/// use toolcell_spec::SurfaceReason;
///
/// assert_eq!(SurfaceReason::DeferredUntilDiscovered.as_str(), "deferred_until_discovered");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum SurfaceReason {
    /// A rule denies every call.
    PolicyBlocked,
    /// A granted secret is not set.
    CredentialMissing,
    SetupRequired,
    /// The model lacks a need of the tool, or the tool a required capability.
    ModelUnsupported,
    /// The caller is the same tool.
    RecursiveToolForbidden,
    RoleNotAllowed,
    /// Lifecycle, interface or feature gate disables the tool; also drafts and retired tools.
    FeatureDisabled,
    /// A deferred or deprecated tool that the caller has not loaded.
    DeferredUntilDiscovered,
}

impl SurfaceReason {
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// `true` if surfaces list the tool as blocked for its caller, not as excluded or deferred.
    pub fn blocks(self) -> bool {
        match self {
            Self::PolicyBlocked
            | Self::CredentialMissing
            | Self::SetupRequired
            | Self::RecursiveToolForbidden
            | Self::RoleNotAllowed => true,
            Self::ModelUnsupported | Self::FeatureDisabled | Self::DeferredUntilDiscovered => false,
        }
    }
}

/// `default_tool_choice` (AT-SURF-11).
///
/// ```
/// use toolcell_spec::ToolChoice;
///
/// assert_eq!(serde_json::to_value(ToolChoice::None)?, "none");
/// assert_eq!(serde_json::to_value(ToolChoice::Tool("files.read".to_owned()))?["tool"], "files.read");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    #[default]
    Auto,
    /// Every call is refused.
    None,
    /// The client must make the model call one: a host only answers calls.
    Required,
    /// Every other call is refused.
    Tool(String),
}

/// A tool that a surface does not offer.
///
/// ```
/// use toolcell_spec::{SurfaceReason, ToolSurface};
///
/// fn denied(surface: &ToolSurface) -> Vec<&str> {
///     let of_rules = surface.blocked_tools.iter().filter(|tool| tool.reason == SurfaceReason::PolicyBlocked);
///     of_rules.map(|tool| tool.name.as_str()).collect()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WithheldTool {
    pub tool_id: String,
    pub name: String,
    pub reason: SurfaceReason,
    /// As declared, or `requires_setup` while a secret is not set.
    pub lifecycle: Lifecycle,
    pub policy_refs: Vec<String>,
}

/// `selection_policy` (AT-SURF-10).
///
/// ```
/// use toolcell_spec::SelectionPolicy;
///
/// let policy = SelectionPolicy { mode: "budget".to_owned(), max_loaded: 20, allow_aliases: true, allow_parallel: true };
/// assert_eq!(serde_json::to_value(policy)?["max_loaded"], 20);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectionPolicy {
    /// Always `budget`: tools load in order, up to `max_loaded`.
    pub mode: String,
    /// From the setting `max_listed`.
    pub max_loaded: usize,
    /// Always `true`.
    pub allow_aliases: bool,
    /// For calls of one message or batch.
    pub allow_parallel: bool,
}

/// A model's limits (AT-SURF-13).
///
/// ```
/// use toolcell_spec::ModelCapabilities;
///
/// assert!(ModelCapabilities::default().parallel_calls, "whatever is not restricted");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelCapabilities {
    /// `None` if the model takes all types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media: Option<BTreeSet<String>>,
    pub strict_schemas: bool,
    pub parallel_calls: bool,
    /// `true` for tools that the model has to find and load.
    pub deferred_refs: bool,
}

impl Default for ModelCapabilities {
    fn default() -> Self {
        Self {
            media: None,
            strict_schemas: true,
            parallel_calls: true,
            deferred_refs: true,
        }
    }
}

/// Selectable tools, and reasons against others (AT-SURF-00..17).
///
/// ```
/// use toolcell_spec::ToolSurface;
///
/// fn has(surface: &ToolSurface, tool_id: &str) -> bool {
///     surface.loaded_tools.iter().any(|loaded| loaded == tool_id)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolSurface {
    pub schema_version: SchemaVersion,
    /// Changes with the tools or settings.
    pub surface_id: String,
    pub scope: SurfaceScope,
    pub created_at: Timestamp,
    /// `toolcell/<version>`.
    pub producer: Arc<str>,
    pub tool_refs: Vec<String>,
    pub loaded_tools: Vec<String>,
    pub deferred_tools: Vec<ToolRef>,
    pub blocked_tools: Vec<WithheldTool>,
    pub excluded_tools: Vec<WithheldTool>,
    pub selection_policy: SelectionPolicy,
    pub default_tool_choice: ToolChoice,
    pub capability_requirements: Vec<String>,
    pub model_capabilities: ModelCapabilities,
    #[serde(serialize_with = "role")]
    pub role_constraints: Option<RoleConstraints>,
    pub policy_refs: Vec<String>,
    /// `component:sha256:<hex>`, `toolcell/<version>` and `session:<session_ref>` (AT-SURF-16).
    pub runtime_refs: Vec<String>,
    pub surface_reason: String,
}

/// `role_constraints` (AT-SURF-14).
///
/// ```
/// use toolcell_spec::RoleConstraints;
///
/// let reviewer = RoleConstraints { role: "reviewer".to_owned(), tools: vec!["files.*".to_owned()] };
/// assert_eq!(reviewer.tools.len(), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RoleConstraints {
    pub role: String,
    /// Patterns.
    pub tools: Vec<String>,
}

fn role<S: Serializer>(
    constraints: &Option<RoleConstraints>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match constraints {
        Some(constraints) => constraints.serialize(serializer),
        None => BTreeMap::<String, String>::new().serialize(serializer),
    }
}

#[cfg(test)]
mod tests {
    use super::{SurfaceReason, SurfaceScope};

    #[test]
    fn all_nine_scopes_are_read_and_written_and_two_have_a_second_spelling() {
        let words = [
            "turn",
            "task",
            "session",
            "tenant",
            "skill",
            "peer_agent",
            "workspace",
            "role",
            "model_request",
        ];
        for word in words {
            for spelling in [word.to_owned(), word.replace('_', "-")] {
                let read: SurfaceScope = serde_json::from_value(spelling.into()).unwrap();
                assert_eq!(serde_json::to_value(read).unwrap(), word);
            }
        }
        serde_json::from_str::<SurfaceScope>("\"planet\"").unwrap_err();
    }

    #[test]
    fn a_reason_is_written_as_it_is_called() {
        use SurfaceReason::{
            CredentialMissing, DeferredUntilDiscovered, FeatureDisabled, ModelUnsupported,
            PolicyBlocked, RecursiveToolForbidden, RoleNotAllowed, SetupRequired,
        };
        let all = [
            PolicyBlocked,
            CredentialMissing,
            SetupRequired,
            ModelUnsupported,
            RecursiveToolForbidden,
            RoleNotAllowed,
            FeatureDisabled,
            DeferredUntilDiscovered,
        ];
        for reason in all {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }
}
