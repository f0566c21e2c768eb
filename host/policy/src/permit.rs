use std::ops::Deref;
use std::sync::Arc;

use toolcell_spec::{Input, InvocationId};

use super::{Capability, Limits};

/// Subject of a decision: one call of one tool of one component.
#[derive(Clone, Debug)]
pub struct DecisionSubject {
    pub invocation_id: InvocationId,
    /// `sha256:<hex>` of the component.
    pub component: Arc<str>,
    /// The name by which the component knows the tool.
    pub tool: Arc<str>,
}

/// The only key to the sandbox. It carries what was permitted, so that what runs is what was decided on. Only this
/// module can mint a permit, and a permit can be neither copied nor serialized: a process that continues the call of
/// another one decides again.
#[derive(Debug)]
pub struct Permit(PermitTerms);

/// The content of a permit. It is not a permit itself, so it can be shown before an approval.
#[derive(Debug)]
pub struct PermitTerms {
    pub(super) subject: DecisionSubject,
    pub(super) call_input: Input,
    /// The result of [`super::call_subjects::absolute`] for `call_input`; `None` if its paths are absolute.
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

    /// The input that was decided on, that approvals are bound to, and that is recorded.
    pub fn call_input(&self) -> &Input {
        &self.call_input
    }

    /// The input that the guest gets: [`Self::call_input`], with each relative path among its subjects made absolute. It
    /// follows from that input and the capability, so what runs is what was decided on.
    pub fn guest_input(&self) -> &Input {
        self.guest_input.as_ref().unwrap_or(&self.call_input)
    }

    pub fn capability(&self) -> &Capability {
        &self.capability
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns whether the call can make no lasting change, locally or remotely, so it can be repeated.
    pub fn changes_nothing(&self) -> bool {
        self.changes_nothing
    }

    /// Returns whether the tool claims that this call may run concurrently. This is necessary only: the calls' reach
    /// must not overlap either.
    pub fn is_concurrency_safe(&self) -> bool {
        self.is_concurrency_safe
    }
}

/// Read access for preflight of one call. Only a decision makes one (AT-PIPE-04).
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

    /// The folders of the call, for reading alone.
    pub fn capability(&self) -> &Capability {
        &self.capability
    }

    /// The input that the call would get.
    pub fn input(&self) -> &Input {
        &self.input
    }
}
