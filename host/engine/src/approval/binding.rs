use serde_json::json;

use crate::catalog::Tool;
use toolcell_policy::{ApprovalScope, PermitTerms};
use toolcell_spec::{Binding, digest};

/// Digest of all that a tool declares; its component is not a part of it.
pub fn declaration_digest(tool: &Tool) -> String {
    let mut execution = tool.execution_profile().clone();
    // The component is bound separately: other bytes alone are not another declaration.
    execution.extra.remove("component_digest");
    if let Some(config) = tool
        .configuration()
        .filter(|_| guard!("bound_configuration"))
    {
        execution
            .extra
            .insert("configuration".to_owned(), digest(config.as_bytes()).into());
    }
    let declaration = json!([
        tool.name().as_ref(),
        tool.declaration(),
        tool.interface(),
        execution,
        tool.permission_profile(),
    ]);
    digest(declaration.to_string().as_bytes())
}

/// Returns what an approval is bound to: a change of it needs a new approval.
pub fn bind(tool: &Tool, terms: &PermitTerms, actor: Option<&str>) -> Binding {
    let capability = json!([terms.capability().canonical(), terms.limits()]);
    let actor = actor.map_or_else(|| "nobody".to_owned(), |actor| format!("actor {actor}"));
    let bound = |is_bound: bool, text: String| if is_bound { text } else { String::new() };
    let capability = digest(capability.to_string().as_bytes());
    Binding {
        component: bound(guard!("bound_component"), tool.component().to_string()),
        declaration: declaration_digest(tool),
        capability: bound(guard!("bound_capability"), capability),
        arguments: terms.call_input().reference().to_owned(),
        actor: bound(guard!("bound_actor"), digest(actor.as_bytes())),
    }
}

/// Returns the scope of an approval for the session; `None`: this capability alone.
pub fn scope(terms: &PermitTerms) -> Option<ApprovalScope> {
    ApprovalScope::from_capability(terms.capability(), &json!(terms.limits()))
}
