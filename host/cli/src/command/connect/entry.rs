//! What the configuration file of a client starts.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use super::super::clients;
use super::edit::{Fault, Format};
use super::node::{Content, Member, Node};

/// A server that a client starts.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::command) struct ServerEntry {
    pub(in crate::command) name: String,
    /// Empty for one that is only connected to.
    pub(in crate::command) command: String,
    pub(in crate::command) arguments: Vec<String>,
    pub(in crate::command) environment: HashMap<String, String>,
}

/// Reads the file of any known client, whose format its name tells.
pub(in crate::command) fn server_entries(
    file: &Path,
    text: &str,
) -> anyhow::Result<Vec<ServerEntry>> {
    let format = match file.extension().and_then(|end| end.to_str()) {
        Some("toml") => Format::Toml,
        Some("yaml" | "yml") => Format::Yaml,
        _ => Format::Json,
    };
    let root = format.read(text)?;
    let mut entries = Vec::new();
    for section in clients::sections(format) {
        let keys: Vec<String> = section.iter().map(|key| (*key).to_owned()).collect();
        match root
            .follow(&keys)
            .map_err(Fault::from)?
            .map(|found| &found.content)
        {
            Some(Content::Map(members)) => entries.extend(members.iter().map(ServerEntry::new)),
            Some(Content::List(items)) => entries.extend(items.iter().map(ServerEntry::from_item)),
            Some(Content::Scalar(_)) | None => {}
        }
    }
    Ok(entries)
}

impl ServerEntry {
    fn new(member: &Member) -> Self {
        Self::named(member.key.clone(), &member.value)
    }

    fn from_item(item: &Node) -> Self {
        let name = item.members().unwrap_or_default();
        let name = name.iter().find(|member| member.key == "name");
        let name = name.and_then(|member| text(&member.value));
        Self::named(name.unwrap_or_default(), item)
    }

    fn named(name: String, node: &Node) -> Self {
        let members = node.members().unwrap_or_default();
        let find = |keys: &[&str]| {
            let found = members
                .iter()
                .find(|member| keys.contains(&member.key.as_str()));
            found.map(|member| &member.value)
        };
        let texts = |node: &Node| match &node.content {
            Content::List(items) => items.iter().filter_map(text).collect(),
            Content::Scalar(_) | Content::Map(_) => text(node).into_iter().collect(),
        };
        // Some clients have the arguments in the list of the command.
        let mut words: Vec<String> = find(&["command", "cmd"]).map(texts).unwrap_or_default();
        words.extend(find(&["args"]).map(texts).unwrap_or_default());
        let mut words = words.into_iter();
        let environment = find(&["env", "envs", "environment"]).and_then(Node::members);
        let environment = environment.unwrap_or_default().iter();
        Self {
            name,
            command: words.next().unwrap_or_default(),
            arguments: words.collect(),
            environment: environment
                .map(|member| (member.key.clone(), text(&member.value).unwrap_or_default()))
                .collect(),
        }
    }
}

/// Of a scalar, also one of YAML without quotation marks.
fn text(node: &Node) -> Option<String> {
    let Content::Scalar(written) = &node.content else {
        return None;
    };
    let single = || written.strip_prefix('\'')?.strip_suffix('\'');
    match serde_json::from_str(written) {
        Ok(Value::String(text)) => Some(text),
        Ok(_) => None,
        Err(_) => Some(single().map_or_else(|| written.clone(), |text| text.replace("''", "'"))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::path::Path;

    use clap::ValueEnum;

    use super::super::super::clients::Client;
    use super::super::super::launch::Launch;
    use super::super::edit::Format;
    use super::{ServerEntry, server_entries};

    #[test]
    fn the_entry_of_each_client_is_read_as_it_was_written() {
        let launch = Launch {
            program: "/bin/toolcell".to_owned(),
            arguments: vec!["mcp".to_owned(), "it's a 'tool'.wasm".to_owned()],
            home: Some("/state".to_owned()),
        };
        let expected = ServerEntry {
            name: "it".to_owned(),
            command: launch.program.clone(),
            arguments: launch.arguments.clone(),
            environment: HashMap::from([("TOOLCELL_HOME".to_owned(), "/state".to_owned())]),
        };
        for client in Client::value_variants() {
            let slot = client.slots("it").pop().unwrap_or_default();
            let entry = client.entry("it", &launch);
            let text = client.format().put(client.head(), &slot, &entry).unwrap();
            let file = match client.format() {
                Format::Json => "settings.json",
                Format::Toml => "config.toml",
                Format::Yaml => "config.yaml",
            };
            let entries = server_entries(Path::new(file), &text).unwrap();
            assert_eq!(
                entries.as_slice(),
                std::slice::from_ref(&expected),
                "{client:?}: {text}"
            );
        }
    }

    #[test]
    fn yaml_without_quotation_marks_and_what_is_no_server() {
        let text = "extensions:\n  a:\n    cmd: toolcell\n    args: [mcp, 'it''s.wasm', 3]\n  b: text\nmcpServers: none\n";
        let entries = server_entries(Path::new("config.yml"), text).unwrap();
        let found: Vec<(&str, &str, Vec<&str>)> = entries
            .iter()
            .map(|entry| {
                let arguments = entry.arguments.iter().map(String::as_str).collect();
                (entry.name.as_str(), entry.command.as_str(), arguments)
            })
            .collect();
        assert_eq!(
            found,
            [
                ("a", "toolcell", vec!["mcp", "it's.wasm"]),
                ("b", "", vec![])
            ]
        );
        server_entries(Path::new("config.toml"), "a = ").unwrap_err();
    }
}
