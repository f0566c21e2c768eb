//! Changes of the input by hooks: `model_input` stays as it was sent, and every change is recorded exactly.
//!
//! Promise: `model_input` stays.

use serde_json::{Map, Value, json};
use toolcell_executor::hook::{HookOutput, Registration};
use toolcell_spec::HookEvent::{PermissionRequest, PreToolUse};
use toolcell_spec::{EventType, ToolEvent, digest};

use crate::support::{Called, Test};

use super::doubles::{RecordingHook, hooked, own_host, with_internal_field};

/// Checks the chain of mutations from the sent input to the one that ran.
#[track_caller]
fn check_chain(called: &Called) {
    let record = called.record();
    let invocation = &record["invocation"];
    let mut at = invocation["model_input_ref"].clone();
    let mut passed = vec![at.clone()];
    for mutation in record["result"]["input_mutations"]
        .as_array()
        .into_iter()
        .flatten()
    {
        assert_eq!(mutation["from_input_ref"], at);
        at = mutation["to_input_ref"].clone();
        passed.push(at.clone());
    }
    for input in [
        "observable_input_ref",
        "permission_input_ref",
        "call_input_ref",
    ] {
        assert!(
            passed.contains(&invocation[input]),
            "{input} is not on the way"
        );
    }
    assert_eq!(invocation["call_input_ref"], at);
}

#[tokio::test]
async fn what_was_sent_stays_byte_for_byte_whatever_hooks_do() {
    let odd = [
        r#"{"b":1.0,"a":"\u0041\/é","z":1e2 , "n":-0.0}"#,
        "{\n\t\"nested\" : { \"y\" : [ ] , \"x\" : null }\r\n}",
        r#"{"big":12345678901234567890,"deep":{"\u006bey":[1.50,{"a":{}}]}}"#,
    ];
    for sent in odd {
        let hooks = [
            ("first", json!({"a": 1})),
            ("second", json!({"a": 1, "b": {"c": 2}})),
        ];
        let host = own_host(|settings| {
            settings.hooks(
                hooks
                    .iter()
                    .map(|(id, input)| {
                        let hook = RecordingHook::new(id)
                            .before([HookOutput::UpdatedInput(input.clone())]);
                        Registration::new(hook.shared())
                    })
                    .collect(),
            )
        });
        let called = Test::new("probe#echo").on(&host).call_text(sent).await;
        assert_eq!(called.succeeded()["input"], json!({"a": 1, "b": {"c": 2}}));
        let record = called.record();
        let invocation = &record["invocation"];
        assert_eq!(invocation["model_input_ref"], digest(sent.as_bytes()));
        let text = invocation["model_input_text"]
            .as_str()
            .map_or_else(|| invocation["model_input"].to_string(), str::to_owned);
        assert_eq!(text, sent);
        assert_eq!(
            invocation["model_input"],
            serde_json::from_str::<Value>(sent).unwrap()
        );
        check_chain(&called);
    }
}

#[tokio::test]
async fn an_update_that_changes_nothing_is_no_change() {
    let sent = r#"{"b": 1.0, "a": [1, 2]}"#;
    let hook = RecordingHook::new("idle")
        .before([HookOutput::UpdatedInput(json!({"a": [1, 2], "b": 1.0}))])
        .shared();
    let called = Test::new("probe#echo")
        .on(&hooked([&hook]))
        .call_text(sent)
        .await;
    assert!(called.0.result.input_mutations.is_empty());
    assert_eq!(called.succeeded()["input_text"], sent);
    check_chain(&called);
}

/// A random value, different for each state.
fn any(random: &mut u64, depth: u32) -> Value {
    *random = random
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    let roll = (*random >> 33) % if depth == 0 { 4 } else { 6 };
    match roll {
        0 => json!(null),
        1 => json!((*random >> 40) % 3),
        2 => json!(1.5),
        3 => json!("text"),
        4 => (0..(*random >> 50) % 3)
            .map(|_| any(random, depth - 1))
            .collect(),
        _ => {
            let names = ["a", "b", "c/d", "e~f", ""];
            let count = (*random >> 45) % 4;
            let at =
                |i: u64| names[usize::try_from((*random >> (i * 7 + 13)) % 5).unwrap()].to_owned();
            let chosen: Vec<String> = (0..count).map(at).collect();
            Value::Object(
                chosen
                    .into_iter()
                    .map(|name| (name, any(random, depth - 1)))
                    .collect(),
            )
        }
    }
}

/// Copies the value at `pointer` from `source` to `target`, or removes it if `source` has none.
fn carry(pointer: &str, source: &Value, target: &mut Value) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let key = name.replace("~1", "/").replace("~0", "~");
    let fields = target.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    match source.pointer(pointer) {
        Some(value) => fields.insert(key, value.clone()),
        None => fields.remove(&key),
    };
}

#[tokio::test]
async fn changed_fields_are_exactly_what_differs() {
    let mut random = 7;
    let mut changes = 0;
    for _ in 0..60 {
        let object = |random: &mut u64| {
            let fields = ["p", "q", "r/s"].map(|name| (name.to_owned(), any(random, 3)));
            Value::Object(Map::from_iter(fields))
        };
        let from = object(&mut random);
        let to = object(&mut random);
        let hook = RecordingHook::new("changer")
            .before([HookOutput::UpdatedInput(to.clone())])
            .shared();
        let called = Test::new("probe#echo")
            .on(&hooked([&hook]))
            .call(from.clone())
            .await;
        assert_eq!(called.succeeded()["input"], to);
        let Some(mutation) = called.0.result.input_mutations.first() else {
            assert_eq!(from, to);
            continue;
        };
        let mut rebuilt = from.clone();
        for pointer in &mutation.changed_fields {
            changes += 1;
            let before = from.pointer(pointer);
            let after = to.pointer(pointer);
            assert_ne!(before, after, "{pointer} did not change");
            let both_objects =
                before.is_some_and(Value::is_object) && after.is_some_and(Value::is_object);
            assert!(
                !both_objects,
                "{pointer} could say more exactly what changed"
            );
            carry(pointer, &to, &mut rebuilt);
        }
        assert_eq!(rebuilt, to, "what is not named did not change");
    }
    assert!(changes > 100, "{changes}");
}

#[tokio::test]
async fn a_hook_fills_an_internal_field_of_a_tool_without_a_runtime_schema() {
    let component = with_internal_field("internal_plain");
    let with = async |updated: Value, input: Value| {
        let hook = RecordingHook::new("filler")
            .before([HookOutput::UpdatedInput(updated)])
            .shared();
        let host = own_host(|settings| settings.hook(Registration::new(hook)));
        Test::of_bytes(component.clone(), None)
            .on(&host)
            .call(input)
            .await
    };
    let filled = json!({"query": "x", "zz_internal_7f3": 7});
    let called = with(filled.clone(), json!({"query": "x"})).await;
    assert_eq!(
        called.statuses().0,
        "succeeded",
        "{:?}",
        called.0.result.error
    );
    let record = called.record();
    assert_eq!(record["invocation"]["call_input"], filled);
    assert_eq!(record["invocation"]["model_input"], json!({"query": "x"}));
    let mutation = &record["result"]["input_mutations"][0];
    assert_eq!(
        (&mutation["source_type"], &mutation["source_ref"]),
        (&json!("hook"), &json!("filler"))
    );
    assert_eq!(mutation["changed_fields"], json!(["/zz_internal_7f3"]));

    // A caller may not set the internal field, and a hook's other changes must still match the model schema.
    let called = with(filled, json!({"query": "x", "zz_internal_7f3": 1})).await;
    called
        .failed("schema_validation_failed", "schema_mismatch")
        .never_ran();
    // The internal field is checked too, by the schema that the records show.
    for (updated, pointer) in [
        (json!({"query": 7, "zz_internal_7f3": 1}), "/query"),
        (
            json!({"query": "x", "zz_internal_7f3": "seven"}),
            "/zz_internal_7f3",
        ),
    ] {
        let called = with(updated, json!({"query": "x"})).await;
        called
            .failed("hook_blocked", "call_input_mismatch")
            .never_ran();
        let told = |event: &&ToolEvent| event.event_type == EventType::ValidationFailed;
        let told = called.0.events.iter().find(told).unwrap();
        assert_eq!(told.data["which"], "schema");
        assert_eq!(told.data["pointers"], json!([pointer]));
        let mutation = &called.0.result.input_mutations[0];
        assert_eq!(told.data["input_ref"], mutation.to_input_ref);
        let message = told.data["message"].as_str().unwrap();
        assert!(!message.contains("zz_internal"), "{message}");
        let error = &called.record()["result"]["error"];
        assert_eq!(error["policy_refs"], json!(["hook:filler"]));
    }
}

#[tokio::test]
async fn no_error_for_a_model_names_an_internal_field() {
    let hook = RecordingHook::new("filler")
        .before([HookOutput::UpdatedInput(
            json!({"query": "x", "zz_internal_7f3": "no number"}),
        )])
        .shared();
    let called = Test::new("probe#internal")
        .on(&hooked([&hook]))
        .call(json!({"query": "x"}))
        .await;
    called
        .failed("hook_blocked", "call_input_mismatch")
        .never_ran();
    assert!(
        !called.message().contains("zz_internal"),
        "{}",
        called.message()
    );
    let shown = serde_json::to_string(&called.0.result.model_facing_content).unwrap();
    assert!(!shown.contains("zz_internal"), "{shown}");
    assert!(
        called.record()["invocation"]["error_detail"]
            .as_str()
            .unwrap()
            .contains("/zz_internal_7f3")
    );
}

#[tokio::test]
async fn a_guard_at_permission_request_hears_what_runs_whoever_changes_it_before() {
    let guard = RecordingHook::hearing("guard", &[PreToolUse, PermissionRequest]).shared();
    let late = json!({"query": "changed late", "limit": 1, "order": "newest"});
    let changer = RecordingHook::hearing("changer", &[PreToolUse, PermissionRequest])
        .at(PreToolUse, [HookOutput::UpdatedInput(late.clone())])
        .at(
            PermissionRequest,
            [HookOutput::UpdatedInput(
                json!({"query": "changed too late"}),
            )],
        )
        .shared();
    let called = Test::new("probe#defaults")
        .on(&hooked([&guard, &changer]))
        .call(json!({"query": "x"}))
        .await;
    let heard: Vec<Value> = guard
        .seen()
        .iter()
        .map(|seen| seen.call.input.clone())
        .collect();
    assert_eq!(heard[0]["query"], "x");
    assert_eq!(heard[1], late);
    assert_eq!(called.record()["invocation"]["call_input"], late);
}
