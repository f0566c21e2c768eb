use crate::record::{Input, RiskLevel, RuleSource};

use super::{Capability, Limits, Mount, Permit, SecretUse, Subject};

/// A call that may run only once somebody says so. It carries what the permit would carry, sealed like it: a permit
/// comes of a question in this room alone, and a question cannot be copied, stored or made elsewhere.
///
/// Whoever answers with a changed input has that input decided anew with [`super::decide`]: denials still deny, and the
/// question that comes of it is the one that was answered.
#[derive(Debug)]
pub struct Question {
    permit: Permit,
    brief: Brief,
}

/// What somebody who is asked needs to know: plain data, to be shown and stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brief {
    pub tool_id: String,
    /// What the tool says of itself, or more where what it would touch says more.
    pub risk: RiskLevel,
    /// Why it is asked, in plain words.
    pub reason: String,
    /// Where the rule that asks comes from; nobody's rule where the tool's own profile asks.
    pub source: Option<RuleSource>,
    pub rule_refs: Vec<String>,
    pub touches: Touches,
}

/// What a call could touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touches {
    pub reads: Vec<Mount>,
    /// Read and changed.
    pub writes: Vec<Mount>,
    /// What may be sent, and where: `GET+HEAD@https://api.example.com:443`.
    pub network: Vec<String>,
    /// Names, never values, and where they may be sent: `API_KEY@https://api.example.com`.
    pub secrets: Vec<String>,
    /// Names, never values.
    pub environment: Vec<String>,
}

impl Touches {
    pub(super) fn of(capability: &Capability) -> Self {
        let (writes, reads) = capability.mounts.iter().cloned().partition(|mount| mount.writable);
        let environment = capability.environment.iter().map(|(name, _)| name.clone()).collect();
        let network = capability.network.allowed().iter().map(ToString::to_string).collect();
        let mut secrets: Vec<String> = capability.secrets.iter().map(SecretUse::grant).collect();
        secrets.dedup();
        Self { reads, writes, network, secrets, environment }
    }
}

impl Question {
    pub(super) fn new(permit: Permit, brief: Brief) -> Self {
        Self { permit, brief }
    }

    pub fn brief(&self) -> &Brief {
        &self.brief
    }

    pub fn subject(&self) -> &Subject {
        self.permit.subject()
    }

    /// The input that is asked about.
    pub fn call_input(&self) -> &Input {
        self.permit.call_input()
    }

    /// The world that the call would get.
    pub fn capability(&self) -> &Capability {
        self.permit.capability()
    }

    pub fn limits(&self) -> &Limits {
        self.permit.limits()
    }

    /// Somebody said yes: the permit for exactly what was asked.
    pub fn approved(self) -> Permit {
        self.permit
    }
}
