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

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SharedResource {
    /// Everything reachable: each call shares it, unless it must be alone.
    Whole,
    /// One resource per caller, because one caller's request would otherwise stop all others.
    Network(u64),
    /// By caller, because each has its own.
    Context(u64),
    /// Declared as shared by tools.
    Named(Arc<str>),
}

/// Resources that a call can reach and others can notice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceClaim {
    /// Canonical, sorted, none inside another.
    reads: Vec<Arc<Path>>,
    writes: Vec<Arc<Path>>,
    network: NetworkUse,
    /// `None` if it cannot change its caller's context.
    context: Option<UseMode>,
    named: Vec<(Arc<str>, UseMode)>,
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
            context: Some(UseMode::new(serial)),
            ..self
        }
    }

    #[must_use]
    pub fn with_named(mut self, named: impl Iterator<Item = (Arc<str>, bool)>) -> Self {
        for (name, is_exclusive) in named {
            let mode = UseMode::new(is_exclusive);
            match self.named.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) if is_exclusive => *known = mode,
                Some(_) => {}
                None => self.named.push((name, mode)),
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
            || self.context == Some(UseMode::Exclusive)
            || self
                .named
                .iter()
                .any(|(_, mode)| *mode == UseMode::Exclusive)
    }

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

    pub(super) fn folders(&self) -> impl Iterator<Item = (&Arc<Path>, UseMode)> {
        let reads = self.reads.iter().map(|folder| (folder, UseMode::Shared));
        reads.chain(
            self.writes
                .iter()
                .map(|folder| (folder, UseMode::Exclusive)),
        )
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
