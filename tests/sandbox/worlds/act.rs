//! Components of ACT: made with its SDK (`tests/guests/act`), and hostile ones of component text.
//!
//! Promise: A component of another world gets no more.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolcell_spec::dialect::sections::with_custom;
use toolcell_spec::{AbortReason, ErrorClass, ErrorCode, EventType};

use super::{alone, with_namespace};
use crate::sandbox::{Heard, text};
use crate::support::{Called, Test, Toolcell, fixture, host, scratch};

/// Maximum delay after a deadline or a cancellation. This machine may be busy.
const SLACK: Duration = Duration::from_secs(3);

/// The text of all blocks of a result.
fn said(called: &Called) -> String {
    let record = called.record();
    let blocks = record["result"]["content"].as_array().unwrap().iter();
    blocks
        .filter(|block| block["type"] == "text")
        .map(|block| block["text"].as_str().unwrap())
        .collect()
}

/// Encodes texts, lists and maps that are short.
fn cbor(value: &Value) -> Vec<u8> {
    let head = |major: u8, length: usize| {
        let length = u8::try_from(length).unwrap();
        if length < 24 {
            vec![major << 5 | length]
        } else {
            vec![major << 5 | 24, length]
        }
    };
    match value {
        Value::String(text) => [head(3, text.len()), text.clone().into_bytes()].concat(),
        Value::Array(items) => {
            let items: Vec<Vec<u8>> = items.iter().map(cbor).collect();
            [head(4, items.len()), items.concat()].concat()
        }
        Value::Object(members) => {
            let encoded: Vec<Vec<u8>> = members
                .iter()
                .map(|(key, value)| [cbor(&key.clone().into()), cbor(value)].concat())
                .collect();
            [head(5, members.len()), encoded.concat()].concat()
        }
        other => panic!("{other}"),
    }
}

/// The test guest with a section that declares files, in this mode.
fn with_files(mode: &str) -> Vec<u8> {
    let constraints = json!([{ "path": "/**", "mode": mode }]);
    let section = json!({ "std": { "name": "files", "capabilities": { "wasi:filesystem": { "constraints": constraints } } } });
    with_custom(
        &fs::read(fixture("act")).unwrap(),
        "act:component",
        &cbor(&section),
    )
    .unwrap()
}

#[tokio::test]
async fn arguments_and_results_are_translated() {
    let hello = Test::new("act#hello").call(json!({ "name": "Ada" })).await;
    hello.ended("succeeded", "succeeded");
    assert_eq!(said(&hello), "Hello, Ada!");
    let twice = Test::new("act#twice")
        .call(json!({ "data": { "$bytes": "AQI=" } }))
        .await;
    assert_eq!(
        twice.succeeded(),
        json!({ "twice": { "$bytes": "AQIBAg==" } })
    );
    let picture = Test::new("act#picture").call(json!({})).await.record();
    let block = &picture["result"]["content"][0];
    assert_eq!(
        (&block["type"], &block["media_type"]),
        (&json!("image"), &json!("image/png"))
    );
}

#[tokio::test]
async fn arguments_are_held_against_the_schema_of_the_component() {
    Test::new("act#hello")
        .call(json!({ "name": 7 }))
        .await
        .failed("schema_validation_failed", "schema_mismatch")
        .never_ran();
    let odd = json!({ "data": { "$bytes": "not base64!" } });
    Test::new("act#twice")
        .call(odd)
        .await
        .failed("invalid_arguments", "arguments_not_encodable");
}

#[tokio::test]
async fn the_kind_of_an_error_becomes_its_class() {
    for (kind, class) in [
        ("std:invalid-args", "invalid_arguments"),
        ("std:not-found", "execution_failed"),
        ("std:timeout", "timeout"),
        ("std:capability-denied", "capability_gap"),
        ("acme:tired", "execution_failed"),
    ] {
        let called = Test::new("act#fail")
            .call(json!({ "kind": kind, "message": "no" }))
            .await;
        called.failed(class, kind);
        assert_eq!(called.message(), "no");
    }
}

#[tokio::test]
async fn a_stream_is_one_result_and_each_event_a_partial_one() {
    let called = Test::new("act#count")
        .call(json!({ "events": 3, "bytes": 2 }))
        .await;
    called.ended("succeeded", "succeeded");
    assert_eq!(said(&called), " 1 2 3end");
    let partial: Vec<&Value> = called
        .0
        .progress
        .iter()
        .filter_map(|update| update.partial_content.as_ref())
        .collect();
    assert_eq!(partial.len(), 4);
    assert_eq!(*partial[0], json!([{ "type": "text", "text": " 1" }]));
    // More events than are taken at once.
    let many = Test::new("act#count")
        .call(json!({ "events": 300, "bytes": 1 }))
        .await;
    assert!(said(&many).ends_with("299300end"));
}

#[tokio::test]
async fn what_came_before_an_error_is_kept_and_progress_is_no_part_of_it() {
    let called = Test::new("act#half").call(json!({})).await;
    called
        .failed("partial_failure", "acme:tired")
        .ended("partial_succeeded", "failed");
    assert_eq!(said(&called), "half of it");
    let reported: Vec<f64> = called
        .0
        .progress
        .iter()
        .filter_map(|update| update.percent)
        .collect();
    assert_eq!(reported, [25.0, 50.0]);
}

#[tokio::test]
async fn a_stream_is_bounded_in_events_and_in_bytes() {
    let events = Test::new("act#count")
        .call(json!({ "events": 20_000, "bytes": 1 }))
        .await;
    events.failed("result_too_large", "event_limit");
    let bytes = Test::new("act#count")
        .limit(|limits| limits.output_bytes = 1 << 20)
        .call(json!({ "events": 500, "bytes": 20_000 }))
        .await;
    bytes.failed("result_too_large", "output_limit");
}

#[test]
fn the_description_says_what_the_tools_claim_and_what_follows() {
    let file = fixture("act");
    let described = Toolcell::new(["describe", text(&file), "--json"])
        .run()
        .exits(0)
        .json();
    let of = |list: &str, tool: &str| {
        let records = described[list].as_array().unwrap();
        let own = |record: &&Value| {
            record["tool_id"] == format!("act.{tool}")
                || record["permission_profile_id"] == format!("act.{tool}.permission")
        };
        records
            .iter()
            .find(own)
            .unwrap_or_else(|| panic!("{tool}: {described:#}"))
            .clone()
    };
    let hello = of("interfaces", "hello");
    assert_eq!(
        (&hello["is_read_only"], &hello["is_destructive"]),
        (&json!(true), &json!(false))
    );
    let write = of("interfaces", "write");
    assert_eq!(
        (&write["is_read_only"], &write["is_destructive"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(of("interfaces", "twice")["timeout_ms"], 20_000);
    assert_eq!(
        of("declarations", "hello")["input_contract"]["model_input_schema"]["required"],
        json!(["name"])
    );
    let profile = of("permission_profiles", "read");
    assert_eq!(
        (&profile["risk_level"], &profile["access_kinds"]),
        (&json!("medium"), &json!([]))
    );
}

#[tokio::test]
async fn the_section_of_the_component_declares_files_and_grants_decide() {
    let (_dir, dir) = scratch();
    let file = dir.join("a.txt");
    fs::write(&file, "what is in it").unwrap();
    let read = || alone(with_files("ro"), Some("read"));
    let path = json!({ "path": text(&file) });
    let refused = read().call(path.clone()).await;
    refused
        .failed("permission_denied", "not_granted")
        .never_ran();
    assert!(
        refused.message().contains("--allow-read"),
        "{}",
        refused.message()
    );
    assert_eq!(
        said(&read().read(&dir).call(path.clone()).await),
        "what is in it"
    );
    // It declares reading, so that a grant to write lets it read.
    let input = json!({ "path": text(&file), "text": "new" });
    let written = alone(with_files("ro"), Some("write"))
        .write(&dir)
        .call(input.clone())
        .await;
    written.failed("capability_gap", "std:capability-denied");
    assert_eq!(fs::read_to_string(&file).unwrap(), "what is in it");
    let refused = alone(with_files("rw"), Some("write"))
        .read(&dir)
        .call(input)
        .await;
    refused
        .failed("permission_denied", "not_granted")
        .never_ran();
    // Without the section, a component asks for no files, although its runtime imports them.
    let none = Test::new("act#read").read(&dir).call(path).await;
    none.failed("capability_gap", "std:capability-denied");
    assert_eq!(read().load().await.unwrap()[0], "files.hello");
}

#[tokio::test]
async fn a_namespace_that_was_written_into_the_component_replaces_that_of_its_section() {
    for component in [fs::read(fixture("act")).unwrap(), with_files("ro")] {
        let names = alone(with_namespace(&component), None)
            .load()
            .await
            .unwrap();
        assert!(
            !names.is_empty() && names.iter().all(|name| name.starts_with("mine.")),
            "{names:?}"
        );
    }
}

#[tokio::test]
async fn a_section_that_cannot_be_kept_to_is_refused() {
    let refusal = alone(with_files("all"), None).load().await.unwrap_err();
    assert_eq!(
        (refusal.class, refusal.code),
        (ErrorClass::SetupRequired, ErrorCode::DescriptionInvalid)
    );
    assert!(
        refusal.message.contains("act:component"),
        "{}",
        refusal.message
    );
}

/// Tools that never end, each in another way.
const ENDLESS: [&str; 5] = [
    "act#spin",
    "act#spin_politely",
    "act#spin_in_a_stream",
    "act#sleep",
    "act#wait",
];

#[tokio::test]
async fn a_tool_that_never_ends_is_stopped_at_its_deadline() {
    // Otherwise the first call would wait for the guest to be built.
    Test::new("act#spin").load().await.unwrap();
    for tool in ENDLESS.into_iter().filter(|tool| *tool != "act#wait") {
        let began = Instant::now();
        let called = Test::new(tool).timeout_ms(300).call(json!({})).await;
        let code = called.0.result.error.as_ref().unwrap().error_code.clone();
        let expected: &[&str] = match tool {
            "act#spin" => &["epoch_deadline"],
            "act#sleep" => &["deadline_exceeded"],
            // They compute, and yield all the time.
            _ => &["epoch_deadline", "deadline_exceeded"],
        };
        assert!(expected.contains(&code.as_str()), "{tool}: {code}");
        called
            .failed("timeout", &code)
            .ended("timed_out", "timed_out");
        let wall = called.0.result.usage.as_ref().unwrap().wall_ms;
        assert!(
            wall.used >= 300 && began.elapsed() < Duration::from_millis(300) + SLACK,
            "{tool}: {wall:?}"
        );
    }
}

#[tokio::test]
async fn a_tool_that_waits_for_what_never_comes_is_stopped() {
    let called = Test::new("act#wait").timeout_ms(300).call(json!({})).await;
    let error = called.0.result.error.as_ref().unwrap();
    // The tool's own executor finds that nothing can wake the tool, or the engine, or the clock.
    assert!(
        ["guest_panicked", "guest_deadlocked", "deadline_exceeded"]
            .contains(&error.error_code.as_str()),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_tool_that_never_ends_is_stopped_by_its_fuel() {
    for tool in ["act#spin", "act#spin_politely", "act#spin_in_a_stream"] {
        let called = Test::new(tool)
            .limit(|limits| limits.fuel = 20_000_000)
            .call(json!({}))
            .await;
        called.failed("timeout", "fuel_exhausted");
        let fuel = called.0.result.usage.as_ref().unwrap().fuel;
        assert_eq!((fuel.used, fuel.limit), (20_000_000, 20_000_000), "{tool}");
    }
}

#[tokio::test]
async fn a_tool_that_never_ends_is_stopped_when_it_is_canceled() {
    Test::new("act#spin").load().await.unwrap();
    for tool in ENDLESS.into_iter().filter(|tool| *tool != "act#wait") {
        let began = Instant::now();
        let called = Test::new(tool)
            .cancel_after(Duration::from_millis(100))
            .call(json!({}))
            .await;
        called
            .failed("canceled", "canceled")
            .ended("canceled", "canceled");
        assert!(began.elapsed() < SLACK, "{tool} was not stopped");
    }
}

#[tokio::test]
async fn work_after_the_answer_ends_with_the_call() {
    Test::new("act#spin_later").load().await.unwrap();
    let began = Instant::now();
    let called = Test::new("act#spin_later").call(json!({})).await;
    called.ended("succeeded", "succeeded");
    assert_eq!(said(&called), "answered");
    assert!(
        began.elapsed() < SLACK,
        "the call waited for the work that it left behind"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neighbours_in_both_engines_go_on_beside_tools_that_never_end() {
    let heard = Heard::new();
    let mut events = heard.events();
    let host = Arc::new(host(|settings| settings.calls_at_once(8).listener(heard)));
    for tool in ["wat:echo", "act#hello"] {
        Test::new(tool).on(&host).load().await.unwrap();
    }
    let spinners: Vec<_> = [
        "act#spin",
        "act#spin_politely",
        "act#spin_in_a_stream",
        "act#spin",
    ]
    .map(|tool| {
        let test = Test::new(tool).on(&host).timeout_ms(20_000);
        (test.cancellation(), tokio::spawn(test.call(json!({}))))
    })
    .into_iter()
    .collect();
    for _ in 0..spinners.len() {
        events.wait_for(EventType::Started).await;
    }
    for _ in 0..5 {
        Test::new("wat:echo")
            .on(&host)
            .call(json!({}))
            .await
            .succeeded();
        assert_eq!(
            said(
                &Test::new("act#hello")
                    .on(&host)
                    .call(json!({ "name": "you" }))
                    .await
            ),
            "Hello, you!"
        );
    }
    for (cancellation, spinner) in spinners {
        cancellation.cancel(AbortReason::UserInterruption);
        spinner.await.unwrap().failed("canceled", "canceled");
    }
}

#[tokio::test]
async fn memory_is_limited_and_a_panic_is_the_tools_failure() {
    let memory = Test::new("act#memory")
        .limit(|limits| limits.memory_bytes = 16 << 20)
        .call(json!({ "mib": 64 }))
        .await;
    memory.failed("sandbox_violation", "memory_limit");
    Test::new("act#panic")
        .call(json!({}))
        .await
        .failed("execution_failed", "guest_panicked");
}

#[tokio::test]
async fn streams_count_as_handles() {
    let called = |count: u32| Test::new("act#streams").call(json!({ "count": count }));
    assert_eq!(said(&called(10).await), "10 streams");
    called(100_000)
        .await
        .failed("sandbox_violation", "handle_limit");
}

/// A component with these bodies of `list-tools` and `call-tool`, which return the place of their result. At 16 is a list
/// with the tool `run`.
fn provider(version: &str, list: &str, call: &str, results: &str) -> Vec<u8> {
    wat::parse_str(provider_text(version, list, call, results)).unwrap()
}

fn provider_text(version: &str, list: &str, call: &str, results: &str) -> String {
    format!(
        r#"(component
  (component $tool
    (core module $main
      (memory (export "memory") 1)
      (data (i32.const 16) "\00\00\00\00\00\00\00\00\00\00\00\00\40\00\00\00\01\00\00\00")
      (data (i32.const 64)
        "\80\00\00\00\03\00\00\00" "\00\00\00\00\88\00\00\00\04\00\00\00" "\90\00\00\00\11\00\00\00" "\00\00\00\00\00\00\00\00")
      (data (i32.const 128) "run")
      (data (i32.const 136) "Runs")
      (data (i32.const 144) "{{\"type\":\"object\"}}")
      (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
      (func (export "list-tools") (param i32 i32) (result i32) {list})
      (func (export "call-tool") (param i32 i32 i32 i32 i32 i32) (result i32) {call}))
    (core instance $main (instantiate $main))
    (type $metadata (list (tuple string (list u8))))
    (type $text (variant (case "plain" string) (case "localized" (list (tuple string string)))))
    (export $localized "localized-string" (type $text))
    (type $failure (record (field "kind" string) (field "message" $localized) (field "metadata" $metadata)))
    (export $error "error" (type $failure))
    (type $definition (record (field "name" string) (field "description" $localized)
      (field "parameters-schema" string) (field "metadata" $metadata)))
    (export $tool-definition "tool-definition" (type $definition))
    (type $list (record (field "metadata" $metadata) (field "tools" (list $tool-definition))))
    (export $listed "list-tools-response" (type $list))
    (type $part (record (field "data" (list u8)) (field "mime-type" (option string)) (field "metadata" $metadata)))
    (export $content "content-part" (type $part))
    (type $event (variant (case "content" $content) (case "error" $error)))
    (export $tool-event "tool-event" (type $event))
    (type $events (stream $tool-event))
    (type $bytes (stream u8))
    (type $end {results})
    (export $tool-result "tool-result" (type $end))
    (func (export "list-tools") async (param "metadata" $metadata) (result (result $listed (error $error)))
      (canon lift (core func $main "list-tools") (memory (core memory $main "memory"))
        (realloc (core func $main "realloc"))))
    (func (export "call-tool") async (param "name" string) (param "arguments" (list u8)) (param "metadata" $metadata)
        (result $tool-result)
      (canon lift (core func $main "call-tool") (memory (core memory $main "memory"))
        (realloc (core func $main "realloc")))))
  (instance $provider (instantiate $tool))
  (export "act:tools/tool-provider@{version}" (instance $provider)))"#
    )
}

const RESULTS: &str =
    r#"(variant (case "immediate" (list $tool-event)) (case "streaming" $events))"#;
const LISTED: &str = "(i32.const 16)";

/// A component whose `call-tool` returns what is at 512: a result of these two numbers after its case.
fn answering(case: i32, one: i32, two: i32) -> Vec<u8> {
    let call = format!(
        "(i32.store8 (i32.const 512) (i32.const {case})) (i32.store (i32.const 516) (i32.const {one})) \
         (i32.store (i32.const 520) (i32.const {two})) (i32.const 512)"
    );
    provider("0.2.0", LISTED, &call, RESULTS)
}

#[tokio::test]
async fn both_versions_of_the_interface_are_called() {
    for version in ["0.1.0", "0.2.0"] {
        let call = "(i32.store (i32.const 512) (i32.const 0)) (i32.store (i32.const 520) (i32.const 0)) (i32.const 512)";
        let component = provider(version, LISTED, call, RESULTS);
        let called = alone(component, Some("run")).call(json!({})).await;
        called.ended("succeeded", "succeeded");
        assert_eq!(said(&called), "", "{version}");
    }
}

#[tokio::test]
async fn a_result_that_breaks_the_interface_fails_the_call() {
    for (case, one, two) in [
        // A list that lies outside of the memory, and one that cannot exist.
        (0, 65_500, 1_000),
        (0, 0, i32::MAX),
        // A stream that the component does not have.
        (1, 7, 0),
        // A case that the variant does not have.
        (2, 0, 0),
    ] {
        let called = alone(answering(case, one, two), Some("run"))
            .call(json!({}))
            .await;
        let error = called
            .0
            .result
            .error
            .as_ref()
            .unwrap_or_else(|| panic!("{case} {one} {two} was accepted"));
        let classes = [
            ErrorClass::ExecutionFailed,
            ErrorClass::SandboxViolation,
            ErrorClass::ResultTooLarge,
        ];
        assert!(
            classes.contains(&error.error_class),
            "{case} {one} {two}: {error:?}"
        );
        assert_ne!(error.error_code, "host_fault");
    }
}

/// Sessions whose only id is `s1`.
const SESSIONS: &str = r#"
  (component $sessions
    (core module $main
      (memory (export "memory") 1)
      (data (i32.const 16) "\00\00\00\00\40\00\00\00\02\00\00\00\00\00\00\00\00\00\00\00")
      (data (i32.const 64) "s1")
      (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
      (func (export "open") (param i32 i32 i32 i32) (result i32) (i32.const 16))
      (func (export "close") (param i32 i32) (if (i32.ne (local.get 1) (i32.const 2)) (then unreachable))))
    (core instance $main (instantiate $main))
    (type $metadata (list (tuple string (list u8))))
    (type $text (variant (case "plain" string) (case "localized" (list (tuple string string)))))
    (export $localized "localized-string" (type $text))
    (type $failure (record (field "kind" string) (field "message" $localized) (field "metadata" $metadata)))
    (export $error "error" (type $failure))
    (type $opened (record (field "id" string) (field "metadata" $metadata)))
    (export $session "session" (type $opened))
    (func (export "open-session") async (param "args" $metadata) (param "metadata" $metadata)
        (result (result $session (error $error)))
      (canon lift (core func $main "open") (memory (core memory $main "memory"))
        (realloc (core func $main "realloc"))))
    (func (export "close-session") (param "session-id" string)
      (canon lift (core func $main "close") (memory (core memory $main "memory"))
        (realloc (core func $main "realloc")))))
  (instance $sessions (instantiate $sessions))
  (export "act:sessions/session-provider@0.2.0" (instance $sessions))"#;

#[tokio::test]
async fn a_tool_that_needs_a_session_gets_one_in_its_call() {
    // Without metadata it answers with one event at 600: an error of the kind at 700. With some it answers without events.
    let call = "(i32.store8 (i32.const 600) (i32.const 1)) (i32.store (i32.const 604) (i32.const 700)) \
                (i32.store (i32.const 608) (i32.const 21)) (i32.store (i32.const 516) (i32.const 600)) \
                (i32.store (i32.const 520) (i32.eqz (local.get 5))) (i32.const 512)";
    let text = provider_text("0.2.0", LISTED, call, RESULTS);
    let text = text.replacen(
        "(data (i32.const 128)",
        "(data (i32.const 700) \"std:session-not-found\") (data (i32.const 128)",
        1,
    );
    let without = wat::parse_str(&text).unwrap();
    let failed = alone(without, Some("run")).call(json!({})).await;
    failed.failed("setup_required", "std:session-not-found");
    let with = format!("{}{SESSIONS})", text.trim_end().strip_suffix(')').unwrap());
    let called = alone(wat::parse_str(&with).unwrap(), Some("run"))
        .call(json!({}))
        .await;
    called.ended("succeeded", "succeeded");
}

#[tokio::test]
async fn a_component_whose_list_of_tools_traps_or_never_comes_does_not_load() {
    let load = |list: &'static str| async move {
        alone(provider("0.2.0", list, "unreachable", RESULTS), None)
            .load()
            .await
            .unwrap_err()
    };
    assert_eq!(load("unreachable").await.code, ErrorCode::GuestPanicked);
    assert_eq!(
        load("(loop $for_ever (br $for_ever)) unreachable")
            .await
            .class,
        ErrorClass::Timeout
    );
    // An error at 256: its kind and its message are the texts of the tool.
    let failed = "(i32.store8 (i32.const 256) (i32.const 1)) (i32.store (i32.const 260) (i32.const 128)) \
                  (i32.store (i32.const 264) (i32.const 3)) (i32.store (i32.const 272) (i32.const 136)) \
                  (i32.store (i32.const 276) (i32.const 4)) (i32.const 256)";
    let refusal = load(failed).await;
    assert_eq!(refusal.code, ErrorCode::DescriptionInvalid);
    assert_eq!(
        refusal.message,
        "the component cannot list its tools: run: Runs"
    );
}

#[tokio::test]
async fn a_component_with_the_right_name_and_other_types_is_refused() {
    let other = r#"(variant (case "immediate" (list $tool-event)) (case "streaming" $bytes))"#;
    let refusal = alone(provider("0.2.0", LISTED, "unreachable", other), None)
        .load()
        .await
        .unwrap_err();
    assert_eq!(
        (refusal.class, refusal.code),
        (ErrorClass::SetupRequired, ErrorCode::ContractMismatch)
    );
    assert!(refusal.message.contains("act:tools"), "{}", refusal.message);
}
