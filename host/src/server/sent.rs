//! What a client sent for a call, beside what the protocol's own reader makes of it.

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::service::RequestContext;

use crate::record::{Input, JSON_VALUES_MAX};

use super::budget::Lease;

/// Bytes of memory that a byte of the arguments takes while a call is on its way: its text, its value, and copies of both
/// for the record, the guest, and on the way there. As measured, with room.
const COPIES: usize = 6;
/// The same for a value.
const VALUE_BYTES: usize = 400;

/// The arguments of one call as they were sent. Travels with the request.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) arguments: Input,
    /// The memory that was set aside for them.
    pub(super) lease: Option<Arc<Lease>>,
}

impl Sent {
    pub(super) fn new(arguments: &str, lease: Option<Lease>) -> Self {
        Self { arguments: Input::from_text(arguments), lease: lease.map(Arc::new) }
    }

    /// What came with the request, through whichever door.
    pub(super) fn with(context: &RequestContext<RoleServer>) -> Option<Self> {
        let here = || context.extensions.get::<Self>();
        let of_http = || context.extensions.get::<::http::request::Parts>()?.extensions.get::<Self>();
        here().or_else(of_http).cloned()
    }
}

/// Bytes of memory that `arguments` may take while their call is on its way. More values than are parsed take none.
pub(super) fn weight(arguments: &str) -> usize {
    let values = arguments.bytes().filter(|byte| matches!(byte, b',' | b'{' | b'[')).take(JSON_VALUES_MAX).count();
    arguments.len() * COPIES + values * VALUE_BYTES
}
