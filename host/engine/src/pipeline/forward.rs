//! Calls that another machine decides about and runs.

use std::time::Duration;

use toolcell_executor::Cancellation;
use toolcell_spec::{CallRecord, Refusal, ToolEvent};
use toolcell_system::BoxFuture;

use super::{Request, Services, refuse, unwritten};
use crate::catalog::Tool;

/// A call that ran elsewhere.
///
/// ```
/// use toolcell_engine::pipeline::ForwardedCall;
///
/// fn bytes(call: &ForwardedCall) -> usize {
///     call.payloads.iter().map(Vec::len).sum()
/// }
/// ```
pub struct ForwardedCall {
    pub record: Box<CallRecord>,
    /// Contents of those that the record refers to.
    pub payloads: Vec<Vec<u8>>,
}

/// Gets the record of a call of the tool from elsewhere, which may take so long. The last argument hears the call's events
/// meanwhile.
pub type ForwardFn = Box<
    dyn for<'a> FnOnce(
            &'a Tool,
            Duration,
            Cancellation,
            &'a (dyn Fn(&ToolEvent) + Send + Sync),
        ) -> BoxFuture<'a, Result<ForwardedCall, Refusal>>
        + Send,
>;

/// Has a call run elsewhere. Its record is the one that was made there, kept here, too; a refusal gets a record of this host.
pub async fn forward(services: &Services, request: Request, ask: ForwardFn) -> Box<CallRecord> {
    let ForwardedCall {
        mut record,
        payloads,
    } = match asked(services, &request, ask).await {
        Ok(forwarded) => forwarded,
        Err(refusal) => return refuse(services, request, refusal).await,
    };
    let store = services.payloads.for_owner(request.actor_ref.as_deref());
    for payload in payloads {
        // The record has its type.
        if let Err(error) = store.keep(payload, "application/octet-stream").await {
            record
                .invocation
                .note("payload_error", format!("{error:#}"));
        }
    }
    if let (Some(caller), Some(usage)) = (&request.actor_ref, &record.result.usage) {
        services.quotas.charge(caller, usage).await;
    }
    if let Err(error) = services.calls.ended(&record).await {
        unwritten(&mut record, &error);
    }
    services.ended(&record);
    record
}

async fn asked(
    services: &Services,
    request: &Request,
    ask: ForwardFn,
) -> Result<ForwardedCall, Refusal> {
    let _place = services.quotas.begin(request.actor_ref.as_deref())?;
    let tool = request.tool.find(&services.catalog)?;
    request.tool.withheld(&tool).map_or(Ok(()), Err)?;
    let listeners = services.listeners.iter().chain(&request.listener);
    let hear = |event: &ToolEvent| listeners.clone().for_each(|listener| listener.event(event));
    ask(
        &tool,
        request.limits.wall,
        request.cancellation.clone(),
        &hear,
    )
    .await
}
