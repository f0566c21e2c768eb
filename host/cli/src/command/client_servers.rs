//! Checks whether the servers in the configuration of an MCP client start. A repository may have brought the file, so a
//! server is started only if it is this program, offering tools and doing nothing else.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use toolcell::Home;
use toolcell_system::named_file;

use toolcell_toolchain::{SurveyFinding as Check, output, which};

use super::ask::ACTOR_VARIABLE;
use super::connect::{ServerEntry, server_entries};
use super::exit::BadRequest;
use super::options::SESSION_VARIABLE;

/// In bytes.
const CLIENT_BYTES_MAX: u64 = 4 << 20;
/// Of the error output of a server, in a finding.
const SAID_CHARS_MAX: usize = 16 << 10;
const START: Duration = Duration::from_secs(120);
/// Options of `toolcell mcp` that do more than load and offer tools.
const ACTING: [&str; 2] = ["--build", "--record-to"];
/// Names for the record. Others could make the dynamic loader, the toolchain or this program run what the file names.
const VARIABLES: [&str; 2] = [SESSION_VARIABLE, ACTOR_VARIABLE];

/// Refuses a program that is neither this one nor `named`, and a server whose state is not in `home`, because the state
/// holds compiled code and the key that vouches for it.
pub(super) fn look(file: &Path, named: Option<&Path>, home: &Home) -> anyhow::Result<Vec<Check>> {
    let entries = entries(file).map_err(BadRequest::from_error)?;
    let mut checks = Vec::new();
    for entry in &entries {
        let name = &entry.name;
        let command = &entry.command;
        if Path::new(command)
            .file_stem()
            .is_none_or(|stem| stem != "toolcell")
        {
            continue;
        }
        let missing = |error: anyhow::Error, fix: &str| {
            Check::missing("server", format!("{name}: {error:#}"), fix)
        };
        checks.push(match program(command, named) {
            Err(error) => missing(
                error,
                "look at it; then: toolcell doctor --mcp-config=FILE --allow-program=PROGRAM",
            ),
            Ok(program) => match start(&program, entry, home) {
                Ok(()) => Check::ready(
                    "server",
                    format!("{name} starts and offers its tools ({})", program.display()),
                ),
                Err(error) => missing(
                    error,
                    "make the entry anew: toolcell connect CLIENT TOOL...",
                ),
            },
        });
    }
    if checks.is_empty() {
        let detail = format!(
            "{} names no server whose command is toolcell",
            file.display()
        );
        checks.push(Check::missing(
            "server",
            detail,
            "toolcell connect CLIENT TOOL...",
        ));
    }
    Ok(checks)
}

fn entries(file: &Path) -> anyhow::Result<Vec<ServerEntry>> {
    let place = || format!("cannot read {}", file.display());
    let text = named_file::read_text(file, CLIENT_BYTES_MAX).with_context(place)?;
    server_entries(file, &text).with_context(|| format!("cannot parse {}", file.display()))
}

/// Fails unless the program is this one, a copy of it, or the one that the user `named`.
fn program(command: &str, named: Option<&Path>) -> anyhow::Result<PathBuf> {
    let found =
        found(command).with_context(|| format!("the command {command} leads to no program"))?;
    let real = found
        .canonicalize()
        .with_context(|| format!("cannot find {}", found.display()))?;
    let own = std::env::current_exe()
        .and_then(|own| own.canonicalize())
        .context("cannot find the toolcell program itself")?;
    let is_named = named.is_some_and(|named| named.canonicalize().is_ok_and(|named| named == real));
    if real == own || is_named || same_bytes(&real, &own)? || !guard!("client_program") {
        return Ok(real);
    }
    bail!(
        "the client would start {}, which is not this toolcell, {}; it was not started",
        real.display(),
        own.display()
    )
}

fn found(command: &str) -> Option<PathBuf> {
    if command.contains('/') {
        // Clients start programs in a folder of their own choice.
        return Some(PathBuf::from(command)).filter(|path| path.is_absolute());
    }
    which(command, &std::env::var_os("PATH")?)
}

fn same_bytes(one: &Path, other: &Path) -> anyhow::Result<bool> {
    let length = |path: &Path| {
        path.metadata()
            .ok()
            .filter(|file| file.is_file())
            .map(|file| file.len())
    };
    // Before the other file is read, which can be of any size.
    if length(one).is_none() || length(one) != length(other) {
        return Ok(false);
    }
    let read = |path: &Path| {
        std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
    };
    Ok(read(one)? == read(other)?)
}

/// The server would run the native code in its state folder.
fn check_home(said: Option<&str>, home: &Home) -> anyhow::Result<()> {
    let Some(said) = said.map(Path::new) else {
        return Ok(());
    };
    // A folder that does not exist yet has no other name.
    let real = |folder: &Path| folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    if said.is_absolute() && real(said) == real(home.folder()) || !guard!("client_home") {
        return Ok(());
    }
    bail!(
        "the client would start it with {variable}={}, and this toolcell keeps its state in {}; it was not started. If \
         you know that folder: {variable}=DIR toolcell doctor --mcp-config=FILE",
        said.display(),
        home.folder().display(),
        variable = Home::VARIABLE
    )
}

/// The server gets empty input, and exits successfully only after it has loaded its tools.
fn start(program: &Path, entry: &ServerEntry, home: &Home) -> anyhow::Result<()> {
    check_arguments(&entry.arguments)?;
    let variable = |name: &str| entry.environment.get(name).map(String::as_str);
    check_home(variable(Home::VARIABLE), home)?;
    let named = VARIABLES.into_iter();
    let mut command = Command::new(program);
    command
        .args(&entry.arguments)
        .envs(named.filter_map(|name| Some((name, variable(name)?))))
        // Not the path in the file, which could have been redirected since the check (TOCTOU race).
        .env(Home::VARIABLE, home.folder())
        .current_dir("/");
    let ended = output(command, Some(START))?;
    let status = ended.status;
    let said: String = ended.err.trim().chars().take(SAID_CHARS_MAX).collect();
    ensure!(status.success(), "it ended with {status}: {said}");
    Ok(())
}

/// Refuses all commands except `mcp`, and options that do more than offer tools, because they would do what the file
/// says.
fn check_arguments(arguments: &[String]) -> anyhow::Result<()> {
    let command = arguments.first().map_or("", String::as_str);
    ensure!(
        command == "mcp",
        "the client would run `toolcell {command}`, which offers no tools; it was not started"
    );
    let acts =
        |argument: &&String| ACTING.contains(&argument.split('=').next().unwrap_or_default());
    if let Some(argument) = arguments.iter().find(acts) {
        bail!(
            "the client would start it with {argument}, which does more than to offer tools; it was not started"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{check_arguments, found};

    #[test]
    fn only_offering_tools_is_started() {
        let check = |words: &[&str]| {
            check_arguments(
                &words
                    .iter()
                    .map(|word| (*word).to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        check(&["mcp", "/tools/jq.wasm", "--allow-read=/data"]).unwrap();
        for words in [
            &["trust", "/evil"][..],
            &[],
            &["mcp", "/evil", "--build"],
            &["mcp", "x", "--record-to=/x"],
        ] {
            check(words).unwrap_err();
        }
    }

    #[test]
    fn a_relative_path_is_no_program() {
        assert_eq!(found("./toolcell"), None);
        assert_eq!(found("a/toolcell"), None);
    }
}
