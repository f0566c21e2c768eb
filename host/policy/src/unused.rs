//! Notes on unused grants, because one that is silently ignored looks like one that counts.

use toolcell_spec::{AccessKind, Behavior, RuleSource};

use super::decide::Ruling;
use super::tools::covers_declared;
use super::{Capability, DecisionCase, FileUse, SecretGrant, ToolGrant};

/// For command-line grants that give less than they say; those in files are for many tools at once.
pub(super) fn notes(case: &DecisionCase<'_>, ruling: &Ruling, world: &Capability) -> Vec<String> {
    let grants = case.grants;
    let world = Some(world).filter(|_| ruling.behavior != Behavior::Deny);
    let folders = [(&grants.write, true), (&grants.read, false)].into_iter();
    let folders = folders.flat_map(|(folders, write)| {
        // A workspace is the same for all tools, and each does there what it declares.
        let profile = case.declared.profile;
        let opens = profile.wants(&AccessKind::FileRead) || profile.wants_drafts();
        folders.iter().map(move |grant| {
            let note = folder(case, write).filter(|_| !(grant.workspace.is_some() && opens));
            (grant.rule.as_str(), grant.source, note)
        })
    });
    let variables = grants.variables.iter();
    let variables = variables.map(|grant| {
        let note = variable(case, &grant.name);
        (grant.rule.as_str(), grant.source, note)
    });
    let requests = grants.network.granted();
    let requests = requests.map(|(words, source)| (words, source, request(case, world, words)));
    let secrets = grants.secrets.iter();
    let secrets = secrets.map(|grant| {
        (
            grant.rule.as_str(),
            grant.source,
            secret(case, world, grant),
        )
    });
    let tools = grants.tools.iter();
    let tools = tools.map(|grant| (grant.rule.as_str(), grant.source, tool(case, grant)));
    folders
        .chain(variables)
        .chain(requests)
        .chain(secrets)
        .chain(tools)
        .filter(|(_, source, _)| *source == RuleSource::CliArg)
        .filter_map(|(rule, _, note)| Some(format!("{rule} {}", note?)))
        .collect()
}

fn folder(case: &DecisionCase<'_>, write: bool) -> Option<String> {
    let profile = case.declared.profile;
    let tool = case.tool_id();
    let reads = profile.wants(&AccessKind::FileRead);
    let note = match case.declared.files {
        FileUse::AsGranted => {
            format!(
                "counts for {tool}, which declares no files: the command is for its component alone"
            )
        }
        FileUse::Unsaid => format!(
            "has no effect: {tool} declares no file access, and the command may run other components; name its component alone, \
             or declare `paths` with toolcell wrap --profile"
        ),
        FileUse::Declared if profile.wants_file_write() => return None,
        FileUse::Declared => match (write, reads) {
            (true, true) => {
                format!("lets {tool} read only: its profile does not declare `file_write`")
            }
            (true, false) => format!("has no effect: {tool} does not declare file access"),
            (false, false) => format!("has no effect: {tool} does not declare `file_read`"),
            (false, true) => return None,
        },
    };
    Some(note)
}

fn variable(case: &DecisionCase<'_>, name: &String) -> Option<String> {
    let mut set = case.grants.environment.iter();
    if !case.declared.profile.environment.contains(name) {
        let tool = case.tool_id();
        Some(format!(
            "has no effect: {tool} does not declare this variable"
        ))
    } else if !set.any(|(set, _)| set == name) {
        Some("has no effect: the variable is not set".to_owned())
    } else {
        None
    }
}

fn request(case: &DecisionCase<'_>, world: Option<&Capability>, words: &str) -> Option<String> {
    if !case.declared.profile.wants(&AccessKind::Network) {
        let tool = case.tool_id();
        return Some(format!("has no effect: {tool} does not declare `network`"));
    }
    let world = world.filter(|world| !world.network.rules().any(|(used, _)| used == words))?;
    Some(format!("has no effect on this call: {}", reached(world)))
}

/// A request to another origin lacks the secret.
fn secret(
    case: &DecisionCase<'_>,
    world: Option<&Capability>,
    grant: &SecretGrant,
) -> Option<String> {
    let profile = case.declared.profile;
    let tool = case.tool_id();
    let name = &grant.name;
    if !profile.wants(&AccessKind::Credential) {
        return Some(format!(
            "has no effect: {tool} does not declare `credential`"
        ));
    }
    if !profile.credential_refs.contains(name) {
        return Some(format!("has no effect: {tool} does not declare {name}"));
    }
    let world = world.filter(|world| !world.network.may_reach(&grant.origin))?;
    Some(format!("is not sent by this call: {}", reached(world)))
}

fn tool(case: &DecisionCase<'_>, grant: &ToolGrant) -> Option<String> {
    let profile = case.declared.profile;
    let tool = case.tool_id();
    if profile.tool_calls.is_empty() {
        Some(format!("has no effect: {tool} does not declare tool_calls"))
    } else if !covers_declared(grant, profile) {
        Some(format!(
            "has no effect: it covers no tool that {tool} declares"
        ))
    } else {
        None
    }
}

fn reached(world: &Capability) -> String {
    let reached = world.network.targets().join(", ");
    if reached.is_empty() {
        "it sends no requests".to_owned()
    } else {
        format!("its requests can go to {reached} only")
    }
}
