#![allow(deprecated, reason = "log messages are on their way out of the protocol, and both revisions still have them")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode, ErrorData, Implementation,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, ServerCapabilities, ServerConfig, SetLevelRequestParams,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;

use crate::dialect::mcp::{self, Level};
use crate::record::{CallRecord, ErrorClass, Input, Refusal, ToolResult};

use super::Server;
use super::call::{Caller, Incoming, revision};
use super::notices::Wanted;
use super::offer::Offer;
use super::shelf::Shelf;

/// Bytes of a payload that one answer may carry.
const PAYLOAD_BYTES_MAX: u64 = 32 << 20;

/// A client of the server: what it may read, and how much it wants to hear.
pub(super) struct Session {
    server: Arc<Server>,
    /// Who calls, where the door can tell.
    actor: Option<Arc<str>>,
    shelf: Arc<Shelf>,
    /// The least serious log message that a client of 2025-11-25 wants to hear.
    level: AtomicU8,
}

impl Session {
    pub(super) fn new(server: Arc<Server>, actor: Option<Arc<str>>, shelf: Arc<Shelf>) -> Self {
        Self { server, actor, shelf, level: AtomicU8::new(Level::Info as u8) }
    }

    fn wanted(&self, context: &RequestContext<RoleServer>) -> Wanted {
        // 2026-07-28 has no sessions: every request says for itself what it wants to hear.
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
        Caller { actor: self.actor.clone(), gone: super::gone(context) }
    }

    async fn run(
        &self,
        name: &str,
        input: Input,
        offer: Result<&Offer, Refusal>,
        context: &RequestContext<RoleServer>,
    ) -> CallRecord {
        let (wanted, caller) = (self.wanted(context), self.caller(context));
        self.server.call(Incoming { name, input, offer, wanted, caller }, context).await
    }

    /// A tool that promises structured output gives it, also where it was moved to a payload: clients refuse a result
    /// without it. What the model reads stays a preview.
    fn fill_structured(&self, offer: &Offer, result: &mut ToolResult) {
        let promised = offer.described.output_schema.is_some() && result.structured_content.is_none();
        if !promised || result.is_error {
            return;
        }
        let of_structured =
            |block: &&crate::record::Content| block.fields.get("of").is_some_and(|of| of == "structured_content");
        let moved = result.content.iter().find(of_structured);
        let digest = moved.and_then(|block| block.fields.get("persisted_ref")?.get("digest")?.as_str());
        let bytes = digest.and_then(|digest| self.server.settings.host.payload(digest, PAYLOAD_BYTES_MAX).ok());
        result.structured_content = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    }
}

impl ServerHandler for Session {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().enable_logging().build();
        let implementation = Implementation::new("hotcell", env!("CARGO_PKG_VERSION")).with_title("hotcell");
        ServerConfig::new(capabilities).with_server_info(implementation)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.server.settings.offers.listed()))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let input = Input::from_value(Value::Object(params.arguments.unwrap_or_default()));
        let offer = self.server.settings.offers.find(&params.name);
        let found = offer.as_ref().map(|offer| offer.as_ref()).map_err(Clone::clone);
        let record = self.run(&params.name, input, found, &context).await;
        let mut result = record.result;
        let Ok(offer) = offer else { return Err(mcp::protocol_error(&result)) };
        self.shelf.put(&record.persistence);
        self.fill_structured(offer, &mut result);
        Ok(mcp::call_result(&result, &revision(&context)).into())
    }

    /// Requests that rmcp could not read come here, too: a known method with params that it does not take.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        match request.method.as_str() {
            "tools/call" => {
                let params = request.params.unwrap_or_default();
                let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
                let input = Input::from_value(params.get("arguments").cloned().unwrap_or_default());
                let message = "tools/call takes a name, and arguments that are a JSON object";
                let refusal = Refusal::new(ErrorClass::InvalidArguments, "protocol_error", message);
                let record = self.run(name, input, Err(refusal), &context).await;
                Err(mcp::protocol_error(&record.result))
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
        Ok(ListResourcesResult::with_all_items(self.shelf.list()))
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let missing =
            || ErrorData::resource_not_found("there is no such resource here", Some(params.uri.clone().into()));
        let (link, digest) = self.shelf.find(&params.uri).ok_or_else(missing)?;
        let server = Arc::clone(&self.server);
        let read = tokio::task::spawn_blocking(move || server.settings.host.payload(&digest, PAYLOAD_BYTES_MAX));
        match read.await {
            Ok(Ok(bytes)) => Ok(ReadResourceResult::new(vec![mcp::payload(&link, bytes)]).into()),
            Ok(Err(error)) => Err(ErrorData::internal_error(format!("{error:#}"), None)),
            Err(_) => Err(ErrorData::internal_error("the resource could not be read", None)),
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
