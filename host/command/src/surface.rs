//! The surface of a command: which tools its calls can select.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use toolcell::{Callee, Grants, Host, Policy, Tool};
use toolcell_core::catalog::{Surface, SurfaceConditions, ToolSelection};

/// Builds the surface of `tools` for calls with these rules and grants.
pub async fn build(
    host: &Host,
    tools: Vec<Arc<Tool>>,
    selection: ToolSelection,
    (policy, grants): (&Policy, &Grants),
) -> Surface {
    let missing = host.missing_secrets(grants).await;
    Surface::build(
        tools,
        selection,
        &SurfaceConditions {
            policy,
            missing_secrets: &missing,
        },
    )
}

/// Has `callee` called through `surface`.
pub fn place(callee: Callee, surface: &Surface) -> Callee {
    let refusal = surface.judge(callee.tool(), callee.name());
    callee.on_surface(Arc::clone(surface.id()), refusal)
}

/// The tools that the tool of a call may call through `surface`, as far as it was granted them.
pub fn callable(surface: &Surface) -> Arc<HashMap<String, Option<Duration>>> {
    let callable = surface
        .tools()
        .filter(|(tool, standing)| surface.is_callable(tool, *standing));
    Arc::new(
        callable
            .map(|(tool, _)| (tool.declaration().tool_id.clone(), None))
            .collect(),
    )
}
