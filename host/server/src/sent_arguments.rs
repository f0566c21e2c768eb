//! The arguments of a call as the client sent them, kept beside what rmcp parses.

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::service::RequestContext;
use toolcell_spec::{Input, JSON_VALUES_MAX};

use super::budget::Lease;
use super::of_http;

/// Bytes of memory per byte of arguments while a call is in flight: the text, the parsed value, and copies of both for
/// the record, for the guest, and on the way there. Measured, with a margin.
const COPIES: usize = 6;
/// Bytes of memory per value of the arguments, measured likewise.
const VALUE_BYTES: usize = 400;

/// The arguments of one call as they were sent; an extension of the request.
#[derive(Clone, Debug)]
pub(super) struct SentArguments {
    pub(super) arguments: Input,
    /// The memory that is reserved for the arguments.
    pub(super) lease: Option<Arc<Lease>>,
}

impl SentArguments {
    pub(super) fn new(arguments: &str, lease: Option<Lease>) -> Self {
        Self {
            arguments: Input::from_text(arguments),
            lease: lease.map(Arc::new),
        }
    }

    /// Returns the arguments that came with the request, over stdio or HTTP.
    pub(super) fn with(context: &RequestContext<RoleServer>) -> Option<Self> {
        let extensions = &context.extensions;
        extensions.get().or_else(|| of_http(extensions)).cloned()
    }
}

/// Memory that `arguments` may take while in flight, in bytes. Values that are too many to be parsed count as none.
pub(super) fn weight(arguments: &str) -> usize {
    let values = arguments
        .bytes()
        .filter(|byte| matches!(byte, b',' | b'{' | b'['))
        .take(JSON_VALUES_MAX)
        .count();
    arguments.len() * COPIES + values * VALUE_BYTES
}
