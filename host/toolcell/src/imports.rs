use std::sync::Arc;

use toolcell_engine::catalog::Tool;
use toolcell_sandbox::LoadedComponent;
use toolcell_spec::{AccessKind, ErrorCode, Refusal};

/// The interfaces that a component may import only if one of its tools declares `network`: they give nothing by themselves.
///
/// WASI's command world is not listed, because language runtimes import all of it even for pure code: those interfaces
/// are empty, and say nothing of what a tool needs. Only components that use HTTP import it.
const HTTP: &str = "wasi:http/";

/// Tools call others through it. A profile declares it in `tool_calls`, not as an access kind.
const TOOLS: &str = "toolcell:tool/tools@";

/// Refuses a component with imported interfaces that none of its tools declares (requirements T-21).
pub(super) fn check(component: &LoadedComponent, tools: &[Arc<Tool>]) -> Result<(), Refusal> {
    let imports = component.imports();
    let calls = imports.iter().find(|import| import.starts_with(TOOLS));
    if let Some(calls) = calls.filter(|_| {
        tools
            .iter()
            .all(|tool| tool.permission_profile().tool_calls.is_empty())
    }) {
        let message = format!(
            "the component imports {calls}, and no profile of its tools says which tools they call; name them in \
             tool_calls, or do without"
        );
        return Err(Refusal::new(ErrorCode::ImportsUndeclared, message));
    }
    // Their runtimes import HTTP for pure code, and servers get their requests through it. Such tools ask for it unless a profile
    // or a ceiling says that they do not.
    if component.is_of_plain_functions() || component.is_server() {
        return Ok(());
    }
    let imported: Vec<&str> = imports
        .iter()
        .map(String::as_str)
        .filter(|import| import.starts_with(HTTP))
        .collect();
    let mut profiles = tools.iter().map(|tool| tool.permission_profile());
    if imported.is_empty() || profiles.any(|profile| profile.wants(&AccessKind::Network)) {
        return Ok(());
    }
    let message = format!(
        "the component imports {}, which none of its tools declares; add `network` to access_kinds, or do without",
        imported.join(", ")
    );
    Err(Refusal::new(ErrorCode::ImportsUndeclared, message))
}
