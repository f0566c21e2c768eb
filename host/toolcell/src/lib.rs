//! Runs untrusted WebAssembly tools (Agent Tool 0.2.0). Each call gets its own sandbox, only the permissions that it
//! was granted, and limits on CPU, time, memory and output.
//!
//! ```no_run
//! use serde_json::json;
//! use toolcell::{GrantWord, Host, Request};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::builder().build()?;
//! host.load_file("files.wasm".as_ref()).await?;
//! let request = Request::new("files.search", json!({ "pattern": "fn main" })).grant(GrantWord::Read, "src")?;
//! let record = host.call(request).await;
//! println!("{}", record.result.text());
//! # Ok(())
//! # }
//! ```
//!
//! A program that uses [`Host`] must call [`compile_if_asked`] at the start of `main`.

mod builder;
mod call_spec;
mod compiling;
mod home;
mod host;
mod imports;
mod recall;
#[cfg_attr(not(feature = "journal"), path = "unrecorded.rs")]
mod recorded;
mod surfaces;
mod tool_set;

pub use builder::{HostBuilder, SetupError};
pub use call_spec::{CallContext, CallSpec};
pub use compiling::compile_if_asked;
pub use home::Home;
pub use host::{ComponentTools, Host};
pub use tool_set::{CallHandle, Elsewhere, ToolSet, ToolTerms};
pub use toolcell_engine::approval::{Approver, Inquiry, Prompt, Reply, RequestedInput, Respondent};
pub use toolcell_engine::catalog::Tool;
pub use toolcell_engine::pipeline::{
    Batch, BatchCall, BatchListener, CallExplanation, CallWorkspace, CancelOutcome, Request,
};
pub use toolcell_engine::scheduler::batch::{
    BatchPolicy, OrderingPolicy, PlanError, SiblingFailurePolicy, YieldPolicy,
};
pub use toolcell_executor::Cancellation;
pub use toolcell_executor::hook::{
    Hook, HookAnswer, HookCall, HookFuture, HookOutput, HookProgress, Matcher, OnFailure,
    Registration, UpdatedOutput,
};
pub use toolcell_journal::Listener;
#[cfg(feature = "journal")]
pub use toolcell_journal::{EventReader, FollowedEvent, Keep, LogError, LogSettings, LoggedEvent};
pub use toolcell_policy::RetryPolicy;
pub use toolcell_policy::secret::{SecretValue, Secrets};
pub use toolcell_policy::{
    GrantWord, Grants, Limits, NetworkLimits, Policy, Provenance, Rule, RuleWords,
};
pub use toolcell_sandbox::{NetworkSettings, Resolver};
pub use toolcell_spec::{
    AbortReason, CallRecord, Content, ErrorClass, ErrorCode, EventType, Finding, HookEvent,
    InputResponse, InterruptBehavior, InvocationId, Mode, OutputError, OutputRetention, Refusal,
    ResultStatus, ToolError, ToolEvent, ToolResult,
};
