use serde::Serialize;

use super::{
    PermissionDecision, ResultPersistence, ToolDeclaration, ToolEvent, ToolInvocation, ToolProgress, ToolResult,
};

/// Everything that is known of one call after its end.
#[derive(Clone, Debug, Serialize)]
pub struct CallRecord {
    /// Absent when no tool was found.
    pub declaration: Option<std::sync::Arc<ToolDeclaration>>,
    pub invocation: ToolInvocation,
    pub decisions: Vec<PermissionDecision>,
    pub progress: Vec<ToolProgress>,
    pub persistence: Vec<ResultPersistence>,
    pub result: ToolResult,
    pub events: Vec<ToolEvent>,
}
