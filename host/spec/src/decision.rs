use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::IntoStaticStr;

use super::invocation::HIDDEN;
use super::{Content, DecisionId, Extra, InvocationId, SchemaVersion, Timestamp};

/// `behavior` (AT-BEH-01..04).
///
/// ```
/// use toolcell_spec::Behavior;
///
/// assert_eq!(serde_json::to_value(Behavior::Ask)?, "ask");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Behavior {
    /// The call runs (AT-BEH-01).
    Allow,
    /// The call waits for an approval (AT-BEH-02).
    Ask,
    /// The call is refused (AT-BEH-03).
    Deny,
    /// No opinion; never a permission (AT-BEH-04).
    Passthrough,
}

/// `mode` (AT-DEC-04).
///
/// ```
/// use toolcell_spec::Mode;
///
/// assert_eq!(Mode::default(), Mode::Default);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Mode {
    /// Asks for approvals.
    #[default]
    Default,
    /// Runs only calls without effects.
    Plan,
    /// Denies a call that needs an approval, because no approver can be asked.
    NonInteractive,
}

impl Mode {
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// `source`: the origin of the rule that decided (AT-DEC-05). Of several matching rules, the one with the first of these
/// sources is named first as the reason.
///
/// ```
/// use toolcell_spec::RuleSource;
///
/// let source: RuleSource = serde_json::from_str(r#""session""#).unwrap();
/// assert_eq!(source, RuleSource::Session);
/// ```
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RuleSource {
    /// The host's checks, mode and hooks: they outrank every rule that allows.
    PolicySettings,
    UserSettings,
    /// A trusted file beside the project's, for one checkout.
    LocalSettings,
    /// A project's file that the user trusts.
    ProjectSettings,
    FlagSettings,
    /// The command line, or an embedding program.
    CliArg,
    Command,
    Session,
}

impl RuleSource {
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Others may have written such a file.
    pub fn is_in_checkout(self) -> bool {
        matches!(self, Self::ProjectSettings | Self::LocalSettings)
    }
}

/// `reason.type` (AT-DEC-06).
///
/// ```
/// use toolcell_spec::{PermissionDecision, ReasonType};
///
/// fn a_hook_decided(decision: &PermissionDecision) -> bool {
///     decision.reason.kind == ReasonType::Hook
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasonType {
    Rule,
    Mode,
    Policy,
    Hook,
    Classifier,
    WorkingDir,
    SandboxOverride,
    SafetyCheck,
    PermissionPromptTool,
    AsyncAgent,
    SubcommandResults,
    Other,
}

/// An object, so that a program can read it.
///
/// ```
/// use toolcell_spec::{Extra, Reason, ReasonType};
///
/// let reason = Reason { kind: ReasonType::Mode, message: "plan mode".to_owned(), extra: Extra::new() };
/// assert_eq!(serde_json::to_value(&reason)?["type"], "mode");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    #[serde(rename = "type")]
    pub kind: ReasonType,
    pub message: String,
    /// `rule_ref` of the first rule that decided, `waiver_ref` of the rule that waived an approval, `approver`, `channel`.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Reason {
    pub fn note(&mut self, name: &str, value: impl Into<Value>) {
        self.extra.insert(name.to_owned(), value.into());
    }
}

/// `tool_permission_decision` (AT-DEC-01..19).
///
/// ```
/// use toolcell_spec::{Behavior, CallRecord};
///
/// /// The rules that denied the call.
/// fn denied_by(record: &CallRecord) -> Vec<&str> {
///     let denials = record.decisions.iter().filter(|decision| decision.behavior == Behavior::Deny);
///     denials.flat_map(|decision| decision.rule_refs.iter().map(String::as_str)).collect()
/// }
/// ```
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PermissionDecision {
    pub schema_version: SchemaVersion,
    pub decision_id: DecisionId,
    pub invocation_id: InvocationId,
    pub behavior: Behavior,
    pub mode: Mode,
    /// `None` only in records of earlier versions.
    #[serialize_always]
    pub source: Option<RuleSource>,
    pub reason: Reason,
    /// As written (AT-DEC-07).
    #[serde(default)]
    pub rule_refs: Vec<String>,
    /// Rules and grants as written, `mode:NAME`, `hook:ID`, `approval:ID`, and `permission_profile:ID` (AT-DEC-08).
    #[serde(default)]
    pub policy_refs: Vec<String>,
    /// Arguments that the approver changed (AT-DEC-09).
    pub updated_input: Option<Value>,
    /// Digest of `updated_input` (AT-DEC-10).
    pub updated_input_ref: Option<String>,
    /// `true` if the approver changed the arguments (AT-DEC-11).
    #[serde(default)]
    pub user_modified: bool,
    #[serde(default)]
    pub suggested_updates: Vec<Value>,
    /// A component's words on the arguments of its tool; `None` if it classifies none (AT-DEC-13).
    pub pending_classifier_check: Option<Value>,
    pub blocked_path: Option<String>,
    /// Shown content (AT-DEC-15).
    #[serde(default)]
    pub content_blocks: Vec<Content>,
    /// Of the approver (AT-DEC-16).
    pub accept_feedback: Option<String>,
    pub decided_at: Timestamp,
    /// End of an approval (AT-DEC-18).
    pub expires_at: Option<Timestamp>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// An unknown field: the same for the same capability (AT-EXEC-13).
pub const SANDBOX_REF: &str = "sandbox_ref";
const SANDBOX_PROFILE: &str = "sandbox_profile";

impl PermissionDecision {
    /// For the hook `by`, which leaves the decision to others (AT-BEH-04).
    pub fn passthrough(
        invocation_id: InvocationId,
        mode: Mode,
        by: String,
        message: String,
    ) -> Self {
        Self {
            schema_version: SchemaVersion::default(),
            decision_id: DecisionId::new(),
            invocation_id,
            behavior: Behavior::Passthrough,
            mode,
            source: Some(RuleSource::PolicySettings),
            reason: Reason {
                kind: ReasonType::Hook,
                message,
                extra: Extra::new(),
            },
            rule_refs: Vec::new(),
            policy_refs: vec![by],
            updated_input: None,
            updated_input_ref: None,
            user_modified: false,
            suggested_updates: Vec::new(),
            pending_classifier_check: None,
            blocked_path: None,
            content_blocks: Vec::new(),
            accept_feedback: None,
            decided_at: Timestamp::now(),
            expires_at: None,
            extra: Extra::new(),
        }
    }

    /// Names what the call gets by the digest of its grants, after the profile that was applied, or already is named
    /// (AT-EXEC-13).
    pub fn name_sandbox(&mut self, profile: Option<&str>, reference: String) {
        let named = self.extra.get(SANDBOX_PROFILE).and_then(Value::as_str);
        let named = named.and_then(|applied| applied.split('@').next());
        if let Some(name) = profile.or(named) {
            let applied = format!("{name}@{reference}");
            self.extra
                .insert(SANDBOX_PROFILE.to_owned(), applied.into());
        }
        self.extra.insert(SANDBOX_REF.to_owned(), reference.into());
    }

    /// Removes what may repeat the arguments.
    pub fn hide_input(&mut self) {
        (self.updated_input, self.updated_input_ref) = (None, None);
        (self.blocked_path, self.accept_feedback) = (None, None);
        HIDDEN.clone_into(&mut self.reason.message);
        self.content_blocks.clear();
        self.extra.remove("notes");
    }
}
