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

/// `access_kinds` (AT-PERM-04): what a tool says it needs. A word that is not known is kept, and cannot be granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    #[serde(untagged)]
    Other(String),
}

/// `write_effects` (AT-PERM-05).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteEffect {
    None,
    LocalDraft,
    LocalPersistent,
    RemoteMutation,
    Irreversible,
    #[serde(untagged)]
    Other(String),
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credential_refs: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_profile: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_required: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_reason: Option<String>,
    /// Names of environment variables that the tool asks for. An extension of the specification.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl PermissionProfile {
    /// The profile of a tool that declares none: it asks for nothing, and so gets nothing.
    pub fn none(tool_id: &str) -> Self {
        Self {
            schema_version: SchemaVersion::default(),
            permission_profile_id: format!("{tool_id}.permission"),
            risk_level: RiskLevel::Low,
            access_kinds: Vec::new(),
            write_effects: vec![WriteEffect::None],
            network_scope: None,
            credential_refs: Vec::new(),
            sandbox_profile: None,
            approval_required: None,
            approval_reason: None,
            environment: Vec::new(),
            extra: Extra::new(),
        }
    }

    pub fn wants(&self, kind: &AccessKind) -> bool {
        self.access_kinds.contains(kind)
    }

    /// Who is to be asked (AT-PERM-12); an extension of the specification's schema.
    pub fn permission_channel(&self) -> Option<&str> {
        self.extra.get("permission_channel").and_then(serde_json::Value::as_str)
    }

    /// Whether this word of an extension stands in the profile.
    fn says(&self, field: &str, word: &str) -> bool {
        self.extra.get(field).and_then(serde_json::Value::as_str) == Some(word)
    }

    /// Whether a rule that names the tool stands for the approval where nobody can be asked (AT-PERM-18).
    pub fn accepts_preapproval(&self) -> bool {
        self.says("non_interactive", "allow_if_preapproved")
    }

    pub fn has_effect(&self, effect: &WriteEffect) -> bool {
        self.write_effects.contains(effect)
    }

    /// Whether files may be changed for good: the access kind, and an effect that stays. A profile that names the kind
    /// without effects means both.
    pub fn wants_file_write(&self) -> bool {
        let stays = |effect: &WriteEffect| matches!(effect, WriteEffect::LocalPersistent | WriteEffect::Irreversible);
        self.wants(&AccessKind::FileWrite) && (self.write_effects.is_empty() || self.write_effects.iter().any(stays))
    }

    /// Whether the tool wants a folder for drafts, which nobody keeps.
    pub fn wants_drafts(&self) -> bool {
        self.wants(&AccessKind::FileWrite) && self.has_effect(&WriteEffect::LocalDraft)
    }
}
