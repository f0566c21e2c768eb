//! The size limit of components, which the user's own file sets for all that a process reads: files, fetched ones, and
//! its store.

use std::sync::atomic::{AtomicU64, Ordering};

/// In bytes, unless the user's own file says otherwise.
pub const COMPONENT_BYTES: u64 = 256 << 20;

static BYTES_MAX: AtomicU64 = AtomicU64::new(COMPONENT_BYTES);

pub fn component_bytes_max() -> u64 {
    BYTES_MAX.load(Ordering::Relaxed)
}

/// Sets the maximum size of a component in this process.
///
/// ```
/// use toolcell_system::component_size::{component_bytes_max, set_component_bytes_max};
///
/// set_component_bytes_max(128 << 20);
/// assert_eq!(component_bytes_max(), 128 << 20);
/// ```
pub fn set_component_bytes_max(bytes: u64) {
    BYTES_MAX.store(bytes, Ordering::Relaxed);
}

/// Follows the component's name.
pub fn larger_than_allowed() -> String {
    format!(
        "more than {} bytes, the most that a component may have; if you trust it, raise `size` under [compile] in your own \
         toolcell.toml",
        component_bytes_max()
    )
}
