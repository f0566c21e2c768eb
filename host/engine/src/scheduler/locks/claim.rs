use std::path::Path;
use std::sync::Arc;

/// Maximum number of folders in one list of a claim. A call can name many; their common folder is claimed then, so that
/// comparing claims stays cheap.
pub(super) const FOLDERS_MAX: usize = 32;

/// How a call uses the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkUse {
    #[default]
    None,
    /// Its requests change nothing.
    Reads,
    /// Its requests may change something elsewhere.
    Changes,
}

/// Resources that one call can reach and other calls can notice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceClaim {
    /// Canonical folders, sorted, none inside another.
    reads: Vec<Arc<Path>>,
    /// The same, for folders that the call may change.
    writes: Vec<Arc<Path>>,
    network: NetworkUse,
    /// `Some` if the call can change the context of its caller; `true`: beside no other that can.
    context: Option<bool>,
    /// Resources that the tool's calls share, by name; `true`: the call runs beside no other that uses it.
    named: Vec<(Arc<str>, bool)>,
    /// `true` if the call must run alone.
    alone: bool,
}

impl ResourceClaim {
    /// The claim of a call that reads and writes these canonical folders.
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

    /// The same claim, of a call that can change its caller's context: beside others that can, unless `serial`.
    #[must_use]
    pub fn in_context(self, serial: bool) -> Self {
        Self {
            context: Some(serial),
            ..self
        }
    }

    /// The same claim, of a call that also uses these resources of the tool's own, by name; `true`: beside no other that
    /// does.
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

    /// The claim of a call that runs beside no other.
    pub fn alone() -> Self {
        Self {
            alone: true,
            ..Self::default()
        }
    }

    /// Returns whether no other call can notice a call with this claim.
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

/// Sorts `folders`, without those that lie in another one; more than [`FOLDERS_MAX`] become the folder that holds all.
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
