//! The profiles of a tool as they apply on this host.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use toolcell_spec::{
    AccessKind, ContextModifierPolicy, ExecutionProfile, PermissionProfile, ToolInterface,
    WriteEffect,
};

use super::{ComponentFacts, Tool};

/// Interfaces for requests: of WASI and IronClaw.
const SENDING: [&str; 2] = ["wasi:http/", "near:agent/host@"];

/// The effective profile: imports, `interface` and `permission` determine what the tool supports.
pub(super) fn effective(
    asked: ExecutionProfile,
    interface: Option<&ToolInterface>,
    permission: &PermissionProfile,
    facts: &ComponentFacts,
) -> ExecutionProfile {
    let imports = |name: &str| facts.imports.iter().any(|import| import.starts_with(name));
    let progress = imports("toolcell:tool/progress");
    // All tools of a component share its imports, so one that changes no context can say so.
    let policy = interface.and_then(|interface| interface.context_modifier_policy);
    let modifies =
        imports("toolcell:tool/context-modifiers") && policy != Some(ContextModifierPolicy::Forbid);
    // No tool can claim that it must not be stopped, because the host stops any guest. One that imports cancellation
    // can also cooperate.
    let cancel_mode = if imports("toolcell:tool/cancellation") {
        "both"
    } else {
        "forced"
    };
    // A call that could change something is never repeated.
    let lasting = [WriteEffect::RemoteMutation, WriteEffect::Irreversible];
    let changes =
        permission.wants_file_write() || lasting.iter().any(|effect| permission.has_effect(effect));
    let delegates =
        permission.wants(&AccessKind::Credential) && !permission.credential_refs.is_empty();
    let mut profile = ExecutionProfile {
        execution_kind: "embedded_runtime".to_owned(),
        supports_progress: Some(progress),
        supports_partial_results: Some(progress),
        supports_cancel: Some(true),
        supports_resume: Some(imports("toolcell:tool/interaction")),
        supports_retries: Some(!changes),
        // A server runs any tool without its request.
        supports_background: Some(true),
        supports_artifacts: Some(imports("toolcell:tool/artifacts") || facts.leaves_files),
        supports_context_modifiers: Some(modifies),
        sandboxed: Some(true),
        // A call gets what was declared and granted; a name narrows that further.
        sandbox_profile: permission.applied_sandbox().map(str::to_owned),
        ..asked
    };
    for (name, value) in [
        ("cancel_mode", cancel_mode.into()),
        ("supports_timeout", true.into()),
        ("supports_persistence", true.into()),
        // Credentials travel in requests: without an import to send requests, none is delegated.
        (
            "credential_delegation",
            (delegates && facts.import(&SENDING)).into(),
        ),
        ("offline", (!permission.reaches_out()).into()),
        ("validates_values", facts.validates.into()),
        ("takes_configuration", facts.configures.into()),
        ("component_digest", facts.component.to_string().into()),
        ("imports", facts.imports.clone().into()),
    ] {
        profile.extra.insert(name.to_owned(), value);
    }
    profile
}

/// Gives profiles with one id but different observations separate ids: a reference leads to one record (AT-DECL-15,
/// AT-EXEC-02).
pub(super) fn set_apart(tools: &mut [Tool]) {
    let permissions = apart(tools, |tool| {
        // They differ only in the sandbox that the interface of one tool names.
        let profile = &tool.permission_profile;
        (&profile.permission_profile_id, &profile.sandbox_profile)
    });
    let executions = apart(tools, |tool| {
        let profile = &tool.execution_profile;
        (&profile.execution_profile_id, profile)
    });
    for tool in tools {
        let declaration = Arc::make_mut(&mut tool.declaration);
        let mut interface = tool.interface.as_mut();
        let name = &tool.name;
        let rename = |id: &mut String, references: [Option<&mut String>; 2]| {
            id.push_str(&format!(".{name}"));
            for reference in references.into_iter().flatten() {
                reference.clone_from(id);
            }
        };
        let id = &mut tool.permission_profile.permission_profile_id;
        if permissions.contains(id) {
            let of_interface = interface
                .as_mut()
                .and_then(|own| own.permission_profile_ref.as_mut());
            rename(
                id,
                [declaration.permission_profile_ref.as_mut(), of_interface],
            );
        }
        let id = &mut tool.execution_profile.execution_profile_id;
        if executions.contains(id) {
            let of_interface = interface
                .as_mut()
                .and_then(|own| own.execution_profile_ref.as_mut());
            rename(
                id,
                [declaration.execution_profile_ref.as_mut(), of_interface],
            );
        }
    }
}

/// Ids of profiles with different contents. Each is compared only with the first of its id, which is cheap for any
/// number of tools.
fn apart<'t, C: PartialEq>(
    tools: &'t [Tool],
    profile: impl Fn(&'t Tool) -> (&'t String, C),
) -> HashSet<String> {
    let mut first: HashMap<&String, C> = HashMap::new();
    let mut shared = HashSet::new();
    for (id, content) in tools.iter().map(profile) {
        match first.get(id) {
            Some(known) if *known != content => _ = shared.insert(id.clone()),
            Some(_) => {}
            None => _ = first.insert(id, content),
        }
    }
    shared
}
