use std::ops::Deref;

use toolcell_spec::{RiskLevel, RuleSource};

use super::{Permit, PermitTerms};

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
