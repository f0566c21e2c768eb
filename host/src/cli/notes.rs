//! The parts of a component's description that have no effect on this host.

use std::path::Path;

use crate::config::Home;
use crate::host::{Loaded, configured_cache_bytes};
use crate::record::{Finding, Refusal};

use super::target;

/// Returns the notes on the component in `file`, or why it cannot be loaded. A hook has none, because its configuration
/// describes it.
pub(super) fn of_component(home: &Home, file: &Path) -> anyhow::Result<Result<Vec<Finding>, Refusal>> {
    let cache_bytes_max = configured_cache_bytes(home)?;
    let host = target::host(home, |settings| settings.cache_bytes_max = cache_bytes_max)?;
    Ok(match super::runtime()?.block_on(host.load_file(file)) {
        Ok(loaded) => Ok(Loaded::notes(&loaded.tools).into_iter().cloned().collect()),
        Err(refusal) if refusal.code == "not_a_tool" => Ok(Vec::new()),
        Err(refusal) => Err(refusal),
    })
}
