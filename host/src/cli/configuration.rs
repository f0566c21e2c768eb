//! Whether a configuration can be used: what is wrong with it, and how to mend that.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;

use crate::config::Home;
use crate::host::{Layer, SecretStore, memory_share_bytes};
use crate::record::RuleSource;

use super::doctor::Check;
use super::exit::BadRequest;
use super::hooks;
use super::options::{self, GrantOptions, LimitOptions, PolicyOptions, Settings};
use super::target::{self, Target};

/// A client's configuration that is larger is none.
const CLIENT_BYTES_MAX: u64 = 4 << 20;
/// How long a server may take to start and to end.
const START: Duration = Duration::from_secs(120);

/// Looks at the files that count here: whether they do, and whether everything that they name is there.
pub(super) fn of_files(home: &Home, policy: &PolicyOptions) -> anyhow::Result<Vec<Check>> {
    let none = (GrantOptions::default(), LimitOptions::default());
    let settings = match options::settings(home, &none.0, &none.1, policy)? {
        Ok(settings) => settings,
        Err(refusal) => {
            let mend = match refusal.code {
                "project_not_trusted" => "read the file, then: toolcell policy trust",
                _ => "correct what the message names, then: toolcell doctor",
            };
            return Ok(vec![Check::missing("configuration", refusal.message, mend.to_owned())]);
        }
    };
    let mut checks = vec![memory(&settings)];
    for layer in settings.layers.files() {
        checks.push(Check::ready("configuration", layer.file.path.display().to_string()));
        for entry in &layer.file.tools {
            checks.push(tool(home, layer, &entry.component)?);
        }
        for entry in &layer.file.hooks {
            let file = hooks::path(layer, &entry.component);
            if !file.exists() {
                let detail = format!("the component of a hook, {}, is not there", file.display());
                checks.push(Check::missing(
                    "hook",
                    detail,
                    format!("correct [[hook]] in {}", layer.file.path.display()),
                ));
            }
        }
        checks.extend(secrets(home, layer));
    }
    Ok(checks)
}

/// What the calls of a server may have, and how many run at once with it.
fn memory(settings: &Settings) -> Check {
    let (each, said) = (settings.limits.host_bytes(), settings.layers.memory_total());
    let total = said.unwrap_or_else(memory_share_bytes);
    let whose = if said.is_some() { "as [limits] memory_total says" } else { "half of what this machine has" };
    let (total_mib, each_mib) = (total >> 20, each >> 20);
    if said.is_some() && total < each {
        let detail = format!("{total_mib} MiB for all calls of a server, {whose}: one call may take {each_mib} MiB");
        return Check::missing("memory", detail, "raise memory_total in [limits], or lower memory".to_owned());
    }
    let calls = (total / each.max(1)).max(1);
    let detail = format!("{total_mib} MiB for all calls of a server, {whose}: {calls} at once, of {each_mib} MiB each");
    Check::ready("memory", detail)
}

/// Whether a tool of a file can be offered. It is not built here.
fn tool(home: &Home, layer: &Layer, word: &str) -> anyhow::Result<Check> {
    let path = hooks::path(layer, Path::new(word));
    let target = Target::parse(&path.to_string_lossy());
    let builds = target.path.is_dir();
    if builds && (layer.source == RuleSource::ProjectSettings || !target.is_built()) {
        let detail = format!("{word} is a source folder, and not built");
        return Ok(Check::missing("tool", detail, format!("toolcell build {}", target.path.display())));
    }
    let host = target::host(home, |_| {})?;
    let loaded = super::runtime()?.block_on(async { target.tools(&host.load_file(&target.locate(home)?).await?) });
    Ok(match loaded {
        Ok(tools) => {
            let names: Vec<String> = tools.iter().map(|tool| tool.declaration().qualified_name()).collect();
            Check::ready("tool", format!("{word}: {}", names.join(", ")))
        }
        Err(refusal) => {
            let detail = format!("{word}: {}", refusal.message);
            Check::missing("tool", detail, format!("correct [[tool]] in {}", layer.file.path.display()))
        }
    })
}

/// The secrets that a file grants and that nobody has set.
fn secrets(home: &Home, layer: &Layer) -> Vec<Check> {
    let granted = layer.file.grants.secret.iter().filter_map(|spec| Some(spec.split_once('@')?.0));
    let mut granted = granted.peekable();
    if granted.peek().is_none() {
        return Vec::new();
    }
    let known = match SecretStore::new(home.secrets(), home.secret_key()).list() {
        Ok(known) => known,
        Err(error) => return vec![Check::missing("secrets", format!("{error:#}"), "toolcell secret list".to_owned())],
    };
    let unset = granted.filter(|name| known.iter().all(|entry| entry.name != *name));
    unset
        .map(|name| Check::missing("secret", format!("{name} is not set"), format!("toolcell secret set {name}")))
        .collect()
}

/// Starts every server of toolcell that the configuration of an MCP client in `file` names, as the client would, and looks
/// whether it offers its tools.
pub(super) fn of_client(file: &Path) -> anyhow::Result<Vec<Check>> {
    let bad = |error: anyhow::Error| BadRequest(format!("{error:#}"));
    let servers = servers(file).map_err(bad)?;
    let mut checks = Vec::new();
    for (name, server) in &servers {
        let command = server.get("command").and_then(Value::as_str).unwrap_or_default();
        if Path::new(command).file_stem().is_none_or(|stem| stem != "toolcell") {
            continue;
        }
        checks.push(match start(command, server) {
            Ok(()) => Check::ready("server", format!("{name} starts and offers its tools")),
            Err(error) => {
                let mend = "make the entry anew: toolcell mcp --print-config=CLIENT TOOL...".to_owned();
                Check::missing("server", format!("{name}: {error:#}"), mend)
            }
        });
    }
    if checks.is_empty() {
        let detail = format!("{} names no server whose command is toolcell", file.display());
        checks.push(Check::missing("server", detail, "toolcell mcp --print-config=CLIENT TOOL...".to_owned()));
    }
    Ok(checks)
}

fn servers(file: &Path) -> anyhow::Result<Vec<(String, Value)>> {
    let place = || format!("read {}", file.display());
    let mut text = String::new();
    let open = std::fs::File::open(file).with_context(place)?;
    open.take(CLIENT_BYTES_MAX).read_to_string(&mut text).with_context(place)?;
    let whole: Value = serde_json::from_str(&text).with_context(|| format!("understand {}", file.display()))?;
    let sections = ["mcpServers", "servers"].into_iter().filter_map(|key| whole.get(key)?.as_object());
    Ok(sections.flatten().map(|(name, server)| (name.clone(), server.clone())).collect())
}

/// A server whose input ends at once has loaded its tools before it ends well.
fn start(command: &str, server: &Value) -> anyhow::Result<()> {
    let arguments = server.get("args").and_then(Value::as_array).cloned().unwrap_or_default();
    let environment = server.get("env").and_then(Value::as_object).cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut child = Command::new(command)
        .args(arguments.iter().filter_map(text))
        .envs(environment.iter().filter_map(|(name, value)| Some((name, text(value)?))))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("start {command}"))?;
    let stderr = child.stderr.take().context("hear what it says")?;
    let hearing = std::thread::spawn(move || {
        let mut said = String::new();
        let _ = stderr.take(16 << 10).read_to_string(&mut said);
        said
    });
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().context("wait for it")? {
            break status;
        }
        if began.elapsed() > START {
            let _ = child.kill();
            let _ = child.wait();
            anyhow::bail!("it did not end within {} s", START.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let said = hearing.join().unwrap_or_default();
    anyhow::ensure!(status.success(), "it ended with {status}: {}", said.trim());
    Ok(())
}
