use std::ops::Deref;

use toolcell_spec::{RiskLevel, RuleSource};

use super::{Permit, PermitTerms};

/// A question with its permit, sealed like it: only this module makes one, and it can be neither copied nor stored.
///
/// For a changed input, [`super::decide`] decides again: denials still deny, and the approval counts for the resulting
/// question.
#[derive(Debug)]
pub struct ApprovalQuestion {
    permit: Box<Permit>,
    brief: ApprovalBrief,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalBrief {
    pub tool_id: String,
    pub risk: RiskLevel,
    pub reason: String,
    /// `None` if a hook or the tool's own profile asks.
    pub source: Option<RuleSource>,
    pub rule_refs: Vec<String>,
}

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

    /// The permit for exactly what was asked. The caller must have an approval.
    pub fn approved(self) -> Box<Permit> {
        self.permit
    }
}
