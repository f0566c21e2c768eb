//! The outputs of a hook, and the effect of each.
//!
//! Promise: Hooks only narrow.

use serde_json::{Value, json};
use toolcell_executor::hook::{HookOutput, UpdatedOutput};
use toolcell_spec::{Input, digest};

use crate::support::{Called, Test};

use super::doubles::{RecordingHook, declaring, hooked};

fn updating(id: &'static str, input: Value) -> std::sync::Arc<RecordingHook> {
    RecordingHook::new(id)
        .before([HookOutput::UpdatedInput(input)])
        .shared()
}

/// Checks that every mutation starts where the previous one ended, from `model_input` to `call_input`.
#[track_caller]
pub(super) fn check_chain(called: &Called) {
    let record = called.record();
    let mut at = record["invocation"]["model_input_ref"].clone();
    for mutation in record["result"]["input_mutations"].as_array().unwrap() {
        assert_eq!(mutation["from_input_ref"], at);
        at = mutation["to_input_ref"].clone();
    }
    assert_eq!(record["invocation"]["call_input_ref"], at);
}

#[tokio::test]
async fn an_updated_input_is_what_the_tool_gets_and_the_result_says_who_changed_it() {
    let sent = "{ \"query\": \"x\", \"limit\": 3.0 }";
    let new = json!({"query": "y", "limit": 3, "order": "oldest"});
    let hook = updating("rewriter", new.clone());
    let called = Test::new("probe#defaults")
        .on(&hooked([&hook]))
        .call_text(sent)
        .await;
    assert_eq!(called.succeeded()["input"], new);
    let record = called.record();
    let invocation = &record["invocation"];
    assert_eq!(
        invocation["model_input"],
        json!({"query": "x", "limit": 3.0})
    );
    assert_eq!(invocation["model_input_ref"], digest(sent.as_bytes()));
    assert_eq!(
        invocation["observable_input"],
        json!({"query": "x", "limit": 3.0, "order": "newest"})
    );
    assert_eq!(
        (&invocation["permission_input"], &invocation["call_input"]),
        (&new, &new)
    );
    let mutations = record["result"]["input_mutations"].as_array().unwrap();
    assert_eq!(mutations.len(), 2, "the defaults, and the hook");
    assert_eq!(
        (&mutations[1]["source_type"], &mutations[1]["source_ref"]),
        (&json!("hook"), &json!("rewriter"))
    );
    // 3.0 and 3 differ as text, so the field counts as changed.
    assert_eq!(
        mutations[1]["changed_fields"],
        json!(["/limit", "/order", "/query"])
    );
    assert_eq!(
        called
            .events()
            .iter()
            .filter(|event| **event == "tool.input.mutated")
            .count(),
        2
    );
    check_chain(&called);
}

#[tokio::test]
async fn a_hook_sees_what_the_one_before_it_made_of_the_input() {
    let first = updating("first", json!({"a": 1, "b": 1}));
    let second = updating("second", json!({"a": 1, "b": 2}));
    let called = Test::new("probe#echo")
        .on(&hooked([&first, &second]))
        .call(json!({"a": 0}))
        .await;
    assert_eq!(called.succeeded()["input"], json!({"a": 1, "b": 2}));
    assert_eq!(first.seen()[0].call.input, json!({"a": 0}));
    assert_eq!(second.seen()[0].call.input, json!({"a": 1, "b": 1}));
    let changed: Vec<_> = called
        .0
        .result
        .input_mutations
        .iter()
        .map(|mutation| mutation.changed_fields.clone())
        .collect();
    assert_eq!(
        changed,
        [
            vec!["/a".to_owned(), "/b".to_owned()],
            vec!["/b".to_owned()]
        ]
    );
    check_chain(&called);
}

#[tokio::test]
async fn an_updated_input_is_held_against_the_schema_again() {
    for bad in [
        json!({"query": 7}),
        json!({"query": "x", "more": 1}),
        json!([]),
        json!(null),
    ] {
        let called = Test::new("probe#defaults")
            .on(&hooked([&updating("rewriter", bad.clone())]))
            .call(json!({"query": "x"}))
            .await;
        called
            .failed("hook_blocked", "call_input_mismatch")
            .ended("denied", "blocked")
            .never_ran();
        assert!(called.0.decisions.is_empty(), "{bad}");
        // The hook that changed the input is recorded although the tool never ran.
        assert_eq!(
            called.0.result.input_mutations.last().unwrap().source_ref,
            "rewriter"
        );
    }
}

#[tokio::test]
async fn a_hook_may_fill_an_internal_field_and_must_fill_it_rightly() {
    let right = json!({"query": "x", "zz_internal_7f3": 7});
    let called = Test::new("probe#internal")
        .on(&hooked([&updating("filler", right.clone())]))
        .call(json!({"query": "x"}))
        .await;
    assert_eq!(called.succeeded()["input"], right);
    assert_eq!(
        called.0.result.input_mutations[0].changed_fields,
        ["/zz_internal_7f3"]
    );
    assert_eq!(
        called.record()["invocation"]["model_input"],
        json!({"query": "x"})
    );
    check_chain(&called);

    let wrong = updating("filler", json!({"query": "x", "zz_internal_7f3": "seven"}));
    let called = Test::new("probe#internal")
        .on(&hooked([&wrong]))
        .call(json!({"query": "x"}))
        .await;
    called
        .failed("hook_blocked", "call_input_mismatch")
        .ended("denied", "blocked")
        .never_ran();
}

#[tokio::test]
async fn the_decision_is_made_on_what_hooks_made_of_the_input() {
    let hook = updating("rewriter", json!({"path": "/etc/hostname"}));
    let called = Test::new("probe#read")
        .on(&hooked([&hook]))
        .call(json!({"path": "/tmp/harmless"}))
        .await;
    called.failed("permission_denied", "not_granted");
    let invocation = &called.record()["invocation"];
    assert_eq!(
        invocation["permission_input"],
        json!({"path": "/etc/hostname"})
    );
    assert_eq!(
        invocation["permission_input_ref"],
        Input::from_value(json!({"path": "/etc/hostname"})).reference()
    );
}

#[tokio::test]
async fn additional_context_stands_beside_the_result_in_the_order_of_the_hooks() {
    let first = RecordingHook::new("first").before([HookOutput::AdditionalContext(json!("a"))]);
    let first = first
        .after([HookOutput::AdditionalContext(json!("c"))])
        .shared();
    let second = RecordingHook::new("second")
        .before([HookOutput::AdditionalContext(json!({"b": 1}))])
        .shared();
    let called = Test::new("probe#counter")
        .on(&hooked([&first, &second]))
        .call(json!({}))
        .await;
    assert_eq!(called.succeeded(), json!({"count": 1}));
    assert_eq!(
        called.0.result.additional_context,
        [json!("a"), json!({"b": 1}), json!("c")]
    );
}

#[tokio::test]
async fn a_message_is_in_the_event_trail_and_not_for_the_model() {
    let hook = RecordingHook::new("talker").before([HookOutput::Message("checking".to_owned())]);
    let hook = hook
        .after([HookOutput::Message("checked".to_owned())])
        .shared();
    let called = Test::new("probe#counter")
        .on(&hooked([&hook]))
        .call(json!({}))
        .await;
    let said: Vec<Value> = called
        .0
        .events
        .iter()
        .filter(|event| event.event_type.as_str().ends_with("completed"))
        .map(|event| event.data["messages"].clone())
        .collect();
    assert_eq!(said, [json!(["checking"]), json!(["checked"])]);
    assert!(
        !serde_json::to_string(&called.0.result)
            .unwrap()
            .contains("check")
    );
}

#[tokio::test]
async fn an_updated_output_replaces_what_the_tool_said() {
    let hook = RecordingHook::new("cleaner")
        .after([HookOutput::UpdatedOutput(UpdatedOutput::structured(
            json!({"n": 8}),
        ))])
        .shared();
    let called = Test::new("probe#good_structured")
        .on(&hooked([&hook]))
        .call(json!({}))
        .await;
    assert_eq!(called.succeeded(), json!({"n": 8}));
    called.ended("succeeded", "succeeded");
    assert_eq!(
        called.0.result.model_facing_content[0].as_text(),
        Some("{\"n\":8}")
    );
    assert_eq!(
        hook.seen()[1].result.as_ref().unwrap().structured_content,
        Some(json!({"n": 7})),
        "it saw the old one"
    );

    let hook = RecordingHook::new("cleaner")
        .after([HookOutput::UpdatedOutput(UpdatedOutput::structured(
            json!({"words": "other"}),
        ))])
        .shared();
    let called = Test::new("probe#summary")
        .on(&hooked([&hook]))
        .call(json!({}))
        .await;
    assert!(
        !serde_json::to_string(&called.0.result.model_facing_content)
            .unwrap()
            .contains("words for the model")
    );
}

#[tokio::test]
async fn an_updated_output_is_held_against_the_schema_and_a_bad_one_is_not_passed_on() {
    let hook = RecordingHook::new("spoiler")
        .after([HookOutput::UpdatedOutput(UpdatedOutput::structured(
            json!({"n": "eight"}),
        ))])
        .shared();
    let called = Test::new("probe#good_structured")
        .on(&hooked([&hook]))
        .call(json!({}))
        .await;
    called
        .failed("execution_failed", "result_mapping_failed")
        .ended("failed", "failed");
    assert!(
        !serde_json::to_string(&called.0.result)
            .unwrap()
            .contains("eight")
    );
}

#[tokio::test]
async fn a_stop_after_the_tool_leaves_the_result_and_gives_its_reason() {
    let hook = RecordingHook::new("late")
        .after([HookOutput::Stop {
            reason: "enough".to_owned(),
        }])
        .shared();
    let called = Test::new("probe#counter")
        .on(&hooked([&hook]))
        .call(json!({}))
        .await;
    assert_eq!(called.succeeded(), json!({"count": 1}));
    assert_eq!(
        called.0.result.additional_context,
        [json!({"stop": "enough", "hook": "late"})]
    );
}

#[tokio::test]
async fn an_output_that_belongs_to_another_moment_does_nothing() {
    let hook = RecordingHook::new("confused").before([HookOutput::UpdatedOutput(
        UpdatedOutput::structured(json!({"count": 7})),
    )]);
    let hook = hook
        .after([HookOutput::UpdatedInput(json!({"a": 1}))])
        .shared();
    let called = Test::new("probe#counter")
        .on(&hooked([&hook]))
        .call(json!({}))
        .await;
    assert_eq!(called.succeeded(), json!({"count": 1}));
    assert!(called.0.result.input_mutations.is_empty());
}

#[tokio::test]
async fn changed_fields_are_pointers_that_a_program_can_follow() {
    let hook = updating(
        "rewriter",
        json!({"a/b": {"c~d": 2}, "kept": [1], "list": [1, 2]}),
    );
    let bytes = declaring("hook_pointers", |_| {});
    let input = json!({"a/b": {"c~d": 1}, "kept": [1], "list": [1], "gone": null});
    let called = Test::of_bytes(bytes, None)
        .on(&hooked([&hook]))
        .call(input.clone())
        .await;
    let record = called.record();
    let changed = record["result"]["input_mutations"][0]["changed_fields"]
        .as_array()
        .unwrap();
    assert_eq!(changed, &["/a~1b/c~0d", "/gone", "/list"].map(Value::from));
    let given = &record["invocation"]["call_input"];
    for pointer in changed.iter().map(|pointer| pointer.as_str().unwrap()) {
        assert_ne!(input.pointer(pointer), given.pointer(pointer), "{pointer}");
    }
}

#[tokio::test]
async fn a_hook_changes_only_what_the_mutation_policy_of_the_tool_lets_it_change() {
    let with = |policy: Value| {
        declaring("mutated", move |declaration| {
            declaration["input_contract"] = json!({
                "model_input_schema": { "type": "object", "properties": { "a": {}, "b": {}, "zz": {} } },
                "internal_only_fields": ["zz"], "mutation_policy": policy,
            });
        })
    };
    let call = async |policy: Value, new: Value| {
        let host = hooked([&updating("rewriter", new)]);
        Test::of_bytes(with(policy), None)
            .on(&host)
            .call(json!({"a": 1, "b": 1}))
            .await
    };
    let (b, zz) = (json!({"a": 1, "b": 2}), json!({"a": 1, "b": 1, "zz": 1}));
    for (policy, new) in [
        (json!({"hooks": "deny"}), &b),
        (json!("deny"), &zz),
        (json!({"hooks": "internal_only"}), &b),
        (json!({"fields": ["/a"]}), &b),
        (json!({"hooks": "internal_only", "fields": ["/a"]}), &zz),
    ] {
        let called = call(policy, new.clone()).await;
        called
            .failed("hook_blocked", "mutation_forbidden")
            .ended("denied", "blocked")
            .never_ran();
        assert!(called.0.result.input_mutations.is_empty());
    }
    for (policy, new) in [
        (json!({"permission_prompt": "deny"}), &b),
        (json!({"hooks": "internal_only"}), &zz),
        (json!({"fields": ["/b"]}), &b),
        (json!({}), &b),
    ] {
        assert_eq!(call(policy, new.clone()).await.succeeded(), *new);
    }
    let unknown = call(json!({"models": "deny"}), b).await;
    unknown
        .failed("capability_gap", "declaration_not_honoured")
        .never_ran();
}
