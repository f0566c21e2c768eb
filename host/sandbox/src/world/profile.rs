//! The profile that `toolcell wrap` writes into a component, applied to its tools: it informs and narrows.

use toolcell_spec::dialect::sections;
use toolcell_spec::dialect::wrapping::{Ceiling, PROFILE_SECTION, Profile, ToolProfile};
use toolcell_spec::{AccessKind, WriteEffect};

use super::foreign_tool::ForeignTool;
use super::listed;

const NO_HTTP: &str = "the component does not import wasi:http";

pub(super) fn profile(bytes: &[u8]) -> Result<Option<Profile>, String> {
    let Some(content) = sections::custom(bytes, PROFILE_SECTION)? else {
        return Ok(None);
    };
    let text = std::str::from_utf8(content)
        .map_err(|error| format!("cannot read the profile: {error}"))?;
    Profile::read(text).map(Some)
}

fn imported(imports: &[String], start: &str) -> bool {
    imports.iter().any(|import| import.starts_with(start))
}

/// Fails if the profile names a tool that is not there, or claims what could have no effect.
pub(super) fn narrow(
    tools: &mut [ForeignTool],
    profile: &Profile,
    imports: &[String],
) -> Result<(), String> {
    let known: Vec<String> = tools.iter().map(|tool| tool.name.clone()).collect();
    if let Some(unknown) = profile.tools.keys().find(|name| !known.contains(name)) {
        let known = listed(&known);
        return Err(format!(
            "its profile names {unknown:?}, which is none of its tools: {known}"
        ));
    }
    let ceiling = profile.ceiling.as_ref();
    for tool in tools {
        if let Some(ceiling) = ceiling {
            lower(ceiling, tool, imports);
        }
        if let Some(own) = profile.tools.get(&tool.name) {
            apply(own, ceiling, tool, imports)
                .map_err(|why| format!("its profile of {}: {why}", tool.name))?;
        }
    }
    Ok(())
}

/// Asks for what the component imports and the ceiling allows.
fn lower(ceiling: &Ceiling, tool: &mut ForeignTool, imports: &[String]) {
    if ceiling.network.is_empty() && guard!("ceiling") {
        without_network(tool, imports);
    } else if tool.access.contains(&AccessKind::Network) && guard!("ceiling") {
        let any = ceiling.network.iter().any(|pattern| pattern == "any");
        tool.network_scope = (!any).then(|| ceiling.network.join(","));
    }
    if imported(imports, "wasi:filesystem/") {
        let kinds = [
            (ceiling.file_read, AccessKind::FileRead),
            (ceiling.file_write, AccessKind::FileWrite),
        ];
        tool.access.extend(
            kinds
                .into_iter()
                .filter(|(asked, _)| *asked)
                .map(|(_, kind)| kind),
        );
    }
}

fn without_network(tool: &mut ForeignTool, imports: &[String]) {
    tool.access.retain(|kind| *kind != AccessKind::Network);
    tool.network_scope = None;
    tool.facts.is_open_world = tool
        .facts
        .is_open_world
        .filter(|_| imported(imports, "wasi:sockets/"));
}

/// Refuses what the component could not use, or the ceiling excludes: a claim without effect would look like one that
/// was honoured.
fn apply(
    profile: &ToolProfile,
    ceiling: Option<&Ceiling>,
    tool: &mut ForeignTool,
    imports: &[String],
) -> Result<(), String> {
    let ToolProfile {
        description,
        read_only,
        network,
        paths,
        ..
    } = profile;
    if let Some(description) = description {
        tool.description.clone_from(description);
    }
    match network {
        Some(true) if !tool.access.contains(&AccessKind::Network) => {
            let why = if imported(imports, "wasi:http/") {
                "its ceiling has none"
            } else {
                NO_HTTP
            };
            return Err(format!("`network` is true, and {why}"));
        }
        Some(false) => without_network(tool, imports),
        _ => {}
    }
    if !paths.is_empty() {
        if !imported(imports, "wasi:filesystem/") {
            return Err(
                "it has `paths`, and the component does not import wasi:filesystem".to_owned(),
            );
        }
        match ceiling {
            // The tool asks for what the ceiling has.
            Some(Ceiling {
                file_read,
                file_write,
                ..
            }) if *file_read || *file_write => {}
            Some(_) => return Err("it has `paths`, and its ceiling has no files".to_owned()),
            None => tool
                .access
                .extend([AccessKind::FileRead, AccessKind::FileWrite]),
        }
    }
    if *read_only {
        tool.access.retain(|kind| *kind != AccessKind::FileWrite);
        tool.facts.is_read_only = Some(true);
        tool.effects = vec![WriteEffect::None];
    }
    tool.subjects = profile.subjects()?;
    Ok(())
}
