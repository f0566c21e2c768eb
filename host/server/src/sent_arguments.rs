//! The arguments of a call as the client sent them, kept beside what rmcp parses.

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::service::RequestContext;
use toolcell_spec::{Input, JSON_VALUES_MAX};

use super::budget::Lease;
use super::of_http;

/// Memory per byte of arguments in flight: the text, the parsed value, and copies of both. Measured, with a margin.
const COPIES: usize = 6;
/// Measured likewise.
const VALUE_BYTES: usize = 400;

#[derive(Clone, Debug)]
pub(super) struct SentArguments {
    pub(super) arguments: Input,
    pub(super) lease: Option<Arc<Lease>>,
}

impl SentArguments {
    pub(super) fn new(arguments: &str, lease: Option<Lease>) -> Self {
        Self {
            arguments: Input::from_text(arguments),
            lease: lease.map(Arc::new),
        }
    }

    pub(super) fn with(context: &RequestContext<RoleServer>) -> Option<Self> {
        let extensions = &context.extensions;
        extensions.get().or_else(|| of_http(extensions)).cloned()
    }
}

/// Bytes. Too many values to be parsed count as none.
pub(super) fn weight(arguments: &str) -> usize {
    let values = arguments
        .bytes()
        .filter(|byte| matches!(byte, b',' | b'{' | b'['))
        .take(JSON_VALUES_MAX)
        .count();
    arguments.len() * COPIES + values * VALUE_BYTES
}
