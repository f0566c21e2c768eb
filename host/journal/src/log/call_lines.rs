//! The JSON of lines about calls. A line says what the lines of the call before it, in the same segment, do not say: the end
//! of a call has no arguments, and none of the decisions, hook runs and events that its start and its notes have.

use std::io;
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use toolcell_spec::{
    CallRecord, EventData, EventId, EventType, Extra, InvocationId, PermissionDecision,
    ResultMappings, ResultPersistence, SchemaVersion, Status, Timestamp, ToolEvent, ToolHook,
    ToolInvocation, ToolProgress, ToolResult, evidence_ref,
};

use super::Start;

/// The arguments of a call: those of its caller, and those that the host made of them.
const INPUTS: [&str; 5] = [
    "model_input",
    "observable_input",
    "permission_input",
    "call_input",
    "model_input_text",
];
/// The field that lists the arguments that equal `model_input`.
const SAME: &str = "inputs_same";
/// The field of an end that says how much the lines before it have.
const AFTER: &str = "after";

/// How many entries of each list of a record are in earlier lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EarlierParts {
    decisions: usize,
    hooks: usize,
    events: usize,
}

/// The parts of a call that its lines have, while it runs.
#[derive(Debug)]
pub(super) struct StartedCall {
    inputs: [Option<Arc<Value>>; 4],
    decisions: Vec<PermissionDecision>,
    hooks: Vec<ToolHook>,
    /// How many events its lines have, from the first one on.
    events: usize,
}

impl StartedCall {
    pub(super) fn new(start: Start<'_>) -> Self {
        Self {
            inputs: inputs(start.invocation),
            decisions: start.decisions.to_vec(),
            hooks: start.hooks.to_vec(),
            events: start.events.len(),
        }
    }

    /// Adds the events of a note, the first of which has this place among the events of the call.
    pub(super) fn add_events(&mut self, first: usize, events: usize) {
        if first == self.events {
            self.events += events;
        }
    }

    /// The parts of `record` that need not be written again; `None` if its arguments are others.
    fn parts(&self, record: &CallRecord) -> Option<EarlierParts> {
        let is_same = self.inputs == inputs(&record.invocation)
            && self.events <= record.events.len()
            && !record.invocation.keeps_no_input;
        is_same.then(|| EarlierParts {
            decisions: common(&self.decisions, &record.decisions),
            hooks: common(&self.hooks, &record.hooks),
            events: self.events,
        })
    }
}

fn inputs(invocation: &ToolInvocation) -> [Option<Arc<Value>>; 4] {
    [
        Some(Arc::clone(&invocation.model_input)),
        invocation.observable_input.clone(),
        invocation.permission_input.clone(),
        invocation.call_input.clone(),
    ]
}

/// Length of the common beginning.
fn common<T: PartialEq>(one: &[T], other: &[T]) -> usize {
    one.iter()
        .zip(other)
        .take_while(|(one, other)| one == other)
        .count()
}

fn rest<T>(all: &[T], from: usize) -> &[T] {
    all.get(from..).unwrap_or_default()
}

/// The payload of a start.
#[derive(Serialize)]
pub(super) struct StartPayload<'a> {
    changes: bool,
    process: u32,
    invocation: ToolInvocation,
    #[serde(skip_serializing_if = "<[PermissionDecision]>::is_empty")]
    decisions: &'a [PermissionDecision],
    #[serde(skip_serializing_if = "<[ToolHook]>::is_empty")]
    hooks: &'a [ToolHook],
    events: EventList<'a>,
}

impl<'a> StartPayload<'a> {
    pub(super) fn new(start: Start<'a>, process: u32) -> Self {
        Self {
            changes: start.changes,
            process,
            invocation: with_inputs_once(&start.invocation.for_disk()),
            decisions: start.decisions,
            hooks: start.hooks,
            events: EventList::new(Some(start.invocation.invocation_id), start.events),
        }
    }
}

/// The payload of an end.
#[derive(Serialize)]
pub(super) struct EndPayload<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<EarlierParts>,
    invocation: ToolInvocation,
    decisions: &'a [PermissionDecision],
    hooks: &'a [ToolHook],
    progress: &'a [ToolProgress],
    result_mappings: &'a ResultMappings,
    persistence: &'a [ResultPersistence],
    result: &'a ToolResult,
    events: EventList<'a>,
}

impl<'a> EndPayload<'a> {
    /// All of `record` but the declaration, which `describe` of the component repeats, and but what the line of the `start`
    /// has, if that is in the same segment.
    pub(super) fn new(record: &'a CallRecord, start: Option<&StartedCall>) -> Self {
        let after = start.and_then(|start| start.parts(record));
        let parts = after.unwrap_or_default();
        // No `..`, so that a new field cannot be left out.
        let CallRecord {
            declaration: _,
            invocation,
            decisions,
            hooks,
            progress,
            result_mappings,
            persistence,
            result,
            events,
        } = record;
        let id = invocation.invocation_id;
        let invocation = if after.is_some() {
            without_inputs(invocation)
        } else {
            with_inputs_once(invocation)
        };
        Self {
            after,
            invocation,
            decisions: rest(decisions, parts.decisions),
            hooks: rest(hooks, parts.hooks),
            progress,
            result_mappings,
            persistence,
            result,
            events: EventList::new(Some(id), rest(events, parts.events)),
        }
    }
}

/// A copy without the arguments that equal `model_input`, which it names.
fn with_inputs_once(invocation: &ToolInvocation) -> ToolInvocation {
    let mut once = invocation.clone();
    let mut same = Vec::new();
    for (name, input) in [
        ("observable_input", &mut once.observable_input),
        ("permission_input", &mut once.permission_input),
        ("call_input", &mut once.call_input),
    ] {
        if input.as_ref() == Some(&once.model_input) {
            *input = None;
            same.push(Value::from(name));
        }
    }
    if !same.is_empty() {
        once.extra.insert(SAME.to_owned(), Value::Array(same));
    }
    once
}

fn without_inputs(invocation: &ToolInvocation) -> ToolInvocation {
    let mut without = invocation.clone();
    without.model_input = Arc::default();
    without.model_input_text = None;
    without.observable_input = None;
    without.permission_input = None;
    without.call_input = None;
    without
}

/// The payload of a note.
#[derive(Serialize)]
pub(super) struct NotePayload<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<&'a str>,
    /// The place of the first event among the events of the call.
    pub(super) first: usize,
    pub(super) events: EventList<'a>,
}

/// Events of a line; those of a call without what all of them say.
pub(super) struct EventList<'a> {
    call: Option<(InvocationId, String)>,
    events: &'a [ToolEvent],
}

impl<'a> EventList<'a> {
    pub(super) fn new(call: Option<InvocationId>, events: &'a [ToolEvent]) -> Self {
        Self {
            call: call.map(|id| (id, evidence_ref(id))),
            events,
        }
    }
}

impl Serialize for EventList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.events.iter().map(|event| {
            let is_usual = self.call.as_ref().is_some_and(|(id, subject)| {
                event.invocation_id == Some(*id)
                    && event.subject.as_deref() == Some(subject)
                    && event.schema_version == SchemaVersion::default()
            });
            if is_usual {
                WrittenEvent::Brief(
                    event.event_id,
                    event.event_type,
                    event.time,
                    &event.source,
                    event.tool_id.as_deref(),
                    &event.data,
                    &event.trace_refs,
                    &event.extra,
                )
            } else {
                WrittenEvent::Full(event)
            }
        }))
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum WrittenEvent<'a> {
    Brief(
        EventId,
        EventType,
        Timestamp,
        &'a str,
        Option<&'a str>,
        &'a EventData,
        &'a [Value],
        &'a Extra,
    ),
    Full(&'a ToolEvent),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ReadEvent {
    Brief(
        EventId,
        EventType,
        Timestamp,
        Arc<str>,
        Option<Arc<str>>,
        EventData,
        Vec<Value>,
        Extra,
    ),
    Full(ToolEvent),
}

/// The events of a line.
pub(super) struct LineEvents {
    pub(super) session: Option<String>,
    /// The place of the first event among the events of its call.
    pub(super) first: usize,
    pub(super) events: Vec<ToolEvent>,
}

impl LineEvents {
    /// Reads the payload of a line about the call `id`.
    pub(super) fn read(id: &str, payload: &str) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Payload {
            session: Option<String>,
            invocation: Option<Invocation>,
            #[serde(default)]
            first: usize,
            after: Option<EarlierParts>,
            #[serde(default)]
            events: Vec<ReadEvent>,
        }
        #[derive(Deserialize)]
        struct Invocation {
            session_ref: Option<String>,
        }
        let read: Payload = serde_json::from_str(payload)?;
        let id: Option<InvocationId> = id.parse().ok();
        let subject: Option<Arc<str>> = id.map(|id| evidence_ref(id).into());
        let event = |event| match event {
            ReadEvent::Full(event) => event,
            ReadEvent::Brief(
                event_id,
                event_type,
                time,
                source,
                tool_id,
                data,
                trace_refs,
                extra,
            ) => ToolEvent {
                schema_version: SchemaVersion::default(),
                event_id,
                event_type,
                source,
                subject: subject.clone(),
                time,
                invocation_id: id,
                tool_id,
                data,
                trace_refs,
                extra,
            },
        };
        Ok(Self {
            session: read
                .session
                .or_else(|| read.invocation.and_then(|call| call.session_ref)),
            first: read.after.map_or(read.first, |after| after.events),
            events: read.events.into_iter().map(event).collect(),
        })
    }

    /// Adds the events that come next to `all`; `false` if some before them are missing.
    fn add_to(self, all: &mut Vec<ToolEvent>) -> bool {
        let Some(known) = all.len().checked_sub(self.first) else {
            return false;
        };
        all.extend(self.events.into_iter().skip(known));
        true
    }
}

/// The first events of the call `id` without a gap, from lines in their order.
pub(super) fn events<'a>(
    id: &str,
    payloads: impl IntoIterator<Item = &'a String>,
) -> Vec<ToolEvent> {
    let mut events = Vec::new();
    for payload in payloads {
        let is_next = LineEvents::read(id, payload).is_ok_and(|line| line.add_to(&mut events));
        if !is_next {
            break;
        }
    }
    events
}

/// The parts of a payload that can be searched for.
#[derive(Deserialize)]
pub(super) struct Brief {
    pub(super) invocation: BriefInvocation,
    pub(super) result: Option<BriefResult>,
    after: Option<EarlierParts>,
    #[serde(default)]
    events: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
pub(super) struct BriefInvocation {
    pub(super) tool_id: String,
    pub(super) status: Status,
    pub(super) actor_ref: Option<String>,
    pub(super) session_ref: Option<String>,
    pub(super) created_at: Timestamp,
    pub(super) ended_at: Option<Timestamp>,
}

#[derive(Deserialize)]
pub(super) struct BriefResult {
    pub(super) error: Option<BriefError>,
}

#[derive(Deserialize)]
pub(super) struct BriefError {
    pub(super) error_class: String,
    pub(super) error_code: String,
}

impl Brief {
    /// The place of the first event among those of the call, and how many there are.
    pub(super) fn events(&self) -> (u64, u64) {
        let first = self.after.map_or(0, |after| after.events as u64);
        (first, self.events.len() as u64)
    }
}

/// The start of a call in a line.
#[derive(Deserialize)]
pub(super) struct RecordedStart {
    pub(super) changes: bool,
    pub(super) invocation: ToolInvocation,
    #[serde(default)]
    pub(super) decisions: Vec<PermissionDecision>,
    #[serde(default)]
    pub(super) hooks: Vec<ToolHook>,
}

impl RecordedStart {
    pub(super) fn read(payload: &str) -> serde_json::Result<Self> {
        let mut start: Value = serde_json::from_str(payload)?;
        restore_inputs(&mut start);
        // They have a form of their own.
        start
            .as_object_mut()
            .map(|start| start.shift_remove("events"));
        serde_json::from_value(start)
    }
}

/// The lines of a call before another one, in the same segment.
#[derive(Default)]
pub(super) struct EarlierLines {
    /// The payload of its start.
    pub(super) start: Option<String>,
    /// The payloads of its notes, in order.
    pub(super) notes: Vec<String>,
}

impl EarlierLines {
    /// Returns the record of the call `id` in a line with `payload`, after these lines.
    ///
    /// # Errors
    ///
    /// A line is damaged or missing.
    pub(super) fn record(&self, id: &str, payload: &str) -> io::Result<Value> {
        let mut record: Value = serde_json::from_str(payload)?;
        restore_inputs(&mut record);
        let own = payload.to_owned();
        let is_start = record.get("result").is_none();
        let after = record
            .as_object_mut()
            .and_then(|record| record.shift_remove(AFTER));
        let events = if let Some(after) = after {
            let missing = || io::Error::from(io::ErrorKind::InvalidData);
            let start = self.start.as_ref().ok_or_else(missing)?;
            let after = serde_json::from_value(after)?;
            add_start(&mut record, serde_json::from_str(start)?, after).ok_or_else(missing)?;
            events(id, [start].into_iter().chain(&self.notes).chain([&own]))
        } else if is_start {
            let before = self.start.iter().chain([&own]);
            events(id, before.chain(&self.notes))
        } else {
            events(id, [&own])
        };
        if let Some(record) = record.as_object_mut() {
            record.insert("events".to_owned(), serde_json::to_value(events)?);
        }
        Ok(record)
    }
}

/// `true` if the payload of an end needs no other line.
pub(super) fn is_whole(payload: &str) -> bool {
    // The first field, if it is there.
    !payload.starts_with("{\"after\":")
}

fn invocation(line: &mut Value) -> Option<&mut Map<String, Value>> {
    line.get_mut("invocation")?.as_object_mut()
}

/// Puts the arguments back that equal `model_input`.
fn restore_inputs(line: &mut Value) {
    let Some(invocation) = invocation(line) else {
        return;
    };
    let Some(Value::Array(same)) = invocation.shift_remove(SAME) else {
        return;
    };
    let first = invocation.get("model_input").cloned().unwrap_or_default();
    for name in same.iter().filter_map(Value::as_str) {
        invocation.insert(name.to_owned(), first.clone());
    }
}

/// Adds what the `start` of its call has to the record of an end.
fn add_start(record: &mut Value, mut start: Value, after: EarlierParts) -> Option<()> {
    restore_inputs(&mut start);
    let from = invocation(&mut start)?;
    let to = invocation(record)?;
    for name in INPUTS {
        if let Some(input) = from.shift_remove(name) {
            to.insert(name.to_owned(), input);
        }
    }
    for (name, count) in [("decisions", after.decisions), ("hooks", after.hooks)] {
        let list = record.get_mut(name)?.as_array_mut()?;
        let started = start.get(name).and_then(Value::as_array);
        let first = started.into_iter().flatten().take(count).cloned();
        list.splice(..0, first.collect::<Vec<_>>());
    }
    Some(())
}
