//! Options that several commands share: grants, limits, policy.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::config::{Home, duration, size};
use crate::host::{GrantWord, Grants, LayerOptions, Layers, Limits, Policy, Provenance};
use crate::record::{Mode, Refusal};

use super::exit::BadRequest;

/// Nothing is granted unless it is granted here; a tool gets what it declares and what is granted, both.
#[derive(Debug, Args)]
#[command(next_help_heading = "Grants")]
pub(super) struct GrantOptions {
    /// Let the tool read a folder and what is below it. HOST=GUEST gives it another name inside the tool
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    allow_read: Vec<String>,
    /// Let the tool read and change a folder and what is below it
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    allow_write: Vec<String>,
    /// Let the tool see an environment variable
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    allow_env: Vec<String>,
    /// Let the tool send requests: [METHOD+METHOD@][https://]HOST[:PORT][/PATH], HOST a name, *.NAME, * or an address.
    /// http://, and addresses that are not public, only where they are written out
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    allow_net: Vec<String>,
    /// Keep a path closed, whatever is allowed
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    deny_read: Vec<String>,
    /// Keep a path unchanged, whatever is allowed
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    deny_write: Vec<String>,
    /// Keep requests from being sent, whatever is allowed
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    deny_net: Vec<String>,
}

impl GrantOptions {
    /// Adds what these options say to `grants`.
    fn add_to(&self, grants: &mut Grants) -> anyhow::Result<()> {
        for (word, specs) in [
            (GrantWord::Read, &self.allow_read),
            (GrantWord::Write, &self.allow_write),
            (GrantWord::Env, &self.allow_env),
            (GrantWord::DenyRead, &self.deny_read),
            (GrantWord::DenyWrite, &self.deny_write),
            (GrantWord::Net, &self.allow_net),
            (GrantWord::DenyNet, &self.deny_net),
        ] {
            specs.iter().try_for_each(|spec| grants.add(word, spec, &Provenance::COMMAND_LINE))?;
        }
        Ok(())
    }
}

/// What decides besides grants: the mode, and the files with rules.
#[derive(Debug, Args)]
#[command(next_help_heading = "Policy")]
pub(super) struct PolicyOptions {
    /// What happens to a call that needs an approval: it is asked about, it is denied, or nothing with effects runs
    #[arg(long, value_name = "MODE")]
    mode: Option<ModeWord>,
    /// Read this file instead of the project's hotcell.toml
    #[arg(long, value_name = "FILE", conflicts_with = "no_config")]
    config: Option<PathBuf>,
    /// Read no hotcell.toml, neither your own nor the project's
    #[arg(long)]
    no_config: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum ModeWord {
    Default,
    NonInteractive,
    Plan,
}

/// What a call is made with: the options of the command line, and the files that count in this folder.
#[derive(Default)]
pub(super) struct Settings {
    pub(super) grants: Grants,
    pub(super) limits: Limits,
    pub(super) policy: Policy,
    /// The files themselves, for the sections that others understand.
    pub(super) layers: Layers,
}

/// Puts the options and the files together. A file that may not count, or cannot be understood, refuses the call; an
/// option that cannot be understood is a bad request.
pub(super) fn settings(
    home: &Home,
    grants: &GrantOptions,
    limits: &LimitOptions,
    policy: &PolicyOptions,
) -> Result<Result<Settings, Refusal>, BadRequest> {
    let bad = |error: anyhow::Error| BadRequest(format!("{error:#}"));
    let cwd = std::env::current_dir().and_then(std::fs::canonicalize).ok();
    let mut granted = Grants { cwd: cwd.clone(), ..Grants::default() };
    grants.add_to(&mut granted).map_err(bad)?;
    let options = LayerOptions { file: policy.config.clone(), none: policy.no_config };
    let layers = match Layers::read(home, cwd.as_deref().unwrap_or(Path::new("/")), &options) {
        Ok(layers) => layers,
        Err(refusal) => return Ok(Err(refusal)),
    };
    granted.extend(layers.grants()).map_err(bad)?;
    let mode = policy.mode.map(|mode| match mode {
        ModeWord::Default => Mode::Default,
        ModeWord::NonInteractive => Mode::NonInteractive,
        ModeWord::Plan => Mode::Plan,
    });
    Ok(Ok(Settings {
        grants: granted,
        limits: limits.over(layers.limits(Limits::default())),
        policy: layers.policy(mode),
        layers,
    }))
}

/// Limits of one call. Units: ms, s, m for time; KiB, MiB, GiB for sizes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(super) struct LimitOptions {
    /// Wall time, such as 500ms, 5s, 2m [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// CPU budget in units of fuel: about 15 to 35 million are a millisecond [default: 500000000000]
    #[arg(long, value_name = "N")]
    fuel: Option<u64>,
    /// Memory of the tool [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<u64>,
    /// Output of the tool [default: 8MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_output: Option<u64>,
    /// What the tool may write to files, holes included [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_disk: Option<u64>,
}

impl LimitOptions {
    /// These limits where they are given, else those of `defaults`.
    pub(super) fn over(&self, defaults: Limits) -> Limits {
        Limits {
            wall: self.timeout.unwrap_or(defaults.wall),
            fuel: self.fuel.unwrap_or(defaults.fuel),
            memory_bytes: self.memory.unwrap_or(defaults.memory_bytes),
            output_bytes: self.max_output.unwrap_or(defaults.output_bytes),
            disk_bytes: self.max_disk.unwrap_or(defaults.disk_bytes),
            ..defaults
        }
    }
}
