//! The configuration entry with which an MCP client starts this program.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;
use serde_json::{Map, Value, json};
use toolcell::{GrantWord, Home};
use toolcell_config::InstalledNames;

use super::bundled;
use super::exit::BadRequest;

/// Clients whose configuration is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Client {
    ClaudeDesktop,
    ClaudeCode,
    Vscode,
    Cursor,
}

impl Client {
    pub(super) fn file(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "claude_desktop_config.json (Settings, Developer, Edit Config)",
            Self::ClaudeCode => ".mcp.json in your project",
            Self::Vscode => ".vscode/mcp.json in your project",
            Self::Cursor => "~/.cursor/mcp.json, or .cursor/mcp.json in your project",
        }
    }
}

/// Without a value, or with one behind `=` alone.
const FLAGS: [&str; 6] = [
    "--cluster",
    "--no-config",
    "--no-elicitation",
    "--toolbox",
    "--workspace",
    "--workspace-rollback",
];
/// Options whose value is a path, beside the grants.
const PATHS: [&str; 3] = ["--tls-ca", "--config", "--record-to"];
const PRINT: &str = "--print-config";

/// Leaves out `--print-config`, and appends `extra`.
pub(super) fn config(
    client: Client,
    typed: &[String],
    extra: &[String],
    (folder, names): (&Path, &InstalledNames),
) -> anyhow::Result<String> {
    let program = std::env::current_exe().context("cannot find the toolcell program itself")?;
    let program = program
        .to_str()
        .context("the path of toolcell is not Unicode")?;
    let mut arguments = arguments(typed, folder, names)?;
    arguments.extend(extra.iter().cloned());
    // Clients start programs with an environment of their own.
    let home = std::env::var(Home::VARIABLE)
        .ok()
        .filter(|home| !home.is_empty());
    let home = home
        .map(|home| absolute(Path::new(&home), folder))
        .transpose()?;
    Ok(format!(
        "{:#}\n",
        entry(client, program, &arguments, home.as_deref())
    ))
}

fn entry(client: Client, program: &str, arguments: &[String], home: Option<&str>) -> Value {
    let mut entry = Map::new();
    if client != Client::ClaudeDesktop && client != Client::Cursor {
        entry.insert("type".to_owned(), "stdio".into());
    }
    entry.insert("command".to_owned(), program.into());
    entry.insert("args".to_owned(), json!(arguments));
    if let Some(home) = home {
        entry.insert("env".to_owned(), json!({ (Home::VARIABLE): home }));
    }
    let key = if client == Client::Vscode {
        "servers"
    } else {
        "mcpServers"
    };
    json!({ key: { "toolcell": entry } })
}

fn arguments(
    typed: &[String],
    folder: &Path,
    names: &InstalledNames,
) -> anyhow::Result<Vec<String>> {
    let mut arguments = Vec::new();
    let mut typed = typed.iter();
    let mut subcommand = true;
    while let Some(argument) = typed.next() {
        if let Some(rest) = argument.strip_prefix(PRINT) {
            if rest.is_empty() {
                typed.next();
            }
            continue;
        }
        if !argument.starts_with('-') {
            let whole = if subcommand {
                argument.clone()
            } else {
                tool(argument, folder, names)?
            };
            subcommand = false;
            arguments.push(whole);
            continue;
        }
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None if FLAGS.contains(&argument.as_str()) => (argument.as_str(), None),
            None => (argument.as_str(), typed.next().map(String::as_str)),
        };
        arguments.push(match value {
            Some(value) if takes_paths(name) => format!("{name}={}", paths(value, folder)?),
            Some(value) => format!("{name}={value}"),
            None => name.to_owned(),
        });
    }
    Ok(arguments)
}

/// Clients start programs in a folder of their own choice, so paths must be absolute.
fn takes_paths(option: &str) -> bool {
    PATHS.contains(&option)
        || GrantWord::ALL
            .iter()
            .any(|word| word.is_path() && word.option() == option)
}

/// Keeps the name behind the path, and the name of an installed tool. Fails if the path does not exist.
fn tool(typed: &str, folder: &Path, names: &InstalledNames) -> anyhow::Result<String> {
    if names
        .find(typed.split('#').next().unwrap_or_default())
        .is_some()
    {
        return Ok(typed.to_owned());
    }
    let (path, name) = match typed.rsplit_once('#') {
        Some((path, name)) if !folder.join(typed).exists() => (path, Some(name)),
        _ => (typed, None),
    };
    let shipped = bundled::component(Path::new(path));
    if shipped.is_none() && !folder.join(path).exists() {
        return Err(BadRequest(format!("there is no tool at {path}")).into());
    }
    let path = absolute(shipped.as_deref().unwrap_or(Path::new(path)), folder)?;
    Ok(name.map_or(path.clone(), |name| format!("{path}#{name}")))
}

/// Makes `HOST` absolute in `HOST` or `HOST=GUEST`, also in a list with commas, but not a pattern with a leading `*`.
fn paths(value: &str, folder: &Path) -> anyhow::Result<String> {
    let whole = |spec: &str| -> anyhow::Result<String> {
        let (host, guest) = spec
            .split_once('=')
            .map_or((spec, None), |(host, guest)| (host, Some(guest)));
        let host = if host.starts_with('*') {
            host.to_owned()
        } else {
            absolute(Path::new(host), folder)?
        };
        Ok(guest.map_or(host.clone(), |guest| format!("{host}={guest}")))
    };
    Ok(value
        .split(',')
        .map(whole)
        .collect::<anyhow::Result<Vec<_>>>()?
        .join(","))
}

fn absolute(path: &Path, folder: &Path) -> anyhow::Result<String> {
    let joined = folder.join(path);
    let path: PathBuf = joined.canonicalize().unwrap_or(joined);
    path.into_os_string().into_string().map_err(|path| {
        BadRequest(format!(
            "a configuration cannot hold a path that is not Unicode: {}",
            path.display()
        ))
        .into()
    })
}

#[cfg(test)]
mod tests {
    use super::super::mcp::Mcp;
    use super::{Client, FLAGS, InstalledNames, arguments, entry, takes_paths};
    use clap::{Args, Command};
    use serde_json::json;
    use std::path::Path;

    fn of(typed: &str, folder: &Path) -> Vec<String> {
        let typed: Vec<String> = typed.split(' ').map(str::to_owned).collect();
        arguments(&typed, folder, &InstalledNames::default()).unwrap()
    }

    #[test]
    fn every_path_is_absolute_and_the_wish_to_print_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().canonicalize().unwrap();
        std::fs::write(at.join("t.wasm"), "").unwrap();
        let root = at.display();
        for (typed, expected) in [
            (
                "mcp --print-config cursor t.wasm",
                format!("mcp {root}/t.wasm"),
            ),
            (
                "mcp t.wasm#one --print-config=cursor",
                format!("mcp {root}/t.wasm#one"),
            ),
            (
                "mcp t.wasm --allow-read . --timeout 5s",
                format!("mcp {root}/t.wasm --allow-read={root} --timeout=5s"),
            ),
            (
                "mcp t.wasm --allow-read=.=/work,/etc",
                format!("mcp {root}/t.wasm --allow-read={root}=/work,/etc"),
            ),
            (
                "mcp --no-config t.wasm --deny-read=*.key",
                format!("mcp --no-config {root}/t.wasm --deny-read=*.key"),
            ),
        ] {
            assert_eq!(of(typed, &at).join(" "), expected);
        }
        let missing = ["mcp".to_owned(), "nothing.wasm".to_owned()];
        assert!(
            arguments(&missing, &at, &InstalledNames::default())
                .unwrap_err()
                .to_string()
                .contains("nothing.wasm")
        );
    }

    #[test]
    fn what_an_option_takes_is_known_for_all_of_them() {
        let command = Mcp::augment_args(Command::new("mcp"));
        let name = |argument: &clap::Arg| argument.get_long().map(|name| format!("--{name}"));
        let flags = command.get_arguments().filter(|argument| {
            !argument.get_action().takes_values() || argument.is_require_equals_set()
        });
        let mut flags: Vec<String> = flags.filter_map(name).collect();
        flags.sort();
        assert_eq!(flags, FLAGS);
        // Help names the value of an option.
        let is_path = |argument: &clap::Arg| {
            let mut names = argument.get_value_names().into_iter().flatten();
            names.any(|name| ["DIR", "PATH", "FILE"].contains(&name.as_str()))
        };
        for argument in command.get_arguments() {
            let option = name(argument).unwrap_or_default();
            assert_eq!(takes_paths(&option), is_path(argument), "{option}");
        }
    }

    #[test]
    fn each_client_has_its_own_shape() {
        let of = |client| entry(client, "/bin/toolcell", &["mcp".to_owned()], Some("/state"));
        let desktop = of(Client::ClaudeDesktop);
        assert_eq!(
            desktop["mcpServers"]["toolcell"],
            json!({ "command": "/bin/toolcell", "args": ["mcp"], "env": { "TOOLCELL_HOME": "/state" } })
        );
        assert_eq!(of(Client::Cursor), desktop);
        assert_eq!(of(Client::Vscode)["servers"]["toolcell"]["type"], "stdio");
        assert_eq!(
            of(Client::ClaudeCode)["mcpServers"]["toolcell"]["type"],
            "stdio"
        );
    }
}
