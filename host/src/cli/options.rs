//! Options that several commands share: grants and limits.

use std::time::Duration;

use clap::Args;

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
    /// Let the tool send requests: [METHOD+METHOD@][https://]HOST[:PORT][/PATH], HOST a name, *.NAME, * or an address.
    /// http://, and addresses that are not public, only where they are written out
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    allow_net: Vec<String>,
    /// Let the tool's requests to one origin carry a secret of `hotcell secret`; the tool itself never sees it
    #[arg(long, value_name = "NAME@https://HOST", value_delimiter = ',')]
    allow_secret: Vec<String>,
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
    pub(super) fn grants(&self) -> Result<Grants, BadRequest> {
        let mut grants =
            Grants { cwd: std::env::current_dir().and_then(std::fs::canonicalize).ok(), ..Grants::default() };
        let mut each = |specs: &[String], add: fn(&mut Grants, &str) -> anyhow::Result<()>| {
            specs.iter().try_for_each(|spec| add(&mut grants, spec)).map_err(|error| BadRequest(format!("{error:#}")))
        };
        each(&self.allow_read, Grants::allow_read)?;
        each(&self.allow_write, Grants::allow_write)?;
        each(&self.allow_env, Grants::allow_env)?;
        each(&self.allow_net, Grants::allow_net)?;
        each(&self.allow_secret, Grants::allow_secret)?;
        each(&self.deny_read, Grants::deny_read)?;
        each(&self.deny_write, Grants::deny_write)?;
        each(&self.deny_net, Grants::deny_net)?;
        Ok(grants)
    }
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

fn split(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    Some((number.parse().ok()?, unit.trim()))
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = match split(text) {
        Some((number, "ms")) => Some(Duration::from_millis(number)),
        Some((number, "s")) => Some(Duration::from_secs(number)),
        Some((number, "m")) => number.checked_mul(60).map(Duration::from_secs),
        _ => None,
    };
    duration.filter(|duration| !duration.is_zero()).ok_or_else(|| "give a number with a unit: 500ms, 5s, 2m".to_owned())
}

fn size(text: &str) -> Result<u64, String> {
    let size = match split(text) {
        Some((number, "" | "B")) => Some(number),
        Some((number, "KiB" | "K" | "k")) => number.checked_mul(1 << 10),
        Some((number, "MiB" | "M")) => number.checked_mul(1 << 20),
        Some((number, "GiB" | "G")) => number.checked_mul(1 << 30),
        _ => None,
    };
    size.filter(|size| *size > 0)
        .ok_or_else(|| "give a number of bytes, or one with a unit: 64KiB, 64MiB, 1GiB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{duration, size};
    use std::time::Duration;

    #[test]
    fn times_and_sizes_need_their_units_right() {
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert!(duration("5").is_err() && duration("0s").is_err() && duration("s").is_err());
        assert!(duration("99999999999999999999s").is_err());
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("1000"), Ok(1_000));
        assert!(size("0").is_err() && size("1TB").is_err() && size("99999999999GiB").is_err());
    }
}
