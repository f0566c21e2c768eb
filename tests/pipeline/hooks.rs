//! Phases 6 and 11: when hooks run, their input, and the outcome of a call whose hook fails.

use serde_json::{Value, json};
use toolcell_executor::hook::HookOutput;

use crate::support::Test;

use super::doubles::{RecordingHook, hooked};

#[tokio::test]
async fn a_hook_runs_before_and_after_a_success_and_sees_copies_of_the_records() {
    let hook = RecordingHook::new("watcher").shared();
    let called = Test::new("probe#defaults")
        .on(&hooked([&hook]))
        .call(json!({"query": "x"}))
        .await;
    called.ended("succeeded", "succeeded");
    assert_eq!(hook.moments(), ["before", "after"]);
    let [before, after] = hook.seen().try_into().unwrap();
    for seen in [&before, &after] {
        assert_eq!(seen.call.invocation_id, called.0.invocation.invocation_id);
        assert_eq!(seen.call.tool_id, "probe.defaults");
        assert_eq!(
            seen.call.input,
            json!({"query": "x", "limit": 10, "order": "newest"}),
            "with defaults"
        );
    }
    assert_eq!(
        after.result.unwrap().structured_content.unwrap()["ran"],
        "defaults"
    );
    assert_eq!(called.0.invocation.hook_refs, ["watcher"]);
}

#[tokio::test]
async fn failure_hooks_run_on_a_failure_and_only_then() {
    for (tool, code) in [
        ("hostile#panic", "guest_panicked"),
        ("probe#bad_json", "content_invalid"),
        ("probe#partial", "second_half_missing"),
    ] {
        let hook =
            RecordingHook::new("watcher").after([HookOutput::AdditionalContext(json!("not this"))]);
        let hook = hook
            .on_failure([HookOutput::AdditionalContext(json!({"hint": "try again"}))])
            .shared();
        let called = Test::new(tool).on(&hooked([&hook])).call(json!({})).await;
        assert_eq!(hook.moments(), ["before", "on_failure"], "{tool}");
        let seen = hook.seen().pop().unwrap().result.unwrap();
        assert_eq!(seen.error.unwrap().error_code, code);
        assert_eq!(
            called.0.result.additional_context,
            [json!({"hint": "try again"})]
        );
        let events = called.events();
        assert!(
            events.contains(&"tool.hook.failure.started")
                && !events.contains(&"tool.hook.post.started")
        );
    }
}

#[tokio::test]
async fn a_call_that_never_ran_has_no_hook_after_it() {
    let hook = RecordingHook::new("watcher").shared();
    let host = hooked([&hook]);
    Test::new("probe#read")
        .on(&host)
        .call(json!({"path": "/a"}))
        .await
        .failed("permission_denied", "not_granted");
    assert_eq!(hook.moments(), ["before"]);
    Test::new("probe#read")
        .on(&host)
        .call(json!({"wrong": 1}))
        .await
        .failed("schema_validation_failed", "schema_mismatch");
    assert_eq!(
        hook.moments(),
        ["before"],
        "arguments that are wrong concern no hook"
    );
}

#[tokio::test]
async fn a_hook_stops_a_call_before_it_runs_and_before_any_other_hook() {
    let stopper = RecordingHook::new("stopper")
        .before([HookOutput::Stop {
            reason: "not on a Friday".to_owned(),
        }])
        .shared();
    let later = RecordingHook::new("later").shared();
    let called = Test::new("probe#counter")
        .on(&hooked([&stopper, &later]))
        .call(json!({}))
        .await;
    called
        .failed("hook_blocked", "hook_stop")
        .ended("denied", "blocked")
        .never_ran();
    assert_eq!(
        called.message(),
        "the hook stopper stopped the call: not on a Friday"
    );
    assert!(later.seen().is_empty() && called.0.decisions.is_empty());
    assert_eq!(called.0.invocation.hook_refs, ["stopper"]);
}

#[tokio::test]
async fn a_hook_that_fails_before_a_tool_blocks_the_call_and_its_words_stay_in_the_journal() {
    let hook = RecordingHook::new("broken")
        .failing_before("no route to 10.0.0.7")
        .shared();
    let called = Test::new("probe#counter")
        .on(&hooked([&hook]))
        .call(json!({}))
        .await;
    called
        .failed("hook_blocked", "hook_failed")
        .ended("denied", "blocked")
        .never_ran();
    let error = called.0.result.error.as_ref().unwrap();
    assert_eq!(error.policy_refs, ["hook:broken"]);
    assert!(
        !serde_json::to_string(&called.0.result)
            .unwrap()
            .contains("10.0.0.7")
    );
    assert_eq!(
        called.record()["invocation"]["error_detail"],
        "no route to 10.0.0.7"
    );
    let completed = called
        .0
        .events
        .iter()
        .find(|event| event.event_type.as_str() == "tool.hook.pre.completed")
        .unwrap();
    assert_eq!(
        completed.data["error"], "no route to 10.0.0.7",
        "a crash completes the hook, too"
    );
}

#[tokio::test]
async fn a_hook_that_fails_after_a_tool_leaves_a_note_and_the_result_as_it_was() {
    let broken = RecordingHook::new("broken")
        .failing_after("disk full")
        .shared();
    let later = RecordingHook::new("later").shared();
    let called = Test::new("probe#counter")
        .on(&hooked([&broken, &later]))
        .call(json!({}))
        .await;
    assert_eq!(called.succeeded(), json!({"count": 1}));
    called.ended("succeeded", "succeeded");
    let notes: Vec<Value> = called
        .0
        .events
        .iter()
        .filter(|event| event.event_type.as_str() == "tool.hook.post.completed")
        .map(|event| json!([event.data["hook_id"], event.data["error"]]))
        .collect();
    assert_eq!(
        notes,
        [json!(["broken", "disk full"]), json!(["later", null])]
    );
    assert_eq!(later.moments(), ["before", "after"]);
}

#[tokio::test]
async fn a_hook_grants_nothing() {
    // The decision comes after the hook, by the same rules, whatever the hook answers.
    let hook = RecordingHook::new("generous").before([HookOutput::AdditionalContext(
        json!({"permission": "allow"}),
    )]);
    let hook = hook.shared();
    let called = Test::new("probe#read")
        .on(&hooked([&hook]))
        .call(json!({"path": "/etc/hostname"}))
        .await;
    called
        .failed("permission_denied", "not_granted")
        .ended("denied", "denied")
        .never_ran();
}
