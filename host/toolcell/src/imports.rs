use std::sync::Arc;

use toolcell_engine::catalog::Tool;
use toolcell_sandbox::LoadedComponent;
use toolcell_spec::{AccessKind, ErrorCode, Refusal};

/// Interfaces that give nothing by themselves, and the access kind that a tool must declare before its component may
/// import them.
///
/// WASI's command world is not listed, because language runtimes import all of it even for pure code: those interfaces
/// are empty, and say nothing of what a tool needs. Only components that use HTTP import it.
const DECLARED: [(&str, AccessKind); 1] = [("wasi:http/", AccessKind::Network)];

/// The interface through which tools call others. A profile declares it in `tool_calls`, not as an access kind.
const TOOLS: &str = "toolcell:tool/tools@";

/// Refuses a component that imports an interface that none of its tools declares (requirements T-21), and lists such
/// interfaces.
pub(super) fn check(component: &LoadedComponent, tools: &[Arc<Tool>]) -> Result<(), Refusal> {
    let imports = component.imports();
    let declared = |kind: &AccessKind| {
        tools
            .iter()
            .any(|tool| tool.permission_profile().wants(kind))
    };
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
    // Their runtimes import HTTP for pure code, too. Such tools ask for it unless a profile or a ceiling says that they do not.
    if component.is_of_plain_functions() {
        return Ok(());
    }
    let undeclared = undeclared(imports, declared);
    if undeclared.is_empty() {
        return Ok(());
    }
    let message = format!(
        "the component imports {}, which none of its tools declares; add `network` to access_kinds, or do without",
        undeclared.join(", ")
    );
    Err(Refusal::new(ErrorCode::ImportsUndeclared, message))
}

fn undeclared(imports: &[String], declared: impl Fn(&AccessKind) -> bool) -> Vec<&str> {
    let wanted = |import: &str| {
        DECLARED
            .iter()
            .find(|(start, _)| import.starts_with(start))
            .map(|(_, kind)| kind)
    };
    imports
        .iter()
        .map(String::as_str)
        .filter(|import| wanted(import).is_some_and(|kind| !declared(kind)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::undeclared;

    #[test]
    fn http_has_to_be_declared_and_what_runtimes_import_does_not() {
        let imports = [
            "wasi:io/poll@0.2.6",
            "wasi:sockets/tcp@0.2.6",
            "wasi:http/outgoing-handler@0.2.6",
        ];
        let imports = imports.map(str::to_owned);
        assert_eq!(
            undeclared(&imports, |_| false),
            ["wasi:http/outgoing-handler@0.2.6"]
        );
        assert!(undeclared(&imports, |_| true).is_empty());
    }
}
