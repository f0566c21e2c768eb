//! The span of a call, made from its record: a pure function.

use serde::Serialize;
use serde_json::Value;
use toolcell_spec::{
    CallRecord, SpanId, Timestamp, ToolEvent, ToolInvocation, TraceContext, Transition,
};

use super::otlp::{Attribute, Span, SpanEvent};

/// OpenTelemetry's default: a tool can report thousands.
pub(super) const EVENTS_MAX: usize = 128;
/// Changes of status among the events; a call has more only if it asks its user again and again.
const PHASES_MAX: usize = 32;
/// Event for a change of status, and its attribute.
const PHASE: &str = "toolcell.phase";
/// Bytes: a word, a description, and arguments or a result.
const WORD_BYTES_MAX: usize = 128;
/// A client's id for a call or a request.
pub(super) const CALL_ID_BYTES_MAX: usize = 256;
const DESCRIPTION_BYTES_MAX: usize = 1 << 10;
const CONTENT_BYTES_MAX: usize = 16 << 10;

/// The span of the call (AO-OT-01), with arguments and result only if `arguments`, as the record shows them; `None` if
/// its caller records no trace.
pub(super) fn call_span(record: &CallRecord, arguments: bool) -> Option<Span> {
    let invocation = &record.invocation;
    let context = TraceContext::recorded(invocation)?;
    if !context.is_sampled() {
        return None;
    }
    let tool = tool_name(record);
    let times = (
        invocation.created_at(),
        invocation.ended_at().unwrap_or(record.result.created_at),
    );
    let span_id = SpanId::from_invocation(invocation.invocation_id);
    let mut span = Span::new(
        context.trace_id(),
        span_id,
        context.parent(),
        format!("execute_tool {tool}"),
        times,
    );
    span.trace_state = context.state().map(str::to_owned);
    span.attributes = attributes(record, tool);
    if arguments {
        span.attributes.extend(content(record));
    }
    if record.result.is_error {
        span.failed();
    }
    let all = record.events.len() + invocation.status_transitions().len();
    span.events = events(record);
    span.dropped_events_count = all - span.events.len();
    Some(span)
}

fn events(record: &CallRecord) -> Vec<SpanEvent> {
    let phases = record
        .invocation
        .status_transitions()
        .iter()
        .take(PHASES_MAX)
        .map(phase);
    let mut all: Vec<(Timestamp, SpanEvent)> = phases.collect();
    let room = EVENTS_MAX.saturating_sub(all.len());
    all.extend(
        record
            .events
            .iter()
            .take(room)
            .map(|one| (one.time, event(one))),
    );
    all.sort_by_key(|(time, _)| *time);
    all.into_iter().map(|(_, event)| event).collect()
}

/// Leaves the reason out, because it can be in the words of a hook.
fn phase(step: &Transition) -> (Timestamp, SpanEvent) {
    let mut made = SpanEvent::new(step.at, PHASE);
    made.attributes
        .push(Attribute::text(PHASE, step.to.as_str()));
    (step.at, made)
}

pub(super) fn tool_name(record: &CallRecord) -> String {
    TraceContext::tool_name(record.declaration.as_deref())
}

/// The caller's id of the call, else the host's.
pub(super) fn call_id(invocation: &ToolInvocation) -> String {
    let native = invocation.native_call_id.clone();
    native.unwrap_or_else(|| invocation.invocation_id.to_string())
}

pub(super) fn word(value: impl Serialize) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|word| word.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn attributes(record: &CallRecord, tool: String) -> Vec<Attribute> {
    let CallRecord {
        invocation, result, ..
    } = record;
    let id = invocation.invocation_id.to_string();
    let noted = TraceContext::references(invocation).into_iter().next();
    let noted = noted.unwrap_or_default();
    let native = call_id(invocation);
    let mut attributes = vec![
        Attribute::text("gen_ai.operation.name", "execute_tool"),
        Attribute::text("gen_ai.tool.name", tool),
        Attribute::text("gen_ai.tool.call.id", cut(&native, CALL_ID_BYTES_MAX)),
        Attribute::text("gen_ai.tool.type", "function"),
        Attribute::text("toolcell.invocation.id", id.as_str()),
        Attribute::text("toolcell.result.status", word(result.status)),
    ];
    // As the record has them (AT-MAP-07); what is cut here is a client's own id.
    let request = match noted.get("request_id") {
        Some(Value::String(id)) => Some(cut(id, CALL_ID_BYTES_MAX).to_owned()),
        Some(Value::Number(id)) => Some(id.to_string()),
        _ => None,
    };
    attributes.extend(request.map(|id| Attribute::text("toolcell.request_id", id)));
    let size = noted.get("result_size_bytes").and_then(Value::as_u64);
    attributes.extend(size.map(|size| Attribute::number("toolcell.result.size_bytes", size)));
    if let Some(declaration) = &record.declaration {
        let description = cut(&declaration.description, DESCRIPTION_BYTES_MAX);
        attributes.push(Attribute::text("gen_ai.tool.description", description));
    }
    if let Some(error) = &result.error {
        attributes.push(Attribute::text("error.type", word(error.error_class)));
        attributes
            .extend(host_code(record).map(|code| Attribute::text("toolcell.error.code", code)));
    }
    if let Some(usage) = &result.usage {
        attributes.push(Attribute::number("toolcell.usage.fuel", usage.fuel.used));
        let cpu = usage.cpu_ms.map(|cpu| cpu.used);
        attributes.extend(cpu.map(|used| Attribute::number("toolcell.usage.cpu_ms", used)));
        attributes.push(Attribute::number(
            "toolcell.usage.memory_bytes",
            usage.memory_bytes.used,
        ));
    }
    attributes
}

/// The error itself can have a code that the tool chose, and so could repeat arguments.
fn host_code(record: &CallRecord) -> Option<&str> {
    let last = record
        .invocation
        .status_transitions()
        .last()
        .filter(|step| step.to.is_terminal())?;
    last.reason.as_deref().map(|code| cut(code, WORD_BYTES_MAX))
}

/// Arguments and result, redacted as in records.
fn content(record: &CallRecord) -> impl Iterator<Item = Attribute> {
    let arguments = record.invocation.observable_input.as_deref().map(beginning);
    let result = Some(record.result.text()).filter(|text| !text.is_empty());
    let attribute = |(key, text): (&'static str, Option<String>)| {
        text.map(|text| Attribute::text(key, cut(&text, CONTENT_BYTES_MAX)))
    };
    [
        ("gen_ai.tool.call.arguments", arguments),
        ("gen_ai.tool.call.result", result),
    ]
    .into_iter()
    .filter_map(attribute)
}

/// The name, and the class of an error; everything else can repeat arguments.
fn event(event: &ToolEvent) -> SpanEvent {
    let mut made = SpanEvent::new(event.time, event.event_type.as_str());
    let class = event
        .data
        .get("error_class")
        .and_then(Value::as_str)
        .map(|word| cut(word, WORD_BYTES_MAX));
    made.attributes
        .extend(class.map(|class| Attribute::text("error.type", class)));
    made
}

/// A little more than a span shows: arguments can have megabytes, and the call waits for this.
fn beginning(value: &Value) -> String {
    // The length of one more character, so that none is cut that a span still shows.
    let mut bytes = vec![0; CONTENT_BYTES_MAX + 4];
    let mut room = bytes.as_mut_slice();
    // Fails where the room ends.
    let _ = serde_json::to_writer(&mut room, value);
    let left = room.len();
    bytes.truncate(bytes.len() - left);
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max))
        .unwrap_or_default()
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;
    use toolcell_spec::{
        ErrorClass, ErrorCode, EventId, EventType, Extra, Input, MeteredUsage, Refusal,
        ResultProvenance, SchemaVersion, Status, Timestamp, ToolInvocation, ToolResult, Trust,
        Usage, Writer,
    };

    use super::super::otlp::AnyValue;
    use super::*;

    const SECRET: &str = "not for a collector";

    /// A call of no tool, with this telemetry reference, which ended in `error`.
    pub(in crate::telemetry) fn record(
        reference: Option<Value>,
        error: Option<ErrorClass>,
    ) -> CallRecord {
        let mut invocation = ToolInvocation::planned(SECRET, &Input::from_text("{}"));
        invocation.observable_input = Some(json!({ "text": SECRET }).into());
        invocation
            .extra
            .extend(reference.map(|reference| ("telemetry_refs".to_owned(), json!([reference]))));
        let id = invocation.invocation_id;
        let provenance = ResultProvenance {
            trust: Trust::Untrusted,
            written_by: Writer::Host,
            tool_id: None,
            component: None,
            hooks: Vec::new(),
        };
        let class = error.unwrap_or(ErrorClass::ExecutionFailed);
        let refusal = Refusal::new(ErrorCode::TooManyCalls, SECRET)
            .with_class(class)
            .to_error();
        let mut result = ToolResult::failed(id, refusal, provenance);
        if error.is_none() {
            (result.error, result.is_error) = (None, false);
            result.usage = Some(Usage {
                fuel: MeteredUsage { used: 7, limit: 9 },
                ..Usage::default()
            });
        }
        let event = |event_type, data: Value| ToolEvent {
            schema_version: SchemaVersion::default(),
            event_id: EventId::new(),
            event_type,
            source: "toolcell/test".into(),
            subject: None,
            time: Timestamp::now(),
            invocation_id: Some(id),
            tool_id: None,
            data,
            trace_refs: Vec::new(),
            extra: Extra::new(),
        };
        let ends = json!({ "error_class": "timeout", "error_code": "c", "message": SECRET });
        let events = vec![
            event(EventType::Planned, json!({ "requested": SECRET })),
            event(EventType::Failed, ends),
        ];
        CallRecord {
            declaration: None,
            invocation,
            decisions: Vec::new(),
            hooks: Vec::new(),
            progress: Vec::new(),
            result_mappings: Default::default(),
            persistence: Vec::new(),
            result,
            events,
        }
    }

    pub(in crate::telemetry) fn reference(flags: &str) -> Value {
        json!({ "trace_id": "a".repeat(32), "span_id": "b".repeat(16), "trace_flags": flags, "parent_span_id": "c".repeat(16) })
    }

    fn span(record: &CallRecord, arguments: bool) -> Value {
        serde_json::to_value(call_span(record, arguments)).unwrap()
    }

    fn attribute<'a>(span: &'a Value, key: &str) -> Option<&'a Value> {
        let attributes = span["attributes"].as_array().unwrap();
        attributes
            .iter()
            .find(|one| one["key"] == key)
            .map(|one| &one["value"])
    }

    #[test]
    fn a_failed_call_has_its_class_and_code_and_no_word_of_its_arguments() {
        let record = record(Some(reference("01")), Some(ErrorClass::Timeout));
        let made = span(&record, false);
        assert_eq!(made["name"], "execute_tool unresolved");
        assert_eq!(
            (&made["kind"], &made["status"]["code"]),
            (&json!(1), &json!(2))
        );
        assert_eq!(
            (&made["traceId"], &made["parentSpanId"]),
            (&json!("a".repeat(32)), &json!("c".repeat(16)))
        );
        assert_eq!(
            made["spanId"],
            SpanId::from_invocation(record.invocation.invocation_id).to_string()
        );
        assert_eq!(
            attribute(&made, "error.type").unwrap(),
            &json!({ "stringValue": "timeout" })
        );
        let names: Vec<&Value> = made["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| &event["name"])
            .collect();
        assert_eq!(names, ["tool.invocation.planned", "tool.invocation.failed"]);
        assert!(!made.to_string().contains(SECRET), "{made:#}");
    }

    #[test]
    fn the_code_of_a_span_is_that_of_the_host_and_never_one_that_a_tool_chose() {
        let mut record = record(Some(reference("01")), Some(ErrorClass::Timeout));
        let chosen = record.result.error.as_mut().unwrap();
        chosen.error_code = SECRET.to_owned();
        record.events[1].data = json!({ "error_class": "timeout", "error_code": SECRET });
        assert_eq!(
            attribute(&span(&record, false), "toolcell.error.code"),
            None
        );
        record
            .invocation
            .advance(Status::Selected, Some(SECRET.to_owned()))
            .unwrap();
        record
            .invocation
            .advance(Status::Failed, Some("tool_failed".to_owned()))
            .unwrap();
        let made = span(&record, false);
        assert_eq!(
            attribute(&made, "toolcell.error.code").unwrap(),
            &json!({ "stringValue": "tool_failed" })
        );
        assert!(!made.to_string().contains(SECRET), "{made:#}");
    }

    #[test]
    fn the_phases_of_a_call_are_events_in_their_order() {
        let mut record = record(Some(reference("01")), None);
        for status in [Status::Selected, Status::ArgumentsReady, Status::Canceled] {
            record.invocation.advance(status, None).unwrap();
        }
        let made = call_span(&record, false).unwrap();
        let phases = made.events.iter().filter(|event| event.name == PHASE);
        let phases: Vec<&AnyValue> = phases.map(|event| &event.attributes[0].value).collect();
        let words = ["selected", "arguments_ready", "canceled"];
        assert!(
            phases
                .into_iter()
                .eq(&words.map(|word| AnyValue::StringValue(word.to_owned())))
        );
        assert_eq!((made.events.len(), made.dropped_events_count), (5, 0));
        let made = serde_json::to_value(&made).unwrap();
        let times = made["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["timeUnixNano"].as_str().unwrap());
        assert!(times.is_sorted(), "{made:#}");
    }

    #[test]
    fn arguments_are_there_if_they_are_wanted() {
        let record = record(Some(reference("01")), None);
        let made = span(&record, true);
        let arguments = attribute(&made, "gen_ai.tool.call.arguments").unwrap()["stringValue"]
            .as_str()
            .unwrap();
        assert_eq!(arguments, json!({ "text": SECRET }).to_string());
        assert_eq!(
            attribute(&made, "toolcell.usage.fuel").unwrap(),
            &json!({ "intValue": "7" })
        );
        assert_eq!(made["status"], json!({}));
    }

    #[test]
    fn large_arguments_are_cut_between_characters() {
        for before in 0..4 {
            let value = json!({ "text": format!("{}{}", "x".repeat(before), "🦀".repeat(CONTENT_BYTES_MAX)) });
            let whole = value.to_string();
            let made = beginning(&value);
            assert_eq!(
                cut(&made, CONTENT_BYTES_MAX),
                cut(&whole, CONTENT_BYTES_MAX)
            );
            assert!(made.len() < CONTENT_BYTES_MAX + 10, "{}", made.len());
        }
        assert_eq!(beginning(&json!({ "a": [1, "é"] })), r#"{"a":[1,"é"]}"#);
    }

    #[test]
    fn a_call_without_a_trace_and_one_that_its_caller_does_not_record_have_no_span() {
        assert_eq!(call_span(&record(None, None), true), None);
        assert_eq!(call_span(&record(Some(reference("00")), None), true), None);
    }

    #[test]
    fn a_span_has_so_many_events() {
        let mut record = record(Some(reference("01")), None);
        let one = record.events[0].clone();
        record.events.resize(EVENTS_MAX + 5, one);
        let made = call_span(&record, false).unwrap();
        assert_eq!(
            (made.events.len(), made.dropped_events_count),
            (EVENTS_MAX, 5)
        );
    }
}
