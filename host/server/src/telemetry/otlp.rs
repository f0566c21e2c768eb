//! The JSON of OTLP/HTTP, as far as it is written here.

use std::time::SystemTime;

use serde::Serialize;
use serde_json::{Value, json};
use toolcell_spec::{SpanId, Timestamp};

/// `SPAN_KIND_INTERNAL`.
const INTERNAL: u8 = 1;
/// `STATUS_CODE_ERROR`.
const ERROR: u8 = 2;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Span {
    pub(super) trace_id: String,
    pub(super) span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent_span_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trace_state: Option<String>,
    pub(super) name: String,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    pub(super) attributes: Vec<Attribute>,
    pub(super) events: Vec<SpanEvent>,
    pub(super) dropped_events_count: usize,
    status: SpanStatus,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SpanEvent {
    time_unix_nano: String,
    pub(super) name: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) attributes: Vec<Attribute>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Attribute {
    pub(super) key: &'static str,
    pub(super) value: AnyValue,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum AnyValue {
    StringValue(String),
    /// 64 bits, which JSON has as a text.
    IntValue(String),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct SpanStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u8>,
}

impl Span {
    pub(super) fn new(
        trace_id: String,
        span_id: SpanId,
        parent: Option<SpanId>,
        name: String,
        (from, to): (Timestamp, Timestamp),
    ) -> Self {
        Self {
            trace_id,
            span_id: span_id.to_string(),
            parent_span_id: parent.map(|parent| parent.to_string()),
            trace_state: None,
            name,
            kind: INTERNAL,
            start_time_unix_nano: nanos(from),
            end_time_unix_nano: nanos(to.max(from)),
            attributes: Vec::new(),
            events: Vec::new(),
            dropped_events_count: 0,
            status: SpanStatus::default(),
        }
    }

    /// A message is left out, because a call's can repeat its arguments.
    pub(super) fn failed(&mut self) {
        self.status.code = Some(ERROR);
    }
}

impl SpanEvent {
    pub(super) fn new(time: Timestamp, name: &'static str) -> Self {
        Self {
            time_unix_nano: nanos(time),
            name,
            attributes: Vec::new(),
        }
    }
}

impl Attribute {
    pub(super) fn text(key: &'static str, value: impl Into<String>) -> Self {
        Self {
            key,
            value: AnyValue::StringValue(value.into()),
        }
    }

    pub(super) fn number(key: &'static str, value: u64) -> Self {
        Self {
            key,
            value: AnyValue::IntValue(value.to_string()),
        }
    }
}

pub(super) fn nanos(time: Timestamp) -> String {
    SystemTime::from(time)
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos()
        .to_string()
}

pub(super) fn traces(spans: &[Box<str>]) -> String {
    let resource = resource();
    let scope = scope();
    format!(
        "{{\"resourceSpans\":[{{\"resource\":{resource},\"scopeSpans\":[{{\"scope\":{scope},\"spans\":[{}]}}]}}]}}",
        spans.join(",")
    )
}

pub(super) fn metrics(metrics: &[Value]) -> String {
    json!({
        "resourceMetrics": [{
            "resource": resource(),
            "scopeMetrics": [{ "scope": scope(), "metrics": metrics }],
        }],
    })
    .to_string()
}

fn resource() -> Value {
    let attributes = [
        Attribute::text("service.name", "toolcell"),
        Attribute::text("service.version", env!("CARGO_PKG_VERSION")),
        Attribute::number("process.pid", std::process::id().into()),
    ];
    json!({ "attributes": attributes })
}

fn scope() -> Value {
    json!({ "name": "toolcell", "version": env!("CARGO_PKG_VERSION") })
}
