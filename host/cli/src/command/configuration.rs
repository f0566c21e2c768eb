//! Checks a configuration: what is wrong with it, and how to fix it.

use crate::cluster;
use crate::runtime::Runtime;
use toolcell::{ComponentTools, Home};
use toolcell_config::{ConfigLayer, InstalledNames, ToolEntry};
use toolcell_policy::secret::SecretStore;
use toolcell_server::beside_calls_bytes;
use toolcell_spec::ErrorCode;
use toolcell_system::machine::{memory_bytes, share_bytes};

use toolcell_toolchain::SurveyFinding as Check;

use super::hooks;
use super::hosts;
use super::options::{PolicyOptions, Settings};
use super::target::{BuildPermission, Target};
use super::tool_configs::ToolConfigs;

pub(super) fn of_files(home: &Home, policy: &PolicyOptions) -> anyhow::Result<Vec<Check>> {
    let settings = match policy.settings(home) {
        Ok(settings) => settings,
        Err(stop) => {
            let refusal = stop.refusal()?;
            let fix = match refusal.code {
                ErrorCode::ProjectNotTrusted => "read the file, then: toolcell trust",
                _ => "correct what the message names, then: toolcell doctor",
            };
            return Ok(vec![Check::missing(
                "configuration",
                refusal.message,
                fix.to_owned(),
            )]);
        }
    };
    let mut checks = vec![memory(&settings)];
    for layer in settings.layers.files() {
        checks.push(Check::ready(
            "configuration",
            layer.file.path.display().to_string(),
        ));
        for entry in &layer.file.tools {
            checks.extend(tool(home, layer, entry, &settings.layers.names)?);
        }
        checks.extend(
            layer
                .file
                .declared
                .keys()
                .map(|name| declared(home, layer, name, &settings.layers.names)),
        );
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
    checks.extend(cluster::survey(home, settings.layers.cluster.as_ref())?);
    Ok(checks)
}

fn memory(settings: &Settings) -> Check {
    let each = settings.limits.host_bytes();
    let said = settings.layers.memory_total();
    let total = said.unwrap_or_else(share_bytes);
    let whose = if said.is_some() {
        "as [limits] memory_total says"
    } else {
        "half of what this machine has"
    };
    let total_mib = total >> 20;
    let each_mib = each >> 20;
    if said.is_some() && total < each {
        let detail = format!(
            "{total_mib} MiB for all calls of a server, {whose}: one call may take {each_mib} MiB"
        );
        return Check::missing(
            "memory",
            detail,
            "raise memory_total in [limits], or lower memory",
        );
    }
    let memory = memory_bytes();
    let beside = beside_calls_bytes(memory_bytes());
    let needed = said.unwrap_or(each).saturating_add(beside);
    if needed > memory {
        let detail = format!(
            "{} MiB for this process, and `toolcell serve` needs {}: {} for calls, and {} beside them",
            memory >> 20,
            needed.div_ceil(1 << 20),
            said.unwrap_or(each).div_ceil(1 << 20),
            beside.div_ceil(1 << 20)
        );
        return Check::missing(
            "memory",
            detail,
            "give it more memory, or lower memory in [limits]",
        );
    }
    let calls = (total / each.max(1)).max(1);
    let detail = format!(
        "{total_mib} MiB for all calls of a server, {whose}: {calls} at once, of {each_mib} MiB each"
    );
    Check::ready("memory", detail)
}

/// Does not build it.
fn tool(
    home: &Home,
    layer: &ConfigLayer,
    entry: &ToolEntry,
    names: &InstalledNames,
) -> anyhow::Result<Vec<Check>> {
    let word = &*entry.component;
    let target = Target::of_entry(layer, word, names);
    let host = hosts::loading_host(home)?;
    let loaded = Runtime::on_this_thread()?.block_on(async {
        let component = target.locate(home, BuildPermission::No)?;
        let loaded = host.load_file(&component).await?;
        ToolConfigs::of_entry(home, layer, entry, names).give(&target.path, &loaded)?;
        target.tools(&loaded)
    });
    let tools = match loaded {
        Ok(tools) => tools,
        Err(refusal) => {
            let fix = match refusal.code {
                ErrorCode::NotBuilt => format!("toolcell build {}", target.path.display()),
                _ => format!("correct [[tool]] in {}", layer.file.path.display()),
            };
            let detail = format!("{word}: {}", refusal.message);
            return Ok(vec![Check::missing("tool", detail, fix)]);
        }
    };
    let names: Vec<String> = tools
        .iter()
        .map(|tool| tool.declaration().qualified_name())
        .collect();
    let detail = format!("{word}: {}", names.join(", "));
    let notes = ComponentTools::notes(&tools).into_iter();
    let notes = notes.map(|note| Check::ready("note", format!("{word}: {note}")));
    Ok(std::iter::once(Check::ready("tool", detail))
        .chain(notes)
        .collect())
}

fn declared(home: &Home, layer: &ConfigLayer, name: &str, names: &InstalledNames) -> Check {
    match Target::declared(layer, name, names).locate(home, BuildPermission::No) {
        Ok(_) => Check::ready("tool", format!("{name}: installed")),
        Err(refusal) => Check::missing(
            "tool",
            format!("{name}: {}", refusal.message),
            "toolcell install",
        ),
    }
}

fn secrets(home: &Home, layer: &ConfigLayer) -> Vec<Check> {
    let granted = layer
        .file
        .grants
        .secret
        .iter()
        .filter_map(|spec| Some(spec.split_once('@')?.0));
    let mut granted = granted.peekable();
    if granted.peek().is_none() {
        return Vec::new();
    }
    let known = match SecretStore::new(home.secrets(), home.secret_key()).list() {
        Ok(known) => known,
        Err(error) => {
            return vec![Check::missing(
                "secrets",
                format!("{error:#}"),
                "toolcell secrets list",
            )];
        }
    };
    let unset = granted.filter(|name| known.iter().all(|entry| entry.name != *name));
    unset
        .map(|name| {
            Check::missing(
                "secret",
                format!("{name} is not set"),
                format!("toolcell secrets set {name}"),
            )
        })
        .collect()
}
