//! One `tools/call`: from the request to a terminal record.

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
use toolcell::{CallContext, CallHandle, CallSpec, CallWorkspace, Cancellation};
use toolcell_engine::approval::Session;
use toolcell_engine::pipeline::{Background, RecordKeeper};
use toolcell_spec::{AbortReason, CallRecord, ErrorCode, ExternalMapping, Extra, Input, Refusal};

use super::asking::{
    AnnouncingApprover, ApprovalAnnouncers, AskChannel, CallQuestion, elicit, messenger,
};
use super::budget::Lease;
use super::calls::{CALLS_MAX, CallEntry, CallPlace};
use super::exposed_tools::ExposedTool;
use super::notices::{CallEventQueue, WantedNotices};
use super::session::NAME;
use super::tasks::Tasks;
use super::{ApprovalSettings, Server, ServerTools, repeats, trace};

/// Seconds; the call was refused for want of room.
const RETRY_AFTER: f64 = 1.0;

#[derive(Clone)]
pub(super) struct CallerContext {
    pub(super) actor: Option<Arc<str>>,
    pub(super) session: Option<Arc<str>>,
    /// Other owners cannot name the client's tasks.
    pub(super) task_owner: Arc<str>,
    /// Canceled when the connection that waits for the response closes.
    pub(super) gone: Option<CancellationToken>,
}

pub(super) struct WaitingRequest<'a> {
    pub(super) offering: Arc<ServerTools>,
    pub(super) channel: AskChannel,
    /// The client can poll a task instead of waiting (SEP-2663).
    pub(super) tasks: bool,
    pub(super) wanted: WantedNotices,
    pub(super) caller: CallerContext,
    pub(super) workspace: Result<Option<CallWorkspace>, Refusal>,
    pub(super) context: &'a RequestContext<RoleServer>,
}

impl WaitingRequest<'_> {
    /// The client cancels the request, or disconnects.
    pub(super) async fn ended(&self) {
        let gone = async {
            match &self.caller.gone {
                Some(gone) => gone.cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.context.ct.cancelled() => {}
            () = gone => {}
        }
    }
}

pub(super) struct IncomingCall<'a> {
    pub(super) name: &'a str,
    pub(super) input: Input,
    pub(super) offer: Result<&'a ExposedTool, Refusal>,
    pub(super) loaded: bool,
    pub(super) surface: Arc<str>,
    pub(super) seen: &'a WaitingRequest<'a>,
}

pub(super) struct PreparedCall {
    pub(super) spec: CallSpec,
    pub(super) context: CallContext,
    /// `None` if all places of the server are taken.
    pub(super) place: Option<CallPlace>,
    pub(super) talk: CallTalk,
}

pub(super) struct CallTalk {
    pub(super) asks: CallQuestions,
    /// `Some` if the client requested the tool's events.
    pub(super) spoken: Option<CallEventQueue>,
    /// `Some` if the call can become a task.
    entry: Option<Arc<CallEntry>>,
    /// Tells that the call goes on without its client; `None` if it cannot.
    background: Option<Background>,
}

pub(super) struct CallQuestions {
    /// `None` if the client is not to be asked.
    pub(super) questions: Option<mpsc::Receiver<CallQuestion>>,
    responses: Option<InputResponses>,
}

pub(super) struct RunningCall {
    offering: Arc<ServerTools>,
    done: CallFuture,
    cancellation: Cancellation,
    talk: CallTalk,
}

enum CallFuture {
    /// Progresses only while its request is handled.
    Here(Pin<Box<dyn Future<Output = Option<Box<CallRecord>>> + Send>>),
    Apart(JoinHandle<Option<Box<CallRecord>>>),
}

pub(super) enum CallProgress {
    Done(Box<CallRecord>),
    Asks(CallQuestion),
}

impl Server {
    pub(super) fn begin(
        self: &Arc<Self>,
        incoming: IncomingCall<'_>,
        lease: Option<Arc<Lease>>,
        responses: Option<InputResponses>,
    ) -> RunningCall {
        let offering = Arc::clone(&incoming.seen.offering);
        let PreparedCall {
            spec,
            context,
            place,
            mut talk,
        } = self.prepare(incoming);
        talk.asks.responses = responses;
        let cancellation = context.cancellation.clone();
        let call = offering.tools.call(spec, context);
        let entry = talk.entry.clone();
        let run = Arc::clone(self).run(call, cancellation.clone(), (place, lease), entry);
        RunningCall {
            offering,
            done: CallFuture::Here(Box::pin(run)),
            cancellation,
            talk,
        }
    }

    pub(super) fn prepare(&self, incoming: IncomingCall<'_>) -> PreparedCall {
        let IncomingCall {
            name,
            input,
            offer,
            loaded,
            surface,
            seen,
        } = incoming;
        let place = self.places.begin();
        let mut spec = CallSpec {
            surface_id: Some(surface),
            ..spec(name, input, seen)
        };
        let mut context = CallContext {
            keeper: self.keeper(),
            ..CallContext::default()
        };
        let mut spoken = None;
        let mut questions = None;
        let mut entry = None;
        match (offer, &place) {
            (Err(refusal), _) => context.refusal = Some(refusal),
            (Ok(_), None) => context.refusal = Some(too_many()),
            (Ok(offer), Some(_)) => {
                spec = spec.exactly(&offer.tool);
                spec.is_loaded = Some(loaded);
                match seen.workspace.clone() {
                    Ok(workspace) => context.workspace = workspace,
                    Err(refusal) => context.refusal = Some(refusal),
                }
                questions = self.ask(&mut context, seen);
                context.background = (questions.is_some() || seen.tasks).then(Background::default);
                if offer.speaks && seen.wanted.anything() {
                    let (listener, said) = seen.wanted.listen(offer.name.clone());
                    context.listener = Some(listener);
                    spoken = Some(said);
                }
                if seen.tasks {
                    let owner = seen.caller.task_owner.clone();
                    let begun = Arc::new(CallEntry::new(owner, context.background.clone()));
                    context.cancellation = begun.cancellation.clone();
                    context.listener = Some(begun.learning(context.listener.take()));
                    entry = Some(begun);
                }
            }
        }
        let talk = CallTalk {
            asks: CallQuestions {
                questions,
                responses: None,
            },
            spoken,
            entry,
            background: context.background.clone(),
        };
        PreparedCall {
            spec,
            context,
            place,
            talk,
        }
    }

    /// Cancels the call when the server stops. `None` for a task that was left to another process.
    pub(super) async fn run(
        self: Arc<Self>,
        call: CallHandle,
        cancellation: Cancellation,
        held: (Option<CallPlace>, Option<Arc<Lease>>),
        entry: Option<Arc<CallEntry>>,
    ) -> Option<Box<CallRecord>> {
        let record = {
            // Dropped before its place is: a call that is left writes its latest events down, and a server without calls ends.
            let mut call = call;
            let can_be_left = || entry.as_ref().is_some_and(|entry| entry.can_be_left());
            self.until_stopped(&cancellation, can_be_left, Pin::new(&mut call))
                .await
        };
        if let Some(record) = &record {
            self.keep(record).await;
        }
        drop(held);
        record
    }

    /// `None` if the call is left to another process when the server stops (`can_be_left`): what was approved must not
    /// end because of that.
    pub(super) async fn until_stopped<T>(
        &self,
        cancellation: &Cancellation,
        can_be_left: impl Fn() -> bool,
        mut call: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        tokio::select! {
            biased;
            // First, so that an answer or a cancellation that is here already counts.
            ended = &mut call => return Some(ended),
            () = self.stop.cancelled() => {}
        }
        if can_be_left() && cancellation.requested().is_none() {
            return None;
        }
        cancellation.cancel(AbortReason::RuntimeShutdown);
        Some(call.await)
    }

    /// The calls are those that a tool makes.
    pub fn keeper(&self) -> Option<Arc<dyn RecordKeeper>> {
        self.settings
            .recorder
            .clone()
            .map(|recorder| -> Arc<dyn RecordKeeper> { recorder })
    }

    /// Writes down a call that another interface than this crate's made with the tools of this server.
    pub async fn keep(&self, record: &CallRecord) {
        self.note(record).await;
        if let Some(recorder) = &self.settings.recorder {
            recorder.keep(record).await;
        }
    }

    fn ask(
        &self,
        context: &mut CallContext,
        seen: &WaitingRequest<'_>,
    ) -> Option<mpsc::Receiver<CallQuestion>> {
        let outdated = seen.offering.outdated();
        if seen.channel == AskChannel::Wait {
            let announcer = Arc::clone(&self.settings.announcer);
            context.approver = Some(Arc::new(AnnouncingApprover {
                announcer,
                outdated,
            }));
            return None;
        }
        // Without tasks, the client is told at once, together with the operator.
        let announced = seen.tasks && seen.channel == AskChannel::Return;
        let announcer = |is_told: bool| is_told.then(|| Arc::clone(&self.settings.announcer));
        let elsewhere = announcer(seen.channel != AskChannel::Return);
        let announcers = ApprovalAnnouncers {
            always: announcer(announced),
            elsewhere,
        };
        let (messenger, questions) = messenger(seen.caller.actor.as_deref(), announcers, outdated);
        let messenger = Arc::new(messenger);
        if seen.channel != AskChannel::Return {
            context.respondent = Some(Arc::clone(&messenger) as _);
        }
        context.approver = Some(messenger);
        Some(questions)
    }
}

impl RunningCall {
    /// Returns when the record is there, or the client has to come back, after progress and logs are sent. The call is
    /// canceled if the client cancels or disconnects.
    pub(super) async fn attend(
        &mut self,
        seen: &WaitingRequest<'_>,
    ) -> Result<CallProgress, Refusal> {
        let CallTalk { asks, spoken, .. } = &mut self.talk;
        let step = progress(&mut self.done, &self.cancellation, asks, seen);
        let Some(spoken) = spoken else {
            return step.await;
        };
        let mut step = std::pin::pin!(step);
        let mut pass_on = std::pin::pin!(spoken.pass_on(&seen.wanted, &seen.context.peer));
        let step = tokio::select! {
            biased;
            step = &mut step => step?,
            () = &mut pass_on => return step.await,
        };
        if matches!(step, CallProgress::Done(_)) {
            // The listener was dropped with the call, so the queue of events ends.
            pass_on.await;
        }
        Ok(step)
    }

    /// Moves the call to a task of its own, so that it continues without a request.
    pub(super) fn leave(mut self) -> Self {
        if let CallFuture::Here(call) = self.done {
            self.talk.background.iter().for_each(Background::enter);
            self.done = CallFuture::Apart(tokio::spawn(call));
        }
        self
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(&self.done, CallFuture::Apart(call) if call.is_finished())
    }

    pub(super) fn offering(&self) -> &Arc<ServerTools> {
        &self.offering
    }

    /// `None` if the call cannot become a task.
    pub(super) fn entry(&self) -> Option<&Arc<CallEntry>> {
        self.talk.entry.as_ref()
    }

    /// The client asks about the call, and `ask` already. The call must have an entry.
    pub(super) fn detach(self, tasks: &Arc<Tasks>, ask: Option<CallQuestion>) {
        let Some(entry) = self.talk.entry.clone() else {
            return;
        };
        entry.set_left();
        self.talk
            .background
            .iter()
            .for_each(Background::set_returns);
        let call = match self.done {
            CallFuture::Here(call) => {
                self.talk.background.iter().for_each(Background::enter);
                tokio::spawn(call)
            }
            CallFuture::Apart(call) => call,
        };
        let asks = self.talk.asks;
        let questions = match asks.responses {
            Some(_) => Some(answered_early(asks)),
            None => asks.questions,
        };
        tasks.follow(entry, call, self.offering.keep, (questions, ask));
    }
}

impl CallFuture {
    async fn record(&mut self) -> Result<Box<CallRecord>, Refusal> {
        let record = match self {
            Self::Here(call) => call.await,
            Self::Apart(call) => call
                .await
                .map_err(|error| Refusal::host_fault(format!("the call was lost: {error}")))?,
        };
        // No request waits for a task.
        record.ok_or_else(|| Refusal::host_fault("the call was left to another process"))
    }
}

async fn progress(
    done: &mut CallFuture,
    cancellation: &Cancellation,
    asks: &mut CallQuestions,
    seen: &WaitingRequest<'_>,
) -> Result<CallProgress, Refusal> {
    let mut asked: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
    let mut stopping = false;
    loop {
        tokio::select! {
            biased;
            record = done.record() => return record.map(CallProgress::Done),
            () = seen.ended(), if !stopping => {
                stopping = true;
                cancellation.cancel(AbortReason::UserInterruption);
            }
            Some(ask) = asks.next() => match seen.channel {
                // In this task, so that the client learns which of its requests the question belongs to.
                AskChannel::Elicitation => asked = Some(Box::pin(elicit(ask, seen.context.peer.clone()))),
                AskChannel::InputRequired | AskChannel::Return | AskChannel::Wait => return Ok(CallProgress::Asks(ask)),
            },
            () = answered(&mut asked), if asked.is_some() => asked = None,
        }
    }
}

impl CallQuestions {
    async fn next(&mut self) -> Option<CallQuestion> {
        loop {
            let ask = self.questions.as_mut()?.recv().await?;
            // An answer that came before the question approves nothing.
            if !matches!(ask, CallQuestion::Input { .. }) {
                return Some(ask);
            }
            let Some(responses) = self.responses.take() else {
                return Some(ask);
            };
            if let Err(open) = ask.answer(Some(&responses)) {
                return Some(open);
            }
        }
    }
}

/// The call does not wait until its client asks about it. Returns the receiver of other questions.
fn answered_early(mut asks: CallQuestions) -> mpsc::Receiver<CallQuestion> {
    let (pass_on, open) = mpsc::channel(1);
    tokio::spawn(async move {
        while let Some(ask) = asks.next().await {
            if pass_on.send(ask).await.is_err() {
                return;
            }
        }
    });
    open
}

async fn answered(asked: &mut Option<Pin<Box<dyn Future<Output = ()> + Send>>>) {
    if let Some(asked) = asked {
        asked.await;
    }
}

fn spec(name: &str, input: Input, seen: &WaitingRequest<'_>) -> CallSpec {
    let WaitingRequest {
        offering,
        caller,
        context,
        ..
    } = seen;
    let session = session(&offering.approvals, caller);
    CallSpec {
        native_call_id: Some(context.id.to_string()),
        idempotency_key: repeats::named(context),
        timeout: timeout(context),
        mapping: Some(mapping(name, context)),
        trace: trace::of_mcp(offering, session.as_deref(), context),
        session: session.map_or(Session::None, Session::Named),
        ..CallSpec::new(name, input).actor(caller.actor.as_deref().map(str::to_owned))
    }
}

/// The operator's, else the client's; `None` where the protocol has no sessions.
pub(super) fn session(settings: &ApprovalSettings, caller: &CallerContext) -> Option<String> {
    settings
        .session
        .clone()
        .or_else(|| caller.session.as_deref().map(|id| format!("mcp:{id}")))
}

/// Offered names are shorter.
const NAME_BYTES_MAX: usize = 1 << 10;

/// Refused before the call has a record, into which megabytes of name would be written.
pub(super) fn name_too_long(name: &str) -> Option<String> {
    let is_long = name.len() > NAME_BYTES_MAX && guard!("tool_name_bytes");
    is_long.then(|| {
        format!(
            "the name of a tool has {} bytes; send at most {NAME_BYTES_MAX}",
            name.len()
        )
    })
}

pub(super) fn too_many() -> Refusal {
    let message = format!("more than {CALLS_MAX} calls are on their way already; try again later");
    let mut refusal = Refusal::new(ErrorCode::TooManyCalls, message);
    refusal.retry_after = Some(RETRY_AFTER);
    refusal
}

fn timeout(context: &RequestContext<RoleServer>) -> Option<Duration> {
    let millis = context
        .meta
        .get(CallSpec::TIMEOUT_KEY)
        .and_then(Value::as_u64);
    millis
        .filter(|millis| *millis > 0)
        .map(Duration::from_millis)
}

/// Names a session of MCP over HTTP.
pub(super) const SESSION_HEADER: &str = "mcp-session-id";

/// MCP metadata of the call (AT-MAP-01). The id keeps its type, and `_meta` all its keys.
fn mapping(name: &str, context: &RequestContext<RoleServer>) -> ExternalMapping {
    let mut fields = Extra::new();
    fields.insert("server_id".to_owned(), NAME.into());
    let parts = context.extensions.get::<::http::request::Parts>();
    if let Some(session) = parts.and_then(|parts| parts.headers.get(SESSION_HEADER)?.to_str().ok())
    {
        fields.insert("mcp_session_id".to_owned(), session.into());
    }
    fields.insert("method".to_owned(), "tools/call".into());
    fields.insert("tool_name".to_owned(), name.into());
    fields.insert("jsonrpc_request_id".to_owned(), id(&context.id));
    fields.insert(
        "mcp_protocol_version".to_owned(),
        revision(context).as_str().into(),
    );
    if !context.meta.is_empty() {
        fields.insert("_meta".to_owned(), json!(context.meta));
    }
    ExternalMapping {
        source: "mcp".to_owned(),
        fields,
    }
}

fn id(id: &RequestId) -> Value {
    match id {
        NumberOrString::Number(number) => (*number).into(),
        NumberOrString::String(text) => text.as_ref().into(),
    }
}

/// Revision of the request, else of its session; 2025-11-25 by default.
pub(super) fn revision(context: &RequestContext<RoleServer>) -> ProtocolVersion {
    context
        .protocol_version()
        .unwrap_or(ProtocolVersion::V_2025_11_25)
}
