//! Memory for results that clients have not read yet: of large ones the call keeps a preview, and what is read back for the
//! response is counted from then on until the client has it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::ErrorData;
use rmcp::service::RequestContext;

use crate::budget::{Budget, Lease};

/// Bytes of memory per byte of a payload that goes into a response: as it is read, as it is parsed, and as it is sent.
const COPIES: usize = 4;
/// How long a response waits for its memory.
const WAIT: Duration = Duration::from_secs(30);

/// What one response over HTTP keeps reserved, an extension of its request.
#[derive(Clone, Debug)]
pub(super) struct ResultRoom {
    budget: Budget,
    held: Arc<Mutex<Vec<Lease>>>,
}

impl ResultRoom {
    pub(super) fn new(budget: Budget) -> Self {
        Self { budget, held: Arc::default() }
    }
}

/// Reserves memory for `bytes` of payloads that are read for the response to the request of `context`. A client of standard
/// streams is the only one of its server.
///
/// # Errors
///
/// Other responses have all of it for too long.
pub(super) async fn reserve(context: &RequestContext<RoleServer>, bytes: usize) -> Result<(), ErrorData> {
    let parts = context.extensions.get::<::http::request::Parts>();
    let Some(room) = parts.and_then(|parts| parts.extensions.get::<ResultRoom>()) else { return Ok(()) };
    let lease = tokio::time::timeout(WAIT, room.budget.take(bytes.saturating_mul(COPIES))).await;
    let why = "results that clients have not read take all of the memory for them; read them, then ask again";
    let lease = lease.map_err(|_| ErrorData::internal_error(why, None))?;
    room.held.lock().unwrap_or_else(PoisonError::into_inner).extend(lease);
    Ok(())
}
