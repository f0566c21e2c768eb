//! Notes on grants that a call does not use, because a grant that is silently ignored looks like one that counts.

use toolcell_spec::{AccessKind, Behavior, RuleSource};

use super::decide::Ruling;
use super::tools::covers_declared;
use super::{Capability, DecisionCase, FileUse};

/// A note for each command-line grant that gives this call nothing, or less than it says. Grants in files are for many
/// tools at once, so they get no notes.
pub(super) fn notes(case: &DecisionCase<'_>, ruling: &Ruling, world: &Capability) -> Vec<String> {
    let mut notes = Vec::new();
    folders(case, &mut notes);
    environment(case, &mut notes);
    network(case, ruling, world, &mut notes);
    secrets(case, ruling, world, &mut notes);
    tools(case, &mut notes);
    notes
}

fn folders(case: &DecisionCase<'_>, notes: &mut Vec<String>) {
    let profile = case.declared.profile;
    let tool = case.declared.tool_id;
    let reads = profile.wants(&AccessKind::FileRead);
    let granted = case.grants.folders().filter(|grant| typed(grant.source));
    match case.declared.files {
        FileUse::Declared => {}
        FileUse::AsGranted => {
            return notes.extend(granted.map(|grant| {
                format!(
                    "{} counts for {tool}, which declares no files: the command is for its component alone",
                    grant.rule
                )
            }));
        }
        FileUse::Unsaid => {
            return notes.extend(granted.map(|grant| {
                format!(
                    "{} has no effect: {tool} declares no file access, and the command may run other components; name its component alone, \
                     or declare `paths` with toolcell wrap --profile",
                    grant.rule
                )
            }));
        }
    }
    if profile.wants_file_write() {
        return;
    }
    for grant in case.grants.write.iter().filter(|grant| typed(grant.source)) {
        notes.push(if reads {
            format!(
                "{} lets {tool} read only: its profile does not declare `file_write`",
                grant.rule
            )
        } else {
            format!(
                "{} has no effect: {tool} does not declare file access",
                grant.rule
            )
        });
    }
    let unread = case
        .grants
        .read
        .iter()
        .filter(|grant| typed(grant.source) && !reads);
    notes.extend(unread.map(|grant| {
        format!(
            "{} has no effect: {tool} does not declare `file_read`",
            grant.rule
        )
    }));
}

fn environment(case: &DecisionCase<'_>, notes: &mut Vec<String>) {
    let profile = case.declared.profile;
    let tool = case.declared.tool_id;
    for word in case
        .grants
        .variables
        .iter()
        .filter(|word| typed(word.source))
    {
        let rule = &word.rule;
        let name = &word.name;
        if !profile.environment.contains(name) {
            notes.push(format!(
                "{rule} has no effect: {tool} does not declare this variable"
            ));
        } else if !case.grants.environment.iter().any(|(set, _)| set == name) {
            notes.push(format!("{rule} has no effect: the variable is not set"));
        }
    }
}

fn network(case: &DecisionCase<'_>, ruling: &Ruling, world: &Capability, notes: &mut Vec<String>) {
    let tool = case.declared.tool_id;
    let declared = case.declared.profile.wants(&AccessKind::Network);
    for (words, _) in case
        .grants
        .network
        .granted()
        .filter(|(_, source)| typed(*source))
    {
        if !declared {
            notes.push(format!(
                "{words} has no effect: {tool} does not declare `network`"
            ));
        } else if ruling.behavior != Behavior::Deny
            && !world.network.rules().any(|(used, _)| used == words)
        {
            notes.push(format!(
                "{words} has no effect on this call: {}",
                reached(world)
            ));
        }
    }
}

/// A request to another origin is sent without the secret.
fn secrets(case: &DecisionCase<'_>, ruling: &Ruling, world: &Capability, notes: &mut Vec<String>) {
    let profile = case.declared.profile;
    let tool = case.declared.tool_id;
    for grant in case
        .grants
        .secrets
        .iter()
        .filter(|grant| typed(grant.source))
    {
        let rule = &grant.rule;
        let name = &grant.name;
        if !profile.wants(&AccessKind::Credential) {
            notes.push(format!(
                "{rule} has no effect: {tool} does not declare `credential`"
            ));
        } else if !profile.credential_refs.contains(name) {
            notes.push(format!(
                "{rule} has no effect: {tool} does not declare {name}"
            ));
        } else if ruling.behavior != Behavior::Deny && !world.network.may_reach(&grant.origin) {
            notes.push(format!(
                "{rule} is not sent by this call: {}",
                reached(world)
            ));
        }
    }
}

fn tools(case: &DecisionCase<'_>, notes: &mut Vec<String>) {
    let profile = case.declared.profile;
    let tool = case.declared.tool_id;
    for grant in case.grants.tools.iter().filter(|grant| typed(grant.source)) {
        if profile.tool_calls.is_empty() {
            notes.push(format!(
                "{} has no effect: {tool} does not declare tool_calls",
                grant.rule
            ));
        } else if !covers_declared(grant, profile) {
            notes.push(format!(
                "{} has no effect: it covers no tool that {tool} declares",
                grant.rule
            ));
        }
    }
}

fn reached(world: &Capability) -> String {
    let reached: Vec<String> = world
        .network
        .allowed()
        .iter()
        .map(ToString::to_string)
        .collect();
    if reached.is_empty() {
        "it sends no requests".to_owned()
    } else {
        format!("its requests can go to {} only", reached.join(", "))
    }
}

fn typed(source: RuleSource) -> bool {
    source == RuleSource::CliArg
}
