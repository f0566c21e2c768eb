//! MCP, revisions 2025-11-25 and 2026-07-28: tools, results and notices (requirements 3).
//!
//! Facts without a field of the protocol are in `_meta`, under keys that begin with `toolcell/`.

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
mod workspace;

use rmcp::model::{JsonObject, MetaObject};
use serde_json::Value;

pub use discovery::{
    LOAD_TOOL, LoadArguments, SEARCH_TOOLS, SearchArguments, cleaned, discovery, found, loaded,
};
pub use notice::{INFO, Level, ProgressSteps, log, log_level};
pub use plain::PLAIN;
pub use question::{
    APPROVAL, UserDecision, approval_meta, approval_pending, filled, form, input_meta,
    input_required, input_response, marked, question, response, said,
};
pub use reading::{READ_RESULT, ReadArguments, ReferenceError, part, read_result, unreadable};
pub use result::{
    as_protocol_error, call_result, error_facts, part_of, payload, payload_link, payload_part,
    protocol_error, refused, structured_at,
};
pub use task::{TaskFacts, task_asks, task_created, task_ended, task_failed, task_working};
pub use tool::{surface, tool};
pub use workspace::WorkspaceFile;

fn meta_of(key: &str, facts: Value) -> MetaObject {
    MetaObject(JsonObject::from_iter([(key.to_owned(), facts)]))
}
