//! How a client starts this program: the command line that was typed, so that it works from any folder.

use std::path::{Path, PathBuf};

use anyhow::Context;
use toolcell::{GrantWord, Home};
use toolcell_config::InstalledNames;

use super::exit::BadRequest;
use super::serving::ServingOptions;
use super::target::{BuildPermission, Target};
use super::{bundled, folder};

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
/// Options that are about the configuration, and not for the server.
const OWN_FLAGS: [&str; 6] = ["--json", "--project", "--undo", "--user", "--yes", "-y"];
const OWN: [&str; 3] = ["--file", "--name", "--print-config"];
/// The command of a server.
const SERVES: &str = "mcp";

/// What a client runs.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    /// `TOOLCELL_HOME`, because clients start programs with an environment of their own.
    pub(super) home: Option<String>,
}

impl Launch {
    /// Starts what was typed, which has the options `serving`. The first `positionals` of it, a command and what it
    /// takes beside tools, become `mcp`.
    pub(super) fn typed(
        serving: &ServingOptions,
        positionals: usize,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let home = Home::find()?;
        let names = &InstalledNames::here(&home, serving.options.policy.named());
        let extra = serving.project_file(names, folder)?;
        let typed: Option<Vec<String>> = std::env::args_os()
            .skip(1)
            .map(|argument| argument.into_string().ok())
            .collect();
        let typed = typed.ok_or_else(|| {
            BadRequest("a configuration cannot hold what is not Unicode".to_owned())
        })?;
        let program = std::env::current_exe().context("cannot find the toolcell program itself")?;
        let program = program
            .to_str()
            .context("the path of toolcell is not Unicode")?;
        let mut arguments = arguments(&typed, positionals, folder, names)?;
        arguments.extend(extra);
        // A configuration that cannot be served is not worth having.
        for tool in &serving.tools {
            let target = Target::named(tool, names);
            let is_folder = || folder::components(&target.path).is_ok_and(|found| found.is_some());
            if target.is_installed() || !is_folder() {
                target
                    .locate(&home, BuildPermission::No)
                    .map_err(|refusal| BadRequest(refusal.message))?;
            }
        }
        let home = std::env::var(Home::VARIABLE)
            .ok()
            .filter(|home| !home.is_empty());
        let home = home
            .map(|home| absolute(Path::new(&home), folder))
            .transpose()?;
        Ok(Self {
            program: program.to_owned(),
            arguments,
            home,
        })
    }
}

fn arguments(
    typed: &[String],
    positionals: usize,
    folder: &Path,
    names: &InstalledNames,
) -> anyhow::Result<Vec<String>> {
    let mut arguments = Vec::new();
    let mut typed = typed.iter();
    let mut seen = 0;
    while let Some(argument) = typed.next() {
        if !argument.starts_with('-') {
            seen += 1;
            if seen > positionals {
                arguments.push(tool(argument, folder, names)?);
            } else if seen == 1 {
                arguments.push(SERVES.to_owned());
            }
            continue;
        }
        let is_flag = |flags: &[&str]| flags.contains(&argument.as_str());
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None if is_flag(&FLAGS) || is_flag(&OWN_FLAGS) => (argument.as_str(), None),
            None => (argument.as_str(), typed.next().map(String::as_str)),
        };
        if OWN.contains(&name) || OWN_FLAGS.contains(&name) {
            continue;
        }
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
    use super::super::connect::Connect;
    use super::super::mcp::Mcp;
    use super::{FLAGS, InstalledNames, OWN, OWN_FLAGS, arguments, takes_paths};
    use clap::{Arg, Args, Command};
    use std::path::Path;

    fn of(typed: &str, folder: &Path) -> Vec<String> {
        let typed: Vec<String> = typed.split(' ').map(str::to_owned).collect();
        let positionals = if typed.iter().any(|one| one == "connect") {
            2
        } else {
            1
        };
        arguments(&typed, positionals, folder, &InstalledNames::default()).unwrap()
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
                "connect --yes cursor --name it t.wasm --file=/x --json --allow-read=.",
                format!("mcp {root}/t.wasm --allow-read={root}"),
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
            arguments(&missing, 1, &at, &InstalledNames::default())
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
    fn an_option_of_connect_is_known_as_its_own_or_as_one_of_the_server() {
        let option = |argument: &Arg| argument.get_long().map(|name| format!("--{name}"));
        let all = |command: Command| -> Vec<String> {
            command.get_arguments().filter_map(option).collect()
        };
        let served = all(Mcp::augment_args(Command::new("mcp")));
        let command = Connect::augment_args(Command::new("connect"));
        for argument in command.get_arguments() {
            let Some(name) = option(argument) else {
                continue;
            };
            let own = if argument.get_action().takes_values() {
                OWN.contains(&name.as_str())
            } else {
                OWN_FLAGS.contains(&name.as_str())
            };
            assert!(own != served.contains(&name), "{name}");
        }
    }
}
