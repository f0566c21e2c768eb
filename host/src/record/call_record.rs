use serde::Serialize;

use super::{
    PermissionDecision, ResultMappings, ResultPersistence, ToolDeclaration, ToolEvent, ToolHook, ToolInvocation,
    ToolProgress, ToolResult,
};

/// Everything known about one call after its end.
#[derive(Clone, Debug, Serialize)]
pub struct CallRecord {
    /// Absent when no tool was found.
    pub declaration: Option<std::sync::Arc<ToolDeclaration>>,
    pub invocation: ToolInvocation,
    pub decisions: Vec<PermissionDecision>,
    /// Every run of a hook, in order.
    pub hooks: Vec<ToolHook>,
    pub progress: Vec<ToolProgress>,
    pub result_mappings: ResultMappings,
    pub persistence: Vec<ResultPersistence>,
    pub result: ToolResult,
    pub events: Vec<ToolEvent>,
}
