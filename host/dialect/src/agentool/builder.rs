use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::{Value, json};
use toolcell_spec as record;
use toolcell_spec::{ErrorClass, Extra, Timestamp, ToolInvocation, TypedFields};

use super::call::{bare_name, is_concealed};
use super::{
    PostContent, ReasoningTrace, StepType, ToolCall, ToolResult, TraceEnd, TraceMetrics, TracePost,
    TraceStart, TraceStatus, TraceStep,
};
use crate::{DialectNames, NameRule};

const UNKNOWN_AGENT: &str = "unknown";
/// The fields of a trace.
const KNOWN: [&str; 11] = [
    "trace_id",
    "agent_id",
    "session_id",
    "started_at",
    "finished_at",
    "input",
    "output",
    "status",
    "steps",
    "metrics",
    "metadata",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detectors {
    /// Number of equal calls that are a loop.
    pub loop_after: u32,
    /// More tokens, in all or in one step's context, are an overflow.
    pub token_budget: Option<u64>,
}

impl Default for Detectors {
    fn default() -> Self {
        Self {
            loop_after: 3,
            token_budget: None,
        }
    }
}

/// Makes a session's trace from its calls and posts, in any order.
#[derive(Debug)]
pub struct TraceBuilder {
    session: String,
    detectors: Detectors,
    steps: Vec<(Timestamp, TraceStep)>,
    call_ids: HashSet<String>,
    equal_calls: HashMap<blake3::Hash, u32>,
    looping: Option<(String, blake3::Hash)>,
    caller: Option<String>,
    start: Option<(Timestamp, TraceStart)>,
    end: Option<(Timestamp, TraceEnd)>,
    is_running: bool,
    has_failed: bool,
    last_end: Option<(Timestamp, Option<ErrorClass>)>,
    latest_calls: Option<u32>,
}

fn digest(session: &str) -> String {
    blake3::hash(session.as_bytes()).to_hex().to_string()
}

/// The types of the steps that follow the result of a call, in their order.
pub fn consequences(result: &record::ToolResult) -> impl Iterator<Item = StepType> {
    let writes = result.context_modifiers.iter();
    handoffs(result)
        .map(|_| StepType::Handoff)
        .chain(writes.map(|_| StepType::MemoryWrite))
}

fn handoffs(result: &record::ToolResult) -> impl Iterator<Item = &record::Content> {
    let blocks = result.model_facing_content.iter();
    blocks.filter(|block| block.kind == "handoff_ref")
}

/// The span of the session's trace, as the `traceparent` of what is below it (W3C Trace Context): the same in every
/// process. Its trace begins with the digits of the `trace_id`.
pub fn traceparent(session: &str) -> String {
    let digest = digest(session);
    let digits = |place| digest.get(place).unwrap_or_default();
    format!("00-{}-{}-01", digits(0..32), digits(32..48))
}

impl TraceBuilder {
    pub fn new(session: &str, detectors: Detectors) -> Self {
        Self {
            session: session.to_owned(),
            detectors,
            steps: Vec::new(),
            call_ids: HashSet::new(),
            equal_calls: HashMap::new(),
            looping: None,
            caller: None,
            start: None,
            end: None,
            is_running: false,
            has_failed: false,
            last_end: None,
            latest_calls: None,
        }
    }

    /// `result` is `None` while the call runs. A tool's call is no step of the agent: the tool's own result names it.
    pub fn call(&mut self, invocation: &ToolInvocation, result: Option<&record::ToolResult>) {
        if invocation.extra.contains_key("parent_invocation_id") {
            return;
        }
        let mut call = ToolCall::from_invocation(invocation);
        // A caller may give one id to several calls, and a result has to find its own.
        if !self.call_ids.insert(call.id.clone()) {
            call.id = invocation.invocation_id.to_string();
            self.call_ids.insert(call.id.clone());
        }
        let id = call.id.clone();
        self.count(invocation);
        if self.caller.is_none() {
            self.caller = invocation.actor_ref.clone();
        }
        let planned = invocation.created_at();
        self.step(
            planned,
            TraceStep {
                tool_call: Some(call),
                ..TraceStep::new(StepType::ToolCall)
            },
        );
        let Some(result) = result else {
            self.is_running = true;
            return;
        };
        let at = invocation
            .ended_at()
            .unwrap_or(result.created_at)
            .max(planned);
        self.has_failed |= result.is_error;
        if self.last_end.as_ref().is_none_or(|(last, _)| *last <= at) {
            self.last_end = Some((at, result.error_class()));
        }
        let outcome = ToolResult {
            call_id: id,
            ..ToolResult::from_record(invocation, result)
        };
        self.step(
            at,
            TraceStep {
                tool_result: Some(outcome),
                ..TraceStep::new(StepType::ToolResult)
            },
        );
        self.consequences(at, result);
    }

    fn consequences(&mut self, at: Timestamp, result: &record::ToolResult) {
        for block in handoffs(result) {
            let text = |name| (name, block.fields.text(name).unwrap_or_default());
            let texts = ["to_agent", "message"].map(text);
            self.step(at, TraceStep::with_texts(StepType::Handoff, texts));
        }
        for modifier in &result.context_modifiers {
            let content = match &modifier.value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let texts = [("content", content.as_str()), ("key", &modifier.key)];
            self.step(at, TraceStep::with_texts(StepType::MemoryWrite, texts));
        }
    }

    pub fn post(&mut self, post: TracePost) {
        let TracePost { at, what } = post;
        match what {
            PostContent::Step(step) => self.step(at, *step),
            PostContent::Start(start) if self.start.is_none() => self.start = Some((at, start)),
            PostContent::Start(_) => {}
            PostContent::End(end) => self.end = Some((at, end)),
        }
    }

    pub fn leave_out_earlier(&mut self, latest: u32) {
        self.latest_calls = Some(latest);
    }

    fn step(&mut self, at: Timestamp, step: TraceStep) {
        self.steps.push((at, step));
    }

    /// Unrecorded arguments cannot be compared, so such a call equals none.
    fn count(&mut self, invocation: &ToolInvocation) {
        if is_concealed(invocation) {
            return;
        }
        let mut called = json!([invocation.tool_id, invocation.model_input]);
        called.sort_all_objects();
        let equal = blake3::hash(called.to_string().as_bytes());
        let count = self.equal_calls.entry(equal).or_default();
        *count = count.saturating_add(1);
        if *count >= self.detectors.loop_after && self.looping.is_none() {
            self.looping = Some((invocation.tool_id.clone(), equal));
        }
    }

    /// `None` without any call or post.
    pub fn finish(mut self) -> Option<ReasoningTrace> {
        // Stable, so that what a result proposes stays behind it.
        self.steps.sort_by_key(|(at, _)| *at);
        let times = self.steps.iter().map(|(at, _)| *at);
        let posted = self
            .start
            .iter()
            .map(|(at, _)| *at)
            .chain(self.end.iter().map(|(at, _)| *at));
        let times: Vec<Timestamp> = times.chain(posted).collect();
        let started = *times.iter().min()?;
        let latest = *times.iter().max()?;
        let names = self.name_steps();
        let metrics = self.metrics(latest.millis_since(started));
        let (status, noted) = self.status(&metrics, &names);
        let is_over = self.end.is_some() || !self.is_running;
        let end = self.end.as_ref().map(|(_, end)| end);
        let start = self.start.as_ref().map(|(_, start)| start);
        let agent = start
            .and_then(|start| start.agent_id.clone())
            .or_else(|| self.caller.clone());
        let digest = digest(&self.session);
        Some(ReasoningTrace {
            trace_id: format!("tr_{}", digest.get(..16).unwrap_or_default()),
            agent_id: agent
                .filter(|agent| !agent.is_empty())
                .unwrap_or_else(|| UNKNOWN_AGENT.to_owned()),
            started_at: started.to_string(),
            finished_at: is_over.then(|| latest.to_string()),
            input: start.map_or(Value::Null, |start| start.input.as_str().into()),
            output: is_over.then(|| {
                end.and_then(|end| end.output.clone())
                    .map_or(Value::Null, Value::from)
            }),
            status,
            metrics,
            metadata: self.metadata(noted),
            extra: self.unknown(),
            session_id: self.session,
            steps: self.steps.into_iter().map(|(_, step)| step).collect(),
        })
    }

    /// Numbers the steps; tools get the bare name if it is unique in the trace, else the qualified one.
    fn name_steps(&mut self) -> BTreeMap<String, String> {
        let tool_id = |call: &ToolCall| call.extra.text("tool_id").unwrap_or_default().to_owned();
        let calls = self
            .steps
            .iter()
            .filter_map(|(_, step)| step.tool_call.as_ref());
        let ids: BTreeSet<String> = calls.map(tool_id).collect();
        let mut bearers: HashMap<String, usize> = HashMap::new();
        for id in &ids {
            *bearers.entry(bare_name(id)).or_default() += 1;
        }
        let wanted = |id: &String| {
            let bare = bare_name(id);
            if bearers.get(&bare) == Some(&1) {
                bare
            } else {
                super::snake_case(&id.replace('.', "__"))
            }
        };
        let wanted: Vec<String> = ids.iter().map(wanted).collect();
        // The qualified name of one tool can be the bare name of another.
        let pairs = wanted
            .iter()
            .zip(&ids)
            .map(|(name, id)| (name.as_str(), id.as_str()));
        let table = DialectNames::new(NameRule::SnakeCase, pairs);
        let name = |(at, id): (usize, String)| (id, table.name(at).unwrap_or_default().to_owned());
        let names: BTreeMap<String, String> = ids.into_iter().enumerate().map(name).collect();
        for (number, (at, step)) in self.steps.iter_mut().enumerate() {
            step.step_id = format!("step_{:03}", number + 1);
            step.timestamp = at.to_string();
            if let Some(call) = &mut step.tool_call
                && let Some(name) = names.get(&tool_id(call))
            {
                call.name.clone_from(name);
            }
        }
        names
    }

    fn metrics(&self, total_duration_ms: u64) -> TraceMetrics {
        let end = self.end.as_ref().map(|(_, end)| end);
        let calls = self
            .steps
            .iter()
            .filter(|(_, step)| step.kind == StepType::ToolCall);
        TraceMetrics {
            // The model's tokens are not in the steps' contexts, and no tool reports any: only the caller knows them.
            total_tokens: end.and_then(|end| end.total_tokens).unwrap_or(0),
            total_cost_usd: end
                .and_then(|end| end.total_cost_usd.clone())
                .unwrap_or_else(|| 0.into()),
            total_duration_ms,
            step_count: self.steps.len(),
            tool_call_count: calls.count(),
            extra: Extra::new(),
        }
    }

    /// A found loop or overflow overrules the caller's post, because an agent that loops may call that a success.
    fn status(
        &self,
        metrics: &TraceMetrics,
        names: &BTreeMap<String, String>,
    ) -> (Option<TraceStatus>, Extra) {
        let mut noted = Extra::new();
        let posted = self.end.as_ref().and_then(|(_, end)| end.status);
        let mut found = None;
        if let Some(budget) = self.detectors.token_budget {
            noted.insert("token_budget".to_owned(), budget.into());
            let contexts = self
                .steps
                .iter()
                .filter_map(|(_, step)| step.context_tokens());
            if contexts
                .chain([metrics.total_tokens])
                .any(|tokens| tokens > budget)
            {
                found = Some(TraceStatus::ContextOverflow);
            }
        }
        if let Some((tool_id, equal)) = &self.looping {
            let times = self.equal_calls.get(equal);
            noted.insert(
                "loop".to_owned(),
                json!({ "tool_name": names.get(tool_id), "equal_calls": times }),
            );
            found = Some(TraceStatus::LoopDetected);
        }
        if let (Some(posted), Some(_)) = (posted, found) {
            noted.insert("posted_status".to_owned(), json!(posted));
        }
        if let Some(latest) = self.latest_calls {
            noted.insert("latest_calls".to_owned(), latest.into());
        }
        let observed = || match &self.last_end {
            Some((_, Some(ErrorClass::Timeout))) => TraceStatus::Timeout,
            _ if self.has_failed => TraceStatus::Error,
            _ => TraceStatus::Success,
        };
        let is_over = self.end.is_some() || !self.is_running;
        (found.or(posted).or_else(|| is_over.then(observed)), noted)
    }

    /// The unknown fields of start and end (AO-P-03). One with the name of another field is marked as the caller's.
    fn unknown(&self) -> Extra {
        let start = self.start.iter().flat_map(|(_, start)| &start.extra);
        let end = self.end.iter().flat_map(|(_, end)| &end.extra);
        let name = |name: &String| {
            if KNOWN.contains(&name.as_str()) {
                format!("caller_{name}")
            } else {
                name.clone()
            }
        };
        start
            .chain(end)
            .map(|(known, value)| (name(known), value.clone()))
            .collect()
    }

    fn metadata(&self, noted: Extra) -> Extra {
        let start = self
            .start
            .iter()
            .filter_map(|(_, start)| start.metadata.clone());
        let end = self.end.iter().filter_map(|(_, end)| end.metadata.clone());
        let mut metadata: Extra = start.chain(end).flatten().collect();
        metadata.remove("toolcell");
        if !noted.is_empty() {
            metadata.insert("toolcell".to_owned(), Value::Object(noted));
        }
        metadata
    }
}
