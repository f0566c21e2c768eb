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

/// How a call uses what other calls can reach too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UseMode {
    /// Beside others that change nothing there.
    Shared,
    Exclusive,
}

impl UseMode {
    fn new(is_exclusive: bool) -> Self {
        if is_exclusive {
            Self::Exclusive
        } else {
            Self::Shared
        }
    }
}

/// The resources beside folders that calls can share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SharedResource {
    /// Everything that calls can reach: each call uses it, shared, unless it must be alone.
    Whole,
    /// By caller. The network is one resource for the calls of one caller, but not between callers, because one
    /// caller's request would stop all others.
    Network(u64),
    /// By caller, because each has a context of its own.
    Context(u64),
    /// A resource that tools declare as shared.
    Named(Arc<str>),
}

/// Resources that one call can reach and other calls can notice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceClaim {
    /// Canonical folders, sorted, none inside another.
    reads: Vec<Arc<Path>>,
    /// The same, for folders that the call may change.
    writes: Vec<Arc<Path>>,
    network: NetworkUse,
    /// How the call uses the context of its caller; `None` if it cannot change it.
    context: Option<UseMode>,
    /// Resources that the tool's calls share, by name.
    named: Vec<(Arc<str>, UseMode)>,
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
            context: Some(UseMode::new(serial)),
            ..self
        }
    }

    /// The same claim, of a call that also uses these resources of the tool's own, by name; `true`: beside no other that
    /// does.
    #[must_use]
    pub fn with_named<'a>(mut self, named: impl Iterator<Item = (&'a Arc<str>, bool)>) -> Self {
        for (name, is_exclusive) in named {
            let mode = UseMode::new(is_exclusive);
            match self.named.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) if is_exclusive => *known = mode,
                Some(_) => {}
                None => self.named.push((Arc::clone(name), mode)),
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
            || self.context == Some(UseMode::Exclusive)
            || self
                .named
                .iter()
                .any(|(_, mode)| *mode == UseMode::Exclusive)
    }

    /// The use of each resource but folders by a call of this caller.
    pub(super) fn uses(&self, caller: u64) -> impl Iterator<Item = (SharedResource, UseMode)> {
        let whole = UseMode::new(self.alone);
        let network = match self.network {
            NetworkUse::None => None,
            NetworkUse::Reads => Some(UseMode::Shared),
            NetworkUse::Changes => Some(UseMode::Exclusive),
        };
        let of_call = [
            Some((SharedResource::Whole, whole)),
            network.map(|mode| (SharedResource::Network(caller), mode)),
            self.context
                .map(|mode| (SharedResource::Context(caller), mode)),
        ];
        let named = self.named.iter();
        let named = named.map(|(name, mode)| (SharedResource::Named(Arc::clone(name)), *mode));
        of_call.into_iter().flatten().chain(named)
    }

    /// The use of each folder.
    pub(super) fn folders(&self) -> impl Iterator<Item = (&Arc<Path>, UseMode)> {
        let reads = self.reads.iter().map(|folder| (folder, UseMode::Shared));
        reads.chain(
            self.writes
                .iter()
                .map(|folder| (folder, UseMode::Exclusive)),
        )
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
