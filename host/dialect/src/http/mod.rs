//! The plain HTTP API's documents and status codes. The types describe themselves for the OpenAPI document.

mod approval;
mod batch;
mod call;
mod status;
mod tool;
mod tool_status;

pub use approval::{ApprovalAnswer, ApprovalDocument, ApprovalState};
pub use batch::{BatchCallRequest, BatchDocument, batch};
pub use call::{CallDocument, CallRequest};
pub use status::{CALL_STATUSES, status, status_of};
pub use tool::{ToolDocument, ToolList, tool};
pub use tool_status::{ReportedStatus, ToolReport, ToolReportReceipt, ToolStatusDocument};

pub use super::whole::whole as result;
