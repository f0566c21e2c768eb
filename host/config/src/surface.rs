//! `[surface]`: which tools a caller can select. A file adds restrictions, and removes none of another file; it opens
//! feature gates, which the authors of tools close.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use serde::Deserialize;
use toolcell_engine::catalog::{TOOL_BUDGET, ToolSelection};
use toolcell_policy::ToolPatterns;
use toolcell_spec::{GUEST_BLOCKS, Refusal, ToolChoice};

use super::layers::unreadable;
use super::{ConfigLayer, ConfigLayers, ConfigText};

/// `[surface]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SurfaceSection {
    /// How many tools are listed from the start.
    pub max_listed: Option<usize>,
    /// `auto`, `none`, the name of the only tool that may be called, or `required`: as `auto`, and clients that read the
    /// surface have the model call a tool.
    pub tool_choice: Option<ConfigText>,
    /// Capabilities that every tool has to declare in `capability_refs`.
    pub capabilities: Vec<ConfigText>,
    /// Feature gates that are open.
    pub features: Vec<ConfigText>,
    /// Types of content that the model takes.
    pub media: Option<Vec<ConfigText>>,
    /// If `true`, the API holds the model to `strict` schemas [default: true].
    pub strict_schemas: Option<bool>,
    /// If `true`, calls of one message or batch may run in parallel [default: true].
    pub parallel_calls: Option<bool>,
    /// If `true`, the model can find and load tools that are not listed; if `false`, there are none [default: true].
    pub deferred_refs: Option<bool>,
    /// The role of the callers.
    pub role: Option<ConfigText>,
    /// The tools of each role.
    pub roles: BTreeMap<String, Vec<ConfigText>>,
}

/// Combines the files and the command line, whose `budget` and `role` take precedence.
///
/// # Errors
///
/// `policy_blocked`/`policy_unreadable`: a word that is not known, two files that allow different tools alone, or a role
/// that no file describes.
pub fn selection(
    layers: &ConfigLayers,
    budget: Option<usize>,
    role: Option<&str>,
) -> Result<ToolSelection, Refusal> {
    combined(layers, budget, role).map_err(unreadable)
}

fn combined(
    layers: &ConfigLayers,
    budget: Option<usize>,
    role: Option<&str>,
) -> anyhow::Result<ToolSelection> {
    let mut selection = ToolSelection {
        role: role.map(str::to_owned),
        ..ToolSelection::default()
    };
    let mut least = None;
    for layer in layers.files() {
        let section = &layer.file.surface;
        least = [least, section.max_listed].into_iter().flatten().min();
        selection
            .capabilities
            .extend(section.capabilities.iter().map(|word| word.to_string()));
        selection
            .features
            .extend(section.features.iter().map(|word| word.to_string()));
        if let Some(media) = &section.media {
            let media = media
                .iter()
                .map(|word| medium(layer, word))
                .collect::<anyhow::Result<BTreeSet<String>>>()?;
            selection.model.media = Some(match selection.model.media.take() {
                Some(others) => others.intersection(&media).cloned().collect(),
                None => media,
            });
        }
        let model = &mut selection.model;
        for (takes, said) in [
            (&mut model.strict_schemas, section.strict_schemas),
            (&mut model.parallel_calls, section.parallel_calls),
            (&mut model.deferred_refs, section.deferred_refs),
        ] {
            *takes &= said.unwrap_or(true);
        }
        if let Some(word) = &section.tool_choice {
            selection.choice =
                stricter(selection.choice, word).with_context(|| place(layer, word))?;
        }
        // One role for all files: another one could undo what the first restricts. All files say together which tools it has.
        if let (None, Some(word)) = (role, &section.role) {
            match &selection.role {
                Some(other) if **other != **word => bail!(
                    "{}: the role is {word:?} here, and {other:?} in another file; write it in one of them",
                    place(layer, word)
                ),
                _ => selection.role = Some(word.to_string()),
            }
        }
    }
    selection.budget = budget.or(least).unwrap_or(TOOL_BUDGET);
    let Some(role) = selection.role.clone() else {
        return Ok(selection);
    };
    for layer in layers.files() {
        if let Some(words) = layer.file.surface.roles.get(&role) {
            let texts: Vec<&str> = words.iter().map(|word| &**word).collect();
            let tools = ToolPatterns::compile(&texts);
            selection.role_tools.push(
                tools.with_context(|| format!("{}: the role {role}", layer.file.path.display()))?,
            );
        }
    }
    if selection.role_tools.is_empty() {
        bail!(
            "the role {role:?} is in no file: add its tools to [surface.roles] of toolcell.toml, {role} = [\"files.*\"]"
        );
    }
    Ok(selection)
}

fn medium(layer: &ConfigLayer, word: &ConfigText) -> anyhow::Result<String> {
    if !GUEST_BLOCKS.contains(&&**word) {
        let known = GUEST_BLOCKS.join(", ");
        bail!(
            "{}: [surface] media {word:?} is not one of: {known}",
            place(layer, word)
        );
    }
    Ok(word.to_string())
}

fn stricter(choice: ToolChoice, word: &ConfigText) -> anyhow::Result<ToolChoice> {
    let next = match &**word {
        "auto" => ToolChoice::Auto,
        "none" => ToolChoice::None,
        "required" => ToolChoice::Required,
        "" => bail!(
            "[surface] tool_choice is empty; write auto, none, required, or the name of a tool"
        ),
        name => ToolChoice::Tool(name.to_owned()),
    };
    match (choice, next) {
        (ToolChoice::Auto, next) => Ok(next),
        (choice, ToolChoice::Auto) => Ok(choice),
        // One tool is any tool, too.
        (ToolChoice::Required, next @ (ToolChoice::Required | ToolChoice::Tool(_))) => Ok(next),
        (choice @ ToolChoice::Tool(_), ToolChoice::Required) => Ok(choice),
        (ToolChoice::Tool(one), ToolChoice::Tool(other)) if one == other => {
            Ok(ToolChoice::Tool(one))
        }
        (ToolChoice::Tool(one), ToolChoice::Tool(other)) => {
            bail!(
                "[surface] tool_choice is {other:?} here and {one:?} in another file; write it in one of them"
            )
        }
        _ => Ok(ToolChoice::None),
    }
}

fn place(layer: &ConfigLayer, word: &ConfigText) -> String {
    layer.file.place_of(word)
}

#[cfg(test)]
mod tests {
    use toolcell_spec::ToolChoice;

    use super::stricter;
    use crate::{ConfigFile, ConfigText};

    fn word(text: &str) -> ConfigText {
        let file = ConfigFile::parse(&format!("mode = {text:?}\n"), "/".as_ref()).unwrap();
        file.mode.unwrap()
    }

    #[test]
    fn the_stricter_choice_of_two_files_counts() {
        let of = |first: &str, second: &str| {
            let first = stricter(ToolChoice::Auto, &word(first))?;
            stricter(first, &word(second))
        };
        let one = ToolChoice::Tool("a.one".to_owned());
        assert_eq!(of("auto", "a.one").unwrap(), one);
        assert_eq!(of("a.one", "auto").unwrap(), one);
        assert_eq!(of("a.one", "a.one").unwrap(), one);
        assert_eq!(of("a.one", "none").unwrap(), ToolChoice::None);
        assert_eq!(of("none", "a.one").unwrap(), ToolChoice::None);
        assert_eq!(of("auto", "required").unwrap(), ToolChoice::Required);
        assert_eq!(of("required", "required").unwrap(), ToolChoice::Required);
        assert_eq!(of("required", "a.one").unwrap(), one);
        assert_eq!(of("a.one", "required").unwrap(), one);
        assert_eq!(of("required", "none").unwrap(), ToolChoice::None);
        for (first, second) in [("a.one", "a.two"), ("auto", "")] {
            of(first, second).unwrap_err();
        }
    }
}
