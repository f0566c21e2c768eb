use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SECRET: u64 = 1;
const SENSITIVE: u64 = 2;
/// Bit of the first pattern.
const PATTERNS: u32 = 2;

/// Why something was redacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedactionCause {
    Secret,
    /// A sensitive value, or its place.
    Sensitive,
    /// By its index.
    Pattern(usize),
}

/// Causes since the last look; of a redactor that nobody watches, none.
#[derive(Clone, Default)]
pub(super) struct SeenCauses(Option<Arc<AtomicU64>>);

impl SeenCauses {
    pub(super) fn watched() -> Self {
        Self(Some(Arc::default()))
    }

    pub(super) fn note(&self, cause: RedactionCause) {
        if let Some(seen) = &self.0 {
            let bit = match cause {
                RedactionCause::Secret => SECRET,
                RedactionCause::Sensitive => SENSITIVE,
                RedactionCause::Pattern(at) => {
                    let at = u32::try_from(at).unwrap_or(u32::MAX);
                    1_u64.checked_shl(at.saturating_add(PATTERNS)).unwrap_or(0)
                }
            };
            seen.fetch_or(bit, Ordering::Relaxed);
        }
    }

    pub(super) fn take(&self) -> Vec<RedactionCause> {
        let seen = self
            .0
            .as_ref()
            .map_or(0, |seen| seen.swap(0, Ordering::Relaxed));
        let patterns = seen >> PATTERNS;
        let mut causes = Vec::new();
        if seen & SECRET != 0 {
            causes.push(RedactionCause::Secret);
        }
        if seen & SENSITIVE != 0 {
            causes.push(RedactionCause::Sensitive);
        }
        let found = (0..64).filter(|at| patterns >> at & 1 == 1);
        causes.extend(found.map(RedactionCause::Pattern));
        causes
    }
}
