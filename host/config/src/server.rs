use std::time::Duration;

use serde::Deserialize;

use super::file::ConfigFile;
use super::{ConfigText, duration};

/// More would cost memory for places that no machine fills.
const CALLS_MAX: u32 = 4_096;
const REQUESTS_MAX: u32 = 65_536;

/// `[server]`: limits of `toolcell serve`, read when it starts. An error in a project's file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSection {
    /// Calls that run at once, from 1 to 4096; others wait [default: 64].
    pub max_calls: Option<u32>,
    /// Open requests of clients that have authenticated, from 1 to 65536; those beyond wait for 5 s and then get 503
    /// [default: 192].
    pub max_requests: Option<u32>,
    /// A connection without a request is closed after this time [default: `75s`].
    pub keep_alive: Option<ConfigText>,
    /// Time in which new requests are still taken after SIGTERM, while `/readyz` answers 503 [default: none].
    pub drain_delay: Option<ConfigText>,
    /// Time that running calls then get to finish, before they are canceled [default: `5s`].
    pub drain: Option<ConfigText>,
}

/// Limits that options or files set; `None` for each that they do not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenServerLimits {
    pub max_calls: Option<u32>,
    pub max_requests: Option<u32>,
    pub keep_alive: Option<Duration>,
    pub drain_delay: Option<Duration>,
    pub drain: Option<Duration>,
}

impl GivenServerLimits {
    /// Parses the `[server]` of `file`.
    pub(super) fn of_file(file: &ConfigFile) -> anyhow::Result<Self> {
        let section = &file.server;
        let count = |name: &str, count: Option<u32>, most: u32| {
            anyhow::ensure!(
                count.is_none_or(|count| (1..=most).contains(&count)),
                "{}: [server] {name} is a number from 1 to {most}",
                file.path.display()
            );
            Ok(count)
        };
        let mut limits = Self {
            max_calls: count("max_calls", section.max_calls, CALLS_MAX)?,
            max_requests: count("max_requests", section.max_requests, REQUESTS_MAX)?,
            ..Self::default()
        };
        for (limit, name, word) in [
            (&mut limits.keep_alive, "keep_alive", &section.keep_alive),
            (&mut limits.drain_delay, "drain_delay", &section.drain_delay),
            (&mut limits.drain, "drain", &section.drain),
        ] {
            let name = format!("[server] {name}");
            file.set(limit, &name, word, |text| duration(text).map(Some))?;
        }
        Ok(limits)
    }

    /// Returns these limits, and those of `other` where these are not set.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        Self {
            max_calls: self.max_calls.or(other.max_calls),
            max_requests: self.max_requests.or(other.max_requests),
            keep_alive: self.keep_alive.or(other.keep_alive),
            drain_delay: self.drain_delay.or(other.drain_delay),
            drain: self.drain.or(other.drain),
        }
    }
}

/// Parses a number of calls, as `[server] max_calls`.
pub fn call_count(text: &str) -> Result<u32, String> {
    count(text, CALLS_MAX)
}

/// Parses a number of requests, as `[server] max_requests`.
pub fn request_count(text: &str) -> Result<u32, String> {
    count(text, REQUESTS_MAX)
}

fn count(text: &str, most: u32) -> Result<u32, String> {
    let known = text.parse().ok().filter(|count| (1..=most).contains(count));
    known.ok_or_else(|| format!("give a number from 1 to {most}"))
}
