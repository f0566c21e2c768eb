//! How large a component may be. The user's own file says it once for everything that a process reads: files, what it
//! fetches, and what its store has.

use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum size of a component, in bytes, unless the user's own file says another one.
pub const COMPONENT_BYTES: u64 = 64 << 20;

static BYTES_MAX: AtomicU64 = AtomicU64::new(COMPONENT_BYTES);

/// Maximum size of a component in this process, in bytes.
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

/// Error text for a larger component, after its name.
pub fn larger_than_allowed() -> String {
    format!(
        "more than {} bytes, the most that a component may have; if you trust it, raise `size` under [compile] in your own \
         toolcell.toml",
        component_bytes_max()
    )
}
