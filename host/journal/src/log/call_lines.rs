//! JSON of lines about calls. A line omits what earlier lines of its call in the same segment say.

use std::sync::Arc;
use std::{io, iter};

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Start;
use toolcell_spec::{
    CallRecord, InvocationId, PermissionDecision, ResultMappings, ResultPersistence, Status,
    Timestamp, ToolEvent, ToolHook, ToolInvocation, ToolProgress, ToolResult, evidence_ref,
};

const INPUTS: [&str; 5] = [
    "model_input",
    "observable_input",
    "permission_input",
    "call_input",
    "model_input_text",
];
/// Lists arguments that equal `model_input`, and likewise references.
const SAME: &str = "inputs_same";
/// Counts an end's entries in earlier lines.
const AFTER: &str = "after";

impl Start {
    pub(super) fn hide_input(&mut self) {
        self.decisions
            .iter_mut()
            .for_each(PermissionDecision::hide_input);
        self.hooks.iter_mut().for_each(ToolHook::hide_input);
        self.events.iter_mut().for_each(ToolEvent::hide_input);
    }

    pub(super) fn into_payload(self) -> Self {
        Self {
            events: brief(Some(self.invocation.invocation_id), &self.events),
            invocation: with_inputs_once(self.invocation.for_disk().into_owned()),
            ..self
        }
    }

    /// Events lack what follows from the call's id.
    pub(super) fn read(payload: &str) -> serde_json::Result<Self> {
        let mut start: Value = serde_json::from_str(payload)?;
        restore_inputs(&mut start);
        serde_json::from_value(start)
    }
}

/// Counts entries of a record's lists in earlier lines, with the arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EarlierParts {
    decisions: usize,
    hooks: usize,
    events: usize,
}

#[derive(Debug)]
pub(super) struct StartedCall {
    inputs: [Option<Arc<Value>>; 4],
    decisions: Vec<PermissionDecision>,
    hooks: Vec<ToolHook>,
    pub(super) events: usize,
}

impl StartedCall {
    pub(super) fn new(start: &Start) -> Self {
        Self {
            inputs: inputs(&start.invocation),
            decisions: start.decisions.clone(),
            hooks: start.hooks.clone(),
            events: start.events.len(),
        }
    }

    /// `first` is the place of the first among the call's.
    pub(super) fn add_events(&mut self, first: usize, events: usize) {
        if first == self.events {
            self.events += events;
        }
    }

    /// Parts that need not be repeated; `None` if the arguments are others.
    pub(super) fn parts(&self, record: &CallRecord) -> Option<EarlierParts> {
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

fn common<T: PartialEq>(one: &[T], other: &[T]) -> usize {
    let pairs = one.iter().zip(other);
    pairs.take_while(|(one, other)| one == other).count()
}

fn inputs(invocation: &ToolInvocation) -> [Option<Arc<Value>>; 4] {
    [
        Some(Arc::clone(&invocation.model_input)),
        invocation.observable_input.clone(),
        invocation.permission_input.clone(),
        invocation.call_input.clone(),
    ]
}

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
    events: Vec<ToolEvent>,
}

impl<'a> EndPayload<'a> {
    /// Omits the declaration, which the component repeats, and what earlier lines in the same segment have.
    pub(super) fn new(record: &'a CallRecord, after: Option<EarlierParts>) -> Self {
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
        let id = Some(invocation.invocation_id);
        let earlier = after.unwrap_or_default();
        let mut invocation = invocation.clone();
        if after.is_some() {
            invocation.model_input = Arc::default();
            invocation.model_input_text = None;
            invocation.observable_input = None;
            invocation.permission_input = None;
            invocation.call_input = None;
        }
        Self {
            after,
            invocation: with_inputs_once(invocation),
            decisions: rest(decisions, earlier.decisions),
            hooks: rest(hooks, earlier.hooks),
            progress,
            result_mappings,
            persistence,
            result,
            events: brief(id, rest(events, earlier.events)),
        }
    }
}

fn rest<T>(all: &[T], from: usize) -> &[T] {
    all.get(from..).unwrap_or_default()
}

/// Omits, but names, arguments and references that equal the caller's.
fn with_inputs_once(mut invocation: ToolInvocation) -> ToolInvocation {
    let model_input = Some(Arc::clone(&invocation.model_input));
    let model_input_ref = Some(Arc::clone(&invocation.model_input_ref));
    let mut same = Vec::new();
    for (name, input) in [
        ("observable_input", &mut invocation.observable_input),
        ("permission_input", &mut invocation.permission_input),
        ("call_input", &mut invocation.call_input),
    ] {
        if *input == model_input {
            *input = None;
            same.push(Value::from(name));
        }
    }
    for (name, reference) in [
        ("observable_input_ref", &mut invocation.observable_input_ref),
        ("permission_input_ref", &mut invocation.permission_input_ref),
        ("call_input_ref", &mut invocation.call_input_ref),
    ] {
        if *reference == model_input_ref {
            *reference = None;
            same.push(Value::from(name));
        }
    }
    if !same.is_empty() {
        invocation.extra.insert(SAME.to_owned(), Value::Array(same));
    }
    invocation
}

#[derive(Serialize)]
pub(super) struct NotePayload<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<&'a str>,
    /// Place among the call's events.
    pub(super) first: usize,
    pub(super) events: Vec<ToolEvent>,
}

/// Without what follows from the id of the call.
pub(super) fn brief(call: Option<InvocationId>, events: &[ToolEvent]) -> Vec<ToolEvent> {
    let subject = call.map(evidence_ref);
    let brief = |event: &ToolEvent| {
        let mut brief = event.clone();
        if event.invocation_id == call && event.subject.as_deref() == subject.as_deref() {
            (brief.invocation_id, brief.subject) = (None, None);
        }
        brief
    };
    events.iter().map(brief).collect()
}

pub(super) struct LineEvents {
    pub(super) session: Option<String>,
    /// Place among the call's events.
    pub(super) first: usize,
    pub(super) events: Vec<ToolEvent>,
}

impl LineEvents {
    pub(super) fn read(id: &str, payload: &str) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Payload {
            session: Option<String>,
            invocation: Option<Invocation>,
            #[serde(default)]
            first: usize,
            after: Option<EarlierParts>,
            #[serde(default)]
            events: Vec<ToolEvent>,
        }
        #[derive(Deserialize)]
        struct Invocation {
            session_ref: Option<String>,
        }
        let mut read: Payload = serde_json::from_str(payload)?;
        if let Ok(id) = id.parse::<InvocationId>() {
            let subject: Arc<str> = evidence_ref(id).into();
            for event in &mut read.events {
                if event.invocation_id.is_none() {
                    event.invocation_id = Some(id);
                    event.subject = Some(Arc::clone(&subject));
                }
            }
        }
        Ok(Self {
            session: read
                .session
                .or_else(|| read.invocation.and_then(|call| call.session_ref)),
            first: read.after.map_or(read.first, |after| after.events),
            events: read.events,
        })
    }

    /// `false` if events before them are missing.
    fn add_to(self, all: &mut Vec<ToolEvent>) -> bool {
        let Some(known) = all.len().checked_sub(self.first) else {
            return false;
        };
        all.extend(self.events.into_iter().skip(known));
        true
    }
}

/// Up to the first gap, from lines in their order.
pub(super) fn events<'a>(id: &str, payloads: impl IntoIterator<Item = &'a str>) -> Vec<ToolEvent> {
    let mut events = Vec::new();
    for payload in payloads {
        let is_next = LineEvents::read(id, payload).is_ok_and(|line| line.add_to(&mut events));
        if !is_next {
            break;
        }
    }
    events
}

#[derive(Deserialize)]
pub(super) struct Brief {
    pub(super) invocation: BriefInvocation,
    pub(super) result: Option<BriefResult>,
    #[serde(default)]
    after: EarlierParts,
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
    pub(super) fn events(&self) -> (u64, u64) {
        (self.after.events as u64, self.events.len() as u64)
    }
}

/// In the same segment.
#[derive(Default)]
pub(super) struct EarlierLines {
    pub(super) start: Option<String>,
    pub(super) notes: Vec<String>,
}

impl EarlierLines {
    /// The record in a line with `payload`, after these lines. Fails if one is damaged or missing.
    pub(super) fn record(&self, id: &str, payload: &str) -> io::Result<Value> {
        let mut record: Value = serde_json::from_str(payload)?;
        restore_inputs(&mut record);
        let is_start = record.get("result").is_none();
        let after = record
            .as_object_mut()
            .and_then(|record| record.shift_remove(AFTER));
        let start = self.start.as_deref();
        let notes = self.notes.iter().map(String::as_str);
        let events = if let Some(after) = after {
            let missing = || io::Error::from(io::ErrorKind::InvalidData);
            let start = start.ok_or_else(missing)?;
            let after = serde_json::from_value(after)?;
            add_start(&mut record, serde_json::from_str(start)?, after).ok_or_else(missing)?;
            events(id, iter::once(start).chain(notes).chain([payload]))
        } else if is_start {
            events(id, start.into_iter().chain([payload]).chain(notes))
        } else {
            events(id, [payload])
        };
        if let Some(record) = record.as_object_mut() {
            record.insert("events".to_owned(), serde_json::to_value(events)?);
        }
        Ok(record)
    }
}

pub(super) fn is_whole(payload: &str) -> bool {
    // The first field, if it is there.
    !payload.starts_with("{\"after\":")
}

fn invocation(line: &mut Value) -> Option<&mut Map<String, Value>> {
    line.get_mut("invocation")?.as_object_mut()
}

/// Puts back what equals the caller's.
fn restore_inputs(line: &mut Value) {
    let Some(invocation) = invocation(line) else {
        return;
    };
    let Some(Value::Array(same)) = invocation.shift_remove(SAME) else {
        return;
    };
    for name in same.iter().filter_map(Value::as_str) {
        let first = if name.ends_with("_ref") {
            "model_input_ref"
        } else {
            "model_input"
        };
        let first = invocation.get(first).cloned().unwrap_or_default();
        invocation.insert(name.to_owned(), first);
    }
}

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
