//! The number of files that a server may open, of which each connection takes one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use toolcell::HostBuilder;
use toolcell_config::GivenServerLimits;

use super::options::http_limits;

/// The log, the tools, and what calls read and write.
const BESIDE: u64 = 128;

/// Raises the limit of this process to what it may have if the limits of the server need that. Returns why that is not
/// enough.
pub(super) fn provide(given: &GivenServerLimits) -> Option<String> {
    let limits = http_limits(given);
    let calls = given.max_calls.unwrap_or(HostBuilder::CALLS_AT_ONCE);
    // As many as are at work may be idle.
    let busy = limits.requests;
    let connections = [busy, busy, limits.waiting, limits.strangers];
    let connections = connections.map(u64::from).iter().sum::<u64>();
    let needed = connections + u64::from(calls) + BESIDE;
    let suffices = |limit: &Rlimit| limit.current.is_none_or(|files| files >= needed);
    let before = getrlimit(Resource::Nofile);
    if suffices(&before) {
        return None;
    }
    let raised = Rlimit {
        current: before.maximum,
        maximum: before.maximum,
    };
    let _ = setrlimit(Resource::Nofile, raised);
    let now = getrlimit(Resource::Nofile);
    let may = now.current.filter(|_| !suffices(&now))?;
    Some(format!(
        "this process may open {may} files, and the limits of the server need {needed}: raise its limit (LimitNOFILE of \
         systemd, the nofile limit of a container), or lower --max-requests"
    ))
}
