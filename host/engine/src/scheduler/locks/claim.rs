use std::path::Path;
use std::sync::Arc;

/// A call can name many folders; then their common folder is claimed, so that comparing stays cheap.
pub(super) const FOLDERS_MAX: usize = 32;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkUse {
    #[default]
    None,
    Reads,
    Changes,
}

/// Resources that a call can reach and others can notice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceClaim {
    /// Canonical, sorted, none inside another.
    reads: Vec<Arc<Path>>,
    writes: Vec<Arc<Path>>,
    network: NetworkUse,
    /// `Some` if the call can change the context of its caller; `true`: beside no other that can.
    context: Option<bool>,
    /// Resources that the tool's calls share, by name; `true`: the call runs beside no other that uses it.
    named: Vec<(Arc<str>, bool)>,
    alone: bool,
}

impl ResourceClaim {
    pub fn new<'a>(
        reads: impl Iterator<Item = &'a Path>,
        writes: impl Iterator<Item = &'a Path>,
        network: NetworkUse,
    ) -> Self {
        Self {
            reads: outermost(reads),
            writes: outermost(writes),
            network,
            ..Self::default()
        }
    }

    /// For a call that can change its caller's context, beside others unless `serial`.
    #[must_use]
    pub fn in_context(self, serial: bool) -> Self {
        Self {
            context: Some(serial),
            ..self
        }
    }

    #[must_use]
    pub fn with_named<'a>(mut self, named: impl Iterator<Item = (&'a Arc<str>, bool)>) -> Self {
        for (name, is_exclusive) in named {
            match self.named.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => *known |= is_exclusive,
                None => self.named.push((Arc::clone(name), is_exclusive)),
            }
        }
        self
    }

    pub fn alone() -> Self {
        Self {
            alone: true,
            ..Self::default()
        }
    }

    /// Returns whether no other call can notice this one.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn changes(&self) -> bool {
        self.alone
            || !self.writes.is_empty()
            || self.network == NetworkUse::Changes
            || self.context == Some(true)
            || self.named.iter().any(|(_, is_exclusive)| *is_exclusive)
    }

    /// Returns whether a call with this claim and one with the other could notice each other. The network is one resource
    /// for the calls of one caller, but not between callers, because one caller's request would stop all others. Each caller
    /// has a context of its own.
    pub(super) fn meets(&self, other: &Self, same_caller: bool) -> bool {
        let network = [self.network, other.network];
        let on_network =
            network.contains(&NetworkUse::Changes) && !network.contains(&NetworkUse::None);
        let in_context = matches!(
            (self.context, other.context),
            (Some(one), Some(other)) if one || other
        );
        self.alone
            || other.alone
            || (same_caller && (on_network || in_context))
            || self.writes_where_reaches(other)
            || other.writes_where_reaches(self)
            || self.named.iter().any(|(name, is_exclusive)| {
                other
                    .named
                    .iter()
                    .any(|(other, beside)| name == other && (*is_exclusive || *beside))
            })
    }

    fn writes_where_reaches(&self, other: &Self) -> bool {
        self.writes.iter().any(|written| {
            let reached = other.reads.iter().chain(&other.writes);
            reached
                .into_iter()
                .any(|folder| folder.starts_with(written) || written.starts_with(folder))
        })
    }
}

/// Sorts, drops nested folders; more than [`FOLDERS_MAX`] become their common folder.
fn outermost<'a>(folders: impl Iterator<Item = &'a Path>) -> Vec<Arc<Path>> {
    let mut all: Vec<&Path> = folders.collect();
    all.sort_unstable();
    // A folder is sorted directly before what lies in it.
    all.dedup_by(|inner, outer| inner.starts_with(outer));
    if all.len() <= FOLDERS_MAX {
        return all.into_iter().map(Arc::from).collect();
    }
    // In a sorted list, what the first and the last have in common, all have.
    let (Some(first), Some(last)) = (all.first(), all.last()) else {
        return Vec::new();
    };
    first
        .ancestors()
        .find(|folder| last.starts_with(folder))
        .map(Arc::from)
        .into_iter()
        .collect()
}
