use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use strum::IntoStaticStr;

use super::{Lifecycle, SchemaVersion, Timestamp, ToolRef};

/// `scope` of a surface (AT-SCOPE-01..09): how long it lasts, and for whom. toolcell builds surfaces of a command, of a
/// session, of a workspace and of a role. The other words are read. `peer-agent` and `model-request`, which the
/// specification writes too, are read as well.
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
    /// One command, which names its tools.
    Task,
    /// One client of a server: a session of MCP, or, where the protocol has none, what one principal sends.
    Session,
    Tenant,
    Skill,
    #[serde(alias = "peer-agent")]
    PeerAgent,
    /// The tools that the settings files list.
    Workspace,
    /// The callers with one role.
    Role,
    #[serde(alias = "model-request")]
    ModelRequest,
}

/// Why a tool cannot be called through a surface, or not yet (AT-REASON-01..08).
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
    /// A rule denies every call of the tool.
    PolicyBlocked,
    /// A secret that was granted to the tool is not set.
    CredentialMissing,
    /// The tool has to be set up first.
    SetupRequired,
    /// The model lacks what the tool needs, or the tool lacks a capability that the surface requires.
    ModelUnsupported,
    /// The caller is a call of the same tool.
    RecursiveToolForbidden,
    /// The role of the caller does not have the tool.
    RoleNotAllowed,
    /// The tool is disabled, by its lifecycle, by its interface, or by a feature gate. A draft and a retired tool are.
    FeatureDisabled,
    /// The tool is not listed, and the caller has not loaded it: a deferred or a deprecated one.
    DeferredUntilDiscovered,
}

impl SurfaceReason {
    /// Returns the specification's word.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns whether a surface lists such a tool as blocked, because its caller may not have it now. Other tools are
    /// excluded, because they are not for this surface, or are deferred.
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

/// `default_tool_choice` (AT-SURF-11): what a caller may call.
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
    /// Any tool of the surface.
    #[default]
    Auto,
    /// No tool: every call is refused.
    None,
    /// Any tool of the surface, and the model has to call one. That is the word of the operator to the client, which asks
    /// the model: a host only answers calls.
    Required,
    /// The tool with this name: every other call is refused.
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
    /// The name by which the caller would call it.
    pub name: String,
    pub reason: SurfaceReason,
    pub lifecycle: Lifecycle,
    /// The rules, secrets or settings behind it.
    pub policy_refs: Vec<String>,
}

/// `selection_policy` (AT-SURF-10).
///
/// ```
/// use toolcell_spec::SelectionPolicy;
///
/// let policy = SelectionPolicy { mode: "budget".to_owned(), max_listed: 20, allow_aliases: true, allow_parallel: true };
/// assert_eq!(serde_json::to_value(policy)?["max_listed"], 20);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectionPolicy {
    /// Always `budget`: tools are loaded in their order, until `max_listed` are.
    pub mode: String,
    pub max_listed: usize,
    /// Always `true`: an alias calls its tool.
    pub allow_aliases: bool,
    /// `true` if several calls of one message or batch may run concurrently.
    pub allow_parallel: bool,
}

/// `model_capabilities` (AT-SURF-13): what the model can take.
///
/// ```
/// use toolcell_spec::ModelCapabilities;
///
/// assert!(ModelCapabilities::default().parallel_calls, "whatever is not restricted");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelCapabilities {
    /// The types of content; `None` if it takes all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media: Option<BTreeSet<String>>,
    /// Schemas that its API holds it to.
    pub strict_schemas: bool,
    /// Several calls in one message.
    pub parallel_calls: bool,
    /// Tools that it has to find and load first.
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

/// `tool_surface` (AT-SURF-00..17): the tools that a caller can select, and why it cannot select others.
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
    /// The same for the same tools under the same settings, and another one after a change.
    pub surface_id: String,
    pub scope: SurfaceScope,
    pub created_at: Timestamp,
    /// `toolcell/<version>`.
    pub producer: Arc<str>,
    /// The ids of all tools that were considered.
    pub tool_refs: Vec<String>,
    /// The ids of the tools whose schemas a model sees.
    pub loaded_tools: Vec<String>,
    pub deferred_tools: Vec<ToolRef>,
    pub blocked_tools: Vec<WithheldTool>,
    pub excluded_tools: Vec<WithheldTool>,
    pub selection_policy: SelectionPolicy,
    pub default_tool_choice: ToolChoice,
    /// Capabilities that every tool has to declare.
    pub capability_requirements: Vec<String>,
    pub model_capabilities: ModelCapabilities,
    #[serde(serialize_with = "role")]
    pub role_constraints: Option<RoleConstraints>,
    /// The rules that block tools.
    pub policy_refs: Vec<String>,
    /// Runtimes: `component:sha256:<hex>`.
    pub runtime_refs: Vec<String>,
    /// Why the surface was built, or what changed since the one before.
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
    /// The role of the caller.
    pub role: String,
    /// Patterns of the tools that the role has.
    pub tools: Vec<String>,
}

/// Writes an empty object for a caller without a role.
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
