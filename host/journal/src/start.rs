use serde::{Deserialize, Serialize};

use toolcell_spec::{PermissionDecision, ToolEvent, ToolHook, ToolInvocation};

/// The facts about a call that starts, redacted: the payload of its start.
#[derive(Debug, Serialize, Deserialize)]
pub struct Start {
    /// `true` if the call could make lasting changes.
    pub changes: bool,
    pub(crate) process: u32,
    pub invocation: ToolInvocation,
    /// The decisions, hook runs and events until now: the record of the call has them even if its process is killed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<PermissionDecision>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<ToolHook>,
    #[serde(default)]
    pub events: Vec<ToolEvent>,
}

impl Start {
    /// A start without decisions and events.
    pub fn new(invocation: ToolInvocation, changes: bool) -> Self {
        Self {
            changes,
            process: std::process::id(),
            invocation,
            decisions: Vec::new(),
            hooks: Vec::new(),
            events: Vec::new(),
        }
    }
}
