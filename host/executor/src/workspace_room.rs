use std::sync::atomic::{AtomicU64, Ordering};

/// What a call, and the calls that its tool makes, may still add to their workspace.
#[derive(Debug)]
pub struct WorkspaceRoom {
    bytes: AtomicU64,
    files: AtomicU64,
}

impl WorkspaceRoom {
    pub fn new(bytes: u64, files: u64) -> Self {
        Self {
            bytes: AtomicU64::new(bytes),
            files: AtomicU64::new(files),
        }
    }

    /// `false`, with nothing taken, if there is not so much.
    #[must_use]
    pub fn take_bytes(&self, amount: u64) -> bool {
        take(&self.bytes, amount)
    }

    /// For a file of the workspace that became shorter.
    pub fn give_bytes(&self, amount: u64) {
        let more = |left: u64| Some(left.saturating_add(amount));
        let _ = self
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// As [`Self::take_bytes`], for files, folders and links.
    #[must_use]
    pub fn take_files(&self, count: u64) -> bool {
        take(&self.files, count)
    }
}

fn take(left: &AtomicU64, amount: u64) -> bool {
    let less = |left: u64| left.checked_sub(amount);
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
        .is_ok()
}
