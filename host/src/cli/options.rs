//! Options that several commands share: grants and limits.

use std::time::Duration;

use clap::Args;

use crate::config;
use crate::host::{Grants, Limits};

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
    /// Keep a path closed, whatever is allowed
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    deny_read: Vec<String>,
    /// Keep a path unchanged, whatever is allowed
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    deny_write: Vec<String>,
}

impl GrantOptions {
    pub(super) fn grants(&self) -> Result<Grants, BadRequest> {
        let mut grants =
            Grants { cwd: std::env::current_dir().and_then(std::fs::canonicalize).ok(), ..Grants::default() };
        let mut each = |specs: &[String], add: fn(&mut Grants, &str) -> anyhow::Result<()>| {
            specs.iter().try_for_each(|spec| add(&mut grants, spec)).map_err(|error| BadRequest(format!("{error:#}")))
        };
        each(&self.allow_read, Grants::allow_read)?;
        each(&self.allow_write, Grants::allow_write)?;
        each(&self.allow_env, Grants::allow_env)?;
        each(&self.deny_read, Grants::deny_read)?;
        each(&self.deny_write, Grants::deny_write)?;
        Ok(grants)
    }
}

/// Limits of one call. Units: ms, s, m for time; KiB, MiB, GiB for sizes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(super) struct LimitOptions {
    /// Wall time, such as 500ms, 5s, 2m [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = config::duration)]
    timeout: Option<Duration>,
    /// CPU budget in units of fuel: about 15 to 35 million are a millisecond [default: 500000000000]
    #[arg(long, value_name = "N")]
    fuel: Option<u64>,
    /// Memory of the tool [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = config::size)]
    memory: Option<u64>,
    /// Output of the tool [default: 8MiB]
    #[arg(long, value_name = "SIZE", value_parser = config::size)]
    max_output: Option<u64>,
}

impl LimitOptions {
    pub(super) fn limits(&self) -> Limits {
        let defaults = Limits::default();
        Limits {
            wall: self.timeout.unwrap_or(defaults.wall),
            fuel: self.fuel.unwrap_or(defaults.fuel),
            memory_bytes: self.memory.unwrap_or(defaults.memory_bytes),
            output_bytes: self.max_output.unwrap_or(defaults.output_bytes),
            ..defaults
        }
    }
}
