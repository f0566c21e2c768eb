//! Calls that another machine decides about and runs.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use toolcell_executor::{Cancellation, unless_canceled};
use toolcell_spec::{CallRecord, Effects, Refusal, ToolEvent};
use toolcell_system::BoxFuture;

use super::batch::BatchSeat;
use super::workspace::{self, LentWorkspace, SentWorkspace, WORKSPACE};
use super::{Request, Services, refuse, unwritten};
use crate::catalog::Tool;
use crate::scheduler::{QueueTurn, ResourceClaim};

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
    /// A tar archive of the files of its workspace; `None` if they are as they were.
    pub files: Option<Vec<u8>>,
}

/// A call to be asked for elsewhere.
///
/// ```
/// use toolcell_engine::pipeline::ForwardRequest;
///
/// fn tool(request: &ForwardRequest<'_>) -> String {
///     request.tool.declaration().qualified_name()
/// }
/// ```
pub struct ForwardRequest<'a> {
    pub tool: &'a Tool,
    /// The call may take so long.
    pub wall: Duration,
    pub cancellation: Cancellation,
    pub workspace: Option<SentWorkspace>,
    /// Hears the events of the call.
    pub hear: &'a (dyn Fn(&ToolEvent) + Send + Sync),
}

/// Gets the record of a call from elsewhere.
pub type ForwardFn = Arc<
    dyn for<'a> Fn(ForwardRequest<'a>) -> BoxFuture<'a, Result<ForwardedCall, Refusal>>
        + Send
        + Sync,
>;

/// As [`forward`], at the turn of a call in a batch.
pub(super) async fn forward_in_turn(
    services: &Services,
    request: Request,
    ask: ForwardFn,
    BatchSeat { turn, .. }: BatchSeat,
) -> Box<CallRecord> {
    match come(services, &request, &turn).await {
        Ok(()) => forward(services, request, ask).await,
        Err(refusal) => refuse(services, request, refusal).await,
    }
}

async fn come(services: &Services, request: &Request, turn: &QueueTurn) -> Result<(), Refusal> {
    let tool = request.tool.find(&services.catalog)?;
    if turn.claim(claim(&tool), true) {
        return Ok(());
    }
    let come = async {
        turn.come().await;
        while !turn.begin() {
            turn.come().await;
        }
    };
    unless_canceled(&request.cancellation, come).await
}

/// By the tool's own statements: what it will be permitted is decided elsewhere.
fn claim(tool: &Tool) -> ResourceClaim {
    let kind = &tool.declaration().tool_kind;
    let effects = Effects::from_records(kind, tool.interface(), tool.permission_profile());
    let is_safe = effects.is_read_only && tool.facts().is_concurrency_safe == Some(true);
    if !is_safe || tool.locks().needs_context() {
        return ResourceClaim::alone();
    }
    ResourceClaim::default().with_named(tool.locks().iter())
}

/// Has a call run elsewhere. Its record is the one that was made there, kept here, too; a refusal gets a record of this host.
pub async fn forward(services: &Services, request: Request, ask: ForwardFn) -> Box<CallRecord> {
    let (forwarded, lent) = match asked(services, &request, ask).await {
        Ok(forwarded) => forwarded,
        Err(refusal) => return refuse(services, request, refusal).await,
    };
    let ForwardedCall {
        mut record,
        payloads,
        files,
    } = forwarded;
    if let (Some(lent), Some(files)) = (lent, files) {
        let taken = lent.take_back(files, !record.result.is_error).await;
        if let Err(refusal) = taken {
            let problem = json!({ "problem": refusal.message });
            record.result.extra.insert(WORKSPACE.to_owned(), problem);
        }
    }
    let store = services.payloads.for_owner(request.actor_ref.as_deref());
    for payload in payloads {
        // The record has its type.
        if let Err(error) = store.keep(payload, "application/octet-stream").await {
            let why = format!("{error:#}");
            record.invocation.note("payload_error", why);
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
) -> Result<(ForwardedCall, Option<LentWorkspace>), Refusal> {
    let _place = services.quotas.begin(request.actor_ref.as_deref())?;
    let tool = request.tool.find(&services.catalog)?;
    request.tool.withheld(&tool).map_or(Ok(()), Err)?;
    let (lent, workspace) = workspace::lend(request, &tool).await?.unzip();
    let listeners = services.listeners.iter().chain(&request.listener);
    let hear = |event: &ToolEvent| listeners.clone().for_each(|listener| listener.event(event));
    let forwarded = ask(ForwardRequest {
        tool: &tool,
        wall: request.limits.wall,
        cancellation: request.cancellation.clone(),
        workspace,
        hear: &hear,
    });
    Ok((forwarded.await?, lent))
}
