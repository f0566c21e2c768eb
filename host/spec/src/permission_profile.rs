use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

use super::{Extra, SchemaVersion};

/// Maximum time of a `retention_hint`, in seconds: a hundred years.
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
    /// Needs no approval for its risk.
    Medium,
    /// Needs an approval, unless a rule allows the tool.
    High,
    /// Needs an approval, unless a rule allows the tool.
    Critical,
}

impl RiskLevel {
    /// The specification's word.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// `access_kinds` (AT-PERM-04): what a tool says it needs. A component that uses another word does not load.
///
/// ```
/// use toolcell_spec::{AccessKind, PermissionProfile};
///
/// assert!(!PermissionProfile::none("jq.jq").wants(&AccessKind::Network));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessKind {
    /// Reads files in the granted folders.
    FileRead,
    /// Changes files in the granted folders.
    FileWrite,
    /// Sends requests to the granted hosts.
    Network,
    /// Uses a browser. No grant exists for it.
    Browser,
    /// Sends granted secrets in requests.
    Credential,
    /// Pays. No grant exists for it.
    Payment,
    /// Sends something to people. No grant exists for it.
    ExternalSend,
    /// Runs other programs. No grant exists for it.
    CodeExecution,
}

/// `write_effects` (AT-PERM-05). A component that uses another word does not load.
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
    /// Changes nothing.
    None,
    /// Writes files that are removed after the call.
    LocalDraft,
    /// Changes files that stay.
    LocalPersistent,
    /// Changes something on another machine.
    RemoteMutation,
    /// Cannot be undone: every call needs an approval.
    Irreversible,
}

/// `permission_channel` (AT-PERM-12): who is asked for an approval. Default: every approver.
///
/// ```
/// use toolcell_spec::PermissionChannel;
///
/// assert!(PermissionChannel::Tty.takes("terminal") && !PermissionChannel::Tty.takes("mcp_elicitation"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionChannel {
    /// No approver: a call that needs an approval is denied.
    None,
    /// A person at a terminal, who is asked there or answers by a command.
    Tty,
    /// An approver of the server, over HTTP.
    Http,
    /// The user of the client that made the call.
    McpElicitation,
}

impl PermissionChannel {
    /// Returns whether an answer through `channel` counts: `terminal`, `command`, `http` or `mcp_elicitation`.
    pub fn takes(self, channel: &str) -> bool {
        match self {
            Self::None => false,
            Self::Tty => matches!(channel, "terminal" | "command"),
            Self::Http => channel == "http",
            Self::McpElicitation => channel == "mcp_elicitation",
        }
    }
}

/// `non_interactive` (AT-PERM-18): what happens to a call that needs an approval if there is no approver to ask.
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
    /// The call is denied.
    Deny,
    /// A rule that names the tool counts as the approval.
    AllowIfPreapproved,
}

/// Where a request carries one secret: in a header, with a prefix before the value, or in a query parameter.
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
    /// Name of the secret.
    #[serde(rename = "ref")]
    pub credential_ref: String,
    /// Header of the request. Default: `authorization`, if no `query` is set.
    pub header: Option<String>,
    /// Text before the value.
    pub prefix: Option<String>,
    /// Parameter of the URL's query.
    pub query: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl CredentialUse {
    const AUTHORIZATION: &str = "authorization";

    /// A use of the credential as `Authorization: Bearer`.
    pub fn bearer(credential_ref: &str) -> Self {
        Self {
            credential_ref: credential_ref.to_owned(),
            ..Self::default()
        }
    }

    /// Name of the header, for a use without a query parameter. Default: `authorization`.
    pub fn header_name(&self) -> &str {
        self.header.as_deref().unwrap_or(Self::AUTHORIZATION)
    }

    /// Prefix of the value. Default: `Bearer ` in the header `Authorization`, empty in any other.
    pub fn header_prefix(&self) -> &str {
        let bearer = self.header_name().eq_ignore_ascii_case(Self::AUTHORIZATION);
        self.prefix
            .as_deref()
            .unwrap_or(if bearer { "Bearer " } else { "" })
    }
}

/// `tool_permission_profile` (AT-PERM-01..18): a request, never a grant.
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
    /// The risk that the tool declares.
    pub risk_level: RiskLevel,
    /// Access that the tool needs; each kind must be granted.
    #[serde(default)]
    pub access_kinds: Vec<AccessKind>,
    /// Changes by the tool.
    #[serde(default)]
    pub write_effects: Vec<WriteEffect>,
    /// Patterns of the hosts that the tool asks for, and the words `none`, `any` and `argument`, separated by commas
    /// (AT-PERM-06). Default: `none`.
    pub network_scope: Option<String>,
    /// Names of the secrets that the tool's requests carry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credential_refs: Vec<String>,
    /// Where a request carries each of them. An extension of the specification: a list of
    /// `{"ref": NAME, "header": "authorization", "prefix": "Bearer "}` or `{"ref": NAME, "query": "key"}`. A reference
    /// that is not in the list goes into `Authorization: Bearer`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credential_uses: Vec<CredentialUse>,
    /// A further narrowing of what was granted (AT-PERM-09).
    pub sandbox_profile: Option<String>,
    /// `true` if every call needs an approval (AT-PERM-10).
    pub approval_required: Option<bool>,
    /// Why, for the approver (AT-PERM-11).
    pub approval_reason: Option<String>,
    /// Which approvers may be asked.
    pub permission_channel: Option<PermissionChannel>,
    /// An extension of the specification.
    pub non_interactive: Option<NonInteractive>,
    /// Sensitivity of the tool's input and output (AT-PERM-14). `public` and `internal` are ordinary. Any other word
    /// has the effect of `redaction_required`, and a large result is kept by reference, without a preview; with
    /// `secret`, every result is.
    pub data_sensitivity: Option<String>,
    /// `true` if arguments and the messages of a running tool are never recorded (AT-PERM-16).
    pub redaction_required: Option<bool>,
    /// Policies that the tool's producer knows (AT-PERM-17). This host has none of them: each call needs an approval, unless
    /// a rule allows the tool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy_refs: Vec<String>,
    /// How long results are kept (AT-PERM-15). `none`, `transient` and `ephemeral` keep them off the disk, and a time such as
    /// `30d`, `12h`, `90m` or `45s` removes their payloads then; any other word has no effect.
    pub retention_hint: Option<String>,
    /// Names of environment variables that the tool asks for. An extension of the specification.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<String>,
    /// Patterns of the qualified names of the tools that the tool calls, such as `files.*`. An extension of the
    /// specification.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl PermissionProfile {
    /// The profile of a tool that declares none: it requests nothing, and so gets nothing.
    pub fn none(tool_id: &str) -> Self {
        Self {
            permission_profile_id: format!("{tool_id}.permission"),
            write_effects: vec![WriteEffect::None],
            ..Self::default()
        }
    }

    /// Adds a secret that the tool needs, as if `credential_refs` named it.
    pub fn require_secret(&mut self, name: &str) {
        if !self.wants(&AccessKind::Credential) {
            self.access_kinds.push(AccessKind::Credential);
        }
        if !self.credential_refs.iter().any(|known| known == name) {
            self.credential_refs.push(name.to_owned());
        }
    }

    /// Returns whether arguments and a running tool's messages stay out of records.
    pub fn is_sensitive(&self) -> bool {
        let word = self.data_sensitivity.as_deref().unwrap_or("public");
        self.redaction_required == Some(true) || !matches!(word, "public" | "internal")
    }

    /// Returns whether every answer of the tool is kept by reference, whatever its size (AT-PERM-14).
    pub fn is_secret(&self) -> bool {
        self.data_sensitivity.as_deref() == Some("secret")
    }

    /// Returns whether the tool's results are never on disk (AT-PERM-15).
    pub fn is_transient(&self) -> bool {
        self.retention_hint
            .as_deref()
            .is_some_and(Self::keeps_nothing)
    }

    /// How long payloads of the tool's results stay, if it says so.
    pub fn retention(&self) -> Option<Duration> {
        Self::time(self.retention_hint.as_deref()?)
    }

    /// The time that a `retention_hint` says: a number of seconds, minutes, hours or days.
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

    /// Returns whether a `retention_hint` forbids keeping anything.
    pub(crate) fn keeps_nothing(hint: &str) -> bool {
        matches!(hint, "none" | "transient" | "ephemeral")
    }

    /// Returns whether the tool declares any access beyond this machine.
    pub fn reaches_out(&self) -> bool {
        let outward = [
            AccessKind::Network,
            AccessKind::Browser,
            AccessKind::ExternalSend,
            AccessKind::Payment,
        ];
        outward.iter().any(|kind| self.wants(kind))
    }

    /// Returns whether the tool declares this kind of access.
    pub fn wants(&self, kind: &AccessKind) -> bool {
        self.access_kinds.contains(kind)
    }

    /// Returns whether a rule that names the tool counts as the approval without an approver (AT-PERM-18).
    pub fn accepts_preapproval(&self) -> bool {
        self.non_interactive == Some(NonInteractive::AllowIfPreapproved)
    }

    /// Returns whether the tool declares this effect.
    pub fn has_effect(&self, effect: &WriteEffect) -> bool {
        self.write_effects.contains(effect)
    }

    /// Returns whether files may be changed permanently: the profile has the access kind and a permanent effect. The
    /// access kind without any effect implies both.
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

    /// Returns whether the tool wants a folder for drafts, which are not kept.
    pub fn wants_drafts(&self) -> bool {
        self.wants(&AccessKind::FileWrite) && self.has_effect(&WriteEffect::LocalDraft)
    }
}
