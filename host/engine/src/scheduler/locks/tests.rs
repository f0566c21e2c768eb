use std::path::Path;
use std::time::{Duration, Instant};

use super::claim::{FOLDERS_MAX, UseMode};
use super::*;

mod fairness;

/// A linear queue on a busy machine takes less, a quadratic one much more.
const PATIENCE: Duration = Duration::from_secs(20);

fn using(network: NetworkUse, reads: &[&str], writes: &[&str]) -> ResourceClaim {
    ResourceClaim::new(
        reads.iter().map(Path::new),
        writes.iter().map(Path::new),
        network,
    )
}

fn picks(seed: u64) -> impl FnMut(usize) -> usize {
    let mut random = seed;
    move |below: usize| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(random >> 33).unwrap() % below
    }
}

fn claim(reads: &[&str], writes: &[&str]) -> ResourceClaim {
    using(NetworkUse::None, reads, writes)
}

fn near(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// The rule, without the index.
fn could_meet(one: &ResourceClaim, other: &ResourceClaim, same_caller: bool) -> bool {
    let exclusive = |one: UseMode, other: UseMode| [one, other].contains(&UseMode::Exclusive);
    let mut uses = one.uses(1);
    uses.any(|(resource, mode)| {
        let mut beside = other.uses(if same_caller { 1 } else { 2 });
        beside.any(|(other, its_mode)| resource == other && exclusive(mode, its_mode))
    }) || one.folders().any(|(folder, mode)| {
        other
            .folders()
            .any(|(beside, its_mode)| near(folder, beside) && exclusive(mode, its_mode))
    })
}

fn waits(one: &ResourceClaim, other: &ResourceClaim, callers: [&str; 2]) -> bool {
    let locks = ResourceLocks::default();
    let [first, second] = callers.map(|caller| locks.turn(None, Some(caller)));
    assert!(first.claim(one.clone(), true));
    !second.claim(other.clone(), true)
}

fn meets(one: &ResourceClaim, other: &ResourceClaim) -> bool {
    let found = waits(one, other, ["a", "a"]);
    assert_eq!(found, waits(other, one, ["a", "a"]));
    assert_eq!(found, could_meet(one, other, true));
    found
}

fn runs(turn: &QueueTurn) -> bool {
    turn.locks
        .queue()
        .entries
        .get(&turn.id)
        .is_some_and(|entry| entry.stage == Some(ClaimStage::Running))
}

#[track_caller]
fn is_empty(locks: &ResourceLocks) {
    let queue = locks.queue();
    assert!(queue.entries.is_empty() && queue.index.is_empty() && queue.waiting == 0);
    assert!(queue.lined.is_empty() && queue.undecided.is_empty());
}

#[test]
fn calls_meet_where_one_changes_what_the_other_can_reach() {
    let nothing = ResourceClaim::default();
    let read = claim(&["/a"], &[]);
    let write = claim(&[], &["/a"]);
    assert!(!meets(&read, &read) && !meets(&nothing, &write));
    assert!(meets(&write, &write) && meets(&write, &read));
    assert!(
        meets(&write, &claim(&["/a/b/c"], &[]))
            && meets(&claim(&[], &["/a/b"]), &claim(&["/"], &[]))
    );
    assert!(!meets(&write, &claim(&["/ab", "/b/a"], &["/c"])));
    assert!(meets(
        &claim(&[], &["/b", "/x/y"]),
        &claim(&["/a", "/x"], &[])
    ));
    assert!(meets(&ResourceClaim::alone(), &nothing));
    let network = |network| using(network, &[], &[]);
    let reads = network(NetworkUse::Reads);
    let changes = network(NetworkUse::Changes);
    assert!(!meets(&reads, &reads) && meets(&reads, &changes) && meets(&changes, &changes));
    assert!(!meets(&changes, &write));
    assert!(
        !waits(&changes, &changes, ["a", "b"]),
        "one caller's requests would stop those of another"
    );
    assert!(
        waits(&write, &write, ["a", "b"]),
        "folders are places for all"
    );
    let [serial, beside] = [true, false].map(|serial| ResourceClaim::default().in_context(serial));
    assert!(meets(&serial, &serial) && meets(&serial, &beside) && !meets(&beside, &beside));
    assert!(!meets(&serial, &nothing) && !meets(&serial, &write));
    assert!(
        !waits(&serial, &serial, ["a", "b"]),
        "each caller has a context of its own"
    );
}

#[test]
fn folders_are_compared_as_each_with_each() {
    let names = [
        "/", "/a", "/a/b", "/a/b/c", "/a/bc", "/ab", "/b", "/b/a", "/a-b", "/a/b-c",
    ];
    let pick = |bits: usize| -> Vec<&'static str> {
        names
            .iter()
            .enumerate()
            .filter(|(at, _)| bits & (1 << at) != 0)
            .map(|(_, name)| *name)
            .collect()
    };
    for one in (1..1 << names.len()).step_by(7) {
        for other in (1..1 << names.len()).step_by(31) {
            let one = pick(one);
            let other = pick(other);
            let each = one.iter().any(|one| {
                other
                    .iter()
                    .any(|other| near(Path::new(one), Path::new(other)))
            });
            let found = waits(&claim(&[], &one), &claim(&[], &other), ["a", "b"]);
            assert_eq!(found, each, "{one:?} {other:?}");
            assert_eq!(
                waits(&claim(&one, &[]), &claim(&[], &other), ["a", "b"]),
                each,
                "{one:?} {other:?}"
            );
        }
    }
}

#[test]
fn many_folders_are_claimed_as_the_one_that_holds_them() {
    let many: Vec<String> = (0..=FOLDERS_MAX).map(|n| format!("/top/{n}/x")).collect();
    let of = |count: usize| {
        claim(
            &[],
            &many
                .iter()
                .take(count)
                .map(String::as_str)
                .collect::<Vec<_>>(),
        )
    };
    let beside = claim(&["/top/other"], &[]);
    assert!(!meets(&of(FOLDERS_MAX), &beside));
    assert!(meets(&of(FOLDERS_MAX + 1), &beside));
    assert!(!meets(&of(FOLDERS_MAX + 1), &claim(&["/elsewhere"], &[])));
}

#[tokio::test]
async fn a_writer_waits_for_readers_and_no_later_reader_passes_it() {
    let locks = ResourceLocks::default();
    let [first, writer, later, elsewhere] = [(); 4].map(|()| locks.turn(None, None));
    assert!(first.claim(claim(&["/a"], &[]), true));
    assert!(!writer.claim(claim(&[], &["/a/b"]), true));
    assert!(
        !later.claim(claim(&["/a"], &[]), true),
        "the writer would never run"
    );
    assert!(elsewhere.claim(claim(&[], &["/c"]), true));
    drop(first);
    writer.come().await;
    assert!(writer.begin() && !later.begin());
    drop(writer);
    later.come().await;
    assert!(later.begin());
}

#[tokio::test]
async fn a_call_that_gives_up_lets_those_behind_it_go_on() {
    let locks = ResourceLocks::default();
    let [first, second, third] = [(); 3].map(|()| locks.turn(None, None));
    assert!(first.claim(claim(&["/a"], &[]), true) && !second.claim(claim(&[], &["/a"]), true));
    assert!(!third.claim(claim(&["/a"], &[]), true));
    drop(second);
    third.come().await;
    drop((first, third));
    is_empty(&locks);
}

#[test]
fn a_call_that_ends_without_its_turn_is_passed_and_one_that_runs_is_not() {
    let locks = ResourceLocks::default();
    let [reader, writer, later] = [(); 3].map(|()| locks.turn(None, None));
    assert!(reader.claim(claim(&["/a"], &[]), true) && !writer.claim(claim(&[], &["/a"]), true));
    assert!(!later.claim(claim(&["/a"], &[]), true));
    writer.give_up();
    assert!(later.begin());
    later.give_up();
    let next = locks.turn(None, None);
    assert!(!next.claim(claim(&[], &["/a"]), true));
    drop(reader);
    assert!(!next.begin(), "the second reader still runs");
    drop(later);
    assert!(next.begin());
    drop((writer, next));
    is_empty(&locks);
}

#[tokio::test]
async fn a_call_that_waits_is_told_when_its_turn_comes() {
    let locks = ResourceLocks::default();
    let [first, second] = [(); 2].map(|()| locks.turn(None, None));
    assert!(first.claim(claim(&[], &["/a"]), true) && !second.claim(claim(&[], &["/a"]), true));
    let leave = async {
        tokio::task::yield_now().await;
        drop(first);
    };
    tokio::time::timeout(PATIENCE, async { tokio::join!(second.come(), leave) })
        .await
        .unwrap();
    assert!(second.begin());
}

#[tokio::test]
async fn changes_of_one_line_keep_their_order_while_an_earlier_call_is_decided_on() {
    let locks = ResourceLocks::default();
    let line = Some(locks.line());
    let [undecided, reader, writer] = [(); 3].map(|()| locks.turn(line, None));
    let stranger = locks.turn(Some(locks.line()), None);
    assert!(reader.claim(claim(&["/a"], &[]), true));
    assert!(
        !writer.claim(claim(&[], &["/b"]), true),
        "the undecided call may be an earlier writer"
    );
    assert!(
        stranger.claim(claim(&[], &["/c"]), true),
        "it belongs to another line"
    );
    let decide = async {
        tokio::task::yield_now().await;
        assert!(
            !undecided.claim(claim(&[], &["/a"]), true),
            "the reader that passed it runs"
        );
    };
    tokio::time::timeout(PATIENCE, async { tokio::join!(writer.come(), decide) })
        .await
        .unwrap();
    assert!(writer.begin());
    drop(reader);
    undecided.come().await;
    assert!(undecided.begin());
    drop((undecided, writer, stranger));
    is_empty(&locks);
}

#[tokio::test]
async fn a_change_goes_on_when_all_earlier_calls_of_its_line_are_gone() {
    let locks = ResourceLocks::default();
    let line = Some(locks.line());
    let [first, second, writer] = [(); 3].map(|()| locks.turn(line, None));
    assert!(!writer.claim(claim(&[], &["/a"]), true));
    drop(second);
    assert!(!writer.begin());
    let leave = async {
        tokio::task::yield_now().await;
        drop(first);
    };
    tokio::time::timeout(PATIENCE, async { tokio::join!(writer.come(), leave) })
        .await
        .unwrap();
    assert!(writer.begin());
}

fn served(callers: &[&str]) -> Vec<usize> {
    let locks = ResourceLocks::default();
    let first = locks.turn(None, Some("first"));
    assert!(first.claim(claim(&[], &["/a"]), true));
    let mut waiting: Vec<(usize, QueueTurn)> = Vec::new();
    for (at, caller) in callers.iter().enumerate() {
        let turn = locks.turn(None, Some(caller));
        assert!(!turn.claim(claim(&[], &["/a"]), true));
        waiting.push((at, turn));
    }
    drop(first);
    let mut order = Vec::new();
    while !waiting.is_empty() {
        let next = waiting.iter().position(|(_, turn)| turn.begin()).unwrap();
        order.push(waiting.remove(next).0);
    }
    order
}

#[test]
fn a_flood_of_one_caller_waits_behind_the_one_call_of_another() {
    assert_eq!(served(&["a", "a", "a", "a", "b", "c"]), [0, 4, 5, 1, 2, 3]);
    assert_eq!(served(&["a", "a", "b", "b", "a"]), [0, 2, 1, 3, 4]);
    assert_eq!(served(&["a"; 5]), [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn readers_that_have_no_place_yet_do_not_delay_the_writer_of_another_caller() {
    let locks = ResourceLocks::default();
    let reader = |has_place: bool| {
        let turn = locks.turn(None, Some("anna"));
        assert_eq!(turn.claim(claim(&["/a"], &[]), has_place), has_place);
        turn
    };
    let running = [(); 2].map(|()| reader(true));
    let placeless: Vec<QueueTurn> = (0..100).map(|_| reader(false)).collect();
    placeless.iter().for_each(QueueTurn::lack_place);
    let writer = locks.turn(None, Some("bert"));
    assert!(!writer.claim(claim(&[], &["/a"]), true));
    let came: Vec<bool> = placeless.iter().map(QueueTurn::begin).collect();
    assert!(
        came.iter().all(|runs| !runs),
        "a reader that had no place comes before his call: {came:?}"
    );
    drop(running);
    writer.come().await;
    assert!(writer.begin());
    assert!(
        placeless.iter().all(|reader| !reader.begin()),
        "a reader runs beside a writer"
    );
    let next = locks.turn(None, Some("bert"));
    assert!(!next.claim(claim(&[], &["/a"]), true));
    drop(writer);
    assert!(!next.begin(), "it is the readers' turn");
    assert!(
        placeless.iter().all(QueueTurn::begin),
        "readers wait for each other"
    );
    drop((placeless, next));
    is_empty(&locks);
}

#[tokio::test]
async fn a_call_whose_caller_has_no_place_for_it_is_passed_by_other_callers_alone() {
    let locks = ResourceLocks::default();
    let [first, own, other] = ["anna", "anna", "bert"].map(|caller| locks.turn(None, Some(caller)));
    assert!(!first.claim(claim(&[], &["/a"]), false));
    assert!(
        !own.claim(claim(&["/a"], &[]), true) && !other.claim(claim(&["/a/b"], &[]), true),
        "it may run at once"
    );
    let lack = async {
        tokio::task::yield_now().await;
        first.lack_place();
    };
    tokio::time::timeout(PATIENCE, async { tokio::join!(other.come(), lack) })
        .await
        .unwrap();
    assert!(!own.begin(), "the calls of one caller keep their order");
    assert!(
        other.begin() && !first.begin(),
        "two calls that meet run together"
    );
    let later = locks.turn(None, Some("bert"));
    assert!(
        !later.claim(claim(&["/a"], &[]), true),
        "the writer, which gave its place up, would never run"
    );
    drop(other);
    first.come().await;
    assert!(first.begin());
    drop(first);
    own.come().await;
    assert!(own.begin() && later.begin());
}

#[tokio::test]
async fn calls_behind_one_that_has_no_place_keep_no_other_caller_waiting() {
    let locks = ResourceLocks::default();
    let writer = |caller: &str, folder: &str| {
        let turn = locks.turn(None, Some(caller));
        let runs = turn.claim(claim(&[], &[folder]), caller == "bert");
        (turn, runs)
    };
    let [first, second, third] = ["/a", "/a", "/a/b"].map(|folder| writer("anna", folder).0);
    first.lack_place();
    let late = writer("anna", "/a").0;
    for _ in 0..20 {
        let (_turn, runs) = writer("bert", "/a");
        assert!(runs, "he waits for calls of hers that cannot run");
    }
    let leave = async {
        tokio::task::yield_now().await;
        drop(first);
    };
    tokio::time::timeout(PATIENCE, async { tokio::join!(second.come(), leave) })
        .await
        .unwrap();
    assert!(!writer("bert", "/a").1, "it is her turn");
    assert!(second.begin() && !third.begin() && !late.begin());
    drop(second);
    third.come().await;
    assert!(third.begin() && !late.begin());
    drop(third);
    late.come().await;
    assert!(late.begin());
    drop(late);
    is_empty(&locks);
}

#[test]
fn a_call_that_has_its_place_too_late_is_passed_only_so_often() {
    let locks = ResourceLocks::default();
    let unlucky = locks.turn(None, Some("anna"));
    assert!(!unlucky.claim(claim(&[], &["/a"]), false));
    for passed in 0..100 {
        unlucky.lack_place();
        let passing = locks.turn(None, Some("bert"));
        if !passing.claim(claim(&[], &["/a"]), true) {
            assert_eq!(passed, PASSES_MAX);
            assert!(unlucky.begin());
            return;
        }
        assert!(!unlucky.begin());
    }
    panic!("it is passed for ever");
}

#[test]
fn turns_elsewhere_cost_nothing_here() {
    let locks = ResourceLocks::default();
    let turn = |caller: &str, folder: &str| {
        let turn = locks.turn(None, Some(caller));
        turn.claim(claim(&[], &[folder]), true);
        turn
    };
    let flood: Vec<QueueTurn> = (0..20).map(|_| turn("anna", "/a")).collect();
    for _ in 0..50 {
        assert!(runs(&turn("bert", "/b")));
    }
    let bert = turn("bert", "/a");
    let mut flood = flood.into_iter();
    drop(flood.next());
    assert!(flood.as_slice()[0].begin(), "her call is the first");
    drop(flood.next());
    assert!(bert.begin(), "he waits behind calls of hers");
}

#[test]
fn a_caller_that_comes_back_at_once_does_not_pass_a_call_for_ever() {
    let locks = ResourceLocks::default();
    let wanting = |caller: &str| {
        let turn = locks.turn(None, Some(caller));
        turn.claim(claim(&[], &["/a"]), true);
        turn
    };
    // A call waits elsewhere all the time.
    let other = locks.turn(None, Some("other"));
    other.claim(claim(&[], &["/b"]), true);
    let stuck = locks.turn(None, Some("stuck"));
    assert!(!stuck.claim(claim(&[], &["/b"]), true));
    let mut eager = wanting("eager");
    let mut patient: Vec<QueueTurn> = (0..3).map(|_| wanting("patient")).collect();
    let mut passed = 0;
    while !patient.is_empty() {
        let again = wanting("eager");
        if runs(&eager) {
            passed += 1;
        }
        drop(std::mem::replace(&mut eager, again));
        // Those that can, run and end.
        patient.retain(|turn| !turn.begin());
        eager.begin();
        assert!(passed < 10, "it is passed for ever");
    }
}

#[tokio::test]
async fn a_call_that_waits_for_something_else_holds_no_folder() {
    let locks = ResourceLocks::default();
    let [first, second] = [(); 2].map(|()| locks.turn(None, None));
    assert!(first.claim(claim(&[], &["/a"]), true) && !second.claim(claim(&[], &["/a"]), true));
    let claimed = first.leave().unwrap();
    second.come().await;
    assert!(second.begin());
    let again = locks.turn(None, None);
    assert!(!again.claim(claimed, true));
    drop(second);
    again.come().await;
    assert!(again.begin());
    drop(first);
    assert_eq!(
        locks.queue().entries.len(),
        1,
        "only the second turn of the first call is left"
    );
}

#[test]
fn a_long_queue_costs_each_call_little() {
    const CALLS: usize = 5_000;
    let began = Instant::now();
    let locks = ResourceLocks::default();
    let first = locks.turn(None, Some("first"));
    assert!(first.claim(ResourceClaim::alone(), true));
    let folders: Vec<String> = (0..10).map(|n| format!("/top/{n}/x")).collect();
    let waiting: Vec<QueueTurn> = (0..CALLS)
        .map(|at| {
            let turn = locks.turn(None, Some("anna"));
            let folder = folders[at % folders.len()].as_str();
            let claim = if at % 3 == 0 {
                claim(&[], &[folder])
            } else {
                claim(&[folder], &[])
            };
            assert!(!turn.claim(claim, true));
            // Who is not awaited costs nothing when a call leaves.
            assert!(locks.queue().news(turn.id).is_some());
            turn
        })
        .collect();
    drop(first);
    for turn in waiting {
        assert!(turn.begin());
    }
    is_empty(&locks);
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
}

struct Known {
    turn: QueueTurn,
    caller: usize,
    claim: Option<ResourceClaim>,
    news: Option<Arc<Notify>>,
}

impl Known {
    fn await_turn(&mut self) {
        self.news = self.turn.locks.queue().news(self.turn.id);
    }

    #[track_caller]
    fn hear(&mut self) {
        let may_run = !self.turn.locks.queue().is_blocked(self.turn.id);
        if let Some(news) = self.news.take_if(|_| may_run) {
            let told = std::pin::pin!(news.notified()).enable();
            assert!(told, "it is not told that its turn has come");
            self.await_turn();
        }
    }
}

#[track_caller]
fn never_meet(calls: &[Known]) {
    let running: Vec<(&ResourceClaim, usize)> = calls
        .iter()
        .filter(|call| runs(&call.turn))
        .filter_map(|call| Some((call.claim.as_ref()?, call.caller)))
        .collect();
    for (at, (one, caller)) in running.iter().enumerate() {
        let beside = |(other, of): &(&ResourceClaim, usize)| could_meet(one, other, caller == of);
        assert!(!running.iter().skip(at + 1).any(beside), "{running:?}");
    }
}

#[test]
fn no_two_calls_that_meet_ever_run_together_and_all_of_them_run() {
    let claims = [
        ResourceClaim::default(),
        ResourceClaim::alone(),
        claim(&["/a"], &[]),
        claim(&[], &["/a/b"]),
        claim(&["/b"], &["/a"]),
        using(NetworkUse::Changes, &[], &["/c"]),
        using(NetworkUse::Reads, &["/c"], &[]),
        claim(&["/c"], &[]).in_context(true),
    ];
    let mut pick = picks(7);
    for _ in 0..300 {
        let locks = ResourceLocks::default();
        let line = [None, Some(locks.line())];
        let callers = [None, Some("anna"), Some("bert")];
        let mut calls: Vec<Known> = Vec::new();
        let mut left = 30;
        while left > 0 || !calls.is_empty() {
            match pick(4) {
                0 if left > 0 => {
                    left -= 1;
                    let caller = pick(callers.len());
                    let turn = locks.turn(line[pick(2)], callers[caller]);
                    calls.push(Known {
                        turn,
                        caller,
                        claim: None,
                        news: None,
                    });
                }
                1 if !calls.is_empty() => {
                    let at = pick(calls.len());
                    if calls[at].claim.is_none() {
                        let claim = claims[pick(claims.len())].clone();
                        let runs = calls[at].turn.claim(claim.clone(), pick(2) == 0);
                        calls[at].claim = Some(claim);
                        if !runs {
                            calls[at].await_turn();
                        }
                    }
                }
                2 if !calls.is_empty() => {
                    let at = pick(calls.len());
                    let call = &mut calls[at];
                    if call.claim.is_none() || call.news.is_some() {
                        continue;
                    }
                    if pick(2) == 0 {
                        call.turn.lack_place();
                    } else if !call.turn.begin() {
                        call.await_turn();
                    }
                }
                _ => {
                    let mut running: Vec<usize> = (0..calls.len())
                        .filter(|at| runs(&calls[*at].turn))
                        .collect();
                    let decided = calls.iter().all(|call| call.claim.is_some());
                    if running.is_empty() && decided && !calls.is_empty() {
                        running.extend(
                            calls
                                .iter()
                                .position(|call| call.news.is_none() && call.turn.begin()),
                        );
                        assert!(!running.is_empty(), "nothing goes on");
                    }
                    if !running.is_empty() {
                        calls.remove(running[pick(running.len())]);
                    }
                }
            }
            calls.iter_mut().for_each(Known::hear);
            never_meet(&calls);
        }
        is_empty(&locks);
    }
}
