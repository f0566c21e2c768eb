use std::fs;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};
use toolcell_spec::EventId;

const REFERENCE_CHARS_MAX: usize = 128;

/// Meaning of "for the rest of the session" for a call.
///
/// ```
/// use toolcell_engine::approval::Session;
///
/// assert_eq!(Session::Named("review".to_owned()).id().as_deref(), Some("named:review"));
/// assert_eq!(Session::None.id(), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Session {
    /// Every call is asked about.
    #[default]
    None,
    /// Shared by all processes of the same user.
    Named(String),
    /// The terminal session, as long as its leader lives.
    Terminal,
}

impl Session {
    /// `session_ref` of records: the name, or else this run of the process.
    pub fn reference(&self) -> Arc<str> {
        static RUN: LazyLock<Arc<str>> = LazyLock::new(|| format!("run:{}", EventId::new()).into());
        match self {
            Self::Named(name) => name
                .chars()
                .take(REFERENCE_CHARS_MAX)
                .collect::<String>()
                .into(),
            Self::None | Self::Terminal => Arc::clone(&RUN),
        }
    }

    /// A unique name; `None` if there is no session.
    pub fn id(&self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Named(name) => Some(format!("named:{name}")),
            Self::Terminal => terminal(),
        }
    }
}

/// PIDs and start times are reused, but not both together with the boot id.
fn terminal() -> Option<String> {
    let leader = leader(&fs::read_to_string("/proc/self/stat").ok()?)?;
    let start = field(
        &fs::read_to_string(format!("/proc/{leader}/stat")).ok()?,
        22,
    )?
    .to_owned();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(format!("terminal:{}:{leader}:{start}", boot.trim()))
}

/// `None` if the leader is outside this PID namespace (the kernel reports 0).
fn leader(stat: &str) -> Option<u32> {
    field(stat, 6)?.parse().ok().filter(|leader| *leader != 0)
}

/// A field of `/proc/PID/stat` by its number in proc(5), from 3 on: the name before may contain any character.
fn field(stat: &str, number: usize) -> Option<&str> {
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(number - 3)
}

#[cfg(test)]
mod tests {
    use super::leader;

    #[test]
    fn a_session_that_is_led_from_outside_of_a_container_is_none() {
        assert_eq!(leader("7 (a) b) R 1 7 6 0 -1 0"), Some(6));
        assert_eq!(leader("7 (toolcell) R 0 0 0 0 -1 0"), None);
        assert_eq!(leader("7 (toolcell"), None);
    }
}
