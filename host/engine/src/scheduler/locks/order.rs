/// When a call has its turn among those that wait: the lower comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TurnOrder {
    /// Since when the call is in line, on the clock that gives calls their ids; the end of time while it is behind another
    /// call of its caller, or has no place.
    since: u64,
    pub(super) id: u64,
}

impl TurnOrder {
    pub(super) const LAST: Self = Self {
        since: u64::MAX,
        id: u64::MAX,
    };

    /// That of a call that is in line since then.
    pub(super) fn since(since: u64, id: u64) -> Self {
        Self { since, id }
    }

    /// That of a call that is not in line yet: after all that are.
    pub(super) fn not_in_line(id: u64) -> Self {
        Self {
            since: u64::MAX,
            id,
        }
    }

    pub(super) fn is_in_line(self) -> bool {
        self.since != u64::MAX
    }
}

/// One call in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedCall {
    /// The number of its caller.
    pub(super) caller: u64,
    pub(super) order: TurnOrder,
}
