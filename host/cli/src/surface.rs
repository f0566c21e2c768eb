//! The surface of a command: which tools its calls can select.

use std::collections::HashMap;
use std::sync::Arc;

use toolcell::{Grants, Host, Policy, Tool, ToolSet, ToolTerms};
use toolcell_engine::catalog::{Surface, SurfaceConditions, ToolSelection};

/// Builds the surface of `tools` for calls with these rules and grants.
pub(crate) async fn build(
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

/// The tools of a command, called through their surface; `terms` has the terms of some of them, by their
/// qualified names.
pub(crate) async fn select(
    all: ToolSet,
    tools: Vec<Arc<Tool>>,
    selection: ToolSelection,
    terms: HashMap<String, ToolTerms>,
) -> ToolSet {
    let surface = build(&all.host, tools, selection, (&all.policy, &all.grants)).await;
    all.on_surface(surface, terms)
}
