use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::record::{
    AbortReason, EventId, EventType, Extra, InvocationId, JSON_VALUES_MAX, ProgressId, ProgressStatus, SchemaVersion,
    Timestamp, ToolEvent, ToolProgress, digest, read_json,
};
use crate::secret::{REDACTED, Redactor, SpokenMeter};

/// Event fields that the host itself fills. They are not redacted, so that a caller cannot remove one by a sensitive
/// argument that equals it. Progress is redacted before it becomes an event.
const OWN_WORDS: [&str; 16] = [
    "abort_reason",
    "behavior",
    "by",
    "decision_id",
    "error_class",
    "hook_id",
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

/// Receives every event of a call as it happens. Called from within the call: it must not block.
pub trait Listener: Send + Sync {
    fn event(&self, event: &ToolEvent);
}

/// Tells `listeners` that a tool can be called from now on (AT-EV-01).
pub fn declared(listeners: &[Arc<dyn Listener>], source: &Arc<str>, tool_id: &str, component: &str) {
    let event = ToolEvent {
        schema_version: SchemaVersion::default(),
        event_id: EventId::new(),
        event_type: EventType::Declared,
        source: Arc::clone(source),
        time: Timestamp::now(),
        invocation_id: None,
        tool_id: Some(tool_id.to_owned()),
        data: json!({ "component": component }),
        extra: Extra::new(),
    };
    listeners.iter().for_each(|listener| listener.event(&event));
}

/// The events and the progress of one call, in causal order.
#[derive(Clone)]
pub struct Trail(Arc<Inner>);

struct Inner {
    invocation_id: InvocationId,
    began: Timestamp,
    listeners: Arc<[Arc<dyn Listener>]>,
    source: Arc<str>,
    kept: Mutex<Trailed>,
}

/// The contents of a trail.
#[derive(Default)]
pub struct Trailed {
    pub events: Vec<ToolEvent>,
    pub progress: Vec<ToolProgress>,
    tool_id: Option<String>,
    cancel_requested: bool,
    cancel_acknowledged: bool,
    redactor: Redactor,
    meter: SpokenMeter,
}

impl Trail {
    pub fn begin(invocation_id: InvocationId, source: Arc<str>, listeners: Arc<[Arc<dyn Listener>]>) -> Self {
        let kept = Mutex::new(Trailed { events: Vec::with_capacity(12), ..Trailed::default() });
        Self(Arc::new(Inner { invocation_id, began: Timestamp::now(), listeners, source, kept }))
    }

    /// Resumes the trail of a call that another process began; `events` are its events so far.
    pub fn resume(
        invocation_id: InvocationId,
        events: Vec<ToolEvent>,
        source: Arc<str>,
        listeners: Arc<[Arc<dyn Listener>]>,
    ) -> Self {
        let trail = Self::begin(invocation_id, source, listeners);
        trail.kept().events = events;
        trail
    }

    fn kept(&self) -> MutexGuard<'_, Trailed> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the tool that later events name.
    pub fn resolved(&self, tool_id: &str) {
        self.kept().tool_id = Some(tool_id.to_owned());
    }

    /// Redacts everything from now on: what is kept, and what listeners receive.
    pub fn redact(&self, redactor: Redactor) {
        self.kept().redactor = redactor;
    }

    /// Publishes an event; `data` is an object.
    pub fn emit(&self, event_type: EventType, data: Value) {
        let mut kept = self.kept();
        let event = self.event(&kept, event_type, data);
        self.publish(&mut kept, event);
    }

    /// Creates an event without publishing it, and returns it with all events up to it, so that they can be stored
    /// first. Then [`Self::announce`] publishes it.
    pub fn prepare(&self, event_type: EventType, data: Value) -> (Vec<ToolEvent>, ToolEvent) {
        let kept = self.kept();
        let event = self.event(&kept, event_type, data);
        let mut events = kept.events.clone();
        events.push(event.clone());
        (events, event)
    }

    /// Publishes an event that was prepared.
    pub fn announce(&self, event: ToolEvent) {
        self.publish(&mut self.kept(), event);
    }

    /// All events so far.
    pub fn events(&self) -> Vec<ToolEvent> {
        self.kept().events.clone()
    }

    fn event(&self, kept: &Trailed, event_type: EventType, mut data: Value) -> ToolEvent {
        if let (false, Some(fields)) = (kept.redactor.is_idle(), data.as_object_mut()) {
            let said = fields.iter_mut().filter(|(name, _)| !OWN_WORDS.contains(&name.as_str()));
            said.for_each(|(_, value)| _ = kept.redactor.redact(value));
        }
        ToolEvent {
            schema_version: SchemaVersion::default(),
            event_id: EventId::new(),
            event_type,
            source: Arc::clone(&self.0.source),
            time: Timestamp::now(),
            invocation_id: Some(self.0.invocation_id),
            tool_id: kept.tool_id.clone(),
            data,
            extra: Extra::new(),
        }
    }

    fn publish(&self, kept: &mut Trailed, event: ToolEvent) {
        for listener in self.0.listeners.iter() {
            listener.event(&event);
        }
        kept.events.push(event);
    }

    /// Assigns `progress` its identity, sequence and time, and publishes it as an event.
    pub fn progress(&self, mut progress: ToolProgress) {
        progress.invocation_id = self.0.invocation_id;
        progress.progress_id = ProgressId::new();
        progress.timestamp = Timestamp::now();
        progress.elapsed_ms = progress.timestamp.millis_since(self.0.began);
        {
            let mut kept = self.kept();
            let Trailed { redactor, meter, .. } = &mut *kept;
            hide(redactor, meter, &mut progress);
            progress.sequence = kept.progress.len() as u64 + 1;
            kept.progress.push(progress.clone());
        }
        let event_type = match progress.status {
            ProgressStatus::PartialResult => EventType::PartialResult,
            _ => EventType::Progress,
        };
        self.emit(event_type, json!({ "progress": progress }));
    }

    /// Passes a line that the guest logged to the listeners, redacted. It is not kept here, because the result carries
    /// the log as a block.
    pub fn logged(&self, level: &str, message: &str, fields: Option<&str>) {
        if self.0.listeners.is_empty() {
            return;
        }
        let (redactor, tool_id, mut meter) = {
            let mut kept = self.kept();
            (kept.redactor.clone(), kept.tool_id.clone(), std::mem::take(&mut kept.meter))
        };
        let (message, fields) = match redactor.is_silent() {
            true => (REDACTED.to_owned(), None),
            false => {
                let mut fields: Option<Value> = fields.and_then(|fields| read_json(fields, JSON_VALUES_MAX).ok());
                fields.as_mut().map(|fields| redactor.redact_spoken(fields, &mut meter));
                let mut message = message.to_owned();
                redactor.redact_spoken_text(&mut message, &mut meter);
                (message, fields)
            }
        };
        self.kept().meter = meter;
        let event = ToolEvent {
            schema_version: SchemaVersion::default(),
            event_id: EventId::new(),
            event_type: EventType::Logged,
            source: Arc::clone(&self.0.source),
            time: Timestamp::now(),
            invocation_id: Some(self.0.invocation_id),
            tool_id,
            data: json!({ "level": level, "message": message, "fields": fields }),
            extra: Extra::new(),
        };
        self.0.listeners.iter().for_each(|listener| listener.event(&event));
    }

    /// Publishes that cancellation was requested: once, and before it is acknowledged.
    pub fn cancel_requested(&self, reason: AbortReason) {
        if !std::mem::replace(&mut self.kept().cancel_requested, true) {
            self.emit(EventType::CancelRequested, json!({ "abort_reason": reason }));
        }
    }

    /// Publishes that the guest noticed the request: once, however often the guest acknowledges it.
    pub fn cancel_acknowledged(&self, how: &str) {
        if !std::mem::replace(&mut self.kept().cancel_acknowledged, true) {
            self.emit(EventType::CancelAcknowledged, json!({ "by": how }));
        }
    }

    /// Publishes that a requested cancellation came too late: the call ended otherwise (AT-CAN-04).
    pub fn cancel_failed(&self, reason: AbortReason) {
        self.cancel_requested(reason);
        self.emit(EventType::CancelFailed, json!({ "abort_reason": reason, "reason": "already_terminal" }));
    }

    /// Whether the progress includes a partial result.
    pub fn has_partial_result(&self) -> bool {
        self.kept().progress.iter().any(|progress| progress.status == ProgressStatus::PartialResult)
    }

    /// Takes the contents out of the trail.
    pub fn finish(&self) -> Trailed {
        std::mem::take(&mut *self.kept())
    }
}

/// Redacts `progress`.
fn hide(redactor: &Redactor, meter: &mut SpokenMeter, progress: &mut ToolProgress) {
    for text in [&mut progress.message, &mut progress.current_step].into_iter().flatten() {
        match redactor.is_silent() {
            true => REDACTED.clone_into(text),
            false => _ = redactor.redact_spoken_text(text, meter),
        }
    }
    let Some(content) = &mut progress.partial_content else { return };
    if redactor.is_silent() {
        *content = Value::Array(Vec::new());
    } else if !redactor.redact_spoken(content, meter) {
        return;
    }
    // The reference so far is a digest of the unredacted content.
    progress.partial_result_refs = vec![format!("partial:{}", digest(content.to_string().as_bytes()))];
}
