//! Calls that a tool makes of other tools: what they may do, what they use up, and how they end.
//!
//! Promise: A tool that calls tools gains nothing by it.
//! Promise: Calls of tools end.
//! Promise: One client does not lock out another.

mod secrecy;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolcell::{Home, Host, HostBuilder, RetryPolicy};
use toolcell_engine::approval::{Reply, Session};
use toolcell_engine::scheduler::MemoryBudget;
use toolcell_journal::{CallLog, LogSettings};
use toolcell_policy::{Limits, Provenance, Rule, RuleWords};
use toolcell_spec::{AbortReason, ErrorClass, ErrorCode};

use crate::support::{Called, Server, Test, check_record, fixture, host, scratch};

use super::approvals::{asked, input as line, lines, place};
use super::doubles::{RecordingListener, echoing, home_with_own_payloads, importing, internal};
use super::interaction::{Person, accept, name};

/// A host with a log of its own, in which the guests `caller` and `probe` are loaded.
struct Family {
    host: Arc<Host>,
    home: Home,
    _guard: tempfile::TempDir,
}

impl Family {
    async fn new() -> Self {
        Self::with(|settings| settings.pooled(false)).await
    }

    async fn with(change: impl FnOnce(HostBuilder) -> HostBuilder) -> Self {
        let (guard, path) = scratch();
        let home = home_with_own_payloads(&path);
        let host = Arc::new(host(|settings| change(settings.home(home.clone()))));
        loaded(&host).await;
        Self {
            host,
            home,
            _guard: guard,
        }
    }

    /// A call of a tool of `caller` that may call every tool.
    fn free(&self, tool: &str) -> Test {
        self.bound(tool, "*")
    }

    /// A call of a tool of `caller` that may call the tools of `pattern`.
    fn bound(&self, tool: &str, pattern: &str) -> Test {
        let test = Test::new(&format!("caller#{tool}")).on(&self.host);
        test.grant(|grants| grants.allow_tool(pattern).unwrap())
    }

    /// The record of a call, from the log.
    fn record(&self, id: &Value) -> Value {
        let log = CallLog::new(
            self.home.journal(),
            self.home.calls_key(),
            LogSettings::default(),
        );
        let record = log.record(id.as_str().unwrap()).unwrap().unwrap();
        check_record(&record);
        record
    }
}

async fn loaded(host: &Arc<Host>) {
    for guest in ["caller", "probe", "hostile"] {
        host.load_file(&fixture(guest)).await.unwrap();
    }
}

/// Arguments for a tool of `caller`: it calls `tool` with `input`.
fn calling(tool: &str, input: Value) -> Value {
    json!({ "tool": tool, "input": input })
}

/// Calls nested in each other: the first of `tools` calls the second, and so on.
fn nested(tools: &[&str]) -> Value {
    match tools {
        [] => json!({}),
        [first, rest @ ..] => calling(first, nested(rest)),
    }
}

/// The only answer that the guest got.
#[track_caller]
fn answer(called: &Called) -> Value {
    let answers = called.succeeded()["answers"].clone();
    assert_eq!(answers.as_array().unwrap().len(), 1);
    answers[0].clone()
}

#[track_caller]
fn refused(answer: &Value, class: &str, code: &str) {
    let error = &answer["error"];
    assert_eq!(
        (error["class"].as_str(), error["code"].as_str()),
        (Some(class), Some(code)),
        "{answer:#}"
    );
}

fn children(called: &Called) -> Vec<Value> {
    let children = called.0.invocation.extra.get("child_invocation_ids");
    children.map_or_else(Vec::new, |ids| ids.as_array().unwrap().clone())
}

#[tokio::test]
async fn a_call_of_another_tool_is_a_call_of_its_own_and_both_records_name_each_other() {
    let family = Family::new().await;
    let test = family.bound("call", "probe.*").actor("agent:7");
    let test = test.asking(|terms| terms.session = Session::Named("s".to_owned()));
    let called = test.call(calling("probe.echo", json!({ "a": 1 }))).await;
    let answer = answer(&called);
    assert_eq!(answer["structured"]["input"], json!({ "a": 1 }));
    assert_eq!(children(&called), [answer["invocation_id"].clone()]);
    let child = family.record(&answer["invocation_id"]);
    let invocation = &child["invocation"];
    assert_eq!(
        invocation["parent_invocation_id"],
        called.succeeded()["invocation_id"]
    );
    assert_eq!(
        (&invocation["tool_id"], &invocation["status"]),
        (&json!("probe.echo"), &json!("succeeded"))
    );
    assert_eq!(invocation["actor_ref"], "agent:7");
    assert_eq!(called.record()["invocation"]["session_ref"], "s");
    assert_eq!(invocation["session_ref"], "s");
    assert_eq!(child["result"]["provenance"]["trust"], "untrusted");
    assert_eq!(child["decisions"].as_array().unwrap().len(), 1);
    let steps = invocation["status_transitions"].as_array().unwrap();
    let passed: Vec<&str> = steps
        .iter()
        .map(|step| step["to"].as_str().unwrap())
        .collect();
    assert_eq!(
        passed,
        [
            "selected",
            "arguments_ready",
            "approved",
            "running",
            "succeeded"
        ]
    );
    let alone = family.bound("call", "probe.*").call(json!({})).await;
    assert!(children(&alone).is_empty());
}

#[tokio::test]
async fn a_tool_calls_what_was_granted_and_declared_and_learns_of_nothing_else() {
    let family = Family::new().await;
    for (tool, granted, named) in [
        ("call", "hostile.*", "probe.invocation"),
        ("call", "probe.echo", "probe.invocation"),
        ("call", "probe.*", "probe.nowhere"),
        ("call", "probe.*", "invocation_of_nothing"),
        ("call_narrow", "*", "probe.echo"),
        ("call_undeclared", "*", "probe.echo"),
    ] {
        let called = family
            .bound(tool, granted)
            .call(calling(named, json!({})))
            .await;
        let answer = answer(&called);
        refused(&answer, "other(permission_denied)", "tool_not_callable");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(
            !message.contains("probe.counter"),
            "it names other tools: {message}"
        );
    }
    let without = Test::new("caller#call")
        .on(&family.host)
        .call(calling("probe.echo", json!({})))
        .await;
    refused(
        &answer(&without),
        "other(permission_denied)",
        "tool_not_callable",
    );
    assert!(children(&without).is_empty());
    let both = family
        .bound("call_narrow", "probe.*")
        .call(calling("probe.invocation", json!({})))
        .await;
    assert!(answer(&both)["structured"]["invocation_id"].is_string());
    let listed = family
        .bound("call", "probe.c*")
        .call(json!({ "list": true }))
        .await;
    assert_eq!(listed.succeeded()["listed"], json!(["probe.counter"]));
    let nothing = Test::new("caller#call")
        .on(&family.host)
        .call(json!({ "list": true }))
        .await;
    assert_eq!(nothing.succeeded()["listed"], json!([]));
}

#[tokio::test]
async fn an_internal_tool_is_for_other_tools_alone() {
    let family = Family::new().await;
    let inner = internal("inner");
    family.host.load(&inner).await.unwrap();
    let called = family
        .bound("call", "inner.*")
        .call(calling("inner.echo", json!({ "a": 1 })))
        .await;
    assert_eq!(answer(&called)["structured"]["a"], 1);
    let direct = Test::of_bytes(inner, None)
        .on(&family.host)
        .call(json!({ "a": 1 }))
        .await;
    direct
        .failed("schema_not_loaded", "schema_internal")
        .never_ran();
}

#[tokio::test]
async fn a_rule_that_denies_a_tool_overrules_the_grant_of_its_namespace() {
    let family = Family::new().await;
    let denial = RuleWords {
        behavior: "deny",
        tool: Some("probe.invocation"),
        ..RuleWords::default()
    };
    for (named, is_denied) in [("probe.invocation", true), ("probe.counter", false)] {
        let test = family.bound("call", "probe.*").policy(|policy| {
            policy.add(Rule::compile(&denial, &Provenance::COMMAND_LINE).unwrap());
        });
        let called = test.call(calling(named, json!({}))).await;
        let answer = answer(&called);
        if is_denied {
            refused(&answer, "other(permission_denied)", "denied_by_rule");
            let child = family.record(&children(&called)[0]);
            assert!(child["invocation"].get("started_at").is_none(), "{child:#}");
        } else {
            assert_eq!(answer["structured"]["count"], 1, "{answer:#}");
        }
    }
}

#[tokio::test]
async fn a_component_that_calls_tools_and_says_of_none_that_it_does_is_not_loaded() {
    let family = Family::new().await;
    let silent = importing("toolcell:tool/tools@0.2.0", "calls_silently", |_| {});
    let refusal = Test::of_bytes(silent, None)
        .on(&family.host)
        .load()
        .await
        .unwrap_err();
    assert_eq!(refusal.code, ErrorCode::ImportsUndeclared);
    assert!(
        refusal.message.contains("toolcell:tool/tools@0.2.0"),
        "{}",
        refusal.message
    );
}

#[tokio::test]
async fn no_tool_calls_itself_under_whatever_name_and_whatever_lies_between() {
    let family = Family::new().await;
    for named in ["caller.call", "caller_alias"] {
        let called = family.free("call").call(calling(named, json!({}))).await;
        refused(
            &answer(&called),
            "other(policy_blocked)",
            "recursive_tool_forbidden",
        );
        let child = family.record(&children(&called)[0]);
        assert_eq!(child["invocation"]["status"], "blocked");
        assert_eq!(
            child["invocation"]["policy_refs"],
            json!(["tool_calls:cycles"])
        );
        assert!(child["invocation"]["started_at"].is_null());
    }
    let called = family
        .free("call")
        .call(nested(&["caller.call_2", "caller_alias"]))
        .await;
    refused(
        &answer(&called)["structured"]["answers"][0],
        "other(policy_blocked)",
        "recursive_tool_forbidden",
    );
    let listed = family
        .bound("call", "caller.call*")
        .call(json!({ "list": true }))
        .await;
    let listed = listed.succeeded()["listed"].clone();
    assert!(
        !listed.as_array().unwrap().contains(&json!("caller.call")),
        "{listed}"
    );
    assert!(
        listed.as_array().unwrap().contains(&json!("caller.call_2")),
        "{listed}"
    );
}

#[tokio::test]
async fn calls_are_nested_four_deep_and_no_deeper() {
    let family = Family::new().await;
    let line = [
        "caller.call_2",
        "caller.call_3",
        "caller.call_4",
        "caller.call_5",
        "caller.call_6",
    ];
    let called = family.free("call").call(nested(&line)).await;
    let mut answer = answer(&called);
    for _ in 0..3 {
        answer = answer["structured"]["answers"][0].clone();
    }
    assert_eq!(
        answer["structured"]["answers"].as_array().map(Vec::len),
        Some(1),
        "the fourth ran: {answer:#}"
    );
    refused(
        &answer["structured"]["answers"][0],
        "other(policy_blocked)",
        "child_depth_limit",
    );
}

#[tokio::test]
async fn a_flood_of_calls_ends_at_a_limit_for_all_depths_together() {
    let family = Family::new().await;
    let mut many = calling("probe.invocation", json!({}));
    many["times"] = json!(260);
    let called = family.free("call").call(many).await;
    let answers = called.succeeded()["answers"].as_array().unwrap().clone();
    assert_eq!(
        answers
            .iter()
            .filter(|answer| answer["error"].is_null())
            .count(),
        256
    );
    refused(&answers[256], "RateLimited", "child_calls_limit");
    assert_eq!(children(&called).len(), 256);
    let bomb = json!({
        "tool": "caller.call_2", "times": 20,
        "input": { "tool": "probe.invocation", "times": 20, "input": {} },
    });
    let called = family.free("call").call(bomb).await;
    let outer = children(&called);
    let inner = |id| {
        family.record(id)["invocation"]["child_invocation_ids"]
            .as_array()
            .map_or(0, Vec::len)
    };
    assert_eq!(outer.len() + outer.iter().map(inner).sum::<usize>(), 256);
}

#[tokio::test]
async fn a_call_may_touch_no_more_than_the_call_that_makes_it() {
    let family = Family::new().await;
    let (_guard, folder) = scratch();
    let file = folder.join("file");
    std::fs::write(&file, "content").unwrap();
    let read = calling("probe.read", json!({ "path": file }));
    let append = calling("probe.append", json!({ "path": file, "text": "more" }));
    let without = family.free("call").read(&folder).call(read.clone()).await;
    refused(
        &answer(&without),
        "other(permission_denied)",
        "beyond_caller",
    );
    let reading = family
        .free("call_reading")
        .read(&folder)
        .call(read.clone())
        .await;
    assert_eq!(answer(&reading)["structured"]["value"]["text"], "content");
    let ungranted = family
        .free("call_reading")
        .read(&folder)
        .call(append.clone())
        .await;
    refused(
        &answer(&ungranted),
        "other(permission_denied)",
        "not_granted",
    );
    let read_only = family
        .free("call_reading")
        .write(&folder)
        .call(append.clone())
        .await;
    refused(
        &answer(&read_only),
        "other(permission_denied)",
        "beyond_caller",
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "content");
    let writing = family
        .free("call_writing")
        .write(&folder)
        .call(append)
        .await;
    assert_eq!(answer(&writing)["structured"]["ok"], true);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "contentmore");
    // A path that is closed for the caller alone stays closed for what it calls.
    let path = file.to_str().unwrap();
    let closed = RuleWords {
        behavior: "deny",
        tool: Some("caller.*"),
        path: Some(path),
        ..RuleWords::default()
    };
    let closed = family.free("call_reading").read(&folder).policy(|policy| {
        policy.add(Rule::compile(&closed, &Provenance::COMMAND_LINE).unwrap());
    });
    let closed = answer(&closed.call(read).await);
    assert_ne!(
        closed["structured"]["value"]["text"], "content",
        "{closed:#}"
    );
}

#[tokio::test]
async fn the_error_of_a_tool_that_crashed_is_that_of_a_direct_call_and_names_the_tool_to_its_caller()
 {
    let family = Family::new().await;
    let direct = Test::new("hostile#unreachable")
        .on(&family.host)
        .call(json!({}))
        .await;
    direct.failed("execution_failed", "guest_panicked");
    let called = family
        .free("call")
        .call(calling("hostile.unreachable", json!({})))
        .await;
    let answer = answer(&called);
    refused(&answer, "ExecutionFailed", "guest_panicked");
    assert_eq!(
        answer["error"]["message"],
        format!("hostile.unreachable: {}", direct.message())
    );
    let child = family.record(&children(&called)[0]);
    let alone = direct.record();
    for field in [
        "error_class",
        "error_code",
        "message",
        "native_error_ref",
        "retry",
    ] {
        assert_eq!(
            child["result"]["error"][field], alone["result"]["error"][field],
            "{field}"
        );
    }
    // A call that did not begin is refused in the words of the host.
    let refusal = family
        .free("call")
        .call(calling("probe.strict", json!({})))
        .await;
    let message = self::answer(&refusal)["error"]["message"].clone();
    assert!(
        !message.as_str().unwrap().starts_with("probe.strict: "),
        "{message}"
    );
}

#[tokio::test]
async fn a_call_that_may_change_nothing_makes_none_that_may() {
    let family = Family::new().await;
    let profile = json!({
        "schema_version": "0.2.0", "permission_profile_id": "p", "risk_level": "low",
        "write_effects": ["irreversible"],
    });
    let launcher = echoing("launcher", |toolkit| {
        toolkit["permission_profiles"] = json!([profile]);
        toolkit["declarations"][0]["permission_profile_ref"] = json!("p");
    });
    family.host.load(&launcher).await.unwrap();
    let called = family
        .free("call")
        .call(calling("launcher.echo", json!({})))
        .await;
    refused(
        &answer(&called),
        "other(permission_denied)",
        "beyond_caller",
    );
    let (_guard, folder) = scratch();
    let called = family
        .free("call_writing")
        .write(&folder)
        .call(calling("launcher.echo", json!({})))
        .await;
    refused(
        &answer(&called),
        "other(permission_denied)",
        "nobody_to_ask",
    );
}

#[tokio::test]
async fn a_call_that_may_call_a_tool_which_changes_something_elsewhere_runs_beside_no_other_request()
 {
    let listener = Arc::new(RecordingListener::default());
    let heard = Arc::clone(&listener);
    let family = Family::with(|settings| settings.pooled(false).listener(heard)).await;
    let (_guard, folder) = scratch();
    let server = Server::hello();
    let net = server.url("");
    // All tools of `egress` are loaded, also the one that changes something.
    let asking = || Test::new("egress#ask").on(&family.host).net(&net);
    let request = json!({ "requests": [{ "authority": server.authority() }] });
    asking().load().await.unwrap();
    for (tool, pattern, count, waits) in [
        ("call_widely", "*", 1, true),
        ("call_widely", "hostile.sleep", 2, false),
        ("call_network", "*", 3, false),
    ] {
        let above = family
            .bound(tool, pattern)
            .write(&folder)
            .net(&net)
            .timeout_ms(600_000);
        let stop = above.cancellation();
        let above = tokio::spawn(above.call(calling("hostile.sleep", json!({}))));
        listener
            .wait_for_count("hostile.sleep", "tool.invocation.started", count)
            .await;
        let asked = tokio::spawn(asking().call(request.clone()));
        if waits {
            listener
                .wait_for("egress.ask", "tool.invocation.queued")
                .await;
            assert_eq!(server.connections(), 0);
            stop.cancel(AbortReason::UserInterruption);
            asked.await.unwrap().succeeded();
        } else {
            asked.await.unwrap().succeeded();
            stop.cancel(AbortReason::UserInterruption);
        }
        above.await.unwrap().ended("canceled", "canceled");
    }
}

#[tokio::test]
async fn a_call_uses_up_the_fuel_of_the_call_that_makes_it() {
    let family = Family::new().await;
    let spin = calling("hostile.spin_fuel", json!({}));
    let limit = 200_000_000;
    let test = family
        .free("call")
        .timeout_ms(20_000)
        .limit(|limits| limits.fuel = limit);
    let called = test.call(spin).await;
    called
        .failed("timeout", "fuel_exhausted")
        .ended("timed_out", "timed_out");
    let child = family.record(&children(&called)[0]);
    assert_eq!(child["result"]["error"]["error_code"], "fuel_exhausted");
    assert!(child["result"]["usage"]["fuel"]["limit"].as_u64().unwrap() < limit);
    assert!(called.0.result.usage.unwrap().fuel.used >= limit);
    let cheap = family
        .free("call")
        .call(calling("probe.invocation", json!({})))
        .await;
    let child = family.record(&children(&cheap)[0]);
    let used = child["result"]["usage"]["fuel"]["used"].as_u64().unwrap();
    let without = family
        .free("call")
        .call(json!({}))
        .await
        .0
        .result
        .usage
        .unwrap()
        .fuel
        .used;
    let with = cheap.0.result.usage.unwrap().fuel.used;
    assert!(
        with >= without + used,
        "{with} with a call of {used}, {without} without"
    );
}

/// The guests of `metered` are metered by time.
async fn by_time(metered: &'static [&'static str]) -> Family {
    Family::with(move |settings| {
        let is_meant = move |file: &Path| metered.iter().any(|guest| file == fixture(guest));
        settings.pooled(false).metered_by_time(is_meant)
    })
    .await
}

#[tokio::test]
async fn a_call_uses_up_the_cpu_time_of_the_call_that_makes_it() {
    for metered in [&["caller", "hostile"][..], &["hostile"]] {
        let family = by_time(metered).await;
        let called = family
            .free("call")
            .timeout_ms(20_000)
            .limit(|limits| limits.cpu = Duration::from_millis(300))
            .call(calling("hostile.spin_fuel", json!({})))
            .await;
        let child = family.record(&children(&called)[0]);
        assert_eq!(
            child["result"]["error"]["error_code"], "cpu_time_exhausted",
            "{metered:?}"
        );
        let cpu = called.0.result.usage.as_ref().unwrap().cpu_ms.unwrap();
        assert_eq!(cpu.limit, 300);
        assert!(cpu.used >= 299, "{metered:?}: {} ms", cpu.used);
        if metered.contains(&"caller") {
            called.failed("timeout", "cpu_time_exhausted");
        } else {
            refused(&answer(&called), "Timeout", "cpu_time_exhausted");
        }
    }
}

#[tokio::test]
async fn calls_of_a_tool_that_counts_no_fuel_share_its_fuel() {
    let family = by_time(&["caller"]).await;
    let limit = 200_000_000;
    let called = family
        .free("call")
        .timeout_ms(20_000)
        .limit(|limits| limits.fuel = limit)
        .call(calling("hostile.spin_fuel", json!({})))
        .await;
    refused(&answer(&called), "Timeout", "fuel_exhausted");
    let fuel = called.0.result.usage.unwrap().fuel;
    assert_eq!((fuel.used, fuel.limit), (limit, limit));
}

#[tokio::test]
async fn a_call_ends_with_the_time_of_the_call_that_makes_it() {
    let family = Family::new().await;
    let begun = Instant::now();
    let called = family
        .free("call")
        .timeout_ms(700)
        .call(calling("hostile.sleep", json!({})))
        .await;
    called
        .failed("timeout", "deadline_exceeded")
        .ended("timed_out", "timed_out");
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    // The record of the call below is complete before that of the one above.
    let child = family.record(&children(&called)[0]);
    let status = child["invocation"]["status"].as_str().unwrap();
    assert!(["canceled", "timed_out"].contains(&status), "{status}");
    assert_eq!(child["result"]["is_error"], true);
}

#[tokio::test]
async fn canceling_a_call_cancels_what_it_called() {
    let listener = Arc::new(RecordingListener::default());
    let heard = Arc::clone(&listener);
    let family = Family::with(|settings| settings.pooled(false).listener(heard)).await;
    let test = family.free("call");
    let cancellation = test.cancellation();
    let cancel = async {
        listener
            .wait_for("hostile.sleep", "tool.invocation.started")
            .await;
        cancellation.cancel(AbortReason::UserInterruption);
    };
    let begun = Instant::now();
    let (called, ()) = tokio::join!(
        test.call(nested(&["caller.call_2", "hostile.sleep"])),
        cancel
    );
    called
        .failed("canceled", "canceled")
        .ended("canceled", "canceled");
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    let child = family.record(&children(&called)[0]);
    assert_eq!(child["invocation"]["status"], "canceled");
    let below = family.record(&child["invocation"]["child_invocation_ids"][0]);
    assert_eq!(
        (
            &below["invocation"]["tool_id"],
            &below["invocation"]["status"]
        ),
        (&json!("hostile.sleep"), &json!("canceled"))
    );
}

#[tokio::test]
async fn one_place_and_the_memory_of_one_call_are_enough_for_all_calls_below_it() {
    let limits = Limits::default();
    let family = Family::with(|settings| {
        settings
            .calls_at_once(1)
            .memory(MemoryBudget::new(limits.host_bytes()))
    })
    .await;
    let line = [
        "caller.call_2",
        "caller.call_3",
        "caller.call_4",
        "probe.invocation",
    ];
    let tests = [(); 4].map(|()| family.free("call").timeout_ms(30_000).call(nested(&line)));
    let [a, b, c, d] = tests;
    let (a, b, c, d) = tokio::join!(a, b, c, d);
    for called in [a, b, c, d] {
        let mut answer = answer(&called);
        for _ in 0..3 {
            answer = answer["structured"]["answers"][0].clone();
        }
        assert!(
            answer["structured"]["invocation_id"].is_string(),
            "{answer:#}"
        );
    }
}

/// A call that waits for its next attempt keeps no room for the calls that it made in the last one.
#[tokio::test]
async fn a_call_that_waits_keeps_no_other_one_from_calling_tools() {
    let listener = Arc::new(RecordingListener::default());
    let heard = Arc::clone(&listener);
    let family = Family::with(|settings| settings.calls_at_once(1).listener(heard)).await;
    let retry = RetryPolicy {
        attempts: 2,
        backoff: Duration::from_secs(4),
        classes: vec![ErrorClass::ExecutionFailed],
    };
    let mut failing = calling("probe.invocation", json!({}));
    failing["then"] = json!("fail");
    let waiting = family
        .free("call")
        .policy(|policy| policy.retry = retry)
        .timeout_ms(60_000)
        .call(failing);
    let other = async {
        listener
            .wait_for("caller.call", "tool.invocation.attempt_discarded")
            .await;
        family
            .free("call")
            .timeout_ms(20_000)
            .call(calling("probe.invocation", json!({})))
            .await
    };
    let (waiting, other) = tokio::join!(waiting, other);
    assert!(
        answer(&other)["structured"]["invocation_id"].is_string(),
        "{:#}",
        other.record()
    );
    waiting.failed("execution_failed", "as_asked");
    assert_eq!(children(&waiting).len(), 2, "each attempt made its call");
}

#[tokio::test]
async fn the_calls_below_those_of_one_caller_leave_room_for_those_of_another() {
    let listener = Arc::new(RecordingListener::default());
    let heard = Arc::clone(&listener);
    let family = Family::with(|settings| {
        settings
            .pooled(false)
            .calls_at_once(32)
            .callers(2)
            .listener(heard)
    })
    .await;
    let mut flood = JoinSet::new();
    let mut stops = Vec::new();
    for _ in 0..16 {
        let test = family.free("call").actor("anna").timeout_ms(600_000);
        stops.push(test.cancellation());
        flood.spawn(test.call(calling("hostile.sleep", json!({}))));
    }
    // Each of them has begun a call, which runs or waits for room.
    listener
        .wait_for_count("", "tool.invocation.planned", 32)
        .await;
    let call = family
        .free("call")
        .actor("bert")
        .call(calling("probe.invocation", json!({})));
    let called = tokio::time::timeout(Duration::from_secs(30), call).await;
    let asleep = listener
        .heard()
        .iter()
        .filter(|(_, event)| *event == "tool.invocation.started")
        .count();
    assert!(called.is_ok(), "{asleep} calls run");
    assert!(answer(&called.unwrap())["structured"]["invocation_id"].is_string());
    stops
        .iter()
        .for_each(|stop| stop.cancel(AbortReason::UserInterruption));
    while let Some(called) = flood.join_next().await {
        called.unwrap().ended("canceled", "canceled");
    }
}

#[tokio::test]
async fn a_call_gets_the_memory_that_the_call_above_it_left() {
    let family = Family::new().await;
    let take = |mib: u64| calling("hostile.memory", json!({ "mib": mib, "how": "push" }));
    let test = || {
        family
            .free("call")
            .limit(|limits| limits.memory_bytes = 96 << 20)
    };
    let called = test().call(take(90)).await;
    refused(&answer(&called), "other(sandbox_violation)", "memory_limit");
    let called = test().call(take(16)).await;
    assert!(answer(&called)["error"].is_null(), "{:#}", answer(&called));
}

/// `call`, made twice.
fn twice(mut call: Value) -> Value {
    call["times"] = json!(2);
    call
}

#[tokio::test]
async fn bytes_that_a_call_writes_count_for_the_call_that_makes_it() {
    let family = Family::new().await;
    let (_guard, folder) = scratch();
    let file = folder.join("file");
    std::fs::write(&file, "").unwrap();
    let append = twice(calling(
        "probe.append",
        json!({ "path": file, "text": "x".repeat(60) }),
    ));
    let test = family
        .free("call_writing")
        .write(&folder)
        .limit(|limits| limits.disk_bytes = 100);
    let called = test.call(append).await;
    let answers = called.succeeded()["answers"].clone();
    assert_eq!(answers[0]["structured"]["ok"], true, "{answers:#}");
    refused(&answers[1], "other(sandbox_violation)", "disk_limit");
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 60);
    let used = called
        .0
        .result
        .usage
        .as_ref()
        .unwrap()
        .files
        .unwrap()
        .disk_bytes;
    assert_eq!((used.used, used.limit), (60, 100));
}

#[tokio::test]
async fn requests_of_a_call_count_for_the_call_that_makes_it() {
    let family = Family::new().await;
    Test::new("egress#ask")
        .on(&family.host)
        .load()
        .await
        .unwrap();
    let server = Server::hello();
    let ask = calling(
        "egress.ask",
        json!({ "requests": [{ "authority": server.authority() }] }),
    );
    let test = family
        .free("call_network")
        .net(&server.url(""))
        .limit(|limits| limits.network.requests = 1);
    let called = test.call(twice(ask)).await;
    let answers = called.succeeded()["answers"].clone();
    assert_eq!(
        answers[0]["structured"]["answers"][0]["status"], 200,
        "{answers:#}"
    );
    assert!(
        answers[1]["structured"]["answers"][0]["status"].is_null(),
        "{answers:#}"
    );
    assert_eq!(server.connections(), 1);
    let used = called.0.result.usage.as_ref().unwrap().network.unwrap();
    // The refused one counts too.
    assert_eq!((used.requests.used, used.requests.limit), (2, 1));
    assert!(used.received_bytes.used > 5, "{used:?}");
}

#[tokio::test]
async fn artifacts_of_a_call_count_for_the_call_that_makes_it() {
    let family = Family::new().await;
    let write = || {
        twice(calling(
            "probe.artifacts",
            json!({ "files": [{ "text": "one" }, { "text": "two" }] }),
        ))
    };
    let called = family
        .free("call")
        .limit(|limits| limits.artifacts = 3)
        .call(write())
        .await;
    let answers = called.succeeded()["answers"].clone();
    assert_eq!(answers[0]["structured"]["errors"], json!([]), "{answers:#}");
    let errors = json!(["quota: this call created 1 artifacts, which is all it may"]);
    assert_eq!(answers[1]["structured"]["errors"], errors, "{answers:#}");
    let used = called.0.result.usage.as_ref().unwrap().artifacts.unwrap();
    assert_eq!(
        (used.created.used, used.created.limit, used.bytes.used),
        (3, 3, 9)
    );
    assert!(
        called.0.result.artifact_refs.is_empty(),
        "they belong to the calls below"
    );

    let called = family
        .free("call")
        .limit(|limits| limits.artifact_bytes = 8)
        .call(write())
        .await;
    let answers = called.succeeded()["answers"].clone();
    assert_eq!(answers[0]["structured"]["errors"], json!([]), "{answers:#}");
    assert_eq!(
        answers[1]["structured"]["errors"].as_array().unwrap().len(),
        1,
        "{answers:#}"
    );
    let used = called.0.result.usage.as_ref().unwrap().artifacts.unwrap();
    assert_eq!((used.bytes.used, used.bytes.limit), (6, 8));
}

#[tokio::test]
async fn a_call_and_those_below_it_ask_their_user_only_so_often_together() {
    let family = Family::new().await;
    let keys: Vec<String> = (0..10).map(|at| format!("k{at}")).collect();
    let rounds: Vec<Value> = keys.iter().map(|key| json!([name(key)])).collect();
    let person =
        Person::who_says((0..20).map(|at| json!({ (keys[at % 10].as_str()): accept("Ada") })));
    let ask = twice(calling("probe.ask", json!({ "rounds": rounds })));
    let called = family
        .free("call")
        .answered_by(Arc::clone(&person) as _)
        .call(ask)
        .await;
    let answers = called.succeeded()["answers"].clone();
    assert_eq!(
        answers[0]["structured"]["responses"]["k9"],
        accept("Ada"),
        "{answers:#}"
    );
    refused(&answers[1], "other(sandbox_violation)", "question_limit");
    assert_eq!(person.asked().len(), 16);
}

#[tokio::test]
async fn what_was_called_stays_on_record_when_the_caller_crashes() {
    let family = Family::new().await;
    for then in ["panic", "fail"] {
        let mut input = calling("probe.invocation", json!({}));
        input["then"] = json!(then);
        let called = family.free("call").call(input).await;
        assert!(called.0.result.is_error);
        let child = family.record(&children(&called)[0]);
        assert_eq!(child["invocation"]["status"], "succeeded");
    }
}
