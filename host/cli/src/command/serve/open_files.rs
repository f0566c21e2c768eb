//! The number of files that a server may open, of which each connection takes one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use toolcell::HostBuilder;
use toolcell_config::GivenServerLimits;

use super::options::http_limits;

/// The log, the tools, and what calls read and write; and connections that are being closed.
const BESIDE: u64 = 128 + 256;

/// Raises the limit of this process to what it may have if the limits of the server need that. Returns why that is not
/// enough.
pub(super) fn provide(given: &GivenServerLimits) -> Option<String> {
    let limits = http_limits(given);
    let calls = given.max_calls.unwrap_or(HostBuilder::CALLS_AT_ONCE);
    let at_work = u64::from(limits.requests) + u64::from(limits.waiting);
    // As many as are at work may be idle.
    let connections = 2 * at_work + u64::from(limits.strangers);
    // A quarter of all is for connections that have not spoken yet.
    let needed = (connections + u64::from(calls) + BESIDE) * 4 / 3;
    let suffices = |limit: &Rlimit| limit.current.is_none_or(|files| files >= needed);
    let before = getrlimit(Resource::Nofile);
    if suffices(&before) {
        return None;
    }
    let raised = Rlimit {
        current: Some(before.maximum.map_or(needed, |most| most.min(needed))),
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
