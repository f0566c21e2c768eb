use serde::{Deserialize, Serialize};

use super::{Extra, SchemaVersion};

/// `risk_level` (AT-PERM-03).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RiskLevel {
    Low,
    Medium,
    High,
    Critical,
}

/// `access_kinds` (AT-PERM-04): what a tool says it needs. A component that uses another word does not load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessKind {
    FileRead,
    FileWrite,
    Network,
    Browser,
    Credential,
    Payment,
    ExternalSend,
    CodeExecution,
}

/// `write_effects` (AT-PERM-05). A component that uses another word does not load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteEffect {
    None,
    LocalDraft,
    LocalPersistent,
    RemoteMutation,
    Irreversible,
}

/// `permission_channel` (AT-PERM-12): who is asked for an approval, with the only value that this host supports. A
/// component with another one does not load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionChannel {
    /// No approver: a call that needs an approval is denied.
    None,
}

/// `non_interactive` (AT-PERM-18): what happens to a call that needs an approval if there is no approver to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NonInteractive {
    Deny,
    /// A rule that names the tool counts as the approval.
    AllowIfPreapproved,
}

/// Where a request carries one secret: in a header, with a prefix before the value, or in a query parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialUse {
    #[serde(rename = "ref")]
    pub credential_ref: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl CredentialUse {
    const AUTHORIZATION: &str = "authorization";

    /// A use of the credential as `Authorization: Bearer`.
    pub fn bearer(credential_ref: &str) -> Self {
        Self { credential_ref: credential_ref.to_owned(), ..Self::default() }
    }

    /// Name of the header, for a use without a query parameter. Default: `authorization`.
    pub fn header_name(&self) -> &str {
        self.header.as_deref().unwrap_or(Self::AUTHORIZATION)
    }

    /// Prefix of the value. Default: `Bearer ` in the header `Authorization`, empty in any other.
    pub fn header_prefix(&self) -> &str {
        let bearer = self.header_name().eq_ignore_ascii_case(Self::AUTHORIZATION);
        self.prefix.as_deref().unwrap_or(if bearer { "Bearer " } else { "" })
    }
}

/// `tool_permission_profile` (AT-PERM-01..18): a request, never a grant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PermissionProfile {
    pub schema_version: SchemaVersion,
    pub permission_profile_id: String,
    pub risk_level: RiskLevel,
    #[serde(default)]
    pub access_kinds: Vec<AccessKind>,
    #[serde(default)]
    pub write_effects: Vec<WriteEffect>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_scope: Option<String>,
    /// Names of the secrets that the tool's requests carry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credential_refs: Vec<String>,
    /// Where a request carries each of them. An extension of the specification: a list of
    /// `{"ref": NAME, "header": "authorization", "prefix": "Bearer "}` or `{"ref": NAME, "query": "key"}`. A reference
    /// that is not in the list goes into `Authorization: Bearer`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credential_uses: Vec<CredentialUse>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_profile: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_required: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_channel: Option<PermissionChannel>,
    /// An extension of the specification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub non_interactive: Option<NonInteractive>,
    /// Sensitivity of the tool's input and output (AT-PERM-14). `public` and `internal` are ordinary. Any other word
    /// has the effect of `redaction_required`, and a large result is kept by reference, without a preview; with
    /// `secret`, every result is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_sensitivity: Option<String>,
    /// Whether arguments and the messages of a running tool are never recorded (AT-PERM-16).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redaction_required: Option<bool>,
    /// Names of environment variables that the tool asks for. An extension of the specification.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl PermissionProfile {
    /// The profile of a tool that declares none: it requests nothing, and so gets nothing.
    pub fn none(tool_id: &str) -> Self {
        Self {
            schema_version: SchemaVersion::default(),
            permission_profile_id: format!("{tool_id}.permission"),
            risk_level: RiskLevel::Low,
            access_kinds: Vec::new(),
            write_effects: vec![WriteEffect::None],
            network_scope: None,
            credential_refs: Vec::new(),
            credential_uses: Vec::new(),
            sandbox_profile: None,
            approval_required: None,
            approval_reason: None,
            permission_channel: None,
            non_interactive: None,
            data_sensitivity: None,
            redaction_required: None,
            environment: Vec::new(),
            extra: Extra::new(),
        }
    }

    /// Whether arguments and the messages of a running tool stay out of records.
    pub fn is_sensitive(&self) -> bool {
        let word = self.data_sensitivity.as_deref().unwrap_or("public");
        self.redaction_required == Some(true) || !matches!(word, "public" | "internal")
    }

    /// Whether every answer of the tool is kept by reference, whatever its size (AT-PERM-14).
    pub fn is_secret(&self) -> bool {
        self.data_sensitivity.as_deref() == Some("secret")
    }

    /// Whether the tool declares any access beyond this machine.
    pub fn reaches_out(&self) -> bool {
        let outward = [AccessKind::Network, AccessKind::Browser, AccessKind::ExternalSend, AccessKind::Payment];
        outward.iter().any(|kind| self.wants(kind))
    }

    pub fn wants(&self, kind: &AccessKind) -> bool {
        self.access_kinds.contains(kind)
    }

    /// Whether a rule that names the tool counts as the approval if there is no approver to ask (AT-PERM-18).
    pub fn accepts_preapproval(&self) -> bool {
        self.non_interactive == Some(NonInteractive::AllowIfPreapproved)
    }

    pub fn has_effect(&self, effect: &WriteEffect) -> bool {
        self.write_effects.contains(effect)
    }

    /// Whether files may be changed permanently: the profile has the access kind and a permanent effect. The access
    /// kind without any effect implies both.
    pub fn wants_file_write(&self) -> bool {
        let stays = |effect: &WriteEffect| matches!(effect, WriteEffect::LocalPersistent | WriteEffect::Irreversible);
        self.wants(&AccessKind::FileWrite) && (self.write_effects.is_empty() || self.write_effects.iter().any(stays))
    }

    /// Whether the tool wants a folder for drafts, which are not kept.
    pub fn wants_drafts(&self) -> bool {
        self.wants(&AccessKind::FileWrite) && self.has_effect(&WriteEffect::LocalDraft)
    }
}
