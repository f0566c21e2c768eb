use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::{Error, Value};

use crate::journal::log::{Start, StartRecord};
use crate::record::{
    ArtifactUsage, Behavior, CallRecord, Content, DecisionId, EventId, EventType, Extra, FileUsage,
    InvocationId, MeteredUsage, Mode, NetworkUsage, PermissionDecision, PersistenceId, Reason,
    ReasonType, ResultId, ResultMappings, ResultPersistence, ResultProvenance, ResultStatus,
    RuleSource, SANDBOX_REF, SchemaVersion, Status, Strategy, Timestamp, ToolEvent, ToolHook,
    ToolInvocation, ToolResult, TouchList, Trust, Usage, Writer,
};

use super::derived::{self, SchedulerFacts};
use super::near::{self, Near, Step};
use super::usual::Usual;
use super::{Clock, ENDED, STARTED, component};

/// Returns the JSON of a payload, which may be folded, as it is without folding. `id` is the ID of its line.
///
/// # Errors
///
/// The payload is damaged.
pub(in crate::journal::log) fn unfold(id: &str, payload: &str) -> serde_json::Result<Value> {
    if payload.starts_with(STARTED) {
        let RecordedStart {
            changes,
            process,
            invocation,
            decisions,
            hooks,
        } = begun(id, payload)?;
        let start = Start {
            invocation: &invocation,
            decisions: &decisions,
            hooks: &hooks,
            changes,
        };
        return serde_json::to_value(StartRecord::from_start(start, process));
    }
    if payload.starts_with(ENDED) {
        serde_json::to_value(record(id, payload)?.undeclared())
    } else {
        serde_json::from_str(payload)
    }
}

/// The start of a call in a line.
#[derive(Deserialize)]
pub(in crate::journal::log) struct RecordedStart {
    pub(in crate::journal::log) changes: bool,
    process: u32,
    pub(in crate::journal::log) invocation: ToolInvocation,
    #[serde(default)]
    pub(in crate::journal::log) decisions: Vec<PermissionDecision>,
    #[serde(default)]
    pub(in crate::journal::log) hooks: Vec<ToolHook>,
}

/// Reads the payload of a start, which may be folded. `id` is the ID of its line.
///
/// # Errors
///
/// The payload is damaged.
pub(in crate::journal::log) fn begun(id: &str, payload: &str) -> serde_json::Result<RecordedStart> {
    if !payload.starts_with(STARTED) {
        return serde_json::from_str(payload);
    }
    let StartLine {
        started,
        changes,
        process,
        extra,
        decisions,
    } = serde_json::from_str(payload)?;
    let id = call_id(id)?;
    let (invocation, decisions) = started.unfold_with(id, extra, decisions)?;
    Ok(RecordedStart {
        changes,
        process,
        invocation,
        decisions,
        hooks: Vec::new(),
    })
}

/// Reads the payload of an end, which is folded. `id` is the ID of its line.
///
/// # Errors
///
/// The payload is damaged.
pub(in crate::journal::log) fn record(id: &str, payload: &str) -> serde_json::Result<CallRecord> {
    let id = call_id(id)?;
    let EndLine {
        ended,
        extra,
        decisions,
        persistence,
        result,
        source,
        unnamed,
        events,
    } = serde_json::from_str(payload)?;
    let clock = Clock(ended.at);
    let (mut invocation, decisions) = ended.unfold_with(id, extra, decisions)?;
    invocation.evidence_refs = vec![invocation.evidence_ref()];
    let persistence: Vec<ResultPersistence> = persistence
        .into_iter()
        .map(|decision| decision.unfold(id, result.id.id(id, ResultId::of_bits), clock))
        .collect::<Result<_, _>>()?;
    let result = result.unfold(&invocation, &persistence, clock)?;
    let tool: Arc<str> = invocation.tool_id.as_str().into();
    let subject: Arc<str> = invocation.evidence_ref().into();
    let event = |(at, event): (usize, Event)| -> serde_json::Result<ToolEvent> {
        let event_type = event
            .named
            .or_else(|| near::event_at(at))
            .ok_or_else(|| damaged("an event lacks its type"))?;
        let data = match event.data {
            Some(data) => data,
            None => {
                let usual = Usual::for_event(event_type, &invocation, &decisions, &result);
                serde_json::to_value(usual.ok_or_else(|| damaged("an event lacks its data"))?)?
            }
        };
        Ok(ToolEvent {
            schema_version: SchemaVersion::default(),
            event_id: event.id.id(id, EventId::of_bits),
            event_type,
            source: Arc::clone(&source),
            subject: Some(Arc::clone(&subject)),
            time: time(clock, event.at)?,
            invocation_id: Some(id),
            tool_id: (at >= unnamed).then(|| Arc::clone(&tool)),
            data: Deserialize::deserialize(data)?,
            trace_refs: Vec::new(),
            extra: Extra::new(),
        })
    };
    let events: Vec<ToolEvent> = events
        .into_iter()
        .enumerate()
        .map(event)
        .collect::<Result<_, _>>()?;
    Ok(CallRecord {
        declaration: None,
        invocation,
        decisions,
        hooks: Vec::new(),
        progress: Vec::new(),
        result_mappings: ResultMappings {
            tool: 1,
            hooks: Vec::new(),
        },
        persistence,
        result,
        events,
    })
}

/// The parts of a folded payload that can be searched for.
pub(in crate::journal::log) struct Gist {
    pub(in crate::journal::log) tool_id: String,
    pub(in crate::journal::log) status: Status,
    pub(in crate::journal::log) actor_ref: Option<String>,
    pub(in crate::journal::log) session_ref: Option<String>,
    pub(in crate::journal::log) created_at: Timestamp,
    pub(in crate::journal::log) ended_at: Option<Timestamp>,
    pub(in crate::journal::log) events: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
struct GistLine {
    #[serde(alias = "ended")]
    started: GistCall,
    #[serde(default)]
    events: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
struct GistCall {
    tool: String,
    at: u64,
    steps: Vec<Step>,
    actor: Option<String>,
    session: Option<String>,
}

impl Gist {
    /// Reads the payload of a folded line, without the rest of it: an index reads many.
    ///
    /// # Errors
    ///
    /// The payload is damaged.
    pub(in crate::journal::log) fn read(payload: &str) -> serde_json::Result<Self> {
        let GistLine { started, events } = serde_json::from_str(payload)?;
        let GistCall {
            tool,
            at,
            steps,
            actor,
            session,
        } = started;
        let clock = Clock(at);
        let steps = unfolded(steps)?;
        let ended = steps.iter().rfind(|(status, _)| status.is_terminal());
        Ok(Self {
            tool_id: tool,
            status: steps.last().map_or(Status::Planned, |(status, _)| *status),
            actor_ref: actor,
            session_ref: session,
            created_at: Timestamp::of_unix_nanos(at),
            ended_at: ended.map(|(_, at)| time(clock, *at)).transpose()?,
            events,
        })
    }
}

/// Statuses, with their times.
fn unfolded(steps: Vec<Step>) -> serde_json::Result<Vec<(Status, i64)>> {
    let step = |(place, step): (usize, Step)| {
        step.at(place)
            .ok_or_else(|| damaged("a step lacks its status"))
    };
    steps.into_iter().enumerate().map(step).collect()
}

fn damaged(what: &'static str) -> Error {
    Error::custom(format_args!("the line is damaged: {what}"))
}

fn call_id(id: &str) -> serde_json::Result<InvocationId> {
    id.parse()
        .map_err(|_| damaged("its ID is not the ID of a call"))
}

fn time(clock: Clock, nanos: i64) -> serde_json::Result<Timestamp> {
    clock
        .at(nanos)
        .ok_or_else(|| damaged("a time is out of range"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StartLine {
    started: Call,
    #[serde(default)]
    changes: bool,
    process: u32,
    #[serde(default)]
    extra: Extra,
    #[serde(default)]
    decisions: Vec<Decision>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndLine {
    ended: Call,
    #[serde(default)]
    extra: Extra,
    decisions: Vec<Decision>,
    persistence: Vec<Persistence>,
    result: Outcome,
    source: Arc<str>,
    unnamed: usize,
    events: Vec<Event>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    tool: String,
    at: u64,
    steps: Vec<Step>,
    input: Arc<Value>,
    #[serde(rename = "ref")]
    reference: Arc<str>,
    text: Option<String>,
    changed: Option<Arc<Value>>,
    changed_ref: Option<Arc<str>>,
    observed: Option<Arc<Value>>,
    observed_ref: Option<Arc<str>>,
    surface: Option<Arc<str>>,
    native: Option<String>,
    actor: Option<String>,
    session: Option<Arc<str>>,
    #[serde(default)]
    ran: Vec<String>,
    policies: Option<Vec<String>>,
    #[serde(default)]
    decided: Vec<Near<DecisionId>>,
    scheduled: Option<SchedulerFacts>,
}

impl Call {
    /// The invocation, and the decisions of its line.
    fn unfold_with(
        self,
        id: InvocationId,
        extra: Extra,
        decisions: Vec<Decision>,
    ) -> serde_json::Result<(ToolInvocation, Vec<PermissionDecision>)> {
        let clock = Clock(self.at);
        let decisions: Vec<PermissionDecision> = decisions
            .into_iter()
            .map(|decision| decision.unfold(id, clock))
            .collect::<Result<_, _>>()?;
        let mut invocation = self.unfold(id, clock, extra, &decisions)?;
        if !decisions.is_empty() {
            invocation.permission_decision_refs = decisions
                .iter()
                .map(|decision| decision.decision_id)
                .collect();
        }
        Ok((invocation, decisions))
    }

    fn unfold(
        self,
        id: InvocationId,
        clock: Clock,
        extra: Extra,
        decisions: &[PermissionDecision],
    ) -> serde_json::Result<ToolInvocation> {
        let steps = unfolded(self.steps)?
            .into_iter()
            .map(|(status, at)| Ok((status, time(clock, at)?)));
        let steps = steps.collect::<serde_json::Result<Vec<_>>>()?;
        let (input, reference) = match (self.changed, self.changed_ref) {
            (None, None) => (Arc::clone(&self.input), Arc::clone(&self.reference)),
            (Some(input), Some(reference)) => (input, reference),
            _ => return Err(damaged("an input and its reference belong together")),
        };
        let (observed, observed_ref) = match (self.observed, self.observed_ref) {
            (None, None) => (Arc::clone(&input), Arc::clone(&reference)),
            (Some(observed), Some(reference)) => (observed, reference),
            _ => return Err(damaged("an input and its reference belong together")),
        };
        let mut invocation =
            ToolInvocation::with_history(id, Timestamp::of_unix_nanos(self.at), steps);
        invocation.tool_id = self.tool;
        invocation.surface_id = self.surface;
        invocation.native_call_id = self.native;
        invocation.model_input = self.input;
        invocation.model_input_ref = self.reference;
        invocation.model_input_text = self.text;
        invocation.observable_input = Some(observed);
        invocation.observable_input_ref = Some(observed_ref);
        invocation.permission_input = Some(Arc::clone(&input));
        invocation.permission_input_ref = Some(Arc::clone(&reference));
        invocation.call_input = Some(input);
        invocation.call_input_ref = Some(reference);
        invocation.actor_ref = self.actor;
        invocation.session_ref = self.session;
        invocation.runtime_refs = self.ran;
        derived::write_out(&mut invocation);
        let policies = || {
            derived::policies(decisions)
                .into_iter()
                .map(str::to_owned)
                .collect()
        };
        invocation.policy_refs = self.policies.unwrap_or_else(policies);
        invocation.permission_decision_refs = self
            .decided
            .into_iter()
            .map(|decided| decided.id(id, DecisionId::of_bits))
            .collect();
        invocation.extra = match self.scheduled {
            Some(scheduled) => scheduled.beside(extra),
            None => extra,
        };
        Ok(invocation)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Decision {
    id: Near<DecisionId>,
    at: i64,
    behavior: Behavior,
    #[serde(default)]
    mode: Mode,
    source: Option<RuleSource>,
    #[serde(rename = "type")]
    kind: ReasonType,
    message: Option<String>,
    #[serde(default)]
    rules: Vec<String>,
    #[serde(default)]
    policies: Vec<String>,
    sandbox: Option<String>,
}

impl Decision {
    fn unfold(self, id: InvocationId, clock: Clock) -> serde_json::Result<PermissionDecision> {
        Ok(PermissionDecision {
            schema_version: SchemaVersion::default(),
            decision_id: self.id.id(id, DecisionId::of_bits),
            invocation_id: id,
            behavior: self.behavior,
            mode: self.mode,
            source: self.source,
            reason: Reason {
                kind: self.kind,
                message: self.message.unwrap_or_else(|| near::ALLOWED.to_owned()),
                extra: Extra::new(),
            },
            rule_refs: self.rules,
            policy_refs: self.policies,
            updated_input: None,
            updated_input_ref: None,
            user_modified: false,
            suggested_updates: Vec::new(),
            pending_classifier_check: None,
            blocked_path: None,
            content_blocks: Vec::new(),
            accept_feedback: None,
            decided_at: time(clock, self.at)?,
            expires_at: None,
            extra: self
                .sandbox
                .into_iter()
                .map(|sandbox| (SANDBOX_REF.to_owned(), Value::String(sandbox)))
                .collect(),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Persistence {
    id: Near<PersistenceId>,
    at: i64,
    strategy: Strategy,
    threshold: Value,
    bytes: (u64, u64),
    reason: String,
}

impl Persistence {
    fn unfold(
        self,
        id: InvocationId,
        of: ResultId,
        clock: Clock,
    ) -> serde_json::Result<ResultPersistence> {
        let (original_size_bytes, preview_size_bytes) = self.bytes;
        Ok(ResultPersistence {
            schema_version: SchemaVersion::default(),
            decision_id: self.id.id(id, PersistenceId::of_bits),
            invocation_id: id,
            result_id: of,
            strategy: self.strategy,
            threshold: self.threshold,
            original_size_bytes,
            preview_size_bytes,
            persisted_ref: None,
            redaction_state: "none".to_owned(),
            reason: self.reason,
            created_at: time(clock, self.at)?,
            extra: Extra::new(),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Outcome {
    id: Near<ResultId>,
    at: i64,
    #[serde(default)]
    content: Vec<Content>,
    structured: Option<Value>,
    #[serde(default)]
    empty: bool,
    shown: Option<Vec<Content>>,
    ui: Option<String>,
    usage: Option<[u64; 16]>,
    files: Option<FileUsage>,
    network: Option<NetworkUsage>,
    artifacts: Option<ArtifactUsage>,
    touched: Option<TouchList>,
}

impl Outcome {
    fn unfold(
        self,
        invocation: &ToolInvocation,
        persistence: &[ResultPersistence],
        clock: Clock,
    ) -> serde_json::Result<ToolResult> {
        let model_facing_content = match (self.shown, self.content.as_slice(), &self.structured) {
            (Some(shown), ..) => shown,
            (None, [], Some(structured)) => vec![Content::text(structured.to_string())],
            (None, content, _) => content.to_vec(),
        };
        let files = self.files;
        let network = self.network;
        let artifacts = self.artifacts;
        let touched = self.touched;
        Ok(ToolResult {
            schema_version: SchemaVersion::default(),
            result_id: self.id.id(invocation.invocation_id, ResultId::of_bits),
            invocation_id: invocation.invocation_id,
            status: ResultStatus::Succeeded,
            is_error: false,
            content: self.content,
            structured_content: self.structured,
            empty_result: self.empty,
            model_facing_content,
            ui_facing_summary: self.ui,
            summary: None,
            resource_refs: Vec::new(),
            artifact_refs: Vec::new(),
            evidence_refs: invocation.evidence_refs.clone(),
            policy_refs: invocation.policy_refs.clone(),
            telemetry_refs: Vec::new(),
            persistence_refs: persistence
                .iter()
                .map(|decision| decision.decision_id)
                .collect(),
            redaction_state: "none".to_owned(),
            abort_reason: None,
            error: None,
            provenance: ResultProvenance {
                trust: Trust::Untrusted,
                written_by: Writer::Tool,
                tool_id: Some(invocation.tool_id.clone()),
                component: component(&invocation.runtime_refs).map(str::to_owned),
                hooks: Vec::new(),
            },
            input_mutations: Vec::new(),
            additional_context: Vec::new(),
            context_modifiers: Vec::new(),
            usage: self.usage.map(|numbers| Usage {
                files,
                network,
                artifacts,
                touched,
                ..usage(numbers)
            }),
            created_at: time(clock, self.at)?,
            extra: Extra::new(),
        })
    }
}

fn usage(numbers: [u64; 16]) -> Usage {
    let [
        fuel,
        fuel_max,
        wall,
        wall_max,
        memory,
        memory_max,
        table,
        table_max,
        rest @ ..,
    ] = numbers;
    let [
        output,
        output_max,
        log,
        log_max,
        instances_limit,
        handles_limit,
        descriptors_limit,
        stack_bytes_limit,
    ] = rest;
    Usage {
        fuel: MeteredUsage {
            used: fuel,
            limit: fuel_max,
        },
        wall_ms: MeteredUsage {
            used: wall,
            limit: wall_max,
        },
        memory_bytes: MeteredUsage {
            used: memory,
            limit: memory_max,
        },
        table_elements: MeteredUsage {
            used: table,
            limit: table_max,
        },
        output_bytes: MeteredUsage {
            used: output,
            limit: output_max,
        },
        log_bytes: MeteredUsage {
            used: log,
            limit: log_max,
        },
        instances_limit,
        handles_limit,
        descriptors_limit,
        files: None,
        network: None,
        artifacts: None,
        touched: None,
        stack_bytes_limit,
    }
}

/// `[id, time]`, `[type, id, time]` or `[type, id, time, data]`.
struct Event {
    named: Option<EventType>,
    id: Near<EventId>,
    at: i64,
    data: Option<Value>,
}

/// The first element of an event.
#[derive(Deserialize)]
#[serde(untagged)]
enum First {
    After(u32),
    Named(EventType),
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(EventVisitor)
    }
}

struct EventVisitor;

impl<'de> Visitor<'de> for EventVisitor {
    type Value = Event;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event of two to four parts")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Event, A::Error> {
        let lacks = |count| A::Error::invalid_length(count, &self);
        let named = match parts.next_element()?.ok_or_else(|| lacks(0))? {
            First::After(distance) => {
                let at = parts.next_element()?.ok_or_else(|| lacks(1))?;
                return Ok(Event {
                    named: None,
                    id: Near::After(distance),
                    at,
                    data: None,
                });
            }
            First::Named(named) => named,
        };
        Ok(Event {
            named: Some(named),
            id: parts.next_element()?.ok_or_else(|| lacks(1))?,
            at: parts.next_element()?.ok_or_else(|| lacks(2))?,
            data: parts.next_element()?,
        })
    }
}
