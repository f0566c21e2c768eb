//! The surface of a command: which tools its calls can select.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use toolcell::{Grants, Host, Policy, Tool, ToolSet, ToolTerms};
use toolcell_engine::catalog::{Surface, SurfaceConditions, ToolSelection};
use toolcell_server::{ExposedTools, ToolOffer};

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
            missing_folders: &grants.missing,
        },
    )
}

/// `missing`: the secrets that are granted and not set.
pub(crate) fn expose(
    offered: Vec<ToolOffer>,
    selection: ToolSelection,
    (policy, grants): (&Policy, &Grants),
    missing: &BTreeSet<String>,
) -> ExposedTools {
    let conditions = SurfaceConditions {
        policy,
        missing_secrets: missing,
        missing_folders: &grants.missing,
    };
    ExposedTools::on(offered, |tools| {
        Surface::build(tools, selection, &conditions)
    })
}

/// `terms` are by qualified name; a tool without an entry has none of its own.
pub(crate) async fn select(
    all: ToolSet,
    tools: Vec<Arc<Tool>>,
    selection: ToolSelection,
    terms: HashMap<String, ToolTerms>,
) -> ToolSet {
    let surface = build(&all.host, tools, selection, (&all.policy, &all.grants)).await;
    all.on_surface(surface, terms)
}
