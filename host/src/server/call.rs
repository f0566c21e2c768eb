//! One `tools/call`: from the request to a terminal record, with whoever may stop it on the way.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{NumberOrString, ProtocolVersion, RequestId};
use rmcp::service::RequestContext;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::host::{Cancellation, Limits, Request};
use crate::record::{AbortReason, CallRecord, ErrorClass, ExternalMapping, Extra, Input, Refusal};

use super::Server;
use super::notices::Wanted;
use super::offer::Offer;

/// A wish of the request itself: milliseconds after which it stops. It can only shorten what the server allows.
const TIMEOUT_KEY: &str = "hotcell/timeout_ms";

/// Who calls, and whose going away ends the call.
pub(super) struct Caller {
    pub(super) actor: Option<Arc<str>>,
    /// Ended when the connection that waits for the answer is gone.
    pub(super) gone: Option<CancellationToken>,
}

/// A call as it came in.
pub(super) struct Incoming<'a> {
    pub(super) name: &'a str,
    pub(super) input: Input,
    /// The tool, or why there is none to call.
    pub(super) offer: Result<&'a Offer, Refusal>,
    pub(super) wanted: Wanted,
    pub(super) caller: Caller,
}

impl Server {
    /// Calls, and keeps the record. The client hears of progress and logs before this returns.
    pub(super) async fn call(&self, incoming: Incoming<'_>, context: &RequestContext<RoleServer>) -> CallRecord {
        let Incoming { name, input, offer, wanted, caller } = incoming;
        let place = Arc::clone(&self.calls).try_acquire_owned();
        let mut request = self.request(name, input, &caller, context);
        let mut beside = None;
        match (offer, &place) {
            (Err(refusal), _) => request.unavailable = Some(refusal),
            (Ok(_), Err(_)) => request.unavailable = Some(too_many()),
            (Ok(offer), Ok(_)) => {
                request.tool.clone_from(&offer.qualified_name);
                if offer.speaks && (wanted.progress.is_some() || wanted.logs.is_some()) {
                    let (listener, pass_on) = wanted.listen(offer.name.clone(), context.peer.clone());
                    request.listener = Some(listener);
                    beside = Some(pass_on);
                }
            }
        }
        let cancellation = request.cancellation.clone();
        let call = self.settings.host.call(request);
        let watched = self.watched(call, &cancellation, &context.ct, caller.gone.as_ref());
        let record = match beside {
            None => watched.await,
            // The listener goes with the call, and what waits to be passed on then comes to its end.
            Some(pass_on) => tokio::join!(watched, pass_on).0,
        };
        if let Some(recorder) = &self.settings.recorder {
            recorder.keep(record.clone()).await;
        }
        drop(place);
        record
    }

    /// Runs `call` to its end, and asks it to stop when the client says so, goes away, or the server stops.
    async fn watched(
        &self,
        call: impl Future<Output = CallRecord>,
        cancellation: &Cancellation,
        by_client: &CancellationToken,
        gone: Option<&CancellationToken>,
    ) -> CallRecord {
        let mut call = std::pin::pin!(call);
        let reason = tokio::select! {
            biased;
            record = &mut call => return record,
            () = self.stop.cancelled() => AbortReason::RuntimeShutdown,
            () = by_client.cancelled() => AbortReason::UserInterruption,
            () = ended(gone) => AbortReason::UserInterruption,
        };
        cancellation.cancel(reason);
        call.await
    }

    fn request(&self, name: &str, input: Input, caller: &Caller, context: &RequestContext<RoleServer>) -> Request {
        Request {
            tool: name.to_owned(),
            input,
            native_call_id: Some(context.id.to_string()),
            actor_ref: caller.actor.as_deref().map(str::to_owned),
            grants: Arc::clone(&self.settings.grants),
            limits: limits(self.settings.limits.clone(), context),
            cancellation: Cancellation::new(),
            unavailable: None,
            listener: None,
            mapping: Some(mapping(name, context)),
        }
    }
}

async fn ended(gone: Option<&CancellationToken>) {
    match gone {
        Some(gone) => gone.cancelled().await,
        None => std::future::pending().await,
    }
}

fn too_many() -> Refusal {
    let message = format!("more than {} calls are on their way already", super::CALLS_MAX);
    Refusal::new(ErrorClass::RateLimited, "too_many_calls", message)
}

fn limits(allowed: Limits, context: &RequestContext<RoleServer>) -> Limits {
    let wish = context.meta.get(TIMEOUT_KEY).and_then(Value::as_u64).filter(|ms| *ms > 0);
    Limits { wall: wish.map_or(allowed.wall, |ms| allowed.wall.min(Duration::from_millis(ms))), ..allowed }
}

/// What the protocol says of the call (AT-MAP-01). The id keeps its type, and `_meta` all its keys.
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

/// The revision that the request, or else its session, speaks.
pub(super) fn revision(context: &RequestContext<RoleServer>) -> ProtocolVersion {
    context.protocol_version().unwrap_or(ProtocolVersion::V_2025_11_25)
}
