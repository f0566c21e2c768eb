//! The surface of a guest's own calls.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::catalog::Tool;
use toolcell_spec::{
    ModelCapabilities, SchemaVersion, SelectionPolicy, SurfaceReason, SurfaceScope, Timestamp,
    ToolChoice, ToolSurface, WithheldTool, short_id,
};

use super::super::call_state::CallState;
use super::{CYCLES, CallFamily, LISTED_MAX};

impl CallFamily {
    /// The tools that the guest can call, and those that call it, which it cannot (AT-REASON-05).
    pub(super) fn surface(&self, journey: &CallState<'_>) -> ToolSurface {
        let services = journey.services;
        let invocation = &journey.invocation;
        let id = |tool: &Arc<Tool>| tool.declaration().tool_id.clone();
        let loaded = self.callable(services, &journey.request);
        let mut above = services.catalog.tools();
        above.retain(|tool| self.is_recursive(tool));
        let tools = loaded.iter().chain(&above);
        let components: BTreeSet<&String> = tools.flat_map(|tool| tool.runtime_refs()).collect();
        let runtime = components.into_iter().cloned();
        let tool_refs: Vec<String> = loaded.iter().chain(&above).map(id).collect();
        let considered = format!("{:?} {} {tool_refs:?}", invocation.surface_id, self.parent);
        ToolSurface {
            schema_version: SchemaVersion::default(),
            surface_id: short_id("surface", &considered, 32),
            scope: SurfaceScope::Task,
            created_at: Timestamp::now(),
            producer: Arc::clone(&services.source),
            tool_refs,
            loaded_tools: loaded.iter().map(id).collect(),
            deferred_tools: Vec::new(),
            blocked_tools: above.iter().map(|tool| withheld(tool)).collect(),
            excluded_tools: Vec::new(),
            selection_policy: SelectionPolicy {
                mode: "budget".to_owned(),
                max_loaded: LISTED_MAX,
                allow_aliases: true,
                allow_parallel: false,
            },
            default_tool_choice: ToolChoice::Auto,
            capability_requirements: Vec::new(),
            model_capabilities: ModelCapabilities::default(),
            role_constraints: None,
            policy_refs: vec![CYCLES.to_owned()],
            runtime_refs: runtime
                .chain([services.source.to_string()])
                .chain(invocation.session_runtime())
                .collect(),
            surface_reason: format!("created: {} calls tools", invocation.tool_id),
        }
    }
}

fn withheld(tool: &Tool) -> WithheldTool {
    let declaration = tool.declaration();
    WithheldTool {
        tool_id: declaration.tool_id.clone(),
        name: declaration.qualified_name(),
        reason: SurfaceReason::RecursiveToolForbidden,
        lifecycle: declaration.lifecycle,
        policy_refs: vec![CYCLES.to_owned()],
    }
}
