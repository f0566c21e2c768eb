//! The requests of MCP.

#![allow(
    deprecated,
    reason = "log messages are on their way out of the protocol, and both revisions still have them"
)]

use std::sync::atomic::Ordering;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam,
    CustomRequest, CustomResult, ErrorCode, ErrorData, GetTaskParams, GetTaskResult,
    Implementation, ListPromptsRequestMethod, ListPromptsResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, Resource, ServerCapabilities, ServerConfig, SetLevelRequestParams,
    SubscriptionFilter, Tool, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;
use toolcell_dialect::mcp;
use toolcell_spec as record;
use toolcell_spec::Refusal;

use crate::call::{CallProgress, IncomingCall, revision};
use crate::exchange;
use crate::frames::NotPending;
use crate::instructions::instructions;
use crate::sent_arguments::SentArguments;
use crate::surfaces;

use super::{ClientSession, NAME};

/// Resources in one list.
const PAGE_MAX: usize = 1_000;

/// A cursor is the number of resources before its page.
fn page(
    mut listed: Vec<Resource>,
    params: Option<PaginatedRequestParams>,
) -> Result<ListResourcesResult, ErrorData> {
    let cursor = params.and_then(|params| params.cursor);
    let first = match cursor.as_deref().map(str::parse::<usize>) {
        None => 0,
        Some(Ok(first)) if first <= listed.len() => first,
        Some(_) => return Err(ErrorData::invalid_params("there is no such page", None)),
    };
    let mut rest = listed.split_off(first);
    let is_more = rest.len() > PAGE_MAX;
    rest.truncate(PAGE_MAX);
    let mut result = ListResourcesResult::with_all_items(rest);
    result.next_cursor = is_more.then(|| (first + PAGE_MAX).to_string());
    Ok(result)
}

fn not_found(method: String) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None)
}

/// Boxes its futures: rmcp's future of a request has room for each, and is moved several times.
impl ServerHandler for ClientSession {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_logging();
        let capabilities = match self.server.tasks {
            Some(_) => capabilities.enable_tasks().build(),
            None => capabilities.build(),
        };
        let implementation =
            Implementation::new(NAME, env!("CARGO_PKG_VERSION")).with_title("toolcell");
        let instructions = instructions(&self.offering());
        ServerConfig::new(capabilities)
            .with_server_info(implementation)
            .with_instructions(instructions)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Box::pin(async move {
            self.loaded(&context, context.meta.get_progress_token())
                .await?;
            let offering = self.offering();
            let tools = offering
                .offers
                .listed(self.loads(&context))
                .into_iter()
                .map(|tool| offering.shown(tool));
            let own = offering.can_persist().then(mcp::read_result);
            let mut listed = ListToolsResult::with_all_items(tools.chain(own).collect());
            listed.meta = Some(mcp::surface(&offering.surface_id(self.loads(&context))));
            Ok(listed)
        })
        .await
    }

    /// Rmcp checks the headers that repeat arguments against the tool's schema.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.offering().offers.described(name)
    }

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
        Box::pin(async move {
            // The tool's own progress must not begin below the load's.
            self.loaded(&context, None).await?;
            if let Some(answer) = self.discover(&params.name, &context).await {
                return Ok(answer.into());
            }
            if let Some(answer) = self.read_back(&params.name, &context).await {
                return Ok(answer.into());
            }
            let mut seen = self.seen(&context);
            seen.workspace = self.workspace(&context).await;
            self.call_once(params, seen).await
        })
        .await
    }

    async fn get_task(
        &self,
        params: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Box::pin(async move {
            self.loaded(&context, None).await?;
            self.look_at_task(&params.task_id, &context).await
        })
        .await
    }

    async fn update_task(
        &self,
        params: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Box::pin(async move {
            self.loaded(&context, None).await?;
            self.answer_task(&params.task_id, &params.input_responses, &context)
                .await
        })
        .await
    }

    async fn cancel_task(
        &self,
        params: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Box::pin(async move {
            self.loaded(&context, None).await?;
            self.stop_task(&params.task_id, &context).await
        })
        .await
    }

    /// Records a cancellation that comes too late, or names an unknown request.
    async fn on_cancelled(
        &self,
        canceled: CancelledNotificationParam,
        context: NotificationContext<RoleServer>,
    ) {
        let Some(id) = canceled
            .request_id
            .filter(|_| NotPending::is_in(&context.extensions))
        else {
            return;
        };
        if let Some(mut load) = self.server.load_end()
            && !load.wait().await
        {
            return;
        }
        let offering = self.offering();
        let session = offering
            .approvals
            .session
            .clone()
            .unwrap_or_else(|| format!("mcp:{}", self.id));
        self.tell_unknown_cancel(&offering, &id.to_string(), Some(session))
            .await;
    }

    /// Handles known methods, too, with params that rmcp could not parse.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Box::pin(async move {
            match request.method.as_str() {
                "tools/call" => {
                    self.loaded(&context, None).await?;
                    let params = request.params.unwrap_or_default();
                    let name = params
                        .get("name")
                        .and_then(Value::as_str)
                        .unwrap_or_default();
                    let SentArguments {
                        arguments: input,
                        lease,
                    } = SentArguments::with(&context)
                        .unwrap_or_else(|| SentArguments::new("null", None));
                    let message = "tools/call takes a name, and arguments that are a JSON object";
                    let refusal = mcp::as_protocol_error(Refusal::new(
                        record::ErrorCode::ProtocolError,
                        message,
                    ));
                    let seen = self.seen(&context);
                    let incoming = IncomingCall {
                        name,
                        input,
                        offer: Err(refusal),
                        loaded: false,
                        surface: seen.offering.surface_id(self.loads(&context)),
                        seen: &seen,
                    };
                    let mut running = self.server.begin(incoming, lease, None);
                    match Box::pin(running.attend(&seen)).await {
                        Ok(CallProgress::Done(record)) => Err(mcp::protocol_error(&record.result)),
                        _ => Err(ErrorData::invalid_params(message, None)),
                    }
                }
                surfaces::SURFACE => self.surface(&context).await,
                exchange::EXPORT => self.export(request, &context).await,
                exchange::RUN => Box::pin(self.run_message(request, &context)).await,
                "tasks/get" | "tasks/update" | "tasks/cancel" if !self.seen(&context).tasks => {
                    Err(not_found(request.method))
                }
                // Methods of the older revision.
                "initialize" | "logging/setLevel"
                    if revision(&context) >= ProtocolVersion::V_2026_07_28 =>
                {
                    Err(not_found(request.method))
                }
                "tools/list" | "resources/list" | "resources/read" | "logging/setLevel"
                | "initialize" | "tasks/get" | "tasks/update" | "tasks/cancel" => {
                    Err(ErrorData::invalid_params(
                        format!("{} does not take such params", request.method),
                        None,
                    ))
                }
                _ => Err(not_found(request.method)),
            }
        })
        .await
    }

    async fn list_resources(
        &self,
        params: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Box::pin(async move {
            // What calls have is known once the tools are loaded.
            self.loaded(&context, None).await?;
            let mut listed = self.identity.shelf.list();
            listed.extend(self.workspace_links(&context).await);
            page(listed, params)
        })
        .await
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Box::pin(async move {
            self.loaded(&context, None).await?;
            self.read_payload(&params.uri, &context).await
        })
        .await
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let mut changes = self.server.changes.subscribe();
        let peer = context.peer;
        let ended = self.ended.clone();
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
        Box::pin(async move {
            let mut changes = self.server.changes.subscribe();
            let mut loads = self.lasting_loads().subscribe();
            loop {
                let changed = tokio::select! {
                    () = context.cancelled() => return Ok(()),
                    () = self.server.stop.cancelled() => return Ok(()),
                    changed = changes.changed() => changed,
                    changed = loads.changed() => changed,
                };
                if changed.is_err() || context.sink().notify_tool_list_changed().await.is_err() {
                    return Ok(());
                }
            }
        })
        .await
    }

    async fn set_level(
        &self,
        params: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if revision(&context) >= ProtocolVersion::V_2026_07_28 {
            return Err(not_found("logging/setLevel".to_owned()));
        }
        self.level
            .store(mcp::log_level(params.level), Ordering::Relaxed);
        Ok(())
    }
}
