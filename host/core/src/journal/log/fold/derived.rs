//! Values that follow from the rest of a line: the policies of decisions, the session in `ran`, the scheduler's facts.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use crate::record::{Extra, PermissionDecision, ToolInvocation};

use super::is_same;

/// The policies of `decisions`, each once. A call that nothing else refused names these.
pub(super) fn policies<'a>(
    decisions: impl IntoIterator<Item = &'a PermissionDecision>,
) -> Vec<&'a str> {
    let mut policies: Vec<&str> = Vec::new();
    for policy in decisions
        .into_iter()
        .flat_map(|decision| &decision.policy_refs)
    {
        if !policies.contains(&policy.as_str()) {
            policies.push(policy);
        }
    }
    policies
}

/// Stands for the session of the call among what ran.
const SESSION: &str = "session";

/// Returns `ran` with the session in short; `None` if reading would not give the same again.
pub(super) fn ran(invocation: &ToolInvocation) -> Option<Vec<&str>> {
    let session = invocation.session_runtime();
    let short = |ran: &'_ String| session.as_ref() == Some(ran);
    let ran = &invocation.runtime_refs;
    let is_plain = ran.iter().all(|ran| ran != SESSION);
    is_plain.then(|| {
        ran.iter()
            .map(|ran| if short(ran) { SESSION } else { ran.as_str() })
            .collect()
    })
}

/// Writes the session out in what ran.
pub(super) fn write_out(invocation: &mut ToolInvocation) {
    let Some(session) = invocation.session_runtime() else {
        return;
    };
    let ran = invocation.runtime_refs.iter_mut();
    ran.filter(|ran| *ran == SESSION)
        .for_each(|short| short.clone_from(&session));
}

/// The unknown field of an invocation with the scheduler's facts (AT-INV-29).
const SCHEDULER: &str = "scheduler";
/// The facts that a call says yes or no to, in the order of their bits.
const FACTS: [&str; 5] = [
    "is_concurrency_safe",
    "is_read_only",
    "is_destructive",
    "is_open_world",
    "requires_exclusive_context",
];

/// The scheduler's facts of a single call that locks nothing: a bit for each, and the place among the unknown fields.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct SchedulerFacts(u8, usize);

impl SchedulerFacts {
    /// `None` if there are none, or others.
    pub(super) fn from_extra(extra: &Extra) -> Option<Self> {
        let (place, (_, facts)) = extra
            .iter()
            .enumerate()
            .find(|(_, (name, _))| *name == SCHEDULER)?;
        let says = |bits: u8, (at, name): (usize, &&str)| {
            bits | u8::from(facts.get(*name) == Some(&json!(true))) << at
        };
        let scheduled = Self(FACTS.iter().enumerate().fold(0, says), place);
        is_same(&scheduled.facts(), facts).then_some(scheduled)
    }

    fn facts(self) -> Value {
        let says = FACTS
            .iter()
            .enumerate()
            .map(|(at, name)| ((*name).to_owned(), json!(self.0 >> at & 1 == 1)));
        let mut facts: Extra = says.collect();
        facts.insert("context_modifier_policy".to_owned(), Value::Null);
        facts.insert("resource_locks".to_owned(), json!([]));
        Value::Object(facts)
    }

    /// `rest` with these facts.
    pub(super) fn beside(self, rest: Extra) -> Extra {
        let mut fields = rest.into_iter();
        let mut extra: Extra = fields.by_ref().take(self.1).collect();
        extra.insert(SCHEDULER.to_owned(), self.facts());
        extra.extend(fields);
        extra
    }
}

/// Unknown fields, without those that a line has in short.
pub(super) struct Rest<'a> {
    extra: &'a Extra,
    scheduled: bool,
}

impl<'a> Rest<'a> {
    pub(super) fn new(extra: &'a Extra) -> Self {
        Self {
            extra,
            scheduled: SchedulerFacts::from_extra(extra).is_some(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.extra.len() == usize::from(self.scheduled)
    }
}

impl Serialize for Rest<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        for (name, value) in self
            .extra
            .iter()
            .filter(|(name, _)| !self.scheduled || *name != SCHEDULER)
        {
            fields.serialize_entry(name, value)?;
        }
        fields.end()
    }
}
