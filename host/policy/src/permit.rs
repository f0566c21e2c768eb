use std::ops::Deref;
use std::sync::Arc;

use toolcell_spec::{Input, InvocationId};

use super::{Capability, Limits};

#[derive(Clone, Debug)]
pub struct DecisionSubject {
    pub invocation_id: InvocationId,
    /// `sha256:<hex>`.
    pub component: Arc<str>,
    /// As the component names it.
    pub tool: Arc<str>,
}

/// The only key to the sandbox, with what was permitted, so that what runs is what was decided on. Only this module
/// mints permits, and none can be copied or serialized: a process that continues another's call decides again.
#[derive(Debug)]
pub struct Permit(PermitTerms);

/// No permit itself, so it can be shown before an approval.
#[derive(Debug)]
pub struct PermitTerms {
    pub(super) subject: DecisionSubject,
    pub(super) call_input: Input,
    /// From [`super::call_subjects::absolute`]; `None` if paths are absolute.
    pub(super) guest_input: Option<Input>,
    pub(super) capability: Capability,
    pub(super) limits: Limits,
    pub(super) changes_nothing: bool,
    pub(super) is_concurrency_safe: bool,
}

impl Permit {
    /// Boxed, because a permit passes through several phases.
    pub(super) fn mint(terms: PermitTerms) -> Box<Self> {
        Box::new(Self(terms))
    }
}

impl Deref for Permit {
    type Target = PermitTerms;

    fn deref(&self) -> &PermitTerms {
        &self.0
    }
}

impl PermitTerms {
    pub fn subject(&self) -> &DecisionSubject {
        &self.subject
    }

    /// The input that was decided on, and bound to approvals.
    pub fn call_input(&self) -> &Input {
        &self.call_input
    }

    /// [`Self::call_input`] with absolute paths among its subjects, `call_input` of the record. It follows from that input
    /// and the capability, so what runs is what was decided on.
    pub fn guest_input(&self) -> &Input {
        self.guest_input.as_ref().unwrap_or(&self.call_input)
    }

    pub fn capability(&self) -> &Capability {
        &self.capability
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// `true` if nothing lasting can change, so the call can be repeated.
    pub fn changes_nothing(&self) -> bool {
        self.changes_nothing
    }

    /// The tool's claim, which is not enough: the calls' reach must not overlap either.
    pub fn is_concurrency_safe(&self) -> bool {
        self.is_concurrency_safe
    }
}

/// Only a decision makes one (AT-PIPE-04).
#[derive(Debug)]
pub struct PreflightPermit {
    capability: Capability,
    input: Input,
}

impl PreflightPermit {
    pub fn from_permit(permit: &Permit) -> Self {
        Self {
            capability: permit.capability().to_look(),
            input: permit.guest_input().clone(),
        }
    }

    pub fn capability(&self) -> &Capability {
        &self.capability
    }

    pub fn input(&self) -> &Input {
        &self.input
    }
}
