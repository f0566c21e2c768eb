//! One `tools/call`: from the request to a terminal record, with the cancellations and questions on the way.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{InputResponses, NumberOrString, ProtocolVersion, RequestId};
use rmcp::service::RequestContext;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::host::{Cancellation, Limits, Request, Session, Terms};
use crate::record::{AbortReason, CallRecord, ErrorClass, ExternalMapping, Extra, Input, Refusal};

use super::asking::{Announcing, Ask, Way, elicit, messenger};
use super::budget::Lease;
use super::calls::{CALLS_MAX, Place};
use super::notices::{Spoken, Wanted};
use super::offer::Offer;
use super::{Offering, Server};

/// The `_meta` key of a timeout that the request asks for, in milliseconds. It can only shorten the server's limit.
const TIMEOUT_KEY: &str = "toolcell/timeout_ms";

/// The caller, and the connection whose end cancels the call.
pub(super) struct Caller {
    pub(super) actor: Option<Arc<str>>,
    /// The name of the client's session, if it has one.
    pub(super) session: Option<Arc<str>>,
    /// Canceled when the connection that waits for the response closes.
    pub(super) gone: Option<CancellationToken>,
}

/// A request whose client waits for the response.
pub(super) struct Seen<'a> {
    /// How an approval is requested, if one is needed.
    pub(super) way: Way,
    pub(super) wanted: Wanted,
    pub(super) caller: Caller,
    pub(super) context: &'a RequestContext<RoleServer>,
}

/// An incoming call.
pub(super) struct Incoming<'a> {
    pub(super) name: &'a str,
    pub(super) input: Input,
    /// The memory that is reserved for the input.
    pub(super) lease: Option<Arc<Lease>>,
    /// Answers to questions that the tool may ask; a client may send them with the call, before the tool asks.
    pub(super) responses: Option<InputResponses>,
    /// The tool, or why there is none to call.
    pub(super) offer: Result<&'a Offer, Refusal>,
    pub(super) seen: &'a Seen<'a>,
}

/// A call in progress; its record is kept when it ends.
pub(super) struct Running {
    /// The offering that the call began with.
    offering: Arc<Offering>,
    done: Done,
    cancellation: Cancellation,
    /// The questions of the call, if its client is to be asked.
    questions: Option<mpsc::Receiver<Ask>>,
    responses: Option<InputResponses>,
    /// The events of the tool, if its client requested them.
    spoken: Option<Spoken>,
}

enum Done {
    /// Makes progress only while its request is handled.
    Here(Pin<Box<dyn Future<Output = Box<CallRecord>> + Send>>),
    /// Runs in a task of its own.
    Apart(JoinHandle<Box<CallRecord>>),
}

/// The next step of a call.
pub(super) enum Step {
    Done(Box<CallRecord>),
    /// A question for which the client has to come back.
    Asks(Ask),
}

impl Server {
    /// Begins a call. It makes progress only while [`Running::attend`] runs.
    pub(super) fn begin(self: &Arc<Self>, offering: &Arc<Offering>, incoming: Incoming<'_>) -> Running {
        let Incoming { name, input, lease, responses, offer, seen } = incoming;
        let place = self.calls.begin();
        let mut request = request(offering, name, input, seen);
        let (mut spoken, mut questions) = (None, None);
        match (offer, &place) {
            (Err(refusal), _) => request.unavailable = Some(refusal),
            (Ok(_), None) => request.unavailable = Some(too_many()),
            (Ok(offer), Some(_)) => {
                request.tool.clone_from(&offer.qualified_name);
                request.limits.wall = offer.wall.map_or(request.limits.wall, |wall| wall.min(request.limits.wall));
                request.approval.origin.clone_from(&offer.origin);
                questions = self.ask(offering, &mut request, seen);
                if offer.speaks && seen.wanted.anything() {
                    let (listener, said) = seen.wanted.listen(offer.name.clone());
                    request.listener = Some(listener);
                    spoken = Some(said);
                }
            }
        }
        let cancellation = request.cancellation.clone();
        let done = Done::Here(Box::pin(Arc::clone(self).run(Arc::clone(offering), request, (place, lease))));
        Running { offering: Arc::clone(offering), done, cancellation, questions, responses, spoken }
    }

    /// Runs the call, cancels it when the server stops, and keeps its record.
    async fn run(
        self: Arc<Self>,
        offering: Arc<Offering>,
        request: Request,
        held: (Option<Place>, Option<Arc<Lease>>),
    ) -> Box<CallRecord> {
        let cancellation = request.cancellation.clone();
        let record = {
            let mut call = std::pin::pin!(offering.host.call(request));
            tokio::select! {
                biased;
                record = &mut call => record,
                () = self.stop.cancelled() => {
                    cancellation.cancel(AbortReason::RuntimeShutdown);
                    call.await
                }
            }
        };
        if let Some(recorder) = &self.settings.recorder {
            recorder.keep(record.clone()).await;
        }
        drop(held);
        Box::new(record)
    }

    /// Attaches the approver to `request`; returns the receiver of its questions if the client answers them.
    fn ask(&self, offering: &Offering, request: &mut Request, seen: &Seen<'_>) -> Option<mpsc::Receiver<Ask>> {
        let outdated = offering.outdated();
        if seen.way == Way::Wait {
            let announcer = Arc::clone(&self.settings.announcer);
            request.approval.approver = Some(Arc::new(Announcing { announcer, outdated }));
            return None;
        }
        let (messenger, questions) = messenger(seen.caller.actor.as_deref().unwrap_or("the client"), outdated);
        if seen.way != Way::Return {
            request.respondent = Some(Arc::clone(&messenger) as _);
        }
        request.approval.approver = Some(messenger);
        Some(questions)
    }
}

impl Running {
    /// Drives a call until it has its record, or its client has to come back. Progress and logs are sent to the client
    /// before this returns. The call is canceled if the client cancels the request or disconnects.
    pub(super) async fn attend(&mut self, seen: &Seen<'_>) -> Result<Step, Refusal> {
        let Self { done, cancellation, questions, responses, spoken, .. } = self;
        let step = progress(done, cancellation, Questions { questions, responses }, seen);
        let Some(spoken) = spoken else { return step.await };
        let mut step = std::pin::pin!(step);
        let mut pass_on = std::pin::pin!(spoken.pass_on(&seen.wanted, &seen.context.peer));
        let step = tokio::select! {
            biased;
            step = &mut step => step?,
            () = &mut pass_on => return step.await,
        };
        if matches!(step, Step::Done(_)) {
            // The listener was dropped with the call, so the queue of events ends.
            pass_on.await;
        }
        Ok(step)
    }

    /// Moves the call to a task of its own, so that it continues without a request.
    pub(super) fn leave(mut self) -> Self {
        if let Done::Here(call) = self.done {
            self.done = Done::Apart(tokio::spawn(call));
        }
        self
    }

    /// Whether a call in a task of its own has ended.
    pub(super) fn has_ended(&self) -> bool {
        matches!(&self.done, Done::Apart(call) if call.is_finished())
    }

    /// The offering that the call began with.
    pub(super) fn offering(&self) -> &Arc<Offering> {
        &self.offering
    }
}

impl Done {
    async fn record(&mut self) -> Result<Box<CallRecord>, Refusal> {
        match self {
            Self::Here(call) => Ok(call.await),
            Self::Apart(call) => call.await.map_err(|error| Refusal::host_fault(format!("the call was lost: {error}"))),
        }
    }
}

async fn progress(
    done: &mut Done,
    cancellation: &Cancellation,
    mut asks: Questions<'_>,
    seen: &Seen<'_>,
) -> Result<Step, Refusal> {
    let mut asked: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
    let mut stopping = false;
    loop {
        let stop = async {
            tokio::select! {
                () = seen.context.ct.cancelled() => {}
                () = ended(seen.caller.gone.as_ref()) => {}
            }
        };
        tokio::select! {
            biased;
            record = done.record() => return record.map(Step::Done),
            () = stop, if !stopping => {
                stopping = true;
                cancellation.cancel(AbortReason::UserInterruption);
            }
            Some(ask) = asks.next() => match seen.way {
                // In this task, so that the client learns which of its requests the question belongs to.
                Way::Elicitation => asked = Some(Box::pin(elicit(ask, seen.context.peer.clone()))),
                Way::InputRequired | Way::Return | Way::Wait => return Ok(Step::Asks(ask)),
            },
            () = answered(&mut asked), if asked.is_some() => asked = None,
        }
    }
}

/// The questions of a call, and the answers that came before them.
struct Questions<'a> {
    questions: &'a mut Option<mpsc::Receiver<Ask>>,
    responses: &'a mut Option<InputResponses>,
}

impl Questions<'_> {
    /// The next question that is still open.
    async fn next(&mut self) -> Option<Ask> {
        loop {
            let ask = self.questions.as_mut()?.recv().await?;
            // An answer that came before the question approves nothing.
            if !matches!(ask, Ask::Input { .. }) {
                return Some(ask);
            }
            let Some(responses) = self.responses.take() else { return Some(ask) };
            if let Err(open) = ask.answer(Some(&responses)) {
                return Some(open);
            }
        }
    }
}

async fn answered(asked: &mut Option<Pin<Box<dyn Future<Output = ()> + Send>>>) {
    if let Some(asked) = asked {
        asked.await;
    }
}

async fn ended(gone: Option<&CancellationToken>) {
    match gone {
        Some(gone) => gone.cancelled().await,
        None => std::future::pending().await,
    }
}

fn request(offering: &Offering, name: &str, input: Input, seen: &Seen<'_>) -> Request {
    let Seen { caller, context, .. } = seen;
    let settings = &offering.approvals;
    let session = settings.session.clone().or_else(|| caller.session.as_deref().map(|id| format!("mcp:{id}")));
    Request {
        tool: name.to_owned(),
        input,
        native_call_id: Some(context.id.to_string()),
        actor_ref: caller.actor.as_deref().map(str::to_owned),
        grants: Arc::clone(&offering.grants),
        policy: Arc::clone(&offering.policy),
        limits: limits(offering.limits.clone(), context),
        approval: Terms {
            expire: settings.expire,
            session: session.map_or(Session::None, Session::Named),
            ..Terms::default()
        },
        cancellation: Cancellation::new(),
        unavailable: None,
        listener: None,
        respondent: None,
        mapping: Some(mapping(name, context)),
    }
}

fn too_many() -> Refusal {
    let message = format!("more than {CALLS_MAX} calls are on their way already");
    Refusal::new(ErrorClass::RateLimited, "too_many_calls", message)
}

fn limits(allowed: Limits, context: &RequestContext<RoleServer>) -> Limits {
    let wish = context.meta.get(TIMEOUT_KEY).and_then(Value::as_u64).filter(|ms| *ms > 0);
    Limits { wall: wish.map_or(allowed.wall, |ms| allowed.wall.min(Duration::from_millis(ms))), ..allowed }
}

/// The MCP metadata of the call (AT-MAP-01). The id keeps its type, and `_meta` all its keys.
fn mapping(name: &str, context: &RequestContext<RoleServer>) -> ExternalMapping {
    let mut fields = Extra::new();
    fields.insert("method".to_owned(), "tools/call".into());
    fields.insert("tool_name".to_owned(), name.into());
    fields.insert("jsonrpc_request_id".to_owned(), id(&context.id));
    fields.insert("mcp_protocol_version".to_owned(), revision(context).as_str().into());
    if !context.meta.is_empty() {
        fields.insert("_meta".to_owned(), json!(context.meta));
    }
    ExternalMapping { source: "mcp".to_owned(), fields }
}

fn id(id: &RequestId) -> Value {
    match id {
        NumberOrString::Number(number) => (*number).into(),
        NumberOrString::String(text) => text.as_ref().into(),
    }
}

/// The protocol revision of the request, else of its session; 2025-11-25 by default.
pub(super) fn revision(context: &RequestContext<RoleServer>) -> ProtocolVersion {
    context.protocol_version().unwrap_or(ProtocolVersion::V_2025_11_25)
}
