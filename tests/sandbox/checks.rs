//! A component's own checks run in an empty world, before anything else.
//!
//! Promise: Checks come before effects.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolcell_policy::{Provenance, Rule, RuleWords};
use toolcell_spec::{EventType, RuleSource, ToolEvent};

use super::{snapshot, text};
use crate::support::{Called, Test, scratch};

async fn refused(tool: &str, input: Value, class: &str, code: &str) -> Called {
    let called = Test::new(tool).timeout_ms(200).call(input).await;
    called.failed(class, code).never_ran();
    let events = called.events();
    assert!(!events.contains(&"tool.invocation.started"), "{events:?}");
    assert!(
        events.contains(&"tool.invocation.validation_failed"),
        "{events:?}"
    );
    called
}

#[tokio::test]
async fn values_that_the_tool_refuses_never_reach_it() {
    let called = refused(
        "validated#even",
        json!({ "n": 3 }),
        "invalid_arguments",
        "odd_number",
    )
    .await;
    assert_eq!(called.message(), "`n` must be even.");
    refused(
        "validated#even",
        json!({ "n": 102 }),
        "setup_required",
        "number_too_large",
    )
    .await;
    // The invocation would panic.
    refused(
        "validated#careless",
        json!({ "n": 1 }),
        "invalid_arguments",
        "odd_number",
    )
    .await;
    assert_eq!(
        Test::new("validated#even")
            .call(json!({ "n": 4 }))
            .await
            .succeeded()["ran"],
        "even"
    );
}

#[tokio::test]
async fn a_check_that_spins_is_stopped() {
    Test::new("validated#even").load().await.unwrap();
    for tool in ["validated#check_spins", "validated#preflight_spins"] {
        let began = Instant::now();
        refused(tool, json!({}), "timeout", "epoch_deadline").await;
        assert!(
            began.elapsed() < Duration::from_secs(3),
            "{tool} was stopped after {:?}",
            began.elapsed()
        );
    }
}

#[tokio::test]
async fn a_check_that_traps_refuses_the_call() {
    for tool in ["validated#check_panics", "validated#preflight_panics"] {
        refused(tool, json!({}), "execution_failed", "guest_panicked").await;
    }
}

#[tokio::test]
async fn a_check_finds_nothing_around_it_whatever_was_granted() {
    let (_dir, dir) = scratch();
    std::fs::write(dir.join("secret"), "secret").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let before = snapshot(&dir);
    let called = Test::new("validated#nosy")
        .write(&dir)
        .grant(|grants| {
            grants
                .environment
                .push(("GRANTED".into(), "a value".into()))
        })
        .call(json!({
            "marker": text(&dir.join("marker")),
            "file": text(&dir.join("secret")),
            "address": listener.local_addr().unwrap().to_string(),
        }))
        .await;
    assert_eq!(called.succeeded()["ran"], "nosy");
    assert_eq!(snapshot(&dir), before);
    assert!(listener.accept().is_err(), "a check connected");
}

#[tokio::test]
async fn what_a_check_is_denied_and_logs_is_on_record() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let called = Test::new("validated#curious")
        .net(&format!("http://{address}"))
        .call(json!({ "address": address }))
        .await;
    // The check of the values and the preflight, whatever the call may reach.
    assert_eq!(called.succeeded()["ran"], "curious");
    assert!(listener.accept().is_err(), "a check connected");
    let before = |event: &&ToolEvent| event.event_type != EventType::Started;
    let told: Vec<_> = called.0.events.iter().take_while(before).collect();
    let of = |event_type: EventType| -> Vec<&Value> {
        let those = told.iter().filter(|event| event.event_type == event_type);
        those.map(|event| &event.data).collect()
    };
    let denied = json!({
        "capability": "network",
        "target": format!("GET http://{address}"),
        "target_class": "any",
        "rule": "a check has no network",
    });
    assert_eq!(of(EventType::SandboxDenied), [&denied, &denied]);
    let lines = of(EventType::Logged);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["message"], "a check looks around");
}

fn asking() -> Rule {
    let words = RuleWords {
        behavior: "ask",
        tool: Some("validated.prepared"),
        ..RuleWords::default()
    };
    Rule::compile(
        &words,
        &Provenance {
            source: RuleSource::UserSettings,
            file: None,
        },
    )
    .unwrap()
}

#[tokio::test]
async fn a_preflight_reads_what_the_call_may_read_and_writes_nothing() {
    let (_dir, dir) = scratch();
    let file = dir.join("file");
    std::fs::write(&file, "ready").unwrap();
    let prepared = || Test::new("validated#prepared");
    let input = json!({ "path": text(&file) });
    assert_eq!(
        prepared().write(&dir).call(input.clone()).await.succeeded()["ran"],
        "prepared"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "ready");
    let missing = prepared()
        .write(&dir)
        .call(json!({ "path": text(&dir.join("none")) }))
        .await;
    missing.failed("setup_required", "not_found").never_ran();
    std::fs::write(&file, "not yet").unwrap();
    let unready = prepared().write(&dir).call(input.clone()).await;
    unready.failed("setup_required", "not_ready").never_ran();
    let told = |event: &&ToolEvent| event.event_type == EventType::ValidationFailed;
    let told = unready.0.events.iter().find(told).unwrap();
    assert_eq!(told.data["which"], "io_preflight");
    let sent = unready.record()["invocation"]["model_input_ref"].clone();
    assert_eq!(told.data["input_ref"], sent);
    // Nothing is read that is denied, nor for a call that is denied, or that nobody has approved yet.
    prepared()
        .call(input.clone())
        .await
        .failed("permission_denied", "not_granted")
        .never_ran();
    let denied = prepared()
        .write(&dir)
        .grant(|grants| grants.deny_read(text(&file)).unwrap());
    denied
        .call(input.clone())
        .await
        .failed("setup_required", "not_found")
        .never_ran();
    let planned = prepared().write(&dir).policy(|policy| policy.add(asking()));
    let asked = planned.call(input).await;
    asked.never_ran();
    assert_ne!(
        asked.0.result.error.as_ref().unwrap().error_code,
        "not_ready"
    );
}

#[tokio::test]
async fn checks_and_calls_share_no_state() {
    for _ in 0..3 {
        assert_eq!(
            Test::new("validated#forgetful")
                .call(json!({}))
                .await
                .succeeded()["checks_seen"],
            0
        );
    }
}

#[tokio::test]
async fn a_check_can_be_canceled() {
    Test::new("validated#check_spins").load().await.unwrap();
    let test = Test::new("validated#check_spins").cancel_after(Duration::from_millis(50));
    test.call(json!({}))
        .await
        .failed("canceled", "canceled")
        .never_ran();
}

#[tokio::test]
async fn a_component_that_classifies_its_inputs_loads_and_runs() {
    let names = Test::new("classified#reader").load().await.unwrap();
    assert!(
        names.iter().any(|name| name.ends_with(".classify_spins")),
        "{names:?}"
    );
    let (_dir, dir) = scratch();
    let called = Test::new("classified#writer")
        .write(&dir)
        .call(json!({ "path": text(&dir.join("x")), "text": "x" }));
    assert_eq!(called.await.succeeded()["ok"], true);
}
