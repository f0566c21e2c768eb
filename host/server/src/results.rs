//! Memory for results that clients have not read yet; where one answer has the results of many calls, each is counted
//! from its end on.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::model::ErrorData;
use rmcp::service::RequestContext;
use toolcell_spec::{Content, ToolResult, json_bytes};

use crate::budget::{BudgetExceeded, ByteBudget, Lease};
use crate::of_http;

/// Memory per byte of a payload in a response: as read, as parsed, and as sent.
const COPIES: usize = 4;
/// Memory per byte of JSON of a result that waits for others: as a record, as a value, and as text.
const COLLECTED_COPIES: usize = 3;
/// There are so few calls at once that all smaller results have room.
const SMALL_BYTES: usize = 4 << 10;
const WAIT: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub(super) struct ResultRoom {
    budget: ByteBudget,
    held: Arc<Mutex<Vec<Lease>>>,
}

impl ResultRoom {
    pub(super) fn new(budget: ByteBudget) -> Self {
        Self {
            budget,
            held: Arc::default(),
        }
    }

    /// `None` for a client of standard streams, which is the only one of its server.
    pub(super) fn from_context(context: &RequestContext<RoleServer>) -> Option<&Self> {
        of_http(&context.extensions)
    }

    pub(super) fn collect(&self, result: &mut ToolResult) {
        let lease = collect(&self.budget, result);
        self.held.lock().extend(lease);
    }
}

/// The answer lacks the output if there is no memory; only the record has it. Waiting would not help, because the
/// answer itself holds the memory.
pub(super) fn collect(budget: &ByteBudget, result: &mut ToolResult) -> Option<Lease> {
    let bytes = json_bytes(result);
    if bytes <= SMALL_BYTES {
        return None;
    }
    match budget.try_take_any(bytes.saturating_mul(COLLECTED_COPIES)) {
        Ok(lease) => Some(lease),
        Err(BudgetExceeded) => {
            let id = result.invocation_id;
            let note = format!(
                "the output of this call is left out here: the results that you have not read take all of the memory for \
                 them. Read those, and send fewer calls at once; its record has the output: GET /v1/calls/{id}, or \
                 `toolcell show {id}`"
            );
            (result.content, result.structured_content) = (Vec::new(), None);
            result.model_facing_content = vec![Content::text(note)];
            (result.additional_context, result.context_modifiers) = (Vec::new(), Vec::new());
            None
        }
    }
}

/// Fails if other responses have all of the memory for too long.
pub(super) async fn reserve(
    context: &RequestContext<RoleServer>,
    bytes: usize,
) -> Result<(), ErrorData> {
    let Some(room) = ResultRoom::from_context(context) else {
        return Ok(());
    };
    let lease = tokio::time::timeout(WAIT, room.budget.take(bytes.saturating_mul(COPIES))).await;
    let why = "results that clients have not read take all of the memory for them; read them, then ask again";
    let lease = lease.map_err(|_| ErrorData::internal_error(why, None))?;
    room.held.lock().extend(lease);
    Ok(())
}
