use std::ops::Deref;

use toolcell_spec::{RiskLevel, RuleSource};

use super::{Capability, Mount, Permit, PermitTerms, SecretUse};

/// A call that may run only after an approval. It carries the permit, and is sealed like it: only this module can
/// construct a question, and a question can be neither copied nor stored.
///
/// If the approver changes the input, [`super::decide`] decides on the changed input: denials still deny, and the
/// approval counts for the question that results.
#[derive(Debug)]
pub struct ApprovalQuestion {
    permit: Box<Permit>,
    brief: ApprovalBrief,
}

/// Facts for an approver: plain data, to be shown and stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalBrief {
    pub tool_id: String,
    /// The risk that the tool declares, or a higher one that its effects imply.
    pub risk: RiskLevel,
    /// Why an approval is required, in plain words.
    pub reason: String,
    /// Source of the rule that asks; `None` if a hook or the tool's own profile asks.
    pub source: Option<RuleSource>,
    pub rule_refs: Vec<String>,
    pub touches: PossibleTouches,
}

/// Resources that a call could touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PossibleTouches {
    pub reads: Vec<Mount>,
    /// Folders that the call can read and change.
    pub writes: Vec<Mount>,
    /// Permitted methods and origins: `GET+HEAD@https://api.example.com:443`.
    pub network: Vec<String>,
    /// Names, never values, and where they may be sent: `API_KEY@https://api.example.com`.
    pub secrets: Vec<String>,
    /// Names, never values.
    pub environment: Vec<String>,
    /// Patterns of the tools that it may call: `files.*`.
    pub tools: Vec<String>,
}

impl PossibleTouches {
    pub(super) fn from_capability(capability: &Capability) -> Self {
        let (writes, reads) = capability
            .mounts
            .iter()
            .cloned()
            .partition(|mount| mount.writable);
        let environment = capability
            .environment
            .iter()
            .map(|(name, _)| name.clone())
            .collect();
        let mut secrets: Vec<String> = capability.secrets.iter().map(SecretUse::grant).collect();
        secrets.dedup();
        let tools = capability.tools.patterns().map(str::to_owned).collect();
        Self {
            reads,
            writes,
            network: capability.network.targets(),
            secrets,
            environment,
            tools,
        }
    }
}

/// The subject of the question.
impl Deref for ApprovalQuestion {
    type Target = PermitTerms;

    fn deref(&self) -> &PermitTerms {
        &self.permit
    }
}

impl ApprovalQuestion {
    pub(super) fn new(permit: Box<Permit>, brief: ApprovalBrief) -> Self {
        Self { permit, brief }
    }

    pub fn brief(&self) -> &ApprovalBrief {
        &self.brief
    }

    /// Returns the permit for exactly what was asked. The caller must have an approval.
    pub fn approved(self) -> Box<Permit> {
        self.permit
    }
}
