use std::sync::Arc;

use crate::record::{Input, InvocationId};

use super::{Capability, Limits};

/// What a decision is about: one call of one tool of one component.
#[derive(Clone, Debug)]
pub struct Subject {
    pub invocation_id: InvocationId,
    /// `sha256:<hex>` of the component.
    pub component: Arc<str>,
    /// The name by which the component knows the tool.
    pub tool: Arc<str>,
    /// 1 for the first try.
    pub attempt: u32,
}

/// The only key to the sandbox. It carries what was permitted, so that what runs is what was decided on. Only this
/// module can mint a permit, and a permit can be neither copied nor serialized: a process that continues the call of
/// another one decides again.
#[derive(Debug)]
pub struct Permit {
    subject: Subject,
    call_input: Input,
    capability: Capability,
    limits: Limits,
    changes_nothing: bool,
}

impl Permit {
    /// `changes_nothing`: see [`Self::changes_nothing`].
    pub(super) fn mint(
        subject: Subject,
        call_input: Input,
        capability: Capability,
        limits: Limits,
        changes_nothing: bool,
    ) -> Self {
        Self { subject, call_input, capability, limits, changes_nothing }
    }

    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    pub fn call_input(&self) -> &Input {
        &self.call_input
    }

    pub fn capability(&self) -> &Capability {
        &self.capability
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether the call can make no lasting change, locally or remotely, so that it can be repeated.
    pub fn changes_nothing(&self) -> bool {
        self.changes_nothing
    }
}
