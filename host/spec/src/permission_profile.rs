use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

use super::{Extra, SchemaVersion};

const RETENTION_SECONDS_MAX: u64 = 100 * 366 * 86_400;

/// `risk_level` (AT-PERM-03).
///
/// ```
/// use toolcell_spec::RiskLevel;
///
/// assert!(RiskLevel::Critical > RiskLevel::High);
/// ```
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    EnumString,
    IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RiskLevel {
    /// Needs no approval for its risk.
    #[default]
    Low,
    /// Likewise.
    Medium,
    /// Needs an approval, unless a rule allows the tool.
    High,
    /// Likewise.
    Critical,
}

impl RiskLevel {
    /// The specification's word.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// `access_kinds` (AT-PERM-04): an unknown word keeps the component from being loaded.
///
/// ```
/// use toolcell_spec::{AccessKind, PermissionProfile};
///
/// assert!(!PermissionProfile::none("jq.jq").wants(&AccessKind::Network));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessKind {
    FileRead,
    FileWrite,
    Network,
    /// No grant exists for it.
    Browser,
    /// Sends granted secrets in requests.
    Credential,
    /// No grant exists for it.
    Payment,
    /// Sends something to people. No grant exists for it.
    ExternalSend,
    /// Runs other programs. No grant exists for it.
    CodeExecution,
}

/// `write_effects` (AT-PERM-05): an unknown word keeps the component from being loaded.
///
/// ```
/// use toolcell_spec::{PermissionProfile, WriteEffect};
///
/// fn cannot_be_undone(profile: &PermissionProfile) -> bool {
///     profile.has_effect(&WriteEffect::Irreversible)
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteEffect {
    None,
    /// Files are removed after the call.
    LocalDraft,
    LocalPersistent,
    RemoteMutation,
    /// Every call needs an approval.
    Irreversible,
}

/// `permission_channel` (AT-PERM-12). Default: every approver.
///
/// ```
/// use toolcell_spec::PermissionChannel;
///
/// assert!(PermissionChannel::Tty.takes("terminal") && !PermissionChannel::Tty.takes("mcp_elicitation"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionChannel {
    /// No approver: such a call is denied.
    None,
    /// A person at a terminal, asked there or answering by a command.
    Tty,
    /// An approver over HTTP.
    Http,
    /// The calling client's user.
    McpElicitation,
}

impl PermissionChannel {
    /// Accepts `terminal`, `command`, `http` or `mcp_elicitation`.
    pub fn takes(self, channel: &str) -> bool {
        match self {
            Self::None => false,
            Self::Tty => matches!(channel, "terminal" | "command"),
            Self::Http => channel == "http",
            Self::McpElicitation => channel == "mcp_elicitation",
        }
    }
}

/// `non_interactive` (AT-PERM-18), without an approver to ask.
///
/// ```
/// use toolcell_spec::{NonInteractive, PermissionProfile};
///
/// let mut profile = PermissionProfile::none("release.publish");
/// profile.non_interactive = Some(NonInteractive::AllowIfPreapproved);
/// assert!(profile.accepts_preapproval());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NonInteractive {
    Deny,
    /// A rule with the tool's name is the approval.
    AllowIfPreapproved,
}

/// Place of a secret in requests.
///
/// ```
/// use toolcell_spec::CredentialUse;
///
/// let bearer = CredentialUse::bearer("API_KEY");
/// assert_eq!((bearer.header_name(), bearer.header_prefix()), ("authorization", "Bearer "));
/// ```
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialUse {
    #[serde(rename = "ref")]
    pub credential_ref: String,
    /// Default: `authorization`, if no `query` is set.
    pub header: Option<String>,
    pub prefix: Option<String>,
    pub query: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl CredentialUse {
    const AUTHORIZATION: &str = "authorization";

    pub fn bearer(credential_ref: &str) -> Self {
        Self {
            credential_ref: credential_ref.to_owned(),
            ..Self::default()
        }
    }

    pub fn header_name(&self) -> &str {
        self.header.as_deref().unwrap_or(Self::AUTHORIZATION)
    }

    /// Default: `Bearer ` in `Authorization`, else empty.
    pub fn header_prefix(&self) -> &str {
        let bearer = self.header_name().eq_ignore_ascii_case(Self::AUTHORIZATION);
        self.prefix
            .as_deref()
            .unwrap_or(if bearer { "Bearer " } else { "" })
    }
}

/// A request, never a grant (AT-PERM-01..18).
///
/// ```
/// use toolcell_spec::{PermissionProfile, RiskLevel};
///
/// let nothing = PermissionProfile::none("jq.jq");
/// assert_eq!(nothing.risk_level, RiskLevel::Low);
/// assert!(!nothing.reaches_out() && !nothing.wants_file_write());
/// ```
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PermissionProfile {
    pub schema_version: SchemaVersion,
    pub permission_profile_id: String,
    pub risk_level: RiskLevel,
    /// Each kind must be granted.
    #[serde(default)]
    pub access_kinds: Vec<AccessKind>,
    #[serde(default)]
    pub write_effects: Vec<WriteEffect>,
    /// Host patterns, or `none`, `any` and `argument`, separated by commas (AT-PERM-06). Default: `none`.
    pub network_scope: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credential_refs: Vec<String>,
    /// A list of `{"ref": NAME, "header": "authorization", "prefix": "Bearer "}` or `{"ref": NAME, "query": "key"}`.
    /// Missing references go into `Authorization: Bearer`. An extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credential_uses: Vec<CredentialUse>,
    /// Narrows what was granted (AT-PERM-09).
    pub sandbox_profile: Option<String>,
    /// `true` if every call needs one (AT-PERM-10).
    pub approval_required: Option<bool>,
    /// For the approver (AT-PERM-11).
    pub approval_reason: Option<String>,
    pub permission_channel: Option<PermissionChannel>,
    /// An extension.
    pub non_interactive: Option<NonInteractive>,
    /// Ordinary words are `public` and `internal` (AT-PERM-14). Any other word has the effect of `redaction_required`,
    /// and large results are kept by reference, without a preview; with `secret`, all are.
    pub data_sensitivity: Option<String>,
    /// `true` if arguments and running messages are never recorded (AT-PERM-16).
    pub redaction_required: Option<bool>,
    /// Policies of the producer, all unknown to this host (AT-PERM-17): each call needs an approval, unless a rule
    /// allows the tool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy_refs: Vec<String>,
    /// `none`, `transient` and `ephemeral` keep results off the disk; after a time such as `30d`, `12h`, `90m` or
    /// `45s`, payloads are removed; other words have no effect (AT-PERM-15).
    pub retention_hint: Option<String>,
    /// Names of environment variables. An extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<String>,
    /// Patterns of qualified names, such as `files.*`. An extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<String>,
    /// `true` if the call's context has what the caller's client says of its user, unproven. An extension.
    pub user_info: Option<bool>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl PermissionProfile {
    pub fn none(tool_id: &str) -> Self {
        Self {
            permission_profile_id: format!("{tool_id}.permission"),
            write_effects: vec![WriteEffect::None],
            ..Self::default()
        }
    }

    pub fn require_secret(&mut self, name: &str) {
        if !self.wants(&AccessKind::Credential) {
            self.access_kinds.push(AccessKind::Credential);
        }
        if !self.credential_refs.iter().any(|known| known == name) {
            self.credential_refs.push(name.to_owned());
        }
    }

    /// The name of what a call gets; `None` if this host does not have the profile, and so refuses each call.
    pub fn applied_sandbox(&self) -> Option<&str> {
        match self.sandbox_profile.as_deref() {
            None => Some("granted"),
            known @ Some("default" | "read_only" | "empty") => known,
            Some(_) => None,
        }
    }

    /// `true` if arguments and running messages stay out of records.
    pub fn is_sensitive(&self) -> bool {
        let word = self.data_sensitivity.as_deref().unwrap_or("public");
        self.redaction_required == Some(true) || !matches!(word, "public" | "internal")
    }

    /// `true` if every answer is kept by reference, whatever its size (AT-PERM-14).
    pub fn is_secret(&self) -> bool {
        self.data_sensitivity.as_deref() == Some("secret")
    }

    /// `true` if results are never on disk (AT-PERM-15).
    pub fn is_transient(&self) -> bool {
        self.retention_hint
            .as_deref()
            .is_some_and(Self::keeps_nothing)
    }

    pub fn retention(&self) -> Option<Duration> {
        Self::time(self.retention_hint.as_deref()?)
    }

    /// A number of seconds, minutes, hours or days.
    pub(crate) fn time(hint: &str) -> Option<Duration> {
        let (number, unit) = hint.split_at_checked(hint.len().checked_sub(1)?)?;
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            "d" => 86_400,
            _ => return None,
        };
        let number = Some(number).filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        let seconds = number?.parse::<u64>().ok()?.checked_mul(seconds)?;
        // No file system has later times.
        Some(Duration::from_secs(seconds.min(RETENTION_SECONDS_MAX)))
    }

    pub(crate) fn keeps_nothing(hint: &str) -> bool {
        matches!(hint, "none" | "transient" | "ephemeral")
    }

    pub fn reaches_out(&self) -> bool {
        let outward = [
            AccessKind::Network,
            AccessKind::Browser,
            AccessKind::ExternalSend,
            AccessKind::Payment,
        ];
        outward.iter().any(|kind| self.wants(kind))
    }

    pub fn wants(&self, kind: &AccessKind) -> bool {
        self.access_kinds.contains(kind)
    }

    /// `true` if a rule with the tool's name replaces an approver (AT-PERM-18).
    pub fn accepts_preapproval(&self) -> bool {
        self.non_interactive == Some(NonInteractive::AllowIfPreapproved)
    }

    pub fn has_effect(&self, effect: &WriteEffect) -> bool {
        self.write_effects.contains(effect)
    }

    /// Needs the access kind and a permanent effect; without any effect, the access kind implies both.
    pub fn wants_file_write(&self) -> bool {
        let stays = |effect: &WriteEffect| {
            matches!(
                effect,
                WriteEffect::LocalPersistent | WriteEffect::Irreversible
            )
        };
        self.wants(&AccessKind::FileWrite)
            && (self.write_effects.is_empty() || self.write_effects.iter().any(stays))
    }

    pub fn wants_drafts(&self) -> bool {
        self.wants(&AccessKind::FileWrite) && self.has_effect(&WriteEffect::LocalDraft)
    }
}
