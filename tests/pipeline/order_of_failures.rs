//! A failure in each phase: no later phase runs, except for the end.
//!
//! Promise: Checks come before effects.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcell::Host;
use toolcell_executor::hook::{HookOutput, Registration, UpdatedOutput};

use crate::support::{Called, Test, scratch};

use super::doubles::{RecordingHook, home_with_own_payloads, hooked, own_host};

/// The events up to the end of each phase, in a call without failures on a host with one hook.
const RESOLVED: &[&str] = &["invocation.planned", "invocation.selected"];
const PARSED: &[&str] = &["invocation.arguments_ready"];
const PRE_HOOKED: &[&str] = &["hook.pre.started", "hook.pre.completed"];
const DECIDED: &[&str] = &["permission.decided"];
const STARTED: &[&str] = &["invocation.started"];
const POST_HOOKED: &[&str] = &["hook.post.started", "hook.post.completed"];
const FAILURE_HOOKED: &[&str] = &["hook.failure.started", "hook.failure.completed"];
const FAILED: &[&str] = &["result.created", "invocation.failed"];
const BLOCKED: &[&str] = &["result.created", "invocation.blocked", "invocation.failed"];
const DENIED: &[&str] = &["result.created", "invocation.denied", "invocation.failed"];

#[track_caller]
fn happened(called: &Called, parts: &[&[&str]], statuses: &str) {
    let events: Vec<&str> = called
        .events()
        .iter()
        .map(|event| event.strip_prefix("tool.").unwrap())
        .collect();
    assert_eq!(events, parts.concat());
    let passed: Vec<&str> = called
        .0
        .invocation
        .status_transitions()
        .iter()
        .map(|step| step.to.as_str())
        .collect();
    assert_eq!(passed.join(" "), statuses);
}

fn quiet() -> Arc<Host> {
    hooked([&RecordingHook::new("quiet").shared()])
}

async fn call(tool: &str, input: Value) -> Called {
    Test::new(tool).on(&quiet()).call(input).await
}

#[tokio::test]
async fn phase_1_resolve() {
    let called = Test::new("probe#echo")
        .on(&quiet())
        .typed("no_such_tool")
        .call(json!({}))
        .await;
    happened(&called, &[&["invocation.planned"], FAILED], "failed");
    let called = call("probe#lifecycle_retired", json!({})).await;
    happened(&called, &[&["invocation.planned"], BLOCKED], "blocked");
}

#[tokio::test]
async fn phases_2_and_3_parse_and_schema_gate() {
    let called = call("probe#strict", json!({})).await;
    let failed = "selected schema_parse_failed failed";
    happened(
        &called,
        &[RESOLVED, &["invocation.validation_failed"], FAILED],
        failed,
    );
    let called = call("probe#lifecycle_deferred", json!({"wrong": 1})).await;
    happened(&called, &[RESOLVED, BLOCKED], "selected blocked");
}

#[tokio::test]
async fn phase_4_validate() {
    let called = call("validated#even", json!({"n": 1})).await;
    let failed = "selected arguments_ready validation_failed failed";
    happened(
        &called,
        &[RESOLVED, PARSED, &["invocation.validation_failed"], FAILED],
        failed,
    );
}

#[tokio::test]
async fn phase_5_observe_refuses_nothing_and_comes_before_the_hooks() {
    let called = call("probe#defaults", json!({"query": "x"})).await;
    assert_eq!(
        called.events()[2..5],
        [
            "tool.invocation.arguments_ready",
            "tool.input.mutated",
            "tool.hook.pre.started"
        ]
    );
}

#[tokio::test]
async fn phase_6_pre_hooks() {
    let hook = RecordingHook::new("stopper")
        .before([HookOutput::Stop {
            reason: "no".to_owned(),
        }])
        .shared();
    let called = Test::new("probe#echo")
        .on(&hooked([&hook]))
        .call(json!({}))
        .await;
    happened(
        &called,
        &[RESOLVED, PARSED, PRE_HOOKED, BLOCKED],
        "selected arguments_ready pre_hooks_running blocked",
    );
}

#[tokio::test]
async fn phase_7_permission() {
    let called = call("probe#read", json!({"path": "/a"})).await;
    let denied = "selected arguments_ready pre_hooks_running denied";
    happened(
        &called,
        &[RESOLVED, PARSED, PRE_HOOKED, DECIDED, DENIED],
        denied,
    );
}

// Phase 8 fails only by cancellation: see `cancellation.rs`.

const RAN: &str = "selected arguments_ready pre_hooks_running approved running";

#[tokio::test]
async fn phase_9_execute() {
    let called = call("hostile#unreachable", json!({})).await;
    let parts = [
        RESOLVED,
        PARSED,
        PRE_HOOKED,
        DECIDED,
        STARTED,
        FAILURE_HOOKED,
        FAILED,
    ];
    happened(&called, &parts, &format!("{RAN} failed"));
}

#[tokio::test]
async fn phase_10_map_result() {
    let called = call("probe#bad_content", json!({})).await;
    let parts = [
        RESOLVED,
        PARSED,
        PRE_HOOKED,
        DECIDED,
        STARTED,
        FAILURE_HOOKED,
        FAILED,
    ];
    happened(&called, &parts, &format!("{RAN} failed"));
}

#[tokio::test]
async fn phase_11_post_hooks() {
    let hook = RecordingHook::new("spoiler")
        .after([HookOutput::UpdatedOutput(UpdatedOutput::structured(json!(
            "no object"
        )))])
        .shared();
    let called = Test::new("probe#good_structured")
        .on(&hooked([&hook]))
        .call(json!({}))
        .await;
    let parts = [
        RESOLVED,
        PARSED,
        PRE_HOOKED,
        DECIDED,
        STARTED,
        POST_HOOKED,
        FAILED,
    ];
    happened(&called, &parts, &format!("{RAN} post_hooks_running failed"));
}

#[tokio::test]
async fn phase_12_persist() {
    let (_guard, folder) = scratch();
    std::fs::write(folder.join("payloads"), "in the way").unwrap();
    let hook = RecordingHook::new("quiet").shared();
    let host = own_host(|settings| {
        settings
            .home(home_with_own_payloads(&folder))
            .hook(Registration::new(hook))
    });
    let called = Test::new("probe#big")
        .on(&host)
        .call(json!({"bytes": 1 << 20}))
        .await;
    let parts = [
        RESOLVED,
        PARSED,
        PRE_HOOKED,
        DECIDED,
        STARTED,
        POST_HOOKED,
        FAILED,
    ];
    happened(&called, &parts, &format!("{RAN} post_hooks_running failed"));
}

#[tokio::test]
async fn phase_13_ends_a_success_once() {
    let called = call("probe#counter", json!({})).await;
    let end: &[&str] = &["result.created", "invocation.succeeded"];
    let parts = [
        RESOLVED,
        PARSED,
        PRE_HOOKED,
        DECIDED,
        STARTED,
        POST_HOOKED,
        end,
    ];
    happened(
        &called,
        &parts,
        &format!("{RAN} post_hooks_running succeeded"),
    );
}
