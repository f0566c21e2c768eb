use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use serde_json::json;
use tokio::sync::Semaphore;
use toolcell_spec::{Input, InvocationId, ToolInvocation};

use super::{
    BackgroundPlace, CallChange, CallEnd, CallEntry, Calls, ENDED_BYTES_MAX, ENDED_MAX, EntryEnd,
    ResultWeight, UNWRITTEN_MAX, remember, surplus,
};

fn ids(count: usize) -> Vec<InvocationId> {
    (0..count).map(|_| InvocationId::new()).collect()
}

#[test]
fn the_oldest_results_leave_the_memory_first() {
    let ids = ids(ENDED_MAX + 2);
    let weight = |bytes| ResultWeight {
        bytes,
        is_read: false,
        is_recorded: true,
    };
    let of = |bytes| {
        ids.iter()
            .map(|id| (*id, weight(bytes), false))
            .collect::<Vec<_>>()
    };
    assert_eq!(surplus(of(1)), &ids[..2]);
    assert!(surplus(of(1).split_off(2)).is_empty());
    assert_eq!(surplus(of(ENDED_BYTES_MAX / 4)), &ids[..ENDED_MAX - 2]);
    let large = vec![(ids[0], weight(ENDED_BYTES_MAX + 1), false)];
    assert_eq!(surplus(large), [ids[0]], "the log has it");
}

#[test]
fn the_oldest_calls_whose_results_are_lost_are_forgotten_first() {
    let ids = ids(UNWRITTEN_MAX + 2);
    let mut unwritten = BTreeSet::new();
    ids.iter().for_each(|id| remember(&mut unwritten, *id));
    let mut latest = ids.clone();
    latest.sort_unstable();
    assert!(unwritten.iter().eq(&latest[2..]));
}

#[test]
fn a_result_that_was_read_leaves_before_one_that_was_not_and_one_on_record_before_another() {
    let ids = ids(ENDED_MAX + 3);
    // From the oldest on: neither, read, recorded, both.
    let weight = |at: usize| ResultWeight {
        bytes: 1,
        is_read: at == 1 || at == 3,
        is_recorded: at == 2 || at == 3,
    };
    let kept: Vec<_> = ids
        .iter()
        .enumerate()
        .map(|(at, id)| (*id, weight(at), false))
        .collect();
    assert_eq!(surplus(kept), [ids[3], ids[1], ids[2]]);
}

fn begin(calls: &Calls) -> Arc<CallEntry> {
    let entry = Arc::new(CallEntry::new("anna".into(), None).identified_as(InvocationId::new()));
    calls.enter(&entry);
    entry
}

fn end(calls: &Calls, entry: &CallEntry) {
    entry.end(CallEnd::lost(entry.id().unwrap()));
    calls.make_room(entry);
}

#[tokio::test]
async fn a_result_stays_until_the_request_that_waits_for_it_has_it() {
    let calls = Calls::default();
    let awaited = begin(&calls);
    // The oldest: ids begin with the time in milliseconds.
    std::thread::sleep(Duration::from_millis(5));
    let mut waits = Box::pin(awaited.step(false));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waits.as_mut().poll(&mut context).is_pending());
    end(&calls, &awaited);
    for _ in 0..ENDED_MAX {
        end(&calls, &begin(&calls));
    }
    assert_eq!(calls.entries.lock().len(), ENDED_MAX, "results are bounded");
    assert!(matches!(waits.await, CallChange::Ended(EntryEnd::Ended(_))));
    end(&calls, &begin(&calls));
    assert!(
        matches!(awaited.look(), Err(EntryEnd::Recorded)),
        "no request waits for it any more"
    );
}

#[test]
fn a_call_goes_on_without_its_request_only_as_far_as_there_is_room() {
    let open = Arc::new(Semaphore::new(1));
    let room = || {
        let permit = Arc::clone(&open).try_acquire_owned().ok()?;
        Some(BackgroundPlace { _permit: permit })
    };
    let calls = Calls::default();
    let first = begin(&calls);
    let second = begin(&calls);
    assert!(first.leave(room) && !second.leave(room));
    assert!(first.leave(room), "it has its room already");
    calls.lose(&first);
    assert!(second.leave(room));
    end(&calls, &second);
    assert!(room().is_some());
}

#[test]
fn a_record_with_words_of_a_later_version_has_ended_all_the_same() {
    let end = CallEnd::lost(InvocationId::new());
    let invocation =
        serde_json::to_value(ToolInvocation::planned("a.b", &Input::from_text("{}"))).unwrap();
    let mut record = json!({ "invocation": invocation, "result": end.result });
    assert!(CallEnd::read(record.clone()).is_some());
    record["persistence"] = json!([{ "strategy": "a_word_of_later" }]);
    record["events"] = json!({ "not": "a list" });
    assert!(CallEnd::read(record.clone()).is_some());
    record["result"] = json!(null);
    assert!(
        CallEnd::read(record).is_none(),
        "a call without a result has not ended"
    );
}
