use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{InvocationId, ToolDeclaration, ToolInvocation, TypedFields};

const PARENT_BYTES: usize = 55;
/// In bytes, and also of members: no vendor may cut what is shorter.
const STATE_BYTES_MAX: usize = 512;
const STATE_MEMBERS_MAX: usize = 32;
const REFERENCES: &str = "telemetry_refs";
/// Name of every tool that was not found.
const UNRESOLVED: &str = "unresolved";
const SAMPLED: u8 = 1;

/// Trace and span of a call (W3C Trace Context).
///
/// ```
/// use toolcell_spec::TraceContext;
///
/// let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// assert!(TraceContext::parse(parent, Some("vendor=t61")).is_some_and(|context| context.is_sampled()));
/// assert_eq!(TraceContext::parse("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", None), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Value", try_from = "Value")]
pub struct TraceContext {
    trace_id: u128,
    parent: Option<SpanId>,
    flags: u8,
    state: Option<Arc<str>>,
}

/// 16 hexadecimal digits.
///
/// ```
/// use toolcell_spec::{InvocationId, SpanId};
///
/// assert_eq!(SpanId::from_invocation(InvocationId::new()).to_string().len(), 16);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanId(u64);

impl SpanId {
    /// The random part of the call's id, so that record and span name each other.
    pub fn from_invocation(call: InvocationId) -> Self {
        let [.., random] = parts(call.bits());
        // Zero is the id of no span.
        Self(random.max(1))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl TraceContext {
    /// `None` if `traceparent` is malformed, because a guess would join traces that do not belong together. A malformed
    /// `tracestate` is left out.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let (known, rest) = traceparent.split_at_checked(PARENT_BYTES)?;
        let mut fields = known.split('-');
        let [version, trace, parent, flags] =
            [2, 32, 16, 2].map(|digits| hex(fields.next(), digits));
        let version = version?;
        let flags = u8::try_from(flags?).ok()?;
        // A later version may add fields.
        let is_whole = rest.is_empty() || (version != 0 && rest.starts_with('-'));
        if fields.next().is_some() || version == 0xff || !is_whole {
            return None;
        }
        let parent = u64::try_from(parent?).ok().filter(|parent| *parent != 0)?;
        let state = tracestate
            .map(str::trim)
            .filter(|state| is_state(state))
            .map(Arc::from);
        Some(Self {
            trace_id: trace.filter(|id| *id != 0)?,
            parent: Some(SpanId(parent)),
            flags: if version == 0 { flags } else { flags & SAMPLED },
            state,
        })
    }

    pub fn begin() -> Self {
        Self {
            trace_id: InvocationId::new().bits(),
            parent: None,
            flags: SAMPLED,
            state: None,
        }
    }

    pub fn recorded(invocation: &ToolInvocation) -> Option<Self> {
        Self::read(invocation.extra.get(REFERENCES)?.get(0)?)
    }

    fn read(fields: &Value) -> Option<Self> {
        let word = |name: &str| fields.text(name);
        let parent = hex(word("parent_span_id"), 16).and_then(|parent| u64::try_from(parent).ok());
        Some(Self {
            trace_id: hex(word("trace_id"), 32)?,
            parent: parent.map(SpanId),
            flags: u8::try_from(hex(word("trace_flags"), 2)?).ok()?,
            state: word("trace_state").map(Arc::from),
        })
    }

    #[must_use]
    pub fn below(&self, parent: SpanId) -> Self {
        Self {
            parent: Some(parent),
            ..self.clone()
        }
    }

    /// 32 hexadecimal digits.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace_id)
    }

    /// `None` for the first span of a trace.
    pub fn parent(&self) -> Option<SpanId> {
        self.parent
    }

    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// As `telemetry_refs` (AT-INV-21).
    pub fn put_into(&self, invocation: &mut ToolInvocation) {
        let reference = self.reference(invocation.invocation_id);
        invocation
            .extra
            .insert(REFERENCES.to_owned(), Value::Array(vec![reference]));
    }

    /// `telemetry_refs`; empty without a trace.
    pub fn references(invocation: &ToolInvocation) -> Vec<Value> {
        invocation
            .extra
            .get(REFERENCES)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    }

    /// `trace_refs` of events (AT-EVF-10).
    pub fn spans(invocation: &ToolInvocation) -> Vec<Value> {
        let span = |reference: Value| json!({ "trace_id": reference.get("trace_id"), "span_id": reference.get("span_id") });
        Self::references(invocation).into_iter().map(span).collect()
    }

    /// The tool's name in a trace. A caller can choose any name for a tool that does not exist: such names are one.
    pub fn tool_name(found: Option<&ToolDeclaration>) -> String {
        found.map_or_else(|| UNRESOLVED.to_owned(), ToolDeclaration::qualified_name)
    }

    /// Adds final facts to `telemetry_refs`, as the span has them; the output has this size as JSON (AT-MAP-07).
    pub fn complete(
        invocation: &mut ToolInvocation,
        found: Option<&ToolDeclaration>,
        result_size_bytes: u64,
    ) {
        if !invocation.extra.contains_key(REFERENCES) {
            return;
        }
        let duration = invocation
            .ended_at()
            .map(|ended| ended.millis_since(invocation.created_at()));
        let request = invocation
            .extra
            .get("external_mappings")
            .and_then(|mappings| mappings.get(0));
        let request = ["jsonrpc_request_id", "request_id"]
            .into_iter()
            .find_map(|name| request?.get(name).cloned());
        let call = invocation.native_call_id.clone();
        let call = call.unwrap_or_else(|| invocation.invocation_id.to_string());
        let known = [
            ("tool_name", Self::tool_name(found).into()),
            ("tool_call_id", call.into()),
            ("request_id", request.unwrap_or_default()),
            ("duration_ms", duration.into()),
            ("result_size_bytes", result_size_bytes.into()),
        ];
        let reference = invocation
            .extra
            .get_mut(REFERENCES)
            .and_then(|references| references.get_mut(0));
        if let Some(fields) = reference.and_then(Value::as_object_mut) {
            fields.extend(known.map(|(name, value): (&str, Value)| (name.to_owned(), value)));
        }
    }

    fn reference(&self, id: InvocationId) -> Value {
        self.fields(Some(SpanId::from_invocation(id)))
    }

    fn fields(&self, span: Option<SpanId>) -> Value {
        let words = [
            ("trace_id", Some(self.trace_id())),
            ("span_id", span.map(|span| span.to_string())),
            ("trace_flags", Some(format!("{:02x}", self.flags))),
            (
                "parent_span_id",
                self.parent.map(|parent| parent.to_string()),
            ),
            ("trace_state", self.state.as_deref().map(str::to_owned)),
        ];
        let known = words
            .into_iter()
            .filter_map(|(name, word)| Some((name.to_owned(), Value::String(word?))));
        Value::Object(known.collect())
    }
}

impl From<TraceContext> for Value {
    fn from(context: TraceContext) -> Self {
        context.fields(None)
    }
}

impl TryFrom<Value> for TraceContext {
    type Error = &'static str;

    fn try_from(fields: Value) -> Result<Self, &'static str> {
        Self::read(&fields).ok_or("not a trace context")
    }
}

fn parts(bits: u128) -> [u64; 2] {
    let lower = bits & u128::from(u64::MAX);
    [bits >> 64, lower].map(|half| u64::try_from(half).unwrap_or_default())
}

fn hex(text: Option<&str>, digits: usize) -> Option<u128> {
    let text = text.filter(|text| text.len() == digits)?;
    let is_hex = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    is_hex
        .then(|| u128::from_str_radix(text, 16).ok())
        .flatten()
}

/// Members `key=value` of allowed characters.
fn is_state(text: &str) -> bool {
    let is_key = |key: &str| {
        let known = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/@".contains(&byte)
        };
        (1..=256).contains(&key.len()) && key.bytes().all(known)
    };
    let is_value = |value: &str| {
        let known = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'=';
        (1..=256).contains(&value.len()) && value.bytes().all(known)
    };
    let is_member = |member: &str| {
        let member = member.trim_matches([' ', '\t']);
        member.is_empty()
            || member
                .split_once('=')
                .is_some_and(|(key, value)| is_key(key) && is_value(value))
    };
    (1..=STATE_BYTES_MAX).contains(&text.len())
        && text.split(',').count() <= STATE_MEMBERS_MAX
        && text.split(',').all(is_member)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Input;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const PARENT: &str = "b7ad6b7169203331";

    fn parsed(text: &str) -> Option<TraceContext> {
        TraceContext::parse(text, None)
    }

    #[test]
    fn a_parent_is_read_and_a_call_below_a_call_names_its_span() {
        let context = parsed(&format!("00-{TRACE}-{PARENT}-01")).unwrap();
        let caller = InvocationId::new();
        let called = InvocationId::new();
        let above = context.reference(caller);
        assert_eq!(
            (&above["trace_id"], &above["parent_span_id"]),
            (&TRACE.into(), &PARENT.into())
        );
        let below = context
            .below(SpanId::from_invocation(caller))
            .reference(called);
        assert_eq!(
            (&below["trace_id"], &below["parent_span_id"]),
            (&above["trace_id"], &above["span_id"])
        );
        assert_ne!(above["span_id"], below["span_id"]);
    }

    #[test]
    fn what_is_on_record_is_read_as_it_was() {
        let parsed = TraceContext::parse(&format!("00-{TRACE}-{PARENT}-01"), Some("a=b")).unwrap();
        for context in [parsed, TraceContext::begin()] {
            let mut invocation = ToolInvocation::planned("a.b", &Input::from_text("{}"));
            assert_eq!(TraceContext::recorded(&invocation), None);
            context.put_into(&mut invocation);
            assert_eq!(TraceContext::recorded(&invocation), Some(context));
        }
    }

    #[test]
    fn what_is_malformed_in_any_way_is_no_parent() {
        let zeros = "0".repeat(32);
        for text in [
            String::new(),
            format!("00-{TRACE}-{PARENT}"),
            format!("00-{TRACE}-{PARENT}-01-"),
            format!("00-{TRACE}-{PARENT}-01 "),
            format!(" 00-{TRACE}-{PARENT}-01"),
            format!("ff-{TRACE}-{PARENT}-01"),
            format!("01-{TRACE}-{PARENT}-01x"),
            format!("00-{}-{PARENT}-01", TRACE.to_uppercase()),
            format!("00-{zeros}-{PARENT}-01"),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{TRACE}-{PARENT}-0g"),
            format!("00-{TRACE}-+7ad6b7169203331-01"),
            format!("00-{}é-{PARENT}-01", "a".repeat(30)),
            format!("00{TRACE}---{PARENT}-01"),
        ] {
            assert_eq!(parsed(&text), None, "{text:?}");
        }
        assert!(parsed(&format!("cc-{TRACE}-{PARENT}-01-what-the-future-holds")).is_some());
        assert!(
            !parsed(&format!("00-{TRACE}-{PARENT}-00"))
                .unwrap()
                .is_sampled()
        );
    }

    #[test]
    fn a_state_that_is_malformed_is_left_out() {
        let state = |state: &str| {
            let context =
                TraceContext::parse(&format!("00-{TRACE}-{PARENT}-01"), Some(state)).unwrap();
            context
                .reference(InvocationId::new())
                .get("trace_state")
                .cloned()
        };
        assert_eq!(
            state("rojo=00f067aa0ba902b7,congo=t61"),
            Some("rojo=00f067aa0ba902b7,congo=t61".into())
        );
        let long = format!("a={}", "x".repeat(STATE_BYTES_MAX));
        for malformed in [
            "",
            "rojo",
            "Rojo=1",
            "a=b=c",
            "a=\u{1b}",
            "a=é",
            &long,
            &"a=1,".repeat(40),
        ] {
            assert_eq!(state(malformed), None, "{malformed:?}");
        }
    }
}
