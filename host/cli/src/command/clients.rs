//! The clients whose configuration is known: where it is, and the form of an entry that starts a server.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;
use serde_json::{Map, Value, json};
use toolcell::Home;
use toolcell_dialect::NAME_CHARS_MAX;

use super::connect::{Format, Slot};
use super::exit::BadRequest;
use super::launch::Launch;

/// An MCP client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Client {
    ClaudeCode,
    ClaudeDesktop,
    Vscode,
    Cursor,
    Zed,
    Codex,
    GeminiCli,
    Windsurf,
    Opencode,
    Goose,
    Cline,
    Continue,
}

/// The base of a path.
#[derive(Clone, Copy, Debug)]
enum Root {
    Project,
    /// `HOME`.
    Home,
    /// The folder in this variable, or else this one below `HOME`.
    Variable(&'static str, &'static str),
    /// Where programs with windows keep their settings.
    Application,
}

const CONFIG: Root = Root::Variable("XDG_CONFIG_HOME", ".config");

type Place = (Root, &'static str);

/// Of a server and a tool, with a colon between. A tool with more is left out.
const CURSOR_NAMES_MAX: usize = 60;

/// The members of an entry.
#[derive(Clone, Copy, Debug)]
enum Style {
    /// `command`, `args` and `env`.
    Plain,
    /// Also `type`.
    Typed,
    /// `command` has the arguments, and the variables are an `environment`.
    Local,
    /// An extension of goose.
    Extension,
    /// An item of a list, with its `name`.
    Named,
}

/// The documented facts of a client. Of several places, the first is what the client's documentation begins with; without a
/// file at any, it is made there.
#[derive(Debug)]
struct ClientFacts {
    project: &'static [Place],
    user: &'static [Place],
    is_project_first: bool,
    format: Format,
    /// The first that a file has counts, or else the last.
    sections: &'static [&'static [&'static str]],
    style: Style,
    /// In characters, of an entry: what the names of tools leave of the client's limit for both.
    name_max: usize,
    /// The beginning of a new file.
    head: &'static str,
}

const JSON: ClientFacts = ClientFacts {
    project: &[],
    user: &[],
    is_project_first: false,
    format: Format::Json,
    sections: &[&["mcpServers"]],
    style: Style::Plain,
    name_max: 64,
    head: "{}\n",
};

/// The table, with the source of each row.
const CLIENTS: [(Client, ClientFacts); 12] = [
    // https://code.claude.com/docs/en/mcp, "MCP installation scopes". CLAUDE_CONFIG_DIR: .../en/env-vars.
    (
        Client::ClaudeCode,
        ClientFacts {
            project: &[(Root::Project, ".mcp.json")],
            user: &[(Root::Variable("CLAUDE_CONFIG_DIR", ""), ".claude.json")],
            is_project_first: true,
            style: Style::Typed,
            ..JSON
        },
    ),
    // https://modelcontextprotocol.io/docs/develop/connect-local-servers; for Linux, where Electron keeps it.
    (
        Client::ClaudeDesktop,
        ClientFacts {
            user: &[(Root::Application, "Claude/claude_desktop_config.json")],
            ..JSON
        },
    ),
    // https://code.visualstudio.com/docs/copilot/reference/mcp-configuration; profiles: .../docs/configure/profiles.
    (
        Client::Vscode,
        ClientFacts {
            project: &[(Root::Project, ".vscode/mcp.json")],
            user: &[(Root::Application, "Code/User/mcp.json")],
            is_project_first: true,
            sections: &[&["servers"]],
            style: Style::Typed,
            ..JSON
        },
    ),
    // https://cursor.com/docs/mcp, "Configuration locations". Names: github.com/awslabs/mcp/issues/1283.
    (
        Client::Cursor,
        ClientFacts {
            name_max: CURSOR_NAMES_MAX - NAME_CHARS_MAX - 1,
            project: &[(Root::Project, ".cursor/mcp.json")],
            user: &[(Root::Home, ".cursor/mcp.json")],
            ..JSON
        },
    ),
    // https://zed.dev/docs/ai/mcp, "As Custom Servers"; https://zed.dev/docs/configuring-zed for the files.
    (
        Client::Zed,
        ClientFacts {
            project: &[(Root::Project, ".zed/settings.json")],
            user: &[(CONFIG, "zed/settings.json")],
            sections: &[&["context_servers"]],
            ..JSON
        },
    ),
    // https://developers.openai.com/codex/mcp; github.com/openai/codex docs/config.md. Only a trusted project counts.
    (
        Client::Codex,
        ClientFacts {
            project: &[(Root::Project, ".codex/config.toml")],
            user: &[(Root::Variable("CODEX_HOME", ".codex"), "config.toml")],
            format: Format::Toml,
            sections: &[&["mcp_servers"]],
            head: "",
            ..JSON
        },
    ),
    // https://geminicli.com/docs/tools/mcp-server and .../docs/cli/configuration, "Settings files".
    (
        Client::GeminiCli,
        ClientFacts {
            project: &[(Root::Project, ".gemini/settings.json")],
            user: &[(Root::Home, ".gemini/settings.json")],
            ..JSON
        },
    ),
    // https://docs.devin.ai/desktop/cascade/mcp: Windsurf, renamed to Devin Desktop in 2026, which reads the first.
    // Of that: https://vaadin.com/docs/latest/building-apps/agentic-development/mcp/supported-tools/devin-desktop.
    (
        Client::Windsurf,
        ClientFacts {
            project: &[(Root::Project, ".devin/mcp_config.json")],
            user: &[
                (CONFIG, "devin/mcp_config.json"),
                (Root::Home, ".codeium/windsurf/mcp_config.json"),
            ],
            ..JSON
        },
    ),
    // https://opencode.ai/docs/mcp-servers; https://opencode.ai/docs/migrate-v1: version 2 takes the form of
    // version 1, too, which has no `servers`.
    (
        Client::Opencode,
        ClientFacts {
            project: &[
                (Root::Project, "opencode.json"),
                (Root::Project, "opencode.jsonc"),
            ],
            user: &[
                (CONFIG, "opencode/opencode.json"),
                (CONFIG, "opencode/opencode.jsonc"),
            ],
            sections: &[&["mcp", "servers"], &["mcp"]],
            style: Style::Local,
            ..JSON
        },
    ),
    // https://block.github.io/goose/docs/guides/config-files, "Extensions Configuration".
    (
        Client::Goose,
        ClientFacts {
            user: &[(CONFIG, "goose/config.yaml")],
            format: Format::Yaml,
            sections: &[&["extensions"]],
            style: Style::Extension,
            head: "",
            ..JSON
        },
    ),
    // https://docs.cline.bot/mcp/mcp-overview: the program; the extension of VS Code keeps a file of its own
    // (https://docs.ionos.com/cloud/ai/mcp-server/connect-to-an-ai-client/cline).
    (
        Client::Cline,
        ClientFacts {
            user: &[
                (Root::Home, ".cline/data/settings/cline_mcp_settings.json"),
                (
                    Root::Application,
                    "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
                ),
            ],
            ..JSON
        },
    ),
    // https://docs.continue.dev/customize/deep-dives/mcp: a block file of a project needs the first three lines.
    (
        Client::Continue,
        ClientFacts {
            project: &[(Root::Project, ".continue/mcpServers/toolcell.yaml")],
            user: &[(Root::Home, ".continue/config.yaml")],
            format: Format::Yaml,
            style: Style::Named,
            head: "name: toolcell\nversion: 0.0.1\nschema: v1\n",
            ..JSON
        },
    ),
];

fn known(client: Client) -> &'static ClientFacts {
    let row = CLIENTS.iter().find(|(name, _)| *name == client);
    row.map_or(&JSON, |(_, known)| known)
}

/// The sections of servers that clients have in this format.
pub(super) fn sections(format: Format) -> BTreeSet<&'static [&'static str]> {
    let rows = CLIENTS.iter().filter(|(_, facts)| facts.format == format);
    rows.flat_map(|(_, facts)| facts.sections.iter().copied())
        .collect()
}

/// Whose configuration is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Default,
    Project,
    User,
}

impl Client {
    pub(super) fn format(self) -> Format {
        known(self).format
    }

    pub(super) fn name_max(self) -> usize {
        known(self).name_max
    }

    pub(super) fn head(self) -> &'static str {
        known(self).head
    }

    /// The places of the entry `name`, of which the first that a file has counts, or else the last.
    pub(super) fn slots(self, name: &str) -> Vec<Slot> {
        let known = known(self);
        let slot = |section: &&[&'static str]| Slot {
            section: section.iter().map(|key| (*key).to_owned()).collect(),
            name: name.to_owned(),
            is_list: matches!(known.style, Style::Named),
        };
        known.sections.iter().map(slot).collect()
    }

    /// The entry that starts `launch`.
    pub(super) fn entry(self, name: &str, launch: &Launch) -> Value {
        let mut entry = Map::new();
        let mut add = |key: &str, value: Value| {
            entry.insert(key.to_owned(), value);
        };
        let env = launch
            .home
            .as_ref()
            .map(|home| json!({ (Home::VARIABLE): home }));
        let command = &launch.program;
        let args = &launch.arguments;
        let variables = match known(self).style {
            Style::Local => {
                add("type", "local".into());
                add(
                    "command",
                    std::iter::once(command).chain(args).cloned().collect(),
                );
                "environment"
            }
            Style::Extension => {
                add("enabled", true.into());
                add("type", "stdio".into());
                add("name", name.into());
                add("cmd", command.clone().into());
                add("args", json!(args));
                add("timeout", 300.into());
                "envs"
            }
            style => {
                if matches!(style, Style::Named) {
                    add("name", name.into());
                }
                if matches!(style, Style::Typed) {
                    add("type", "stdio".into());
                }
                add("command", command.clone().into());
                add("args", json!(args));
                "env"
            }
        };
        if let Some(env) = env {
            add(variables, env);
        }
        Value::Object(entry)
    }

    /// For people, such as `.cursor/mcp.json in your project`.
    pub(super) fn file(self) -> String {
        let known = known(self);
        let mut places: Vec<String> = Vec::new();
        let project = known.project.iter().take(1);
        let project = project.map(|(_, path)| format!("{path} in your project"));
        let user = known.user.iter().take(1).map(|(root, path)| match root {
            Root::Variable(_, "") | Root::Home | Root::Project => format!("~/{path}"),
            Root::Variable(_, folder) => format!("~/{folder}/{path}"),
            Root::Application => path.rsplit('/').next().map_or_else(String::new, |file| {
                format!("{file} in the folder of its settings")
            }),
        });
        if known.is_project_first {
            places.extend(project.chain(user));
        } else {
            places.extend(user.chain(project));
        }
        places.join(", or ")
    }

    /// The file to write, and others that this client may read.
    pub(super) fn find(
        self,
        scope: Scope,
        folder: &Path,
    ) -> anyhow::Result<(PathBuf, Vec<PathBuf>)> {
        let known = known(self);
        let has_both = !known.project.is_empty() && !known.user.is_empty();
        if scope != Scope::Default && !has_both {
            let message = format!(
                "{} has only one configuration file; leave out --project and --user, or name a file with --file=FILE",
                self.name()
            );
            return Err(BadRequest(message).into());
        }
        let is_project = match scope {
            Scope::Default => known.is_project_first || known.user.is_empty(),
            scope => scope == Scope::Project,
        };
        let places = if is_project {
            known.project
        } else {
            known.user
        };
        let paths = places
            .iter()
            .map(|(root, path)| Ok(base(*root, folder)?.join(path)))
            .collect::<anyhow::Result<Vec<PathBuf>>>()?;
        let exists = |path: &&PathBuf| path.symlink_metadata().is_ok();
        let has_folder = |path: &&PathBuf| path.parent().is_some_and(Path::is_dir);
        let chosen = paths
            .iter()
            .find(exists)
            .or_else(|| paths.iter().find(has_folder))
            .or(paths.first())
            .cloned()
            .context("a client has no place")?;
        let others = paths.iter().filter(|path| **path != chosen && exists(path));
        Ok((chosen.clone(), others.cloned().collect()))
    }

    pub(super) fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}

fn base(root: Root, folder: &Path) -> anyhow::Result<PathBuf> {
    let set = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let home = || {
        set("HOME").ok_or_else(|| {
            let message = "cannot find the client's configuration, because HOME is not set to an absolute path; set it, \
                           or name the file with --file=FILE";
            BadRequest(message.to_owned())
        })
    };
    Ok(match root {
        Root::Project => folder.to_owned(),
        Root::Home => home()?,
        Root::Variable(name, below) => match set(name) {
            Some(folder) => folder,
            None => home()?.join(below),
        },
        Root::Application if cfg!(target_os = "macos") => {
            home()?.join("Library/Application Support")
        }
        Root::Application => return base(CONFIG, folder),
    })
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;
    use serde_json::json;

    use super::{CLIENTS, Client, Launch};

    #[test]
    fn each_client_has_its_own_form() {
        let launch = Launch {
            program: "/bin/toolcell".to_owned(),
            arguments: vec!["mcp".to_owned()],
            home: Some("/state".to_owned()),
        };
        let env = json!({ "TOOLCELL_HOME": "/state" });
        let plain = json!({ "command": "/bin/toolcell", "args": ["mcp"], "env": env });
        let typed =
            json!({ "type": "stdio", "command": "/bin/toolcell", "args": ["mcp"], "env": env });
        let local =
            json!({ "type": "local", "command": ["/bin/toolcell", "mcp"], "environment": env });
        let extension = json!({ "enabled": true, "type": "stdio", "name": "it", "cmd": "/bin/toolcell", "args": ["mcp"],
                                "timeout": 300, "envs": env });
        let named =
            json!({ "name": "it", "command": "/bin/toolcell", "args": ["mcp"], "env": env });
        for client in Client::value_variants() {
            let expected = match client {
                Client::ClaudeCode | Client::Vscode => &typed,
                Client::Opencode => &local,
                Client::Goose => &extension,
                Client::Continue => &named,
                _ => &plain,
            };
            assert_eq!(&client.entry("it", &launch), expected, "{client:?}");
            assert!(CLIENTS.iter().any(|(name, _)| name == client), "{client:?}");
        }
    }
}
