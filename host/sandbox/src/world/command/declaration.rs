//! The tool that every command is.

use std::path::Path;

use serde_json::{Value, json};
use toolcell_spec::dialect::wrapping::CommandInterface;
use toolcell_spec::{AccessKind, CLI, COMMAND_PROTOCOL, WriteEffect};

use super::input::{ARGS_MAX, ENV_MAX, FILES_MAX};
use super::name;
use crate::world::foreign_tool::{self, ForeignTool, LeftOut};

const NAMESPACE: &str = "command";
const NAME: &str = "run";

const DESCRIPTION: &str = "Runs a command-line program in a sandbox. `args` are its arguments, `stdin` is its standard \
    input, and `files` are put into its working directory, which is empty otherwise. The answer has its exit code and \
    what it printed; the files that it makes in its working directory become artifacts. It reads other files only in \
    folders that were granted, by their full paths, and changes none there.";

/// What a command says of itself.
pub(super) struct CommandFacts<'a> {
    pub(super) namespace: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    /// `None` if it takes arguments and prints text.
    pub(super) interface: Option<&'a CommandInterface>,
    pub(super) imports: &'a [String],
    pub(super) left_out: &'a [LeftOut],
}

pub(super) fn toolkit(facts: &CommandFacts<'_>) -> String {
    let named = facts.interface.map(|interface| interface.name.as_str());
    let names = foreign_tool::names([named.or(facts.name).unwrap_or(NAME)]);
    let tools: Vec<ForeignTool> = names
        .into_iter()
        .map(|name| {
            let tool = declared(name, facts.imports);
            match facts.interface {
                Some(interface) => with_interface(tool, interface),
                None => tool,
            }
        })
        .collect();
    let namespace = facts.namespace.unwrap_or(NAMESPACE);
    foreign_tool::toolkit(namespace, &tools, facts.left_out)
}

fn with_interface(tool: ForeignTool, interface: &CommandInterface) -> ForeignTool {
    let (protocol, json) = COMMAND_PROTOCOL;
    let mapping = json!({ "source": CLI, "command_id": tool.name, protocol: json });
    ForeignTool {
        description: interface.description.clone(),
        input_schema: interface.input_schema.clone(),
        output_schema: interface.output_schema.clone(),
        subjects: interface.subjects(),
        mapping: Some(mapping),
        ..tool
    }
}

pub(super) fn is_json(toolkit: &str) -> bool {
    let (protocol, json) = COMMAND_PROTOCOL;
    let mut known = foreign_tool::mapped(toolkit, CLI, protocol).into_values();
    known.any(|protocol| protocol == json)
}

/// `None` if the command has a name, or its file gives none.
pub(in crate::world) fn named_by(file: &Path, toolkit: &str) -> Option<String> {
    foreign_tool::renamed(toolkit, NAME, &name::of_file(file)?)
}

fn declared(name: String, imports: &[String]) -> ForeignTool {
    let mut tool = ForeignTool::careful(name, DESCRIPTION.to_owned(), input_schema(), imports);
    tool.tool_kind = "shell_command";
    // Its imports say that it reaches nothing else, whatever others of its kind do.
    tool.facts.is_open_world.get_or_insert(false);
    tool.mapping = Some(json!({ "source": CLI, "command_id": tool.name }));
    // The scratch folder is all that it may write to. It reads what is granted.
    tool.effects.push(WriteEffect::LocalDraft);
    if tool.access.contains(&AccessKind::Network) {
        tool.effects.push(WriteEffect::RemoteMutation);
    }
    tool.access
        .extend([AccessKind::FileRead, AccessKind::FileWrite]);
    tool.output_schema = Some(output_schema());
    tool
}

fn input_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "args": {
                "type": "array",
                "items": { "type": "string" },
                "maxItems": ARGS_MAX,
                "description": "The arguments, without the name of the program.",
            },
            "stdin": described("The standard input. Empty if it is left out."),
            "env": {
                "type": "object",
                "additionalProperties": { "type": "string" },
                "maxProperties": ENV_MAX,
                "description": "Environment variables for the program.",
            },
            "files": {
                "type": "object",
                "additionalProperties": data(),
                "maxProperties": FILES_MAX,
                "description": "Files of the working directory, by their relative paths, such as data/a.csv.",
            },
        },
        "additionalProperties": false,
    })
}

fn output_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "exit_code": { "type": "integer" },
            "stdout": data(),
            "stderr": data(),
            "files": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": { "path": { "type": "string" }, "reference": { "type": "string" } },
                    "required": ["path", "reference"],
                    "additionalProperties": false,
                },
                "description": "The files that the program made or changed, each with the reference of its artifact.",
            },
            "files_left_out": {
                "type": "integer",
                "description": "How many links and other special files it made, which are not kept.",
            },
        },
        "required": ["exit_code", "stdout", "stderr", "files"],
        "additionalProperties": false,
    })
}

fn data() -> Value {
    json!({
        "anyOf": [
            { "type": "string" },
            {
                "type": "object",
                "properties": { "base64": { "type": "string", "contentEncoding": "base64" } },
                "required": ["base64"],
                "additionalProperties": false,
            },
        ],
    })
}

fn described(description: &str) -> Value {
    let mut data = data();
    if let Some(fields) = data.as_object_mut() {
        fields.insert("description".to_owned(), description.into());
    }
    data
}

#[cfg(test)]
mod tests {
    use toolcell_spec::dialect::agent_tool::{self, LoadedToolkit};
    use toolcell_spec::{RiskLevel, Toolkit};

    use super::*;

    fn toolkit_of(namespace: Option<&str>, name: Option<&str>, imports: &[String]) -> String {
        super::toolkit(&super::CommandFacts {
            namespace,
            name,
            interface: None,
            imports,
            left_out: &[],
        })
    }

    #[track_caller]
    fn accepted(name: Option<&str>, imports: &[&str]) -> Toolkit {
        let imports: Vec<String> = imports.iter().map(|import| (*import).to_owned()).collect();
        let LoadedToolkit { toolkit, notes, .. } =
            agent_tool::toolkit(&toolkit_of(None, name, &imports)).unwrap();
        assert!(notes.is_empty(), "{notes:?}");
        toolkit
    }

    #[test]
    fn a_command_gets_a_scratch_folder_and_asks_for_no_other_place_to_write() {
        let kit = accepted(
            None,
            &["wasi:filesystem/types@0.2.6", "wasi:sockets/tcp@0.2.6"],
        );
        assert_eq!(kit.declarations[0].qualified_name(), "command.run");
        let profile = &kit.permission_profiles[0];
        assert!(
            profile.wants_drafts()
                && profile.wants(&AccessKind::FileRead)
                && !profile.wants_file_write()
        );
        assert!(!profile.reaches_out());
        assert_eq!(profile.risk_level, RiskLevel::Medium);
    }

    #[test]
    fn only_a_command_without_a_name_gets_that_of_its_file() {
        let nameless = toolkit_of(Some("mine"), None, &[]);
        let named = named_by("/tools/word count.wasm".as_ref(), &nameless).unwrap();
        let kit = agent_tool::toolkit(&named).unwrap().toolkit;
        assert_eq!(kit.declarations[0].tool_id, "mine.word-count");
        assert_eq!(kit.declarations[0].qualified_name(), "mine.word-count");
        assert!(!named.contains("mine.run"), "{named}");
        assert_eq!(
            named_by("a.wasm".as_ref(), &toolkit_of(None, Some("wc"), &[])),
            None
        );
        assert_eq!(named_by("..".as_ref(), &nameless), None);
    }

    #[test]
    fn a_command_that_sends_requests_asks_for_the_network() {
        let kit = accepted(Some("fetch it"), &["wasi:http/outgoing-handler@0.2.6"]);
        assert_eq!(kit.declarations[0].qualified_name(), "command.fetch-it");
        let profile = &kit.permission_profiles[0];
        assert!(
            profile.reaches_out()
                && profile.has_effect(&WriteEffect::RemoteMutation)
                && profile.wants_drafts()
        );
    }
}
