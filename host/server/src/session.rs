//! One connection of a client, or one request of a revision without sessions.

mod handler;

use super::asking::{AskChannel, CallQuestion};
use super::call::{
    CallProgress, CallerContext, IncomingCall, RunningCall, WaitingRequest, name_too_long, revision,
};
use super::calls::{BackgroundPlace, HeldCallKey};
use super::exposed_tools::ExposedTool;
use super::loaded_tools::LoadedTools;
use super::loading::ToldOfLoad;
use super::notices::WantedNotices;
use super::payloads::ReadablePayloads;
use super::results;
use super::sent_arguments::SentArguments;
use super::tasks::TASK_AFTER;
use super::unknown_cancels::UnknownCancels;
use super::{GoneToken, Server, ServerTools, of_http};
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ErrorData, ProtocolVersion,
};
use rmcp::service::RequestContext;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolcell_dialect::mcp;
use toolcell_spec::{CallRecord, Refusal, ResultPersistence, ToolResult};
use ulid::Ulid;

pub(super) const NAME: &str = "toolcell";
pub(super) const PAYLOAD_BYTES_MAX: u64 = 32 << 20;

/// All that one principal connects is one client, as is the client of standard streams.
pub(super) struct ClientIdentity {
    /// `None` if the transport cannot tell.
    pub(super) actor: Option<Arc<str>>,
    /// Owns the calls: the principal, or the connection if there is only one.
    pub(super) owner: Arc<str>,
    /// The connection is a session in revisions without sessions.
    pub(super) lasts: bool,
    pub(super) shelf: ReadablePayloads,
    pub(super) loads: LoadedTools,
    pub(super) unknown_cancels: UnknownCancels,
    without_request: Arc<Semaphore>,
}

/// Calls of one principal without a request.
const WITHOUT_REQUEST_MAX: usize = 64;

impl ClientIdentity {
    pub(super) fn of_streams(actor: Option<String>) -> Self {
        Self {
            actor: actor.map(Into::into),
            lasts: true,
            ..Self::of_principal("stdio".into())
        }
    }

    pub(super) fn of_principal(name: Arc<str>) -> Self {
        Self {
            actor: Some(Arc::clone(&name)),
            owner: Arc::clone(&name),
            lasts: false,
            shelf: ReadablePayloads::default(),
            loads: LoadedTools::new(name),
            unknown_cancels: UnknownCancels::default(),
            without_request: Arc::new(Semaphore::new(WITHOUT_REQUEST_MAX)),
        }
    }

    /// For a call without a request; `None` if too many run.
    pub(super) fn room(&self) -> Option<BackgroundPlace> {
        let permit = Arc::clone(&self.without_request).try_acquire_owned().ok()?;
        Some(BackgroundPlace { _permit: permit })
    }
}

pub(super) struct ClientSession {
    pub(super) server: Arc<Server>,
    pub(super) identity: Arc<ClientIdentity>,
    id: Arc<str>,
    loads: LoadedTools,
    /// Set by a client of 2025-11-25.
    level: AtomicU8,
    pub(super) told_of_load: ToldOfLoad,
    /// Stops the background tasks of the session.
    ended: CancellationToken,
    _ends: DropGuard,
}

impl Drop for ClientSession {
    fn drop(&mut self) {
        if let Some(workspaces) = self.offering().workspaces.clone() {
            workspaces.session_ended(&self.id);
        }
    }
}

impl ClientSession {
    pub(super) fn new(server: Arc<Server>, identity: Arc<ClientIdentity>) -> Self {
        let ended = CancellationToken::new();
        let id: Arc<str> = Ulid::generate().to_string().into();
        Self {
            server,
            identity,
            loads: LoadedTools::new(Arc::clone(&id)),
            id,
            level: AtomicU8::new(mcp::INFO),
            told_of_load: ToldOfLoad::default(),
            _ends: ended.clone().drop_guard(),
            ended,
        }
    }

    pub(super) fn offering(&self) -> Arc<ServerTools> {
        self.server.offering_of(self.identity.actor.as_deref())
    }

    pub(super) async fn tell_unknown_cancel(
        &self,
        offering: &ServerTools,
        id: &str,
        session: Option<String>,
    ) {
        self.identity
            .unknown_cancels
            .tell(&offering.tools.host, id, session)
            .await;
    }

    pub(super) fn payloads(&self) -> &ReadablePayloads {
        &self.identity.shelf
    }

    /// Tools of the session, or, in 2026-07-28 over HTTP, which has no sessions, of the same principal.
    pub(super) fn loads(&self, context: &RequestContext<RoleServer>) -> &LoadedTools {
        let old = revision(context) < ProtocolVersion::V_2026_07_28;
        if old {
            &self.loads
        } else {
            self.lasting_loads()
        }
    }

    fn lasting_loads(&self) -> &LoadedTools {
        if self.identity.lasts {
            &self.loads
        } else {
            &self.identity.loads
        }
    }

    fn wanted(&self, context: &RequestContext<RoleServer>) -> WantedNotices {
        WantedNotices {
            progress: context.meta.get_progress_token(),
            logs: self.least_level(context),
        }
    }

    /// `None` if the client wants no messages.
    pub(super) fn least_level(&self, context: &RequestContext<RoleServer>) -> Option<u8> {
        // 2026-07-28 has no sessions: each request carries its own log level.
        if revision(context) >= ProtocolVersion::V_2026_07_28 {
            context.meta.log_level().map(mcp::log_level)
        } else {
            Some(self.level.load(Ordering::Relaxed))
        }
    }

    pub(super) fn session_ref(&self, context: &RequestContext<RoleServer>) -> Option<String> {
        super::call::session(&self.offering().approvals, &self.caller(context))
    }

    /// `None` where the protocol has no sessions.
    pub(super) fn session_of(&self, context: &RequestContext<RoleServer>) -> Option<Arc<str>> {
        let lasts = self.identity.lasts || revision(context) < ProtocolVersion::V_2026_07_28;
        lasts.then(|| Arc::clone(&self.id))
    }

    fn caller(&self, context: &RequestContext<RoleServer>) -> CallerContext {
        CallerContext {
            actor: self.identity.actor.clone(),
            session: self.session_of(context),
            task_owner: self.task_owner().into(),
            gone: of_http(&context.extensions).map(|GoneToken(gone)| gone.clone()),
        }
    }

    /// Begins a call, or resumes a held one. `key` is the client's idempotency key.
    pub(super) fn enter(
        &self,
        params: CallToolRequestParams,
        key: Option<Arc<str>>,
        seen: &WaitingRequest<'_>,
    ) -> Result<(RunningCall, HeldCallKey, Option<CallQuestion>), ErrorData> {
        let SentArguments { arguments, lease } = match (
            SentArguments::with(seen.context),
            &params.arguments,
        ) {
            (Some(sent), _) => sent,
            (None, None) => SentArguments::new("{}", None),
            // rmcp also accepts params as an array, in which the outline finds no arguments.
            (None, Some(_)) => {
                let why = "the arguments cannot be read: send params as a JSON object with a name and arguments";
                return Err(ErrorData::invalid_params(why, None));
            }
        };
        if let Some(why) = name_too_long(&params.name) {
            return Err(ErrorData::invalid_params(why, None));
        }
        let words = HeldCallKey {
            owner: Arc::clone(&self.identity.owner),
            tool: params.name.into_owned(),
            arguments,
            key,
            lease,
        };
        if let Some(state) = &params.request_state {
            let unknown = || {
                ErrorData::invalid_params(
                    "this requestState is not that of such a call of yours, or the server was started anew: call without it",
                    None,
                )
            };
            let held = self
                .server
                .calls
                .held
                .take(state, &words)
                .ok_or_else(unknown)?;
            let open = held.ask.answer(params.input_responses.as_ref()).err();
            return Ok((held.running, words, open));
        }
        if (seen.channel == AskChannel::Return || words.key.is_some())
            && let Some(held) = self.server.calls.held.take_same(&words)
        {
            return Ok((held.running, words, Some(held.ask)));
        }
        let offering = &seen.offering;
        let offer = offering
            .offers
            .find(&words.tool)
            .map(Arc::as_ref)
            .map_err(mcp::as_protocol_error);
        if !seen.tasks
            && offer.as_ref().is_ok_and(|offer| offer.needs_task)
            && self.offers_tasks(seen)
        {
            let required = ClientCapabilities::builder().enable_tasks().build();
            return Err(ErrorData::missing_required_client_capability(required));
        }
        let loaded = offer
            .as_ref()
            .is_ok_and(|offer| offer.is_loaded(self.loads(seen.context)));
        let incoming = IncomingCall {
            name: &words.tool,
            input: words.arguments.clone(),
            offer,
            loaded,
            surface: offering.surface_id(self.loads(seen.context)),
            seen,
        };
        let lease = words.lease.clone();
        let running = self.server.begin(incoming, lease, params.input_responses);
        Ok((running, words, None))
    }

    fn offers_tasks(&self, seen: &WaitingRequest<'_>) -> bool {
        self.server.tasks.is_some() && revision(seen.context) >= ProtocolVersion::V_2026_07_28
    }

    /// Returns whether the call has ended, or is a task; otherwise its client has to come back.
    pub(super) async fn answer(
        &self,
        mut running: RunningCall,
        words: HeldCallKey,
        open: Option<CallQuestion>,
        seen: &WaitingRequest<'_>,
    ) -> Result<(CallToolResponse, bool), ErrorData> {
        let lost = |refusal: Refusal| ErrorData::internal_error(refusal.message, None);
        let mut open = match open {
            Some(mut ask) if !running.has_ended() => ask.is_open().await.then_some(ask),
            _ => None,
        };
        let mut defers = seen.tasks;
        loop {
            let ask = match open.take() {
                Some(ask) => Some(ask),
                None => match step(&mut running, seen, defers).await.map_err(lost)? {
                    Some(CallProgress::Done(record)) => {
                        let offering = Arc::clone(running.offering());
                        let result = self.result(*record, &offering, &words.tool, seen);
                        return Ok((result.await?, true));
                    }
                    Some(CallProgress::Asks(ask)) => Some(ask),
                    None => None,
                },
            };
            // A person may take long to approve. What a tool asks at once is answered before there is a task (SEP-2663).
            let ask = match ask {
                Some(ask) if !(defers && ask.is_approval()) => ask,
                ask => match self.defer(running, ask, seen.channel) {
                    Ok(created) => return Ok((created.into(), true)),
                    Err(refused) => {
                        let (same, ask) = *refused;
                        (running, defers) = (same, false);
                        let Some(ask) = ask else { continue };
                        ask
                    }
                },
            };
            match self.server.calls.held.has_room(&words.owner) {
                Ok(()) => {
                    let held = self.hold(running, ask, words, seen).map_err(lost)?;
                    return Ok((held, false));
                }
                Err(refusal) => ask.refuse(refusal.message),
            }
        }
    }

    /// The response tells the client how to continue.
    fn hold(
        &self,
        running: RunningCall,
        ask: CallQuestion,
        words: HeldCallKey,
        seen: &WaitingRequest<'_>,
    ) -> Result<CallToolResponse, Refusal> {
        let held = &self.server.calls.held;
        let questions = ask.questions();
        let meta = ask.meta();
        if let (AskChannel::Return, CallQuestion::Approval { prompt, .. }) = (seen.channel, &ask) {
            // That of a client with tasks was announced already.
            if !seen.tasks {
                (self.server.settings.announcer)(prompt);
            }
            let id = prompt.invocation_id().to_string();
            let expires_at = prompt.expires_at().to_string();
            held.hold(running.leave(), ask, words)?;
            return Ok(mcp::approval_pending(&id, &expires_at, meta).into());
        }
        let state = held.hold(running.leave(), ask, words)?;
        Ok(mcp::input_required(questions, &state, meta).into())
    }

    async fn result(
        &self,
        record: CallRecord,
        offering: &ServerTools,
        tool: &str,
        seen: &WaitingRequest<'_>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut result = record.result;
        let Ok(offer) = offering.offers.find(tool) else {
            return Err(mcp::protocol_error(&result));
        };
        let tools = (offering, Some(offer.as_ref()));
        self.deliver(tools, &record.persistence, &mut result, seen.context)
            .await?;
        let output_schema = offer.tool.contract().output_schema();
        Ok(mcp::call_result(&result, &revision(seen.context), output_schema).into())
    }

    /// Makes readable all that the result refers to, and puts promised structured output in.
    pub(super) async fn deliver(
        &self,
        (offering, offer): (&ServerTools, Option<&ExposedTool>),
        persistence: &[ResultPersistence],
        result: &mut ToolResult,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // First, so that a client can read in parts what has no room in the answer.
        self.payloads().put(persistence, &result.provenance);
        self.payloads().name(&result.artifact_refs);
        results::reserve(context, moved_bytes(result)).await?;
        if let Some(offer) = offer {
            fill_structured(offering, offer, result).await;
        }
        offering.fit(result);
        Ok(())
    }

    pub(super) fn seen<'a>(&self, context: &'a RequestContext<RoleServer>) -> WaitingRequest<'a> {
        let offering = self.offering();
        let revision = revision(context);
        let capabilities = context.client_capabilities();
        let has_tasks = capabilities
            .as_ref()
            .is_some_and(ClientCapabilities::supports_tasks);
        let tasks =
            has_tasks && revision >= ProtocolVersion::V_2026_07_28 && self.server.tasks.is_some();
        let channel =
            match AskChannel::choose(&offering.approvals, &revision, capabilities.as_ref()) {
                // The task says what it waits for.
                AskChannel::Wait if tasks => AskChannel::Return,
                channel => channel,
            };
        WaitingRequest {
            offering,
            channel,
            tasks,
            wanted: self.wanted(context),
            caller: self.caller(context),
            workspace: Ok(None),
            context,
        }
    }
}

/// `None` if it `defers` and the step is not there in time.
async fn step(
    running: &mut RunningCall,
    seen: &WaitingRequest<'_>,
    defers: bool,
) -> Result<Option<CallProgress>, Refusal> {
    let mut step = std::pin::pin!(running.attend(seen));
    if !defers {
        return step.await.map(Some);
    }
    match tokio::time::timeout(TASK_AFTER, &mut step).await {
        Ok(step) => step.map(Some),
        Err(_) => Ok(None),
    }
}

/// Clients refuse a result without structured output if the tool declares a schema. The content stays a preview.
async fn fill_structured(offering: &ServerTools, offer: &ExposedTool, result: &mut ToolResult) {
    let keeping = offering.tools.host.keeping();
    let promised = result.structured_content.is_none()
        && keeping.output
        && keeping.inline
        && offer.promises_output();
    if !promised || result.is_error {
        return;
    }
    // Only the host writes these references: a block of a tool could name any digest.
    let moved = result
        .resource_refs
        .iter()
        .find(|moved| moved["of"] == "structured_content");
    let digest = moved.and_then(|moved| moved["digest"].as_str());
    let bytes = match digest {
        Some(digest) => offering
            .tools
            .host
            .payload(digest, PAYLOAD_BYTES_MAX)
            .await
            .ok(),
        None => None,
    };
    result.structured_content = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
}

fn moved_bytes(result: &ToolResult) -> usize {
    let sizes = result
        .resource_refs
        .iter()
        .filter_map(|moved| moved["size_bytes"].as_u64());
    usize::try_from(sizes.sum::<u64>().min(PAYLOAD_BYTES_MAX)).unwrap_or(usize::MAX)
}
