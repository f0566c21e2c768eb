//! Turns, and which calls a placeless call delays.

use super::super::{PASSES_MAX, QueueTurn, ResourceLocks};
use super::{claim, is_empty, picks};

const CALLERS: [&str; 3] = ["anna", "bert", "carl"];

#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive(usize),
    End,
}

/// All calls write to one folder; `elsewhere` counts a step's calls that wait for another, never free folder.
fn order(steps: &[Step], mut elsewhere: impl FnMut() -> usize) -> Vec<usize> {
    let locks = ResourceLocks::default();
    let arrive = |caller: &str, folder: &str| {
        let turn = locks.turn(None, Some(caller));
        let runs = turn.claim(claim(&[], &[folder]), true);
        (turn, runs)
    };
    let (other, runs) = arrive("other", "/b");
    assert!(runs);
    let mut order = Vec::new();
    let mut running = None;
    let mut waiting = Vec::new();
    let mut stuck = vec![other];
    for (at, step) in steps.iter().enumerate() {
        for n in 0..elsewhere() {
            let (turn, runs) = arrive(CALLERS[(at + n) % CALLERS.len()], "/b/inner");
            assert!(!runs);
            stuck.push(turn);
        }
        match step {
            Step::Arrive(caller) => {
                let (turn, runs) = arrive(CALLERS[*caller], "/a");
                if runs {
                    order.push(at);
                    running = Some(turn);
                } else {
                    waiting.push((at, turn));
                }
            }
            Step::End => {
                drop(running.take());
                if let Some(next) = waiting
                    .iter()
                    .position(|(_, turn): &(usize, QueueTurn)| turn.begin())
                {
                    let (at, turn) = waiting.remove(next);
                    order.push(at);
                    running = Some(turn);
                }
            }
        }
    }
    drop((running, waiting, stuck));
    is_empty(&locks);
    order
}

#[test]
fn calls_that_wait_elsewhere_change_nothing_about_who_is_first() {
    let mut pick = picks(3);
    for round in 0..300 {
        let arrivals = 1 + pick(20);
        let mut steps: Vec<Step> = (0..arrivals + pick(arrivals))
            .map(|_| Step::Arrive(pick(CALLERS.len())))
            .collect();
        for _ in 0..steps.len() {
            let at = 1 + pick(steps.len());
            steps.insert(at, Step::End);
        }
        let mut noise = picks(round);
        assert_eq!(order(&steps, || noise(3)), order(&steps, || 0), "{steps:?}");
    }
}

#[test]
fn a_caller_with_many_calls_elsewhere_is_first_here_when_it_came_first() {
    let locks = ResourceLocks::default();
    let wanting = |caller: &str, folder: &str| {
        let turn = locks.turn(None, Some(caller));
        turn.claim(claim(&[], &[folder]), true);
        turn
    };
    let runs = wanting("carl", "/a");
    let _elsewhere = wanting("carl", "/b");
    let _flood: Vec<QueueTurn> = (0..50).map(|_| wanting("anna", "/b")).collect();
    let anna = wanting("anna", "/a");
    let bert = [(); 3].map(|()| wanting("bert", "/a"));
    drop(runs);
    assert!(bert.iter().all(|turn| !turn.begin()), "he passes her");
    assert!(anna.begin());
}

#[test]
fn new_callers_do_not_pass_the_second_call_of_another_because_of_one_that_waits_elsewhere() {
    let locks = ResourceLocks::default();
    let wanting = |caller: &str, folder: &str| {
        let turn = locks.turn(None, Some(caller));
        turn.claim(claim(&[], &[folder]), true);
        turn
    };
    let _elsewhere = wanting("other", "/b");
    let _stuck = wanting("stuck", "/b");
    let mut running = wanting("first", "/a");
    let mut patient: Vec<QueueTurn> = (0..3).map(|_| wanting("patient", "/a")).collect();
    for n in 0..20 {
        let mut new = wanting(&format!("new {n}"), "/a");
        std::mem::swap(&mut running, &mut new);
        // The call that ran ends, and one of his has its turn before the new one.
        drop(new);
        patient.retain(|turn| !turn.begin());
        assert!(
            running.begin(),
            "the next call waits for one that has ended"
        );
        if patient.is_empty() {
            return;
        }
        assert!(
            n < 6,
            "calls that came later pass his: {} wait",
            patient.len()
        );
    }
}

/// A call that waits for `/a` at its turn and was passed as often as possible.
fn unlucky(locks: &ResourceLocks) -> QueueTurn {
    let unlucky = locks.turn(None, Some("anna"));
    assert!(!unlucky.claim(claim(&[], &["/a"]), false));
    for _ in 0..PASSES_MAX {
        unlucky.lack_place();
        let passing = locks.turn(None, Some("bert"));
        assert!(passing.claim(claim(&[], &["/a"]), true));
        assert!(!unlucky.begin());
    }
    unlucky
}

#[tokio::test]
async fn a_call_that_is_passed_no_more_delays_no_call_that_does_not_meet_it() {
    let locks = ResourceLocks::default();
    let unlucky = unlucky(&locks);
    let [early, late, stranger] =
        ["bert", "carl", "dave"].map(|caller| locks.turn(None, Some(caller)));
    assert!(
        !early.claim(claim(&[], &["/a", "/b"]), true),
        "it passes the call once more"
    );
    unlucky.lack_place();
    assert!(
        !late.claim(claim(&[], &["/a", "/c"]), true),
        "it passes the call once more"
    );
    for folder in ["/b", "/c"] {
        let beside = locks.turn(None, Some("eve"));
        assert!(
            beside.claim(claim(&[], &[folder]), true),
            "it waits behind a call that waits for the unlucky one"
        );
    }
    assert!(stranger.claim(claim(&["/b"], &[]), true));
    assert!(!early.begin() && !late.begin());
    assert!(unlucky.begin());
    drop((unlucky, stranger));
    early.come().await;
    assert!(early.begin());
    drop(early);
    late.come().await;
    assert!(late.begin());
    drop(late);
    is_empty(&locks);
}

#[test]
fn a_call_that_was_passed_meanwhile_is_passed_no_more_when_it_waits_for_no_call_without_a_place() {
    let locks = ResourceLocks::default();
    let unlucky = unlucky(&locks);
    unlucky.lack_place();
    let writer = locks.turn(None, Some("bert"));
    assert!(!writer.claim(claim(&[], &["/a", "/b"]), true));
    assert!(locks.queue().news(writer.id).is_some());
    let reader = || {
        let turn = locks.turn(None, Some("carl"));
        let runs = turn.claim(claim(&["/b"], &[]), true);
        (turn, runs)
    };
    let (first, runs) = reader();
    assert!(runs);
    assert!(unlucky.begin());
    drop(unlucky);
    assert!(!reader().1, "readers pass the writer for ever");
    drop(first);
    assert!(writer.begin());
}

#[test]
fn calls_of_one_caller_keep_their_order_however_late_they_are_decided_on() {
    let locks = ResourceLocks::default();
    let line = Some(locks.line());
    let runs = locks.turn(None, Some("other"));
    assert!(runs.claim(claim(&[], &["/a", "/b"]), true));
    let [first, second, third] = [(); 3].map(|()| locks.turn(line, Some("anna")));
    let between = locks.turn(None, Some("bert"));
    assert!(!third.claim(claim(&[], &["/a"]), true));
    assert!(!between.claim(claim(&[], &["/a"]), true));
    assert!(!second.claim(claim(&[], &["/a", "/b"]), true));
    assert!(!first.claim(claim(&[], &["/b"]), true));
    drop(runs);
    let mut waiting = vec![(3, third), (0, between), (2, second), (1, first)];
    let mut order = Vec::new();
    while !waiting.is_empty() {
        let next = waiting.iter().position(|(_, turn)| turn.begin());
        order.push(waiting.remove(next.unwrap()).0);
    }
    assert_eq!(
        order
            .iter()
            .filter(|at| **at > 0)
            .copied()
            .collect::<Vec<i32>>(),
        [1, 2, 3],
        "{order:?}"
    );
    let other = order.iter().position(|at| *at == 0).unwrap();
    assert!(
        other < 2,
        "the call of another waits for more than one of hers: {order:?}"
    );
}
