use std::sync::Arc;

use serde::ser::SerializeTuple;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::journal::log::Start;
use crate::record::{
    ArtifactUsage, Behavior, CallRecord, Content, DecisionId, EventId, EventType, FileUsage,
    InvocationId, Mode, NetworkUsage, PermissionDecision, PersistenceId, Reason, ReasonType,
    ResultId, ResultMappings, ResultPersistence, ResultProvenance, ResultStatus, RuleSource,
    SANDBOX_REF, SchemaVersion, Status, Strategy, ToolEvent, ToolInvocation, ToolResult, TouchList,
    Trust, Usage, Writer, is_json,
};

use super::derived::{self, Rest, SchedulerFacts};
use super::near::{self, Near, Step};
use super::usual::Usual;
use super::{Clock, is_same, is_text_of};

/// Room for the usual data of an event, in bytes. Longer data is written out.
const USUAL_BYTES: usize = 512;

/// The payload of a plain start.
#[derive(Serialize)]
pub(in crate::journal::log) struct FoldedStart<'a> {
    started: Call<'a>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    changes: bool,
    process: u32,
    #[serde(skip_serializing_if = "Rest::is_empty")]
    extra: Rest<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    decisions: Vec<Decision<'a>>,
}

impl<'a> FoldedStart<'a> {
    /// `None` if unfolding would not give the same again.
    pub(in crate::journal::log) fn from_start(start: Start<'a>, process: u32) -> Option<Self> {
        let Start {
            invocation,
            decisions,
            hooks,
            changes,
        } = start;
        let id = invocation.invocation_id;
        let clock = Clock::new(invocation.created_at())?;
        let decided = &*invocation.permission_decision_refs;
        let known = decisions.iter().map(|decision| &decision.decision_id);
        if !invocation.evidence_refs.is_empty()
            || !hooks.is_empty()
            || !(decisions.is_empty() || known.eq(decided))
        {
            return None;
        }
        let decided = if decisions.is_empty() { decided } else { &[] };
        Some(Self {
            started: Call::from_invocation(invocation, clock, decisions, decided)?,
            changes,
            process,
            extra: Rest::new(&invocation.extra),
            decisions: decisions
                .iter()
                .map(|decision| Decision::from_decision(decision, id, clock))
                .collect::<Option<_>>()?,
        })
    }
}

/// The payload of the end of a plain call, which succeeded.
#[derive(Serialize)]
pub(in crate::journal::log) struct FoldedEnd<'a> {
    ended: Call<'a>,
    #[serde(skip_serializing_if = "Rest::is_empty")]
    extra: Rest<'a>,
    decisions: Vec<Decision<'a>>,
    persistence: Vec<Persistence<'a>>,
    result: Outcome<'a>,
    source: &'a str,
    unnamed: usize,
    events: Vec<Event<'a>>,
}

impl<'a> FoldedEnd<'a> {
    /// `None` if unfolding would not give the same again.
    pub(in crate::journal::log) fn from_record(record: &'a CallRecord) -> Option<Self> {
        // No `..`, here and below, so that a new field cannot be left out.
        let CallRecord {
            declaration: _,
            invocation,
            decisions,
            hooks,
            progress,
            result_mappings:
                ResultMappings {
                    tool,
                    hooks: mapped_by,
                },
            persistence,
            result,
            events,
        } = record;
        let is_plain = invocation.status() == Status::Succeeded
            && hooks.is_empty()
            && progress.is_empty()
            && *tool == 1
            && mapped_by.is_empty()
            && is_proven(&invocation.evidence_refs, invocation)
            && decisions
                .iter()
                .map(|decision| &decision.decision_id)
                .eq(&invocation.permission_decision_refs)
            && persistence
                .iter()
                .map(|decision| &decision.decision_id)
                .eq(&result.persistence_refs);
        if !is_plain {
            return None;
        }
        let id = invocation.invocation_id;
        let clock = Clock::new(invocation.created_at())?;
        let source = &*events.first()?.source;
        let subject = invocation.evidence_ref();
        let unnamed = events
            .iter()
            .take_while(|event| event.tool_id.is_none())
            .count();
        let event = |(at, event): (usize, &'a ToolEvent)| {
            let tool = (at >= unnamed).then_some(invocation.tool_id.as_str());
            let is_plain = &*event.source == source
                && event.subject.as_deref() == Some(subject.as_str())
                && event.tool_id.as_deref() == tool;
            let usual = Usual::for_event(event.event_type, invocation, decisions, result);
            Event::from_event(at, event, id, clock, usual).filter(|_| is_plain)
        };
        Some(Self {
            ended: Call::from_invocation(invocation, clock, decisions, &[])?,
            extra: Rest::new(&invocation.extra),
            decisions: decisions
                .iter()
                .map(|decision| Decision::from_decision(decision, id, clock))
                .collect::<Option<_>>()?,
            persistence: persistence
                .iter()
                .map(|decision| Persistence::from_decision(decision, id, result.result_id, clock))
                .collect::<Option<_>>()?,
            result: Outcome::from_result(result, invocation, clock)?,
            source,
            unnamed,
            events: events
                .iter()
                .enumerate()
                .map(event)
                .collect::<Option<_>>()?,
        })
    }
}

/// The invocation, without its ID and its unknown fields.
#[derive(Serialize)]
struct Call<'a> {
    tool: &'a str,
    at: u64,
    steps: Vec<Step>,
    input: &'a Value,
    #[serde(rename = "ref")]
    reference: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_ref: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_ref: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    surface: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    native: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ran: Vec<&'a str>,
    /// `None` if they equal the decisions' policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    policies: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    decided: Vec<Near<DecisionId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduled: Option<SchedulerFacts>,
}

impl<'a> Call<'a> {
    /// The line has `decisions`, and does not have those that are `decided`.
    fn from_invocation(
        invocation: &'a ToolInvocation,
        clock: Clock,
        decisions: &[PermissionDecision],
        decided: &[DecisionId],
    ) -> Option<Self> {
        if !invocation.is_plain_history() || !invocation.hook_refs.is_empty() {
            return None;
        }
        let (input, reference) = input_that_ran(invocation)?;
        let is_changed =
            reference != &*invocation.model_input_ref || !is_same(input, &invocation.model_input);
        let observed = invocation.observable_input.as_deref()?;
        let observed_ref = invocation.observable_input_ref.as_deref()?;
        let is_observed = observed_ref != reference || !is_same(observed, input);
        // A `null` would be read as absent.
        if (is_changed && input.is_null()) || (is_observed && observed.is_null()) {
            return None;
        }
        let steps = invocation.status_transitions().iter();
        Some(Self {
            tool: &invocation.tool_id,
            at: clock.0,
            steps: steps
                .enumerate()
                .map(|(place, step)| Some(Step::new(place, step.to, clock.until(step.at)?)))
                .collect::<Option<_>>()?,
            input: &invocation.model_input,
            reference: &invocation.model_input_ref,
            text: invocation.model_input_text.as_deref(),
            changed: is_changed.then_some(input),
            changed_ref: is_changed.then_some(reference),
            observed: is_observed.then_some(observed),
            observed_ref: is_observed.then_some(observed_ref),
            surface: invocation.surface_id.as_deref(),
            native: invocation.native_call_id.as_deref(),
            actor: invocation.actor_ref.as_deref(),
            session: invocation.session_ref.as_deref(),
            ran: derived::ran(invocation)?,
            policies: (derived::policies(decisions) != invocation.policy_refs)
                .then_some(&*invocation.policy_refs),
            decided: decided
                .iter()
                .map(|decided| Near::new(*decided, decided.bits(), invocation.invocation_id))
                .collect(),
            scheduled: SchedulerFacts::from_extra(&invocation.extra),
        })
    }
}

/// The input that ran, with its reference, if it is also the one that was decided on.
fn input_that_ran(invocation: &ToolInvocation) -> Option<(&Value, &str)> {
    let ran = invocation.call_input.as_ref()?;
    let reference = invocation.call_input_ref.as_deref()?;
    let decided = invocation.permission_input.as_ref()?;
    let is_it = invocation.permission_input_ref.as_deref() == Some(reference)
        && (Arc::ptr_eq(decided, ran) || is_same(decided, ran));
    is_it.then_some((&**ran, reference))
}

#[derive(Serialize)]
struct Decision<'a> {
    id: Near<DecisionId>,
    at: i64,
    behavior: Behavior,
    #[serde(skip_serializing_if = "is_default")]
    mode: Mode,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<RuleSource>,
    #[serde(rename = "type")]
    kind: ReasonType,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    rules: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    policies: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<&'a str>,
}

fn is_default(mode: &Mode) -> bool {
    *mode == Mode::default()
}

impl<'a> Decision<'a> {
    fn from_decision(
        decision: &'a PermissionDecision,
        id: InvocationId,
        clock: Clock,
    ) -> Option<Self> {
        let PermissionDecision {
            schema_version,
            decision_id,
            invocation_id,
            behavior,
            mode,
            source,
            reason:
                Reason {
                    kind,
                    message,
                    extra: more,
                },
            rule_refs,
            policy_refs,
            updated_input,
            updated_input_ref,
            user_modified,
            suggested_updates,
            pending_classifier_check,
            blocked_path,
            content_blocks,
            accept_feedback,
            decided_at,
            expires_at,
            extra,
        } = decision;
        let sandbox = extra.get(SANDBOX_REF).and_then(Value::as_str);
        let is_plain = *schema_version == SchemaVersion::default()
            && *invocation_id == id
            && updated_input.is_none()
            && updated_input_ref.is_none()
            && pending_classifier_check.is_none()
            && !*user_modified
            && suggested_updates.is_empty()
            && blocked_path.is_none()
            && content_blocks.is_empty()
            && accept_feedback.is_none()
            && expires_at.is_none()
            && more.is_empty()
            && extra.len() == usize::from(sandbox.is_some());
        if !is_plain {
            return None;
        }
        Some(Self {
            id: Near::new(*decision_id, decision_id.bits(), id),
            at: clock.until(*decided_at)?,
            behavior: *behavior,
            mode: *mode,
            source: *source,
            kind: *kind,
            message: (message != near::ALLOWED).then_some(message),
            rules: rule_refs,
            policies: policy_refs,
            sandbox,
        })
    }
}

#[derive(Serialize)]
struct Persistence<'a> {
    id: Near<PersistenceId>,
    at: i64,
    strategy: Strategy,
    threshold: &'a Value,
    /// Of the whole output, and of what stayed in the result.
    bytes: (u64, u64),
    reason: &'a str,
}

impl<'a> Persistence<'a> {
    fn from_decision(
        decision: &'a ResultPersistence,
        id: InvocationId,
        of: ResultId,
        clock: Clock,
    ) -> Option<Self> {
        let ResultPersistence {
            schema_version,
            decision_id,
            invocation_id,
            result_id,
            strategy,
            threshold,
            original_size_bytes,
            preview_size_bytes,
            persisted_ref,
            redaction_state,
            reason,
            created_at,
            extra,
        } = decision;
        let is_plain = *schema_version == SchemaVersion::default()
            && *invocation_id == id
            && *result_id == of
            && persisted_ref.is_none()
            && redaction_state == "none"
            && extra.is_empty();
        if !is_plain {
            return None;
        }
        Some(Self {
            id: Near::new(*decision_id, decision_id.bits(), id),
            at: clock.until(*created_at)?,
            strategy: *strategy,
            threshold,
            bytes: (*original_size_bytes, *preview_size_bytes),
            reason,
        })
    }
}

#[derive(Serialize)]
struct Outcome<'a> {
    id: Near<ResultId>,
    at: i64,
    #[serde(skip_serializing_if = "<[Content]>::is_empty")]
    content: &'a [Content],
    #[serde(skip_serializing_if = "Option::is_none")]
    structured: Option<&'a Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    empty: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    shown: Option<&'a [Content]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ui: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<[u64; 16]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<FileUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<NetworkUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    artifacts: Option<ArtifactUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    touched: Option<&'a TouchList>,
}

impl<'a> Outcome<'a> {
    fn from_result(
        result: &'a ToolResult,
        invocation: &ToolInvocation,
        clock: Clock,
    ) -> Option<Self> {
        if !is_plain(result, invocation) {
            return None;
        }
        let content = result.content.as_slice();
        let shown = result.model_facing_content.as_slice();
        let is_usual = match (content, &result.structured_content, shown) {
            ([], Some(structured), [one]) => is_text_of(one, structured),
            ([], Some(_), _) => false,
            _ => are_same(content, shown),
        };
        let usage = result.usage.as_ref();
        Some(Self {
            id: Near::new(
                result.result_id,
                result.result_id.bits(),
                invocation.invocation_id,
            ),
            at: clock.until(result.created_at)?,
            content,
            structured: result.structured_content.as_ref(),
            empty: result.empty_result,
            shown: (!is_usual).then_some(shown),
            ui: result.ui_facing_summary.as_deref(),
            usage: usage.map(numbers),
            files: usage.and_then(|usage| usage.files),
            network: usage.and_then(|usage| usage.network),
            artifacts: usage.and_then(|usage| usage.artifacts),
            touched: usage.and_then(|usage| usage.touched.as_ref()),
        })
    }
}

/// `true` if the fields of a result that [`Outcome`] lacks follow from the rest of the record.
fn is_plain(result: &ToolResult, invocation: &ToolInvocation) -> bool {
    let ToolResult {
        schema_version,
        result_id: _,
        invocation_id,
        status,
        is_error,
        content: _,
        structured_content,
        empty_result: _,
        model_facing_content: _,
        ui_facing_summary: _,
        summary,
        resource_refs,
        artifact_refs,
        evidence_refs,
        policy_refs,
        telemetry_refs,
        // Those of the line.
        persistence_refs: _,
        redaction_state,
        abort_reason,
        error,
        provenance,
        input_mutations,
        additional_context,
        context_modifiers,
        usage: _,
        created_at: _,
        extra,
    } = result;
    *schema_version == SchemaVersion::default()
        && *invocation_id == invocation.invocation_id
        && *status == ResultStatus::Succeeded
        && !*is_error
        // A `null` would be read as absent.
        && *structured_content != Some(Value::Null)
        && summary.is_none()
        && resource_refs.is_empty()
        && artifact_refs.is_empty()
        && is_proven(evidence_refs, invocation)
        && *policy_refs == invocation.policy_refs
        && telemetry_refs.is_empty()
        && abort_reason.is_none()
        && redaction_state == "none"
        && error.is_none()
        && is_of_tool(provenance, invocation)
        && input_mutations.is_empty()
        && additional_context.is_empty()
        && context_modifiers.is_empty()
        && extra.is_empty()
}

/// `true` if the only reference is the call itself.
fn is_proven(evidence: &[String], invocation: &ToolInvocation) -> bool {
    matches!(evidence, [one] if *one == invocation.evidence_ref())
}

fn are_same(content: &[Content], shown: &[Content]) -> bool {
    let is_one = |(one, other): (&Content, &Content)| {
        let mut fields = one.fields.iter().zip(&other.fields);
        one.kind == other.kind
            && one.fields.len() == other.fields.len()
            && fields.all(|((name, one), (same, other))| name == same && is_same(one, other))
    };
    content.len() == shown.len() && content.iter().zip(shown).all(is_one)
}

/// `true` if the result is the component's, unchanged.
fn is_of_tool(provenance: &ResultProvenance, invocation: &ToolInvocation) -> bool {
    let ResultProvenance {
        trust: Trust::Untrusted,
        written_by,
        tool_id,
        component,
        hooks,
    } = provenance;
    *written_by == Writer::Tool
        && tool_id.as_deref() == Some(invocation.tool_id.as_str())
        && component.as_deref() == super::component(&invocation.runtime_refs)
        && hooks.is_empty()
}

fn numbers(usage: &Usage) -> [u64; 16] {
    let Usage {
        fuel,
        wall_ms,
        memory_bytes,
        table_elements,
        output_bytes,
        log_bytes,
        instances_limit,
        handles_limit,
        descriptors_limit,
        files: _,
        network: _,
        artifacts: _,
        touched: _,
        stack_bytes_limit,
    } = usage;
    [
        fuel.used,
        fuel.limit,
        wall_ms.used,
        wall_ms.limit,
        memory_bytes.used,
        memory_bytes.limit,
        table_elements.used,
        table_elements.limit,
        output_bytes.used,
        output_bytes.limit,
        log_bytes.used,
        log_bytes.limit,
        *instances_limit,
        *handles_limit,
        *descriptors_limit,
        *stack_bytes_limit,
    ]
}

/// `[id, time]` at its usual place; otherwise `[type, id, time]`, and the data if it is not the usual one.
struct Event<'a> {
    /// `None` if the type, the id and the data are the usual ones.
    named: Option<EventType>,
    id: Near<EventId>,
    at: i64,
    of: &'a ToolEvent,
    is_usual: bool,
}

impl<'a> Event<'a> {
    fn from_event(
        place: usize,
        event: &'a ToolEvent,
        id: InvocationId,
        clock: Clock,
        usual: Option<Usual<'_>>,
    ) -> Option<Self> {
        let ToolEvent {
            schema_version,
            event_id,
            event_type,
            // These are compared for all events of the line.
            source: _,
            subject: _,
            tool_id: _,
            time,
            invocation_id,
            data,
            trace_refs,
            extra,
        } = event;
        let is_plain = *schema_version == SchemaVersion::default()
            && *invocation_id == Some(id)
            && trace_refs.is_empty()
            && extra.is_empty();
        if !is_plain {
            return None;
        }
        let is_usual = usual.is_some_and(|usual| match data.said() {
            Some(said) if usual.is_said(said) => true,
            _ => is_written_as(data, &usual),
        });
        let id = Near::new(*event_id, event_id.bits(), id);
        let is_expected =
            is_usual && near::event_at(place) == Some(*event_type) && matches!(id, Near::After(_));
        let named = (!is_expected).then_some(*event_type);
        Some(Self {
            named,
            id,
            at: clock.until(*time)?,
            of: event,
            is_usual,
        })
    }
}

impl Serialize for Event<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut parts = serializer
            .serialize_tuple(4 - usize::from(self.is_usual) - usize::from(self.named.is_none()))?;
        if let Some(named) = self.named {
            parts.serialize_element(&named)?;
        }
        parts.serialize_element(&self.id)?;
        parts.serialize_element(&self.at)?;
        if !self.is_usual {
            parts.serialize_element(&self.of.data)?;
        }
        parts.end()
    }
}

/// `true` if `data` and `usual` have the same JSON. Allocates nothing.
fn is_written_as(data: &impl Serialize, usual: &Usual<'_>) -> bool {
    let mut room = [0_u8; USUAL_BYTES];
    let mut rest = room.as_mut_slice();
    if serde_json::to_writer(&mut rest, usual).is_err() {
        return false;
    }
    let written = USUAL_BYTES - rest.len();
    room.get(..written).is_some_and(|text| is_json(text, data))
}
