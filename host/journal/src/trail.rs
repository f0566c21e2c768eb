mod logged;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use toolcell_policy::secret::{REDACTED, Redactor, SpokenMeter};
use toolcell_spec::{
    AbortReason, CallRecord, EventId, EventType, Extra, InvocationId, ProgressId, ProgressStatus,
    SchemaVersion, Timestamp, ToolEvent, ToolInvocation, ToolProgress, TraceContext, digest,
    evidence_ref,
};

use crate::{CallLog, Keep};

/// Of one running call; its record has all events.
const NOTED_BYTES_MAX: usize = 1 << 20;

/// Fields that the host fills in. They are not redacted, so that a caller cannot remove one by a sensitive argument
/// that equals it. Progress is redacted before.
const OWN_WORDS: [&str; 18] = [
    "abort_reason",
    "behavior",
    "by",
    "decision_id",
    "discarded_as",
    "error_class",
    "hook_id",
    "input_ref",
    "model_input_ref",
    "mutation_id",
    "persisted_ref",
    "progress",
    "redaction_state",
    "result_id",
    "rule_refs",
    "source",
    "source_type",
    "status",
];

/// Receives events of calls as they happen. It must not block, as calls wait for it.
///
/// ```
/// use std::sync::mpsc::Sender;
///
/// use toolcell_journal::Listener;
/// use toolcell_spec::{EventType, ToolEvent};
///
/// /// Hands the events on to another thread.
/// struct Types(Sender<EventType>);
///
/// impl Listener for Types {
///     fn event(&self, event: &ToolEvent) {
///         // The other thread may have ended.
///         let _ = self.0.send(event.event_type);
///     }
/// }
/// ```
pub trait Listener: Send + Sync {
    /// Events of one call come in causal order.
    fn event(&self, event: &ToolEvent);

    /// Comes before the caller gets the record, and for a tool's call before the tool's own end; only for listeners of
    /// a host. Outputs that may be on no disk are left out.
    fn ended(&self, _record: &CallRecord) {}
}

/// An event of no call (AT-EV-01..05); `data` is an object, and `tool_id` is `None` if no single tool is concerned.
pub fn of_no_call(
    source: &Arc<str>,
    event_type: EventType,
    tool_id: Option<&str>,
    data: Value,
) -> ToolEvent {
    let tool_id: Option<Arc<str>> = tool_id.map(Arc::from);
    let surface = || {
        data.get("surface_id")
            .and_then(Value::as_str)
            .map(Arc::from)
    };
    ToolEvent {
        schema_version: SchemaVersion::default(),
        event_id: EventId::new(),
        event_type,
        source: Arc::clone(source),
        subject: tool_id.clone().or_else(surface),
        time: Timestamp::now(),
        invocation_id: None,
        tool_id,
        data,
        trace_refs: Vec::new(),
        extra: Extra::new(),
    }
}

/// Takes events of a running call, beside its listeners.
#[derive(Clone)]
pub struct Outlet {
    pub log: CallLog,
    pub session: Option<Arc<str>>,
}

/// For an ended or unknown call; `why` is the reason (AT-CAN-01, AT-CAN-04).
pub fn canceled_in_vain(
    source: &Arc<str>,
    id: InvocationId,
    reason: AbortReason,
    why: &str,
) -> [ToolEvent; 2] {
    let requested = (
        EventType::CancelRequested,
        json!({ "abort_reason": reason }),
    );
    let failed = (
        EventType::CancelFailed,
        json!({ "abort_reason": reason, "reason": why }),
    );
    [requested, failed].map(|(event_type, data)| ToolEvent {
        subject: Some(evidence_ref(id).into()),
        invocation_id: Some(id),
        ..of_no_call(source, event_type, None, data)
    })
}

/// Events and progress of a call, in causal order.
#[derive(Clone)]
pub struct Trail(Arc<Inner>);

/// Does not keep the listeners.
pub struct WeakTrail(Weak<Inner>);

impl WeakTrail {
    pub fn upgrade(&self) -> Option<Trail> {
        self.0.upgrade().map(Trail)
    }
}

struct Inner {
    invocation_id: InvocationId,
    began: Timestamp,
    listeners: Arc<[Arc<dyn Listener>]>,
    source: Arc<str>,
    subject: Arc<str>,
    trace_refs: Vec<Value>,
    outlet: Option<Outlet>,
    kept: Mutex<TrailContents>,
    noting: Mutex<()>,
}

/// Notes events of a dropped call, because another process may go on with it.
pub struct FlushOnDrop(Trail);

impl Drop for FlushOnDrop {
    fn drop(&mut self) {
        self.0.leave();
    }
}

#[derive(Default)]
pub struct TrailContents {
    pub events: Vec<ToolEvent>,
    pub progress: Vec<ToolProgress>,
    tool_id: Option<Arc<str>>,
    cancel_requested: bool,
    cancel_acknowledged: bool,
    ended: bool,
    is_task: bool,
    /// `true` if no event and no record may have the tool's own words.
    is_silent: bool,
    /// The same for what it logs.
    logs_silently: bool,
    /// Lines that it has logged.
    logged: usize,
    redactor: Redactor,
    meter: SpokenMeter,
    noted: NotedSoFar,
}

#[derive(Default)]
struct NotedSoFar {
    events: usize,
    bytes: usize,
    is_due: bool,
    is_over: bool,
}

impl Trail {
    pub fn downgrade(&self) -> WeakTrail {
        WeakTrail(Arc::downgrade(&self.0))
    }

    pub fn begin(
        invocation: &ToolInvocation,
        source: Arc<str>,
        listeners: Arc<[Arc<dyn Listener>]>,
        outlet: Option<Outlet>,
    ) -> Self {
        let kept = TrailContents {
            events: Vec::with_capacity(12),
            ..TrailContents::default()
        };
        Self::holding(kept, invocation, source, listeners, outlet)
    }

    fn holding(
        kept: TrailContents,
        invocation: &ToolInvocation,
        source: Arc<str>,
        listeners: Arc<[Arc<dyn Listener>]>,
        outlet: Option<Outlet>,
    ) -> Self {
        Self(Arc::new(Inner {
            invocation_id: invocation.invocation_id,
            began: invocation.created_at(),
            listeners,
            source,
            subject: invocation.evidence_ref().into(),
            trace_refs: TraceContext::spans(invocation),
            outlet,
            kept: Mutex::new(kept),
            noting: Mutex::default(),
        }))
    }

    /// Continues another process's trail. `events` include all of the log: an event that followers know already would
    /// take the place of a later one.
    pub fn resume(
        invocation: &ToolInvocation,
        events: Vec<ToolEvent>,
        source: Arc<str>,
        listeners: Arc<[Arc<dyn Listener>]>,
        outlet: Outlet,
    ) -> Self {
        let progress = events.iter().filter_map(|event| event.data.get("progress"));
        // Numbers and times continue where the other process ended.
        let progress: Vec<_> = progress
            .filter_map(|said| ToolProgress::deserialize(said).ok())
            .collect();
        let is_task = progress.iter().any(|said| said.task_id.is_some());
        let kept = TrailContents {
            events,
            progress,
            is_task,
            ..TrailContents::default()
        };
        Self::holding(kept, invocation, source, listeners, Some(outlet))
    }

    fn kept(&self) -> MutexGuard<'_, TrailContents> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn noting(&self) -> MutexGuard<'_, ()> {
        self.0.noting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drop it before another process can go on.
    pub fn leaving(&self) -> FlushOnDrop {
        FlushOnDrop(self.clone())
    }

    /// Notes the rest, and nothing later: followers would take it for an event of the next process.
    fn leave(&self) {
        let _noting = self.noting();
        self.note_rest();
        self.kept().noted.is_over = true;
    }

    pub fn resolved(&self, tool_id: &str) {
        self.kept().tool_id = Some(tool_id.into());
    }

    /// Redacts records and events from now on.
    pub fn redact(&self, redactor: Redactor) {
        self.kept().redactor = redactor;
    }

    pub fn is_noted(&self, events: usize) {
        let noted = &mut self.kept().noted;
        noted.events = noted.events.max(events);
    }

    /// Nothing is noted until the end, because the output may be on no disk.
    pub fn keep_unnoted(&self) {
        self.kept().noted.is_over = true;
    }

    /// Keeps the tool's texts out of events and record, because no record may have its output.
    pub fn silence(&self) {
        self.kept().is_silent = true;
    }

    /// Keeps the lines that the tool logs out of events: what its output may not show is known only at its end.
    pub fn silence_logs(&self) {
        self.kept().logs_silently = true;
    }

    pub fn is_silent(&self) -> bool {
        let kept = self.kept();
        kept.is_silent || kept.redactor.is_silent()
    }

    /// The current time on the clock of the call.
    pub fn now(&self) -> Timestamp {
        Timestamp::after(self.0.began)
    }

    /// `data` is an object.
    pub fn emit(&self, event_type: EventType, data: Value) {
        let mut kept = self.kept();
        let event = self.event(&kept, event_type, data);
        self.publish(&mut kept, event);
    }

    /// An unpublished event with all up to it, to be stored before [`Self::announce`].
    pub fn prepare(&self, event_type: EventType, data: Value) -> (Vec<ToolEvent>, ToolEvent) {
        let kept = self.kept();
        let event = self.event(&kept, event_type, data);
        let mut events = kept.events.clone();
        events.push(event.clone());
        (events, event)
    }

    pub fn announce(&self, event: ToolEvent) {
        self.publish(&mut self.kept(), event);
    }

    pub fn events(&self) -> Vec<ToolEvent> {
        self.kept().events.clone()
    }

    fn event(&self, kept: &TrailContents, event_type: EventType, mut data: Value) -> ToolEvent {
        if !kept.redactor.is_idle()
            && let Some(fields) = data.as_object_mut()
        {
            let said = fields
                .iter_mut()
                .filter(|(name, _)| !OWN_WORDS.contains(&name.as_str()));
            said.for_each(|(_, value)| _ = kept.redactor.redact(value));
        }
        self.plain_event(kept.tool_id.clone(), event_type, data)
    }

    fn plain_event(
        &self,
        tool_id: Option<Arc<str>>,
        event_type: EventType,
        data: Value,
    ) -> ToolEvent {
        let time = self.now();
        ToolEvent {
            schema_version: SchemaVersion::default(),
            event_id: EventId::at(time),
            event_type,
            source: Arc::clone(&self.0.source),
            subject: Some(Arc::clone(&self.0.subject)),
            time,
            invocation_id: Some(self.0.invocation_id),
            tool_id,
            data,
            trace_refs: self.0.trace_refs.clone(),
            extra: Extra::new(),
        }
    }

    fn publish(&self, kept: &mut TrailContents, event: ToolEvent) {
        for listener in self.0.listeners.iter() {
            listener.event(&event);
        }
        if let Some(Outlet { log, .. }) = &self.0.outlet
            && !(kept.ended || kept.noted.is_due || kept.noted.is_over)
            && log.wants(&event)
        {
            kept.noted.is_due = true;
            log.note_soon(self.downgrade());
        }
        kept.events.push(event);
    }

    /// Appends missing events that fit. May block.
    pub(crate) fn note(&self) {
        let _noting = self.noting();
        self.note_rest();
    }

    fn note_rest(&self) {
        let Some(Outlet { log, session }) = &self.0.outlet else {
            return;
        };
        if log.settings().keep != Keep::All {
            return;
        }
        let (first, events) = self.unnoted();
        if !events.is_empty() {
            let id = self.0.invocation_id;
            let written = log.noted(id, session.as_deref(), first, &events);
            // A gap would hide what comes after it. The record of the call has everything.
            self.kept().noted.is_over |= written.is_err();
        }
    }

    /// Missing events that fit, and the place of the first.
    fn unnoted(&self) -> (usize, Vec<ToolEvent>) {
        let mut kept = self.kept();
        let is_over = kept.ended || kept.noted.is_over;
        let TrailContents { events, noted, .. } = &mut *kept;
        noted.is_due = false;
        let first = noted.events;
        if is_over {
            return (first, Vec::new());
        }
        for event in events.iter().skip(first) {
            let bytes = noted.bytes + size(&event.data);
            if bytes > NOTED_BYTES_MAX && guard!("noted_bytes") {
                noted.is_over = true;
                break;
            }
            noted.bytes = bytes;
            noted.events += 1;
        }
        let more = events.get(first..noted.events).unwrap_or_default();
        (first, more.to_vec())
    }

    /// Assigns identity, sequence and time, and publishes an event.
    pub fn progress(&self, mut progress: ToolProgress) {
        progress.invocation_id = self.0.invocation_id;
        progress.progress_id = ProgressId::new();
        progress.timestamp = self.now();
        progress.elapsed_ms = progress.timestamp.millis_since(self.0.began);
        {
            let mut kept = self.kept();
            let TrailContents {
                redactor,
                meter,
                is_silent,
                ..
            } = &mut *kept;
            let is_silent = *is_silent || redactor.is_silent();
            hide(redactor, is_silent, meter, &mut progress);
            progress.task_id = kept.is_task.then_some(self.0.invocation_id);
            progress.sequence = kept.progress.len() as u64 + 1;
            kept.progress.push(progress.clone());
        }
        let event_type = match progress.status {
            ProgressStatus::PartialResult => EventType::PartialResult,
            _ => EventType::Progress,
        };
        self.emit(event_type, json!({ "progress": progress }));
    }

    /// Progress of a call that waits, or goes on without its caller (AT-PSTAT-01..10). Only such a call also tells its
    /// start and end; of others, the events do.
    pub fn reached(&self, status: ProgressStatus) {
        use ProgressStatus::{Backgrounded, Queued, WaitingForInput, WaitingForPermission};
        let waits = matches!(
            status,
            Queued | WaitingForPermission | WaitingForInput | Backgrounded
        );
        let tells = {
            let mut kept = self.kept();
            kept.is_task |= status == Backgrounded;
            !kept.ended && (waits || !kept.progress.is_empty())
        };
        if tells {
            self.progress(ToolProgress::new(status));
        }
    }

    /// Tells that the tool runs, after `silence`. Returns whether it did.
    pub fn beat(&self, silence: Duration) -> bool {
        let is_recent = |said: &ToolProgress| {
            u128::from(self.now().millis_since(said.timestamp)) < silence.as_millis()
        };
        let is_silent = !self.kept().progress.last().is_some_and(is_recent);
        if is_silent {
            self.progress(ToolProgress::new(ProgressStatus::Running));
        }
        is_silent
    }

    /// Published once, and before the acknowledgement.
    pub fn cancel_requested(&self, reason: AbortReason) {
        if !std::mem::replace(&mut self.kept().cancel_requested, true) {
            self.emit(
                EventType::CancelRequested,
                json!({ "abort_reason": reason }),
            );
        }
    }

    /// Published once, however often the guest acknowledges.
    pub fn cancel_acknowledged(&self, how: &str) {
        if !std::mem::replace(&mut self.kept().cancel_acknowledged, true) {
            self.emit(EventType::CancelAcknowledged, json!({ "by": how }));
        }
    }

    /// The request came too late (AT-CAN-04).
    pub fn cancel_failed(&self, reason: AbortReason) {
        self.cancel_requested(reason);
        self.emit(
            EventType::CancelFailed,
            json!({ "abort_reason": reason, "reason": "already_terminal" }),
        );
    }

    pub fn has_partial_result(&self) -> bool {
        self.kept()
            .progress
            .iter()
            .any(|progress| progress.status == ProgressStatus::PartialResult)
    }

    pub fn has_ended(&self) -> bool {
        self.kept().ended
    }

    pub fn finish(&self) -> TrailContents {
        let mut kept = self.kept();
        std::mem::replace(
            &mut *kept,
            TrailContents {
                ended: true,
                ..TrailContents::default()
            },
        )
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 16,
        Value::String(text) => text.len() + 16,
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 16,
        Value::Object(fields) => {
            fields
                .iter()
                .map(|(name, value)| name.len() + size(value) + 16)
                .sum::<usize>()
                + 16
        }
    }
}

/// Redacts all texts if the call `is_silent`.
fn hide(
    redactor: &Redactor,
    is_silent: bool,
    meter: &mut SpokenMeter,
    progress: &mut ToolProgress,
) {
    for text in [&mut progress.message, &mut progress.current_step]
        .into_iter()
        .flatten()
    {
        if is_silent {
            REDACTED.clone_into(text)
        } else {
            _ = redactor.redact_spoken_text(text, meter)
        }
    }
    if is_silent {
        progress.artifact_refs.clear()
    } else {
        progress
            .artifact_refs
            .iter_mut()
            .for_each(|artifact| _ = redactor.redact_spoken(artifact, meter))
    }
    let Some(content) = &mut progress.partial_content else {
        return;
    };
    if is_silent {
        *content = Value::Array(Vec::new());
    } else if !redactor.redact_spoken(content, meter) {
        return;
    }
    // The reference so far is a digest of the unredacted content.
    progress.partial_result_refs = vec![format!(
        "partial:{}",
        digest(content.to_string().as_bytes())
    )];
}

#[cfg(test)]
mod tests;
