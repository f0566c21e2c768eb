use std::path::PathBuf;

use crate::record::{Input, PermissionProfile, SafetyFacts, SubjectField};

use super::{Grants, Limits, Opinion, Policy, Subject};

/// Everything that a decision is made from.
#[derive(Debug)]
pub struct Case<'a> {
    pub subject: Subject,
    /// `permission_input`: exactly what would run.
    pub input: Input,
    pub limits: Limits,
    pub declared: Declared<'a>,
    /// What the component says of this one input, if it can.
    pub classified: Option<SafetyFacts>,
    pub grants: &'a Grants,
    pub policy: &'a Policy,
    /// What hooks think of the call, if one of them has an opinion.
    pub opinion: Option<&'a Opinion>,
    /// Folders that hold the host's own state: no grant may reach them.
    pub protected: &'a [PathBuf],
}

/// What the tool says of itself. Claims, all of them: they can make a decision more careful, never less.
#[derive(Clone, Copy, Debug)]
pub struct Declared<'a> {
    pub tool_id: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub profile: &'a PermissionProfile,
    /// What the interface says of every input.
    pub facts: SafetyFacts,
    /// The arguments that name what a call is about.
    pub subjects: &'a [SubjectField],
}

impl Declared<'_> {
    pub(super) fn claims_read_only(&self, classified: Option<SafetyFacts>) -> bool {
        [Some(self.facts), classified].iter().flatten().any(|facts| facts.is_read_only == Some(true))
    }
}
