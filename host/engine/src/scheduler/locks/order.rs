/// The lower turn comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TurnOrder {
    /// On the clock of call ids; the end of time while behind a call of its caller, or without a place.
    since: u64,
    pub(super) id: u64,
}

impl TurnOrder {
    pub(super) const LAST: Self = Self {
        since: u64::MAX,
        id: u64::MAX,
    };

    pub(super) fn since(since: u64, id: u64) -> Self {
        Self { since, id }
    }

    /// After all that are in line.
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

#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedCall {
    pub(super) caller: u64,
    pub(super) order: TurnOrder,
}
