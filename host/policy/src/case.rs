use std::path::PathBuf;

use toolcell_spec::{Input, PermissionProfile, SafetyFacts, SubjectField, ToolDeclaration};

use super::{CallCeiling, DecisionSubject, FileUse, Grants, Limits, Opinion, Policy};

#[derive(Debug)]
pub struct DecisionCase<'a> {
    pub subject: DecisionSubject,
    /// The caller, as it proved itself; `None` if nobody is known.
    pub actor: Option<String>,
    /// `permission_input`, exactly as it would run.
    pub input: Input,
    pub limits: Limits,
    pub declared: ToolClaims<'a>,
    pub classified: Option<SafetyFacts>,
    pub grants: &'a Grants,
    pub policy: &'a Policy,
    pub opinion: Option<&'a Opinion>,
    /// The host's own state, which no grant may reach.
    pub protected: &'a [PathBuf],
    /// Set for a call by another call.
    pub ceiling: Option<&'a CallCeiling>,
}

impl DecisionCase<'_> {
    pub(super) fn tool_id(&self) -> &str {
        &self.declared.tool.tool_id
    }
}

/// Untrusted claims, which can make a decision only stricter.
#[derive(Clone, Copy, Debug)]
pub struct ToolClaims<'a> {
    pub tool: &'a ToolDeclaration,
    pub profile: &'a PermissionProfile,
    pub facts: SafetyFacts,
    pub subjects: &'a [SubjectField],
    /// `true` if no message may have a part of an argument, because one can be sensitive.
    pub hides_input: bool,
    pub native_ids: &'a [String],
    pub needs_user: bool,
    pub files: FileUse,
    /// Why named rules or policies may not be heard.
    pub unheard: Option<&'static str>,
}

impl ToolClaims<'_> {
    pub(super) fn claims_read_only(&self, classified: Option<SafetyFacts>) -> bool {
        [Some(self.facts), classified]
            .iter()
            .flatten()
            .any(|facts| facts.is_read_only == Some(true))
    }
}
