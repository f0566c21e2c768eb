//! Sensitive values reach the tool, and nothing that is stored or shown.
//!
//! Promise: A secret of a request is for its call alone.
//! Promise: Sensitive arguments reach only the tool.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolcell_executor::hook::{HookOutput, Registration, UpdatedOutput};
use toolcell_spec::{AbortReason, digest};

use crate::support::{Called, Canary, Test, scratch};

use super::cancellation::CancelsAt;
use super::doubles::{
    RecordingHook, RecordingListener, echoing, home_with_own_payloads, hooked, own_host,
};

const CANARY: Canary = Canary::new("pw-7f3/Qz+tT\"x0~long-enough");

/// A tool that answers its input, with changed fields of its declaration, output contract and permission profile.
fn tool(name: &str, declaration: Value, profile: Value) -> Vec<u8> {
    echoing(name, |toolkit| {
        let fields = toolkit["declarations"][0].as_object_mut().unwrap();
        fields.extend(declaration.as_object().unwrap().clone());
        fields.insert("permission_profile_ref".to_owned(), json!("p"));
        let mut permission =
            json!({"schema_version": "0.2.0", "permission_profile_id": "p", "risk_level": "low"});
        permission
            .as_object_mut()
            .unwrap()
            .extend(profile.as_object().unwrap().clone());
        toolkit["permission_profiles"] = json!([permission]);
    })
}

fn redacted(called: &Called) -> Vec<Value> {
    let events = called
        .0
        .events
        .iter()
        .filter(|event| event.event_type.as_str() == "tool.result.redacted");
    events.map(|event| event.data.clone()).collect()
}

#[tokio::test]
async fn a_tool_that_copies_a_sensitive_argument_everywhere_gives_it_to_nobody() {
    for fail in [false, true] {
        let listener = Arc::new(RecordingListener::default());
        let heard = Arc::clone(&listener);
        let host = own_host(|settings| settings.listener(heard));
        let called = Test::new("probe#leak")
            .on(&host)
            .call(json!({"secret": CANARY.value(), "fail": fail}))
            .await;
        CANARY.is_not_in("the record", &called.record().to_string());
        assert_eq!(
            *called.0.invocation.model_input,
            json!({"secret": "[redacted]", "fail": fail})
        );
        assert_eq!(called.0.result.redaction_state, "partial");
        let [told] = &redacted(&called)[..] else {
            panic!("{called:?}")
        };
        assert_eq!(told["rule"], "sensitive_fields");
        assert!(!told["pointers"].as_array().unwrap().is_empty(), "{told}");
        // The record has what a listener heard, also what the tool logged.
        let heard: Vec<&str> = listener.heard().iter().map(|(_, event)| *event).collect();
        assert!(heard.ends_with(&called.events()), "{heard:?}");
        assert!(heard.contains(&"tool.invocation.logged"));
        let record = called.record();
        for place in [
            "stdout [redacted]",
            "stderr [redacted]",
            "log [redacted]",
            "progress [redacted]",
        ] {
            assert!(
                record.to_string().contains(place),
                "{place} was not there at all"
            );
        }
        if fail {
            assert_eq!(called.message(), "message [redacted]");
            assert_eq!(record["invocation"]["error_detail"], "detail [redacted]");
        } else {
            assert_eq!(
                called.0.result.structured_content,
                Some(json!({"structured": "[redacted]"}))
            );
            assert_eq!(
                called.0.result.ui_facing_summary.as_deref(),
                Some("summary [redacted]")
            );
            assert_eq!(
                called.0.result.content[0].as_text(),
                Some("content [redacted]")
            );
        }
        // The value is split over two messages; both halves are redacted.
        assert_eq!(
            called.0.progress[1].message.as_deref(),
            Some("progress [redacted]")
        );
        assert_eq!(
            called.0.progress[2].message.as_deref(),
            Some("progress [redacted]")
        );
    }
}

#[tokio::test]
async fn the_tool_itself_gets_what_was_sent() {
    // `called.succeeded` would show the redacted copy, so the test uses the measured size of the answer.
    let text = format!("{{\"text\": \"{}\"}}", "x".repeat(40));
    let bytes = tool(
        "told",
        json!({"input_contract": {"model_input_schema": {"type": "object"}, "sensitive_fields": ["text"]}}),
        json!({}),
    );
    let called = Test::of_bytes(bytes, None).call_text(&text).await;
    let usage = called.0.result.usage.as_ref().unwrap();
    assert!(usage.output_bytes.used >= text.len() as u64, "{usage:?}");
    assert!(!called.record().to_string().contains("xxxxxxxx"));
}

#[tokio::test]
async fn sensitive_fields_are_names_at_any_depth_and_pointers_to_a_place() {
    let input = json!({"user": "alice", "token": CANARY.value(), "nested": {"pin": "1234"}});
    let called = Test::new("probe#sensitive").call(input).await;
    let shown = json!({"user": "alice", "token": "[redacted]", "nested": {"pin": "[redacted]"}});
    let invocation = &called.record()["invocation"];
    for input in [
        "model_input",
        "observable_input",
        "permission_input",
        "call_input",
    ] {
        assert_eq!(invocation[input], shown, "{input}");
    }
    assert_eq!(
        called.succeeded()["input"],
        shown,
        "an answer that is the argument is redacted, too"
    );
    CANARY.is_not_in("the record", &called.record().to_string());
    assert!(!called.record().to_string().contains("1234\""));

    let called = Test::new("probe#sensitive")
        .call(json!({"user": "bob"}))
        .await;
    assert_eq!(called.0.result.redaction_state, "none");
    assert!(redacted(&called).is_empty());
}

#[tokio::test]
async fn a_reference_does_not_let_anybody_guess_the_argument() {
    let input = json!({"user": "alice", "nested": {"pin": "1234"}});
    let mut seen = Vec::new();
    for _ in 0..2 {
        let called = Test::new("probe#sensitive").call(input.clone()).await;
        let record = called.record().to_string();
        assert!(
            !record.contains(digest(input.to_string().as_bytes()).trim_start_matches("sha256:"))
        );
        let invocation = &called.record()["invocation"];
        let reference = invocation["model_input_ref"].as_str().unwrap().to_owned();
        assert!(reference.starts_with("blake3-keyed:"));
        for input in ["observable", "permission", "call"] {
            assert_eq!(
                invocation[format!("{input}_input_ref")],
                reference.as_str(),
                "it still connects"
            );
        }
        seen.push(reference);
    }
    assert_ne!(
        seen[0], seen[1],
        "the same argument in another call has another reference"
    );
}

#[tokio::test]
async fn a_text_that_is_not_what_it_would_be_written_as_is_not_kept_beside() {
    let text = format!(
        "{{ \"user\":\"a\",\n\"token\": {} }}",
        json!(CANARY.value())
    );
    let called = Test::new("probe#sensitive").call_text(&text).await;
    CANARY.is_not_in("the record", &called.record().to_string());
    assert!(
        called.record()["invocation"]
            .get("model_input_text")
            .is_none()
    );
    // Text that is not JSON has no fields to search, so all of it is redacted.
    let called = Test::new("probe#sensitive")
        .call_text(&text.replace('}', ""))
        .await;
    called.failed("invalid_arguments", "arguments_not_json");
    CANARY.is_not_in("the record", &called.record().to_string());
    assert_eq!(*called.0.invocation.model_input, "[redacted]");
    // The error of a mismatch contains no value.
    let called = Test::new("probe#sensitive")
        .call(json!({"user": 1, "token": CANARY.value()}))
        .await;
    called.failed("schema_validation_failed", "schema_mismatch");
    CANARY.is_not_in("the record", &called.record().to_string());
}

#[tokio::test]
async fn secrets_that_a_request_brings_are_redacted_and_hide_no_argument() {
    let secrets = [("API_KEY", CANARY.value())];
    // A hook knows it from elsewhere.
    let told = json!({ "text": CANARY.value() });
    let hook = RecordingHook::new("teller")
        .before([HookOutput::UpdatedInput(told.clone())])
        .shared();
    let called = Test::new("probe#echo")
        .on(&hooked([&hook]))
        .secrets(&secrets)
        .call(json!({}))
        .await;
    assert_eq!(called.succeeded()["input"]["text"], "[secret API_KEY]");
    CANARY.is_not_in("the record", &called.record().to_string());
    // The caller chose it, so that it could hide any argument.
    let encoded = data_encoding::BASE64.encode(format!("user:{}", CANARY.value()).as_bytes());
    for input in [
        told,
        json!({ "text": [{ "in": encoded }] }),
        json!({ (CANARY.value()): 1 }),
    ] {
        let called = Test::new("probe#echo").secrets(&secrets).call(input).await;
        called
            .failed("invalid_arguments", "request_secret_repeated")
            .never_ran();
        assert_eq!(*called.0.invocation.model_input, "[redacted]");
        CANARY.is_not_in("the record", &called.record().to_string());
    }
    // A parsed number has fewer digits.
    let digits = "12345678901234567890123";
    let test = Test::new("probe#echo").secrets(&[("API_KEY", digits)]);
    let called = test.call_text(&format!("{{\"text\":{digits}}}")).await;
    called
        .failed("invalid_arguments", "request_secret_repeated")
        .never_ran();
    assert!(!called.record().to_string().contains(digits));
    Test::new("probe#echo")
        .secrets(&secrets)
        .call(json!({ "text": "another" }))
        .await
        .succeeded();
}

#[tokio::test]
async fn hooks_see_redacted_copies_and_what_they_leave_alone_returns() {
    let shown = json!({"user": "alice", "token": "[redacted]", "nested": {"pin": "[redacted]"}});
    let changed =
        json!({"user": "mallory", "token": "[redacted]", "nested": {"pin": "[redacted]"}});
    let hook = RecordingHook::new("changer")
        .before([HookOutput::UpdatedInput(changed)])
        .shared();
    let input = json!({"user": "alice", "token": CANARY.value(), "nested": {"pin": "1234"}});
    let called = Test::new("probe#sensitive")
        .on(&hooked([&hook]))
        .call(input)
        .await;
    let seen = hook.seen();
    assert_eq!(seen[0].call.input, shown);
    CANARY.is_not_in("what hooks saw", &format!("{seen:?}"));
    // The guest got the real token, and its answer is redacted because it equals the value.
    let expected =
        json!({"user": "mallory", "token": "[redacted]", "nested": {"pin": "[redacted]"}});
    assert_eq!(called.succeeded()["input"], expected);
    assert_eq!(
        called.0.result.redaction_state, "partial",
        "the tool answered the values themselves"
    );
    let mutations = &called.0.result.input_mutations;
    assert_eq!(mutations[0].changed_fields, ["/user"]);
    assert_eq!(
        *mutations[0].from_input_ref,
        *called.0.invocation.model_input_ref
    );
    assert_eq!(
        Some(mutations[0].to_input_ref.as_str()),
        called.0.invocation.call_input_ref.as_deref()
    );
    CANARY.is_not_in("the record", &called.record().to_string());
}

#[tokio::test]
async fn a_call_that_was_canceled_before_it_began_has_no_sensitive_argument_on_record() {
    let test = Test::new("probe#sensitive");
    test.cancellation().cancel(AbortReason::UserInterruption);
    let called = test
        .call(json!({"user": "alice", "token": CANARY.value()}))
        .await;
    called
        .failed("canceled", "canceled")
        .ended("canceled", "canceled")
        .never_ran();
    CANARY.is_not_in("the record", &called.record().to_string());
    assert_eq!(
        *called.0.invocation.model_input, "[redacted]",
        "their shape was not checked yet"
    );
}

#[tokio::test]
async fn a_value_that_a_hook_puts_into_a_sensitive_field_is_kept_back_as_well() {
    let changed = json!({"user": "alice", "token": CANARY.value()});
    let hook = RecordingHook::new("giver")
        .before([HookOutput::UpdatedInput(changed)])
        .shared();
    let called = Test::new("probe#sensitive")
        .on(&hooked([&hook]))
        .call(json!({"user": "alice"}))
        .await;
    called.succeeded();
    CANARY.is_not_in("the record", &called.record().to_string());
    assert_eq!(
        called.0.invocation.call_input.as_ref().unwrap()["token"],
        "[redacted]"
    );
}

#[tokio::test]
async fn rules_of_the_output_contract_hold_in_every_representation() {
    let rules = json!(["token", "/deep/*/id", {"pattern": "AKIA[0-9A-Z]{16}"}]);
    let bytes = tool(
        "ruled",
        json!({"output_contract": {"redaction_rules": rules}}),
        json!({}),
    );
    let input = json!({
        "token": CANARY.value(),
        "deep": [{"id": 77001122, "name": "kept"}],
        "note": "the token is pw-7f3/Qz+tT\"x0~long-enough, the key AKIAABCDEFGHIJKLMNOP, the id 77001122",
    });
    let called = Test::of_bytes(bytes, None).call(input).await;
    let told = redacted(&called);
    let rules: Vec<_> = told.iter().map(|event| &event["rule"]).collect();
    assert_eq!(
        rules,
        [
            "redaction_rules/0",
            "redaction_rules/1",
            "redaction_rules/2"
        ]
    );
    let first = told[0]["pointers"].as_array().unwrap();
    assert!(
        first.contains(&json!("/structured_content/token")),
        "{told:?}"
    );
    let expected = json!({
        "token": "[redacted]",
        "deep": [{"id": "[redacted]", "name": "kept"}],
        "note": "the token is [redacted], the key [redacted], the id [redacted]",
    });
    let result = &called.0.result;
    let answer = result
        .structured_content
        .clone()
        .unwrap_or_else(|| panic!("{result:?}"));
    assert_eq!(answer, expected);
    CANARY.is_not_in(
        "what the model sees",
        &serde_json::to_string(&result.model_facing_content).unwrap(),
    );
    let told = redacted(&called);
    assert_eq!(told[0]["redaction_state"], "partial");
    let pointers = told
        .iter()
        .map(|event| event["pointers"].as_array().unwrap());
    let places: Vec<&Value> = pointers.flatten().collect();
    for place in [
        "/structured_content/token",
        "/structured_content/deep/0/id",
        "/structured_content",
    ] {
        assert!(places.contains(&&json!(place)), "{place}: {places:?}");
    }
}

#[tokio::test]
async fn a_small_answer_of_many_short_strings_is_searched_for_letters_of_all_alphabets() {
    let rules = ['@', '#', '%', '~'].map(|sign| json!({"pattern": format!(r"\w+{sign}\w+")}));
    let bytes = tool(
        "listed",
        json!({"output_contract": {"redaction_rules": rules}}),
        json!({}),
    );
    let mut lines: Vec<String> = (0..150).map(|n| format!("item number {n:>4}")).collect();
    lines.push("to me@example or".to_owned());
    let called = Test::of_bytes(bytes, None)
        .call(json!({"lines": lines}))
        .await;
    lines[150] = "to [redacted] or".to_owned();
    assert_eq!(called.succeeded(), json!({"lines": lines}));
}

/// A call that was canceled gets no thread for checks any more, as one that comes while all are taken.
#[tokio::test]
async fn an_answer_of_some_hundred_bytes_needs_no_thread_for_checks() {
    let bytes = tool(
        "ready",
        json!({"output_contract": {"redaction_rules": ["token"]}}),
        json!({}),
    );
    let cancels = Arc::new(CancelsAt("tool.hook.post.started", OnceLock::new()));
    let listener = Arc::clone(&cancels);
    let lines: Vec<String> = (0..20).map(|n| format!("line {n} of the page")).collect();
    let page = |token: &str| json!({ "token": token, "lines": lines });
    let updated = UpdatedOutput::structured(page(CANARY.value()));
    let hook = RecordingHook::new("pager").after([HookOutput::UpdatedOutput(updated)]);
    let hook = Registration::new(hook.shared());
    let host = own_host(|settings| settings.listener(listener).hook(hook));
    let test = Test::of_bytes(bytes, None).on(&host);
    assert!(cancels.1.set(test.cancellation()).is_ok());
    let called = test.call(json!({ "a": 1 })).await;
    assert_eq!(called.succeeded(), page("[redacted]"));
}

#[tokio::test]
async fn a_contract_can_keep_all_of_an_answer_back() {
    let bytes = tool(
        "mute",
        json!({"output_contract": {"redaction_rules": [""]}}),
        json!({}),
    );
    let called = Test::of_bytes(bytes, None)
        .call(json!({"a": CANARY.value()}))
        .await;
    called
        .failed("result_redacted", "redacted_by_contract")
        .ended("redacted", "failed");
    assert_eq!(called.0.result.redaction_state, "full");
    assert!(called.0.result.structured_content.is_none());
    let told = redacted(&called);
    assert_eq!(told[0]["rule"], "redaction_rules/0");
    let pointers = told[0]["pointers"].as_array().unwrap();
    assert!(pointers.contains(&json!("/structured_content")), "{told:?}");
}

#[tokio::test]
async fn rules_that_cannot_be_kept_do_not_load() {
    for rules in [
        json!([{"pattern": "("}]),
        json!([{"pattern": "(a{1000}){1000}"}]),
        json!([1]),
        json!(vec!["a"; 33]),
    ] {
        let bytes = tool(
            "unruly",
            json!({"output_contract": {"redaction_rules": rules}}),
            json!({}),
        );
        Test::of_bytes(bytes, None).load().await.unwrap_err();
    }
}

#[tokio::test]
async fn a_tool_whose_data_is_sensitive_leaves_no_argument_and_no_word_in_its_records() {
    for (name, profile) in [
        ("required", json!({"redaction_required": true})),
        ("secretive", json!({"data_sensitivity": "secret"})),
        (
            "strange",
            json!({"data_sensitivity": "a word of somebody's own"}),
        ),
    ] {
        let bytes = tool(&format!("sensitive_{name}"), json!({}), profile);
        let called = Test::of_bytes(bytes, None)
            .call(json!({"a": CANARY.value(), "b": {"c": 12345678}}))
            .await;
        assert_eq!(
            *called.0.invocation.model_input,
            json!({"a": "[redacted]", "b": "[redacted]"}),
            "{name}"
        );
        let record = called.record().to_string();
        CANARY.is_not_in("the record", &record);
        assert!(!record.contains("12345678"), "{record}");
    }
    for word in ["public", "internal"] {
        let bytes = tool(
            &format!("plain_{word}"),
            json!({}),
            json!({"data_sensitivity": word}),
        );
        let called = Test::of_bytes(bytes, None).call(json!({"a": 1})).await;
        assert_eq!(*called.0.invocation.model_input, json!({"a": 1}));
        assert_eq!(called.0.result.redaction_state, "none");
    }
}

#[tokio::test]
async fn a_large_answer_of_sensitive_data_is_kept_by_reference_without_a_preview() {
    let (_guard, folder) = scratch();
    let host = own_host(|settings| {
        settings
            .home(home_with_own_payloads(&folder))
            .inline_bytes_max(100)
    });
    let bytes = tool(
        "bulky",
        json!({}),
        json!({"data_sensitivity": "confidential"}),
    );
    let many: serde_json::Map<String, Value> = (0..200)
        .map(|n| (format!("field{n}"), json!("b")))
        .collect();
    let called = Test::of_bytes(bytes, None)
        .on(&host)
        .call(Value::Object(many))
        .await;
    let record = called.record();
    assert_eq!(record["persistence"][0]["strategy"], "ref_only");
    assert_eq!(record["persistence"][0]["preview_size_bytes"], 0);
    assert_eq!(record["result"]["content"][0]["preview"], "");
}

#[tokio::test]
async fn short_values_are_taken_out_where_they_are_words_and_do_not_riddle_the_answer() {
    let called = Test::new("probe#sensitive")
        .call(json!({"user": "for a or b", "token": "or"}))
        .await;
    assert_eq!(called.succeeded()["input"]["user"], "for a [redacted] b");
    assert_eq!(
        called.0.invocation.call_input.as_ref().unwrap()["token"],
        "[redacted]"
    );
}

#[tokio::test]
async fn short_values_that_the_tool_repeats_are_taken_out_of_its_answer() {
    let properties =
        json!({ "pin": true, "remember": { "type": "boolean" }, "amounts": true, "note": true });
    let contract = json!({ "model_input_schema": { "type": "object", "properties": properties },
        "sensitive_fields": ["pin", "/remember", "amounts"] });
    let bytes = tool("short", json!({ "input_contract": contract }), json!({}));
    let input = json!({ "pin": 123, "remember": true, "amounts": [1.5, "ab"], "note": ["ab", "1.5", 1.5, 123, false, "a"] });
    let called = Test::of_bytes(bytes, None).call(input).await;
    let r = "[redacted]";
    let shown = json!({ "pin": r, "remember": r, "amounts": r, "note": [r, r, r, r, r, "a"] });
    assert_eq!(called.succeeded(), shown);
    // The arguments themselves are hidden by their names alone.
    let record = called.record()["result"].to_string();
    assert!(
        !record.contains("1.5,") && !record.contains(":123") && !record.contains("[123"),
        "{record}"
    );
}

#[tokio::test]
async fn short_values_are_taken_out_of_the_sentences_of_an_answer() {
    let properties = json!({ "tok": { "type": "string" }, "said": { "type": "string" } });
    let contract = json!({ "model_input_schema": { "type": "object", "properties": properties },
        "sensitive_fields": ["tok"] });
    let bytes = tool("sentence", json!({ "input_contract": contract }), json!({}));
    for (tok, said, shown) in [
        ("4711", "wrong PIN: 4711.", "wrong PIN: [redacted]."),
        (
            "1",
            "1 of 11, step_1, (1)",
            "[redacted] of 11, step_1, ([redacted])",
        ),
        ("a-b", "no a-b, but a-bc", "no [redacted], but a-bc"),
    ] {
        let called = Test::of_bytes(bytes.clone(), None)
            .call(json!({ "tok": tok, "said": said }))
            .await;
        assert_eq!(
            called.succeeded(),
            json!({ "tok": "[redacted]", "said": shown })
        );
        let search = called.0.result.representations().transcript_search_text;
        assert!(search.contains(shown), "{search}");
        assert_eq!(called.0.result.redaction_state, "partial");
    }
}

#[tokio::test]
async fn an_answer_of_sensitive_data_shows_no_short_argument() {
    let profile = json!({ "redaction_required": true });
    let bytes = tool(
        "required",
        json!({ "input_contract": { "model_input_schema": { "type": "object" } } }),
        profile,
    );
    let called = Test::of_bytes(bytes, None)
        .call(json!({ "a": 1, "b": "ab" }))
        .await;
    assert_eq!(
        called.succeeded(),
        json!({ "a": "[redacted]", "b": "[redacted]" })
    );
}

#[tokio::test]
async fn arguments_of_another_shape_are_kept_by_digest_alone() {
    let sent = json!({ "user": "alice", "token": CANARY.value() });
    let twice = Value::String(sent.to_string());
    for input in [
        twice,
        json!([sent]),
        json!({ "user": "alice", "tokn": CANARY.value() }),
        json!({ "user": [sent] }),
    ] {
        let called = Test::new("probe#sensitive")
            .call_text(&input.to_string())
            .await;
        assert!(called.0.result.is_error, "{input}");
        CANARY.is_not_in("the record", &called.record().to_string());
        assert_eq!(*called.0.invocation.model_input, "[redacted]", "{input}");
        assert!(
            called
                .0
                .invocation
                .model_input_ref
                .starts_with("blake3-keyed:")
        );
    }
    // A schema that takes any field, and text in a field that is JSON.
    let properties = json!({ "auth": { "type": "object" }, "note": { "type": "string" } });
    let contract = json!({ "model_input_schema": { "type": "object", "properties": properties }, "strict": false,
        "sensitive_fields": ["token", "auth"] });
    let bytes = tool("open", json!({ "input_contract": contract }), json!({}));
    let canary = CANARY.value();
    for input in [
        json!({ "tokn": canary }),
        json!({ "To-Ken": canary }),
        json!({ "note": json!({ "token": canary }).to_string() }),
        json!({ "note": json!([json!({ "token": canary }).to_string()]).to_string() }),
        json!({ "auth": { canary: 1 } }),
        json!({ "auth": { "a": [{ canary: 1 }] }, "note": format!("has {canary}") }),
    ] {
        let called = Test::of_bytes(bytes.clone(), None)
            .call(input.clone())
            .await;
        assert!(!called.0.result.is_error, "{input}");
        CANARY.is_not_in(
            &format!("the record of {input}"),
            &called.record().to_string(),
        );
    }
}

#[tokio::test]
async fn text_that_is_the_structured_answer_shows_no_more_than_that() {
    let rules = json!(["/card/cvv"]);
    let bytes = tool(
        "texts",
        json!({ "output_contract": { "redaction_rules": rules } }),
        json!({}),
    );
    let called = Test::of_bytes(bytes, None)
        .call(json!({ "card": { "cvv": 918_273_645 } }))
        .await;
    assert_eq!(called.succeeded()["card"]["cvv"], "[redacted]");
    let shown = called.record()["result"].to_string();
    // So long that no id, digest or size has it by chance.
    assert!(!shown.contains("918273645"), "{shown}");
}

#[tokio::test]
async fn a_value_that_is_a_word_of_the_records_breaks_none_of_them() {
    for word in [
        "succeeded",
        "tool.invocation.started",
        "toolcell/0.1.0",
        "invocation_id",
        "[redacted]",
        "partial_result",
    ] {
        let called = Test::new("probe#leak").call(json!({"secret": word})).await;
        called.ended("succeeded", "succeeded");
    }
}

#[tokio::test]
async fn a_long_sensitive_text_is_found_in_what_the_tool_says() {
    let long: String = (0..30_000).map(|n| format!("{n},")).collect();
    let called = Test::new("probe#leak").call(json!({"secret": long})).await;
    let record = called.record().to_string();
    assert!(
        !record.contains("1200,1201,1202") && !record.contains("29000,29001"),
        "{} bytes",
        record.len()
    );
}

#[tokio::test]
async fn what_the_operator_can_give_does_not_name_a_sensitive_host() {
    let id = "redacted_hosts.interface";
    let bytes = echoing("redacted_hosts", |toolkit| {
        toolkit["interfaces"] = json!([{ "schema_version": "0.2.0", "interface_id": id,
            "tool_id": "redacted_hosts.echo", "permission_subjects": { "/url": "url" } }]);
        toolkit["permission_profiles"] = json!([{ "schema_version": "0.2.0", "permission_profile_id": "p",
            "risk_level": "low", "access_kinds": ["network"], "network_scope": "any" }]);
        let declaration = &mut toolkit["declarations"][0];
        declaration["interface_ref"] = json!(id);
        declaration["permission_profile_ref"] = json!("p");
        let schema = json!({ "type": "object", "properties": { "url": { "type": "string" } } });
        declaration["input_contract"] =
            json!({ "model_input_schema": schema, "sensitive_fields": ["url"] });
    });
    let called = Test::of_bytes(bytes, None)
        .call(json!({ "url": "https://payroll-7f3.internal.test" }))
        .await;
    called
        .failed("permission_denied", "not_granted")
        .never_ran();
    let record = called.record();
    let needed = &record["result"]["error"]["needs_authorization"];
    assert_eq!(
        (&needed["access_kind"], &needed["subject"]),
        (&json!("network"), &json!("[redacted]"))
    );
    assert!(!record.to_string().contains("payroll"), "{record:#}");
}

/// A tool that answers its input, with these sensitive fields.
fn keeping_back(name: &str, fields: Value) -> Vec<u8> {
    let contract = json!({"model_input_schema": {"type": "object"}, "strict": false, "sensitive_fields": fields});
    tool(name, json!({"input_contract": contract}), json!({}))
}

#[tokio::test]
async fn a_sensitive_number_is_found_as_it_was_written() {
    let number = "1234567890123456789";
    let text = format!(
        r#"{{"n": {number}, "note": "it is {number}", "deep": [1.50000000, "1.50000000"]}}"#
    );
    let called = Test::of_bytes(keeping_back("exact", json!(["n", "deep"])), None)
        .call_text(&text)
        .await;
    assert_eq!(called.succeeded()["note"], "it is [redacted]");
    let record = called.record().to_string();
    assert!(
        !record.contains("123456789012345") && !record.contains("1.50000000"),
        "{record}"
    );
}

#[tokio::test]
async fn what_was_redacted_is_not_redacted_again() {
    let rules = json!([{"pattern": "redacted"}]);
    let bytes = tool(
        "twice",
        json!({"output_contract": {"redaction_rules": rules}}),
        json!({}),
    );
    let called = Test::of_bytes(bytes, None)
        .call(json!({"note": "it is redacted"}))
        .await;
    assert_eq!(called.succeeded()["note"], "it is [redacted]");
}

#[tokio::test]
async fn many_long_sensitive_values_hold_up_no_other_call() {
    let value = |n: usize| {
        let digits = (0..8).flat_map(|part| digest(format!("{n} {part}").as_bytes()).into_bytes());
        // Characters that programs escape in different ways, which make the most automaton states.
        let written = digits.map(|digit| {
            " /~(*'\"<"
                .chars()
                .nth(usize::from(digit) % 16)
                .unwrap_or(char::from(digit))
        });
        written.take(500).collect::<String>()
    };
    let values: Vec<String> = (0..7).map(value).collect();
    let bytes = keeping_back("lengthy", json!(["values"]));
    let host = own_host(|settings| settings);
    // The first call loads the tool.
    Test::of_bytes(bytes.clone(), None)
        .on(&host)
        .call(json!({}))
        .await
        .succeeded();
    let mut longest = Duration::ZERO;
    let began = Instant::now();
    let mut last = began;
    let called = tokio::select! {
        called = Test::of_bytes(bytes, None).on(&host).call(json!({ "values": values })) => called,
        () = others(&mut longest, &mut last) => unreachable!(),
    };
    let took = began.elapsed();
    // A call that never yields ends before the other work runs at all.
    longest = longest.max(last.elapsed());
    assert_eq!(called.succeeded(), json!({ "values": "[redacted]" }));
    // A machine that is busy with others holds this thread up, too.
    assert!(
        longest < (took / 4 * 3).max(Duration::from_millis(100)),
        "{longest:?} of {took:?}"
    );
}

/// Other work on the thread: runs forever, and measures its longest wait, and when it ran last.
async fn others(longest: &mut Duration, last: &mut Instant) {
    loop {
        *longest = last.elapsed().max(*longest);
        *last = Instant::now();
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_call_with_nothing_to_keep_back_is_recorded_as_ever() {
    let called = Test::new("probe#echo")
        .call(json!({"password": CANARY.value()}))
        .await;
    assert_eq!(
        *called.0.invocation.model_input,
        json!({"password": CANARY.value()})
    );
    assert_eq!(called.0.result.redaction_state, "none");
    assert_eq!(called.0.persistence[0].redaction_state, "none");
}
