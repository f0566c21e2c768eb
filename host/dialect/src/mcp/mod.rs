//! MCP, revisions 2025-11-25 and 2026-07-28: tools, results and notices in the protocol's terms (requirements 3).
//!
//! Facts that the protocol has no field for are in `_meta`, under keys that begin with `toolcell/`.

mod both;
mod content;
mod discovery;
mod notice;
mod plain;
mod question;
mod reading;
mod result;
mod task;
mod tool;

pub use discovery::{
    LOAD_TOOL, LoadArguments, SEARCH_TOOLS, SearchArguments, cleaned, discovery, found, loaded,
};
pub use notice::{Level, ProgressSteps, log, log_level};
pub use plain::PLAIN;
pub use question::{
    APPROVAL, UserDecision, approval_meta, approval_pending, filled, form, input_meta,
    input_required, input_response, marked, question, response, said,
};
pub use reading::{READ_RESULT, ReadArguments, ReferenceError, part, read_result, unreadable};
pub use result::{
    call_result, error_facts, part_of, payload, payload_link, payload_part, protocol_error,
    refused, structured_at,
};
pub use task::{TaskFacts, task_asks, task_created, task_ended, task_failed, task_working};
pub use tool::{surface, tool};
