use std::path::PathBuf;

use toolcell_spec::{Input, PermissionProfile, SafetyFacts, SubjectField, ToolDeclaration};

use super::{CallCeiling, DecisionSubject, FileUse, Grants, Limits, Opinion, Policy};

/// Inputs of one decision.
#[derive(Debug)]
pub struct DecisionCase<'a> {
    pub subject: DecisionSubject,
    /// `permission_input`: exactly what would run.
    pub input: Input,
    pub limits: Limits,
    pub declared: ToolClaims<'a>,
    /// The component's classification of this one input; `None` if it gives none.
    pub classified: Option<SafetyFacts>,
    pub grants: &'a Grants,
    pub policy: &'a Policy,
    /// Combined opinion of the hooks; `None` if no hook has one.
    pub opinion: Option<&'a Opinion>,
    /// Folders that hold the host's own state: no grant may reach them.
    pub protected: &'a [PathBuf],
    /// Ceiling of a call that another call makes.
    pub ceiling: Option<&'a CallCeiling>,
}

impl DecisionCase<'_> {
    /// The id of the tool.
    pub(super) fn tool_id(&self) -> &str {
        &self.declared.tool.tool_id
    }
}

/// The tool's declarations about itself: untrusted claims, which can make a decision stricter, never more permissive.
#[derive(Clone, Copy, Debug)]
pub struct ToolClaims<'a> {
    pub tool: &'a ToolDeclaration,
    pub profile: &'a PermissionProfile,
    /// Safety facts that the interface declares for every input.
    pub facts: SafetyFacts,
    /// The arguments that name the paths, URLs and resources of a call.
    pub subjects: &'a [SubjectField],
    /// `true` if an argument can be sensitive, so no message has a part of one.
    pub hides_input: bool,
    /// The ids that the tool has in other protocols.
    pub native_ids: &'a [String],
    /// `true` if a user takes part in each call.
    pub needs_user: bool,
    /// Its declared use of files.
    pub files: FileUse,
    /// Why rules or policies that the tool names may not be heard.
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
