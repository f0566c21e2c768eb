#![allow(deprecated, reason = "log messages are on their way out of the protocol, and both revisions still have them")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode, ErrorData, Implementation,
    ListPromptsRequestMethod, ListPromptsResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ServerCapabilities,
    ServerConfig, SetLevelRequestParams, SubscriptionFilter, Tool,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};
use ulid::Ulid;

use crate::dialect::mcp::{self, Level};
use crate::record::{CallRecord, ErrorClass, Refusal, ToolResult};

use super::asking::{Ask, Way};
use super::call::{Caller, Incoming, Running, Seen, Step, revision};
use super::held::Words;
use super::notices::Wanted;
use super::offer::Offer;
use super::sent::Sent;
use super::shelf::{Shelf, Shelved};
use super::{Offering, Server};

/// Maximum size of a payload in one response, in bytes.
const PAYLOAD_BYTES_MAX: u64 = 32 << 20;

/// The identity of a client.
pub(super) struct Identity {
    /// The caller; `None` if the transport cannot tell.
    pub(super) actor: Option<Arc<str>>,
    /// The owner of the calls: the principal, or the connection if there is only one.
    pub(super) owner: Arc<str>,
    /// Whether the connection counts as a session in revisions without sessions.
    pub(super) lasts: bool,
    pub(super) shelf: Arc<Shelf>,
}

/// The session of one client: the payloads that it may read, and the log level that it wants.
pub(super) struct Session {
    server: Arc<Server>,
    identity: Identity,
    /// The name of the session in records and in remembered approvals.
    id: Arc<str>,
    /// The minimum log level that a client of 2025-11-25 set.
    level: AtomicU8,
    /// Stops the background tasks of the session.
    ended: CancellationToken,
    _ends: DropGuard,
}

impl Session {
    pub(super) fn new(server: Arc<Server>, identity: Identity) -> Self {
        let ended = CancellationToken::new();
        let _ends = ended.clone().drop_guard();
        let (id, level) = (Ulid::generate().to_string().into(), AtomicU8::new(Level::Info as u8));
        Self { server, identity, id, level, ended, _ends }
    }

    fn wanted(&self, context: &RequestContext<RoleServer>) -> Wanted {
        // 2026-07-28 has no sessions: each request carries its own log level.
        let logs = match revision(context) >= ProtocolVersion::V_2026_07_28 {
            true => context.meta.log_level().map(mcp::log_level),
            false => self.level(),
        };
        Wanted { progress: context.meta.get_progress_token(), logs }
    }

    fn level(&self) -> Option<Level> {
        use Level::{Alert, Critical, Debug, Emergency, Error, Info, Notice, Warning};
        let level = self.level.load(Ordering::Relaxed);
        [Debug, Info, Notice, Warning, Error, Critical, Alert, Emergency]
            .into_iter()
            .find(|known| *known as u8 == level)
    }

    fn caller(&self, context: &RequestContext<RoleServer>) -> Caller {
        let lasts = self.identity.lasts || revision(context) < ProtocolVersion::V_2026_07_28;
        Caller {
            actor: self.identity.actor.clone(),
            session: lasts.then(|| Arc::clone(&self.id)),
            gone: super::gone(context),
        }
    }

    /// Begins a call, or resumes a held one that this request refers to.
    fn enter(
        &self,
        params: CallToolRequestParams,
        seen: &Seen<'_>,
    ) -> Result<(Running, Words, Option<Ask>), ErrorData> {
        let Sent { arguments, lease } = match (Sent::with(seen.context), &params.arguments) {
            (Some(sent), _) => sent,
            (None, None) => Sent::new("{}", None),
            // rmcp also accepts params as an array, in which the outline finds no arguments.
            (None, Some(_)) => {
                let why = "the arguments cannot be read: send params as a JSON object with a name and arguments";
                return Err(ErrorData::invalid_params(why, None));
            }
        };
        let words = Words { owner: Arc::clone(&self.identity.owner), tool: params.name.into_owned(), arguments, lease };
        if let Some(state) = &params.request_state {
            let unknown = || ErrorData::invalid_params("this requestState is not that of such a call of yours", None);
            let held = self.server.held.take(state, &words).ok_or_else(unknown)?;
            let open = held.ask.answer(params.input_responses.as_ref()).err();
            return Ok((held.running, words, open));
        }
        if seen.way == Way::Return
            && let Some(held) = self.server.held.take_same(&words)
        {
            return Ok((held.running, words, Some(held.ask)));
        }
        let offering = self.server.offering();
        let offer = offering.offers.find(&words.tool).map(Arc::as_ref);
        let (input, lease, responses) = (words.arguments.clone(), words.lease.clone(), params.input_responses);
        let incoming = Incoming { name: &words.tool, input, lease, responses, offer, seen };
        Ok((self.server.begin(&offering, incoming), words, None))
    }

    /// Drives a call until there is a response. `open` is the unanswered question of a held call.
    async fn answer(
        &self,
        mut running: Running,
        words: Words,
        open: Option<Ask>,
        seen: &Seen<'_>,
    ) -> Result<CallToolResponse, ErrorData> {
        let lost = |refusal: Refusal| ErrorData::internal_error(refusal.message, None);
        let mut open = match open {
            Some(mut ask) if !running.has_ended() => ask.is_open().await.then_some(ask),
            _ => None,
        };
        loop {
            let ask = match open.take() {
                Some(ask) => ask,
                None => match running.attend(seen).await.map_err(lost)? {
                    Step::Done(record) => {
                        let offering = Arc::clone(running.offering());
                        return self.result(*record, &offering, &words.tool, seen).await;
                    }
                    Step::Asks(ask) => ask,
                },
            };
            match self.server.held.has_room(&words.owner) {
                Ok(()) => return self.hold(running, ask, words, seen.way).map_err(lost),
                Err(refusal) => ask.refuse(refusal.message),
            }
        }
    }

    /// Holds a call that waits for an answer, and returns the response that tells the client how to continue.
    fn hold(&self, running: Running, ask: Ask, words: Words, way: Way) -> Result<CallToolResponse, Refusal> {
        let held = &self.server.held;
        let (questions, meta) = (ask.questions(), ask.meta());
        if let (Way::Return, Ask::Approval { prompt, .. }) = (way, &ask) {
            (self.server.settings.announcer)(prompt);
            let (id, expires_at) = (prompt.invocation_id().to_string(), prompt.expires_at().to_string());
            held.hold(running.leave(), ask, words)?;
            return Ok(mcp::approval_pending(&id, &expires_at, meta).into());
        }
        let state = held.hold(running.leave(), ask, words)?;
        Ok(mcp::input_required(questions, &state, meta).into())
    }

    async fn result(
        &self,
        record: CallRecord,
        offering: &Offering,
        tool: &str,
        seen: &Seen<'_>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut result = record.result;
        let Ok(offer) = offering.offers.find(tool) else { return Err(mcp::protocol_error(&result)) };
        self.identity.shelf.put(&record.persistence, &result.provenance);
        fill_structured(offering, offer, &mut result).await;
        Ok(mcp::call_result(&result, &revision(seen.context)).into())
    }

    fn seen<'a>(&self, context: &'a RequestContext<RoleServer>) -> Seen<'a> {
        let way = Way::of(&self.server.offering().approvals, context);
        Seen { way, wanted: self.wanted(context), caller: self.caller(context), context }
    }
}

/// Restores structured output that was moved to a payload, if the tool declares an output schema, because clients
/// refuse a result without it. The content stays a preview.
async fn fill_structured(offering: &Offering, offer: &Offer, result: &mut ToolResult) {
    let promised = offer.described.output_schema.is_some() && result.structured_content.is_none();
    if !promised || result.is_error {
        return;
    }
    let of_structured =
        |block: &&crate::record::Content| block.fields.get("of").is_some_and(|of| of == "structured_content");
    let moved = result.content.iter().find(of_structured);
    let digest = moved.and_then(|block| block.fields.get("persisted_ref")?.get("digest")?.as_str());
    let bytes = match digest {
        Some(digest) => offering.host.payload(digest, PAYLOAD_BYTES_MAX).await.ok(),
        None => None,
    };
    result.structured_content = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
}

impl ServerHandler for Session {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_logging()
            .build();
        let implementation = Implementation::new("toolcell", env!("CARGO_PKG_VERSION")).with_title("toolcell");
        ServerConfig::new(capabilities).with_server_info(implementation)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.server.offering().offers.listed()))
    }

    /// Returns the tool whose schema rmcp checks the headers against that repeat arguments.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.server.offering().offers.described(name)
    }

    /// Fails, because the server has no prompts and announces none.
    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // Boxed, because the future is moved several times before it runs.
        Box::pin(async move {
            let seen = self.seen(&context);
            let (running, words, open) = self.enter(params, &seen)?;
            self.answer(running, words, open, &seen).await
        })
        .await
    }

    /// Handles unknown methods, and known methods with params that rmcp could not parse.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        match request.method.as_str() {
            "tools/call" => {
                let params = request.params.unwrap_or_default();
                let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
                let Sent { arguments: input, lease } = Sent::with(&context).unwrap_or_else(|| Sent::new("null", None));
                let message = "tools/call takes a name, and arguments that are a JSON object";
                let refusal = Refusal::new(ErrorClass::InvalidArguments, "protocol_error", message);
                let seen = self.seen(&context);
                let incoming = Incoming { name, input, lease, responses: None, offer: Err(refusal), seen: &seen };
                let mut running = self.server.begin(&self.server.offering(), incoming);
                match Box::pin(running.attend(&seen)).await {
                    Ok(Step::Done(record)) => Err(mcp::protocol_error(&record.result)),
                    _ => Err(ErrorData::invalid_params(message, None)),
                }
            }
            // Methods of the older revision.
            "initialize" | "logging/setLevel" if revision(&context) >= ProtocolVersion::V_2026_07_28 => {
                Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None))
            }
            "tools/list" | "resources/list" | "resources/read" | "logging/setLevel" | "initialize" => {
                Err(ErrorData::invalid_params(format!("{} does not take such params", request.method), None))
            }
            _ => Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None)),
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(self.identity.shelf.list()))
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let missing =
            || ErrorData::resource_not_found("there is no such resource here", Some(json!({ "uri": params.uri })));
        let Shelved { link, digest, provenance } = self.identity.shelf.find(&params.uri).ok_or_else(missing)?;
        let offering = self.server.offering();
        match offering.host.payload(&digest, PAYLOAD_BYTES_MAX).await {
            Ok(bytes) => Ok(ReadResourceResult::new(vec![mcp::payload(&link, bytes, &provenance)]).into()),
            Err(error) => Err(ErrorData::internal_error(format!("{error:#}"), None)),
        }
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let mut changes = self.server.changes.subscribe();
        let (peer, ended) = (context.peer, self.ended.clone());
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = ended.cancelled() => return,
                    changed = changes.changed() => {
                        if changed.is_err() || peer.notify_tool_list_changed().await.is_err() {
                            return;
                        }
                    }
                }
            }
        });
    }

    fn accepted_subscription_filter(&self, _: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().tools_list_changed().build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.server.changes.subscribe();
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                () = self.server.stop.cancelled() => return Ok(()),
                changed = changes.changed() => {
                    if changed.is_err() || context.sink().notify_tool_list_changed().await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn set_level(
        &self,
        params: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if revision(&context) >= ProtocolVersion::V_2026_07_28 {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "logging/setLevel", None));
        }
        self.level.store(mcp::log_level(params.level) as u8, Ordering::Relaxed);
        Ok(())
    }
}
