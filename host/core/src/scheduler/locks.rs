//! Which calls may run beside each other: those whose effects cannot meet.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Maximum number of folders in one list of a claim. A call can name many; their common folder is claimed then, so that
/// comparing two claims stays cheap.
const FOLDERS_MAX: usize = 32;
/// Number of callers whose last rank is remembered before those that cannot matter any more are removed.
const REMEMBERED: usize = 256;

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

/// What one call can reach, as far as other calls can notice it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Canonical folders, sorted, none inside another.
    reads: Vec<PathBuf>,
    /// The same, for folders that the call may change.
    writes: Vec<PathBuf>,
    network: NetworkUse,
    /// Whether the call must be alone.
    alone: bool,
}

impl Claim {
    /// The claim of a call that reads and writes these canonical folders.
    pub fn new<'a>(
        reads: impl Iterator<Item = &'a Path>,
        writes: impl Iterator<Item = &'a Path>,
        network: NetworkUse,
    ) -> Self {
        Self { reads: outermost(reads), writes: outermost(writes), network, alone: false }
    }

    /// The claim of a call that runs beside no other.
    pub fn alone() -> Self {
        Self { alone: true, ..Self::default() }
    }

    /// Whether no other call can notice a call with this claim.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn changes(&self) -> bool {
        self.alone || !self.writes.is_empty() || self.network == NetworkUse::Changes
    }

    /// Whether calls with these claims could notice each other; `same_caller`: whether one caller makes both. The
    /// network is one place for the calls of one caller. Between callers it is none, because one caller's request would
    /// stop those of all others.
    fn meets(&self, other: &Self, same_caller: bool) -> bool {
        let networks = [self.network, other.network];
        self.alone
            || other.alone
            || (same_caller && networks.contains(&NetworkUse::Changes) && !networks.contains(&NetworkUse::None))
            || overlap(&self.writes, &other.writes)
            || overlap(&self.writes, &other.reads)
            || overlap(&self.reads, &other.writes)
    }
}

/// Sorts `folders`, without those that lie in another one; more than [`FOLDERS_MAX`] become the folder that holds all.
fn outermost<'a>(folders: impl Iterator<Item = &'a Path>) -> Vec<PathBuf> {
    let mut all: Vec<&Path> = folders.collect();
    all.sort_unstable();
    // A folder is sorted directly before what lies in it.
    all.dedup_by(|inner, outer| inner.starts_with(outer));
    if all.len() <= FOLDERS_MAX {
        return all.into_iter().map(Path::to_owned).collect();
    }
    // In a sorted list, what the first and the last have in common, all have.
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return Vec::new() };
    first.ancestors().find(|folder| last.starts_with(folder)).map(Path::to_owned).into_iter().collect()
}

/// Whether a folder of one list is, contains or lies in one of the other; both are as [`outermost`] makes them.
fn overlap(one: &[PathBuf], other: &[PathBuf]) -> bool {
    one.iter().any(|folder| {
        let at = other.partition_point(|known| known < folder);
        let around = at.checked_sub(1).and_then(|before| other.get(before));
        other.get(at).is_some_and(|inner| inner.starts_with(folder))
            || around.is_some_and(|outer| folder.starts_with(outer))
    })
}

/// The calls of one process that take turns, whatever door they come through. A call waits until no call runs that it
/// could disturb, and lets no earlier one wait that it would delay. Of the calls of several callers, those that wait are
/// in turn: the first of each, the second of each, and so on. Clones share the queue.
///
/// ```
/// use toolcell_core::scheduler::ResourceLocks;
///
/// // Two hosts with clones of one queue keep their calls apart.
/// let locks = ResourceLocks::default();
/// let shared = locks.clone();
/// # let _ = shared;
/// ```
#[derive(Clone, Debug, Default)]
pub struct ResourceLocks(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    next: u64,
    /// Those that wait are sorted by rank, and then by arrival.
    entries: VecDeque<Entry>,
    /// The last rank of each caller whose call came while others waited.
    ranks: HashMap<Option<Box<str>>, u64>,
}

#[derive(Debug)]
struct Entry {
    id: u64,
    caller: Option<Box<str>>,
    /// How many turns of its caller come first, counted from those of the call that is next.
    rank: u64,
    line: Option<Line>,
    /// `None` until the call was decided on.
    claim: Option<Claim>,
    /// Whether the call may run.
    come: bool,
    /// `None` until the call is awaited.
    news: Option<Arc<Notify>>,
}

/// Calls whose changes keep their order: one that changes something waits until all earlier calls of the line are
/// decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line(u64);

impl ResourceLocks {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new line.
    pub fn line(&self) -> Line {
        Line(self.queue().number())
    }

    /// Gives a call of `caller` its place among the others, before it is known what it can reach.
    pub fn turn(&self, line: Option<Line>, caller: Option<&str>) -> Turn {
        let id = self.queue().enter(line, caller);
        Turn { locks: self.clone(), id }
    }
}

impl Queue {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn enter(&mut self, line: Option<Line>, caller: Option<&str>) -> u64 {
        let (id, rank) = (self.number(), self.rank(caller));
        let entry = Entry { id, caller: caller.map(Into::into), rank, line, claim: None, come: false, news: None };
        let later = |known: &Entry| !known.come && known.rank > rank;
        let at = self.entries.iter().position(later).unwrap_or(self.entries.len());
        self.entries.insert(at, entry);
        id
    }

    /// The rank of the next call of `caller`: after those of its own that wait or were served, and not before the call
    /// that is next. So a caller with one call waits for one call of each other caller, however many they have, and no
    /// call is passed for ever, because the rank of each caller only grows while calls wait.
    fn rank(&mut self, caller: Option<&str>) -> u64 {
        let waiting = || self.entries.iter().filter(|entry| !entry.come);
        let Some(least) = waiting().map(|entry| entry.rank).min() else {
            self.ranks.clear();
            return 0;
        };
        let own = waiting().filter(|entry| entry.caller.as_deref() == caller).map(|entry| entry.rank).max();
        // A map of owned names cannot be asked for a borrowed `Option`; there are few callers.
        let served = self.ranks.iter().find(|(known, _)| known.as_deref() == caller).map(|(_, rank)| *rank);
        own.max(served).map_or(least, |last| least.max(last + 1))
    }

    /// Remembers the rank of a call that was served while others wait.
    fn remember(&mut self, caller: Option<Box<str>>, rank: u64) {
        let waiting = self.entries.iter().filter(|entry| !entry.come);
        let Some(least) = waiting.map(|entry| entry.rank).min() else { return };
        if self.ranks.len() >= REMEMBERED {
            self.ranks.retain(|_, known| *known >= least);
        }
        let known = self.ranks.entry(caller).or_default();
        *known = rank.max(*known);
    }

    fn has_come(&self, id: u64) -> bool {
        // A turn that is gone waits for nothing.
        self.entries.iter().find(|entry| entry.id == id).is_none_or(|entry| entry.come)
    }

    /// What is notified when the call `id` may run; `None` if it may.
    fn news(&mut self, id: u64) -> Option<Arc<Notify>> {
        let entry = self.entries.iter_mut().find(|entry| entry.id == id && !entry.come)?;
        Some(Arc::clone(entry.news.get_or_insert_with(Arc::default)))
    }

    /// Removes the call `id`, and lets those go on that waited for it. Returns its claim.
    fn leave(&mut self, id: u64) -> Option<Claim> {
        let at = self.entries.iter().position(|entry| entry.id == id)?;
        let claim = self.entries.remove(at)?.claim;
        self.admit();
        claim
    }

    /// Lets every call run that can.
    fn admit(&mut self) {
        for at in 0..self.entries.len() {
            let may = self.entries.get(at).is_some_and(|entry| !entry.come && !self.is_blocked(at, entry));
            let Some(entry) = self.entries.get_mut(at).filter(|_| may) else { continue };
            entry.come = true;
            entry.news.iter().for_each(|news| news.notify_one());
            let (caller, rank) = (entry.caller.clone(), entry.rank);
            self.remember(caller, rank);
        }
    }

    fn is_blocked(&self, at: usize, entry: &Entry) -> bool {
        let Some(claim) = &entry.claim else { return true };
        let blocks = |(place, other): (usize, &Entry)| match &other.claim {
            Some(of_other) => {
                place != at && (other.come || place < at) && claim.meets(of_other, other.caller == entry.caller)
            }
            None => place < at && other.line.is_some() && other.line == entry.line && claim.changes(),
        };
        self.entries.iter().enumerate().any(blocks) && guard!("resource_locks")
    }
}

/// The place of one call; dropping it lets the others go on.
#[derive(Debug)]
pub struct Turn {
    locks: ResourceLocks,
    id: u64,
}

impl Turn {
    /// Says what the call can reach. Returns whether it may run at once.
    pub fn claim(&self, claim: Claim) -> bool {
        let mut queue = self.locks.queue();
        if let Some(entry) = queue.entries.iter_mut().find(|entry| entry.id == self.id) {
            entry.claim = Some(claim);
        }
        queue.admit();
        queue.has_come(self.id)
    }

    /// Waits until the call may run. It can be dropped and awaited again.
    pub async fn come(&self) {
        loop {
            let news = self.locks.queue().news(self.id);
            let Some(news) = news else { return };
            news.notified().await;
        }
    }

    /// Gives up the place of a call that waits for something else, and returns its claim, for its next turn.
    pub fn leave(&self) -> Option<Claim> {
        self.locks.queue().leave(self.id)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.locks.queue().leave(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(reads: &[&str], writes: &[&str]) -> Claim {
        Claim::new(reads.iter().map(Path::new), writes.iter().map(Path::new), NetworkUse::None)
    }

    fn meets(one: &Claim, other: &Claim) -> bool {
        assert_eq!(one.meets(other, true), other.meets(one, true));
        one.meets(other, true)
    }

    #[test]
    fn calls_meet_where_one_changes_what_the_other_can_reach() {
        let nothing = Claim::default();
        let read = claim(&["/a"], &[]);
        let write = claim(&[], &["/a"]);
        assert!(!meets(&read, &read) && !meets(&nothing, &write));
        assert!(meets(&write, &write) && meets(&write, &read));
        assert!(meets(&write, &claim(&["/a/b/c"], &[])) && meets(&claim(&[], &["/a/b"]), &claim(&["/"], &[])));
        assert!(!meets(&write, &claim(&["/ab", "/b/a"], &["/c"])));
        assert!(meets(&claim(&[], &["/b", "/x/y"]), &claim(&["/a", "/x"], &[])));
        assert!(meets(&Claim::alone(), &nothing));
        let network = |network| Claim { network, ..Claim::default() };
        let (reads, changes) = (network(NetworkUse::Reads), network(NetworkUse::Changes));
        assert!(!meets(&reads, &reads) && meets(&reads, &changes) && meets(&changes, &changes));
        assert!(!meets(&changes, &write));
        assert!(!changes.meets(&changes, false), "one caller's requests would stop those of another");
        assert!(write.meets(&write, false), "folders are places for all");
    }

    #[test]
    fn folders_are_compared_as_each_with_each() {
        let names = ["/", "/a", "/a/b", "/a/b/c", "/a/bc", "/ab", "/b", "/b/a", "/a-b", "/a/b-c"];
        let pick = |bits: usize| -> Vec<&'static str> {
            names.iter().enumerate().filter(|(at, _)| bits & (1 << at) != 0).map(|(_, name)| *name).collect()
        };
        for one in (1..1 << names.len()).step_by(7) {
            for other in (1..1 << names.len()).step_by(31) {
                let (one, other) = (pick(one), pick(other));
                let each = one.iter().any(|one| {
                    other.iter().any(|other| Path::new(one).starts_with(other) || Path::new(other).starts_with(one))
                });
                assert_eq!(claim(&[], &one).meets(&claim(&[], &other), true), each, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn many_folders_are_claimed_as_the_one_that_holds_them() {
        let many: Vec<String> = (0..=FOLDERS_MAX).map(|n| format!("/top/{n}/x")).collect();
        let of = |count: usize| claim(&[], &many.iter().take(count).map(String::as_str).collect::<Vec<_>>());
        let beside = claim(&["/top/other"], &[]);
        assert!(!meets(&of(FOLDERS_MAX), &beside));
        assert!(meets(&of(FOLDERS_MAX + 1), &beside));
        assert!(!meets(&of(FOLDERS_MAX + 1), &claim(&["/elsewhere"], &[])));
    }

    #[tokio::test]
    async fn a_writer_waits_for_readers_and_no_later_reader_passes_it() {
        let locks = ResourceLocks::default();
        let turns = [(); 4].map(|()| locks.turn(None, None));
        let [first, writer, later, elsewhere] = &turns;
        assert!(first.claim(claim(&["/a"], &[])));
        assert!(!writer.claim(claim(&[], &["/a/b"])));
        assert!(!later.claim(claim(&["/a"], &[])), "the writer would never run");
        assert!(elsewhere.claim(claim(&[], &["/c"])));
        let [first, writer, later, _] = turns;
        drop(first);
        writer.come().await;
        drop(writer);
        later.come().await;
    }

    #[tokio::test]
    async fn a_call_that_gives_up_lets_those_behind_it_go_on() {
        let locks = ResourceLocks::default();
        let [first, second, third] = [(); 3].map(|()| locks.turn(None, None));
        assert!(first.claim(claim(&["/a"], &[])) && !second.claim(claim(&[], &["/a"])));
        assert!(!third.claim(claim(&["/a"], &[])));
        drop(second);
        third.come().await;
        drop((first, third));
        assert!(locks.queue().entries.is_empty());
    }

    #[tokio::test]
    async fn changes_of_one_line_keep_their_order_while_an_earlier_call_is_decided_on() {
        let locks = ResourceLocks::default();
        let line = Some(locks.line());
        let [undecided, reader, writer] = [(); 3].map(|()| locks.turn(line, None));
        let stranger = locks.turn(Some(locks.line()), None);
        assert!(reader.claim(claim(&["/a"], &[])));
        assert!(!writer.claim(claim(&[], &["/b"])), "the undecided call may be an earlier writer");
        assert!(stranger.claim(claim(&[], &["/c"])), "it belongs to another line");
        assert!(!undecided.claim(claim(&[], &["/a"])), "the reader that passed it runs");
        writer.come().await;
        drop(reader);
        undecided.come().await;
    }

    /// The order in which calls of these callers run that all want one folder.
    async fn served(callers: &[&str]) -> Vec<usize> {
        let locks = ResourceLocks::default();
        let first = locks.turn(None, Some("first"));
        assert!(first.claim(claim(&[], &["/a"])));
        let mut waiting: Vec<(usize, Turn)> = Vec::new();
        for (at, caller) in callers.iter().enumerate() {
            let turn = locks.turn(None, Some(caller));
            assert!(!turn.claim(claim(&[], &["/a"])));
            waiting.push((at, turn));
        }
        drop(first);
        let mut order = Vec::new();
        while !waiting.is_empty() {
            let next = waiting.iter().position(|(_, turn)| locks.queue().has_come(turn.id)).unwrap();
            let (at, turn) = waiting.remove(next);
            turn.come().await;
            order.push(at);
        }
        order
    }

    #[tokio::test]
    async fn a_flood_of_one_caller_waits_behind_the_one_call_of_another() {
        assert_eq!(served(&["a", "a", "a", "a", "b", "c"]).await, [0, 4, 5, 1, 2, 3]);
        assert_eq!(served(&["a", "a", "b", "b", "a"]).await, [0, 2, 1, 3, 4]);
        assert_eq!(served(&["a"; 5]).await, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_caller_that_comes_back_at_once_does_not_pass_a_call_for_ever() {
        let locks = ResourceLocks::default();
        let wanting = |caller: &str| {
            let turn = locks.turn(None, Some(caller));
            turn.claim(claim(&[], &["/a"]));
            turn
        };
        // The call of `stuck` keeps the least rank low for as long as it waits for its own folder.
        let other = locks.turn(None, Some("other"));
        other.claim(claim(&[], &["/b"]));
        let stuck = locks.turn(None, Some("stuck"));
        stuck.claim(claim(&[], &["/b"]));
        let mut runs = wanting("eager");
        let patient: Vec<Turn> = (0..3).map(|_| wanting("patient")).collect();
        let mut passed = 0;
        while !locks.queue().has_come(patient[2].id) {
            let again = wanting("eager");
            drop(std::mem::replace(&mut runs, again));
            passed += 1;
            assert!(passed < 10, "it is passed for ever");
            if patient.iter().any(|turn| locks.queue().has_come(turn.id)) {
                let came: Vec<u64> = patient.iter().map(|turn| turn.id).collect();
                came.iter().take(2).filter(|id| locks.queue().has_come(**id)).for_each(|id| {
                    locks.queue().leave(*id);
                });
            }
        }
    }

    #[tokio::test]
    async fn a_call_that_waits_for_something_else_holds_no_folder() {
        let locks = ResourceLocks::default();
        let [first, second] = [(); 2].map(|()| locks.turn(None, None));
        assert!(first.claim(claim(&[], &["/a"])) && !second.claim(claim(&[], &["/a"])));
        let claimed = first.leave().unwrap();
        second.come().await;
        let again = locks.turn(None, None);
        assert!(!again.claim(claimed));
        drop(second);
        again.come().await;
        drop(first);
        assert_eq!(locks.queue().entries.len(), 1, "only the second turn of the first call is left");
    }

    /// Random calls come, are decided on, run and end; at each step, what runs is compared with the rule.
    #[test]
    fn no_two_calls_that_meet_ever_run_together_and_all_of_them_run() {
        let claims = [
            Claim::default(),
            Claim::alone(),
            claim(&["/a"], &[]),
            claim(&[], &["/a/b"]),
            claim(&["/b"], &["/a"]),
            Claim { network: NetworkUse::Changes, ..claim(&[], &["/c"]) },
            Claim { network: NetworkUse::Reads, ..claim(&["/c"], &[]) },
        ];
        let mut random: u64 = 7;
        let mut pick = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(random >> 33).unwrap() % below
        };
        for _ in 0..200 {
            let locks = ResourceLocks::default();
            let line = [None, Some(locks.line())];
            let mut calls: Vec<(Turn, Option<Claim>)> = Vec::new();
            let mut left = 30;
            while left > 0 || !calls.is_empty() {
                match pick(3) {
                    0 if left > 0 => {
                        left -= 1;
                        calls.push((locks.turn(line[pick(2)], None), None));
                    }
                    1 if !calls.is_empty() => {
                        let at = pick(calls.len());
                        if calls[at].1.is_none() {
                            let claim = claims[pick(claims.len())].clone();
                            calls[at].0.claim(claim.clone());
                            calls[at].1 = Some(claim);
                        }
                    }
                    _ => {
                        let runs = |(turn, _): &(Turn, Option<Claim>)| locks.queue().has_come(turn.id);
                        let running: Vec<usize> = (0..calls.len()).filter(|at| runs(&calls[*at])).collect();
                        let decided = calls.iter().all(|(_, claim)| claim.is_some());
                        assert!(!decided || calls.is_empty() || !running.is_empty(), "nothing goes on");
                        if !running.is_empty() {
                            calls.remove(running[pick(running.len())]);
                        }
                    }
                }
                let runs: Vec<&Claim> = calls
                    .iter()
                    .filter(|(turn, _)| locks.queue().has_come(turn.id))
                    .filter_map(|(_, claim)| claim.as_ref())
                    .collect();
                for (at, one) in runs.iter().enumerate() {
                    assert!(runs.iter().skip(at + 1).all(|other| !one.meets(other, true)), "{runs:?}");
                }
            }
        }
    }
}
