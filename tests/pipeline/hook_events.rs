//! The six hook events: when each fires, and the effect of an answer there.
//!
//! Promise: Hooks only narrow.

use HookEvent::{
    PermissionDecision, PermissionRequest, PostToolUse, PostToolUseFailure, PreToolUse,
    ResultPersistence,
};
use serde_json::{Value, json};
use toolcell_executor::hook::{HookOutput, HookProgress, Registration, UpdatedOutput};
use toolcell_policy::{Policy, Provenance, Rule, RuleWords};
use toolcell_spec::{Behavior, Content, HookEvent, Mode, PermissionResult};

use crate::support::{Called, Test, scratch};

use super::doubles::{RecordingHook, home_with_own_payloads, hooked, own_host};

fn opinion(behavior: Behavior) -> HookOutput {
    HookOutput::PermissionResult(PermissionResult {
        behavior,
        reason: "because".to_owned(),
    })
}

fn stop(reason: &str) -> HookOutput {
    HookOutput::Stop {
        reason: reason.to_owned(),
    }
}

/// `hook_event` of every recorded run.
fn fired(called: &Called) -> Vec<&'static str> {
    called
        .0
        .hooks
        .iter()
        .map(|run| run.hook_event.as_str())
        .collect()
}

#[tokio::test]
async fn each_event_fires_once_and_at_its_place() {
    let hook = RecordingHook::hearing("all", &HookEvent::ALL).shared();
    let called = Test::new("probe#counter")
        .on(&hooked([&hook]))
        .call(json!({}))
        .await;
    called.ended("succeeded", "succeeded");
    let events = [
        "pre_tool_use",
        "permission_request",
        "permission_decision",
        "post_tool_use",
        "result_persistence",
    ];
    assert_eq!(fired(&called), events);
    let pairs = |name: &'static str| {
        [
            format!("tool.hook.{name}.started"),
            format!("tool.hook.{name}.completed"),
        ]
        .map(String::leak)
        .map(|s| &*s)
    };
    let golden = [
        &[
            "tool.invocation.planned",
            "tool.invocation.selected",
            "tool.invocation.arguments_ready",
        ][..],
        &pairs("pre"),
        &pairs("permission_request"),
        &["tool.permission.decided"],
        &pairs("permission_decision"),
        &["tool.invocation.started"],
        &pairs("post"),
        &pairs("persistence"),
        &["tool.result.created", "tool.invocation.succeeded"],
    ];
    assert_eq!(called.events(), golden.concat());

    let called = Test::new("probe#fail")
        .on(&hooked([&hook]))
        .call(json!({"class": "execution_failed"}))
        .await;
    let events = [
        "pre_tool_use",
        "permission_request",
        "permission_decision",
        "post_tool_use_failure",
        "result_persistence",
    ];
    assert_eq!(fired(&called), events);

    let called = Test::new("probe#read")
        .on(&hooked([&hook]))
        .call(json!({"path": "/a"}))
        .await;
    called.failed("permission_denied", "not_granted");
    assert_eq!(
        fired(&called),
        ["pre_tool_use", "permission_request", "permission_decision"]
    );
}

#[tokio::test]
async fn each_event_shows_what_is_known_by_then() {
    let hook = RecordingHook::hearing("all", &HookEvent::ALL)
        .at(
            PreToolUse,
            [HookOutput::UpdatedInput(
                json!({"query": "y", "limit": 1, "order": "newest"}),
            )],
        )
        .shared();
    Test::new("probe#defaults")
        .on(&hooked([&hook]))
        .call(json!({"query": "x", "limit": 1}))
        .await;
    let seen = hook.seen();
    let inputs: Vec<&Value> = seen.iter().map(|seen| &seen.call.input["query"]).collect();
    assert_eq!(inputs, ["x", "y", "y", "y", "y"]);
    let decided: Vec<bool> = seen
        .iter()
        .map(|seen| seen.call.decision.is_some())
        .collect();
    assert_eq!(decided, [false, false, true, false, false]);
    assert_eq!(
        seen[2].call.decision.as_ref().unwrap().behavior,
        Behavior::Allow
    );
    let with_result: Vec<bool> = seen.iter().map(|seen| seen.result.is_some()).collect();
    assert_eq!(with_result, [false, false, false, true, true]);
    assert!(
        seen.iter()
            .all(|seen| seen.call.permission_profile.is_some())
    );
}

#[tokio::test]
async fn every_output_is_recorded_and_one_that_came_at_the_wrong_event_is_marked() {
    let progress = HookProgress {
        message: "looking".to_owned(),
        percent: Some(25.0),
    };
    let hook = RecordingHook::new("busy")
        .before([
            HookOutput::Message("hello".to_owned()),
            HookOutput::Progress(progress),
            HookOutput::AdditionalContext(json!({"k": "v"})),
            opinion(Behavior::Allow),
            HookOutput::UpdatedInput(json!({"a": 1})),
            HookOutput::UpdatedOutput(UpdatedOutput::structured(json!({"not": "yet"}))),
        ])
        .after([
            opinion(Behavior::Deny),
            HookOutput::UpdatedInput(json!({"too": "late"})),
        ])
        .shared();
    let called = Test::new("probe#echo")
        .on(&hooked([&hook]))
        .call(json!({}))
        .await;
    assert_eq!(called.succeeded()["input"], json!({"a": 1}));
    let record = called.record();
    let run = &record["hooks"][0];
    assert_eq!(
        run["outputs"],
        json!([
            {"type": "message", "text": "hello"},
            {"type": "progress", "message": "looking", "percent": 25.0},
            {"type": "additional_context"},
            {"type": "permission_result"},
            {"type": "updated_input"},
            {"type": "updated_output", "ignored": true},
        ])
    );
    assert_eq!(
        run["permission_result"],
        json!({"behavior": "allow", "reason": "because"})
    );
    assert_eq!(
        (&run["updated_input"], &run["outcome"]),
        (&json!({"a": 1}), &json!("completed"))
    );
    assert_eq!(
        (&run["hook_id"], &run["matcher"]),
        (&json!("busy"), &json!({}))
    );
    let ignored: Vec<&Value> = record["hooks"][1]["outputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|output| &output["ignored"])
        .collect();
    assert_eq!(ignored, [&json!(true), &json!(true)]);
    let told: Vec<&Value> = record["progress"]
        .as_array()
        .unwrap()
        .iter()
        .map(|update| &update["status"])
        .collect();
    assert_eq!(told, ["running", "started", "completed"]);
    assert_eq!(record["progress"][0]["hook_id"], "busy");
    assert_eq!(
        (
            &record["progress"][0]["message"],
            &record["progress"][0]["percent"]
        ),
        (&json!("looking"), &json!(25.0))
    );
}

#[tokio::test]
async fn an_opinion_denies_and_asks_but_allows_nothing() {
    for event in [PreToolUse, PermissionRequest] {
        let decided = async |behavior, tool: &str, input: Value| {
            let hook = RecordingHook::new("judge")
                .at(event, [opinion(behavior)])
                .shared();
            // A mode without an approver, so that a question ends at once.
            let test = Test::new(tool).on(&hooked([&hook]));
            test.policy(|policy| policy.mode = Mode::NonInteractive)
                .call(input)
                .await
        };
        let called = decided(Behavior::Deny, "probe#counter", json!({})).await;
        called
            .failed("permission_denied", "denied_by_hook")
            .ended("denied", "denied")
            .never_ran();
        assert_eq!(
            called.message(),
            "the hook judge denies probe.counter: because"
        );
        assert_eq!(called.record()["decisions"][0]["reason"]["type"], "hook");
        let called = decided(Behavior::Ask, "probe#counter", json!({})).await;
        called
            .failed("permission_denied", "approval_not_possible")
            .never_ran();
        assert!(
            called
                .message()
                .contains("the hook judge asks for an approval: because"),
            "{}",
            called.message()
        );
        // A call without a grant stays denied, whatever a hook answers.
        let called = decided(
            Behavior::Allow,
            "probe#read",
            json!({"path": "/etc/hostname"}),
        )
        .await;
        called
            .failed("permission_denied", "not_granted")
            .never_ran();
        decided(Behavior::Allow, "probe#counter", json!({}))
            .await
            .succeeded();
        // Nobody decides, and nobody is asked.
        let called = decided(Behavior::Passthrough, "probe#counter", json!({})).await;
        called
            .failed("permission_denied", "approval_not_possible")
            .ended("denied", "denied")
            .never_ran();
        let decisions = &called.record()["decisions"];
        assert_eq!(
            (
                &decisions[0]["behavior"],
                &decisions[0]["reason"],
                &decisions[1]["behavior"]
            ),
            (
                &json!("passthrough"),
                &json!({ "type": "hook", "message": "because" }),
                &json!("deny")
            )
        );
        let hook = RecordingHook::new("judge").at(event, [opinion(Behavior::Passthrough)]);
        let hook = hook.shared();
        let (_guard, folder) = scratch();
        std::fs::write(folder.join("x"), "granted").unwrap();
        let test = Test::new("probe#read").on(&hooked([&hook])).read(&folder);
        test.policy(|policy| policy.mode = Mode::NonInteractive)
            .call(json!({"path": folder.join("x")}))
            .await
            .succeeded();
        // Where questions are possible, an approver decides in place of the hook.
        let test = Test::new("probe#counter").on(&hooked([&hook]));
        let called = test.call(json!({})).await;
        called
            .failed("permission_denied", "nobody_to_ask")
            .never_ran();
        let behaviors: Vec<_> = called.0.decisions.iter().map(|one| one.behavior).collect();
        assert_eq!(behaviors[..2], [Behavior::Passthrough, Behavior::Ask]);
    }
}

#[tokio::test]
async fn what_a_hook_allows_a_rule_still_denies_or_asks_about() {
    let decided = async |opinion: Option<Behavior>, rule: &str| {
        let hook = RecordingHook::new("judge")
            .before(opinion.map(self::opinion))
            .shared();
        let words = RuleWords {
            behavior: rule,
            tool: Some("probe.counter"),
            ..RuleWords::default()
        };
        let rule = Rule::compile(&words, &Provenance::COMMAND_LINE).unwrap();
        let test = Test::new("probe#counter").on(&hooked([&hook]));
        test.policy(|policy| *policy = Policy::new(Mode::NonInteractive, vec![rule]))
            .call(json!({}))
            .await
    };
    let denied = decided(Some(Behavior::Allow), "deny").await;
    denied
        .failed("permission_denied", "denied_by_rule")
        .ended("denied", "denied")
        .never_ran();
    let asked = decided(Some(Behavior::Allow), "ask").await;
    asked
        .failed("permission_denied", "approval_not_possible")
        .never_ran();
    let denied = decided(Some(Behavior::Deny), "allow").await;
    denied
        .failed("permission_denied", "denied_by_hook")
        .never_ran();
    let asked = decided(Some(Behavior::Ask), "allow").await;
    asked
        .failed("permission_denied", "approval_not_possible")
        .never_ran();
    decided(Some(Behavior::Allow), "allow").await.succeeded();
    decided(None, "allow").await.succeeded();
}

#[tokio::test]
async fn what_a_hook_allows_the_profile_of_the_tool_still_asks_about() {
    let (_guard, folder) = scratch();
    let hook = RecordingHook::new("generous")
        .before([opinion(Behavior::Allow)])
        .shared();
    let test = Test::new("probe#risky").on(&hooked([&hook])).write(&folder);
    let called = test
        .policy(|policy| policy.mode = Mode::NonInteractive)
        .call(json!({}))
        .await;
    called
        .failed("permission_denied", "approval_not_possible")
        .never_ran();
}

#[tokio::test]
async fn an_allow_does_not_overrule_a_denial_inside_a_grant() {
    let (_guard, folder) = scratch();
    let hook = RecordingHook::new("generous")
        .before([opinion(Behavior::Allow)])
        .shared();
    let test = Test::new("probe#read").on(&hooked([&hook])).read(&folder);
    let test = test.grant(|grants| grants.deny_read(folder.to_str().unwrap()).unwrap());
    test.call(json!({"path": folder.join("x")}))
        .await
        .failed("permission_denied", "denied_by_rule")
        .never_ran();
}

#[tokio::test]
async fn the_order_of_registration_decides_nothing() {
    let mut results = Vec::new();
    let mut random = 0x2545_f491_u64;
    for _ in 0..100 {
        let mut hooks = vec![
            (1, "mild", opinion(Behavior::Allow)),
            (2, "asking", opinion(Behavior::Ask)),
            (3, "strict", opinion(Behavior::Deny)),
            (4, "silent", opinion(Behavior::Passthrough)),
            (5, "first", HookOutput::UpdatedInput(json!({"by": "first"}))),
            (-1, "last", HookOutput::UpdatedInput(json!({"by": "last"}))),
        ];
        for at in (1..hooks.len()).rev() {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            hooks.swap(at, usize::try_from(random >> 33).unwrap() % (at + 1));
        }
        let host = own_host(|settings| {
            settings.hooks(
                hooks
                    .into_iter()
                    .map(|(priority, id, output)| {
                        Registration::new(RecordingHook::new(id).before([output]).shared())
                            .priority(priority)
                    })
                    .collect(),
            )
        });
        let called = Test::new("probe#echo").on(&host).call(json!({})).await;
        called
            .failed("permission_denied", "denied_by_hook")
            .never_ran();
        let order: Vec<&str> = called
            .0
            .hooks
            .iter()
            .map(|run| run.hook_id.as_str())
            .collect();
        assert_eq!(
            order,
            ["first", "silent", "strict", "asking", "mild", "last"]
        );
        results.push((
            called.message().to_owned(),
            called.record()["invocation"]["permission_input"].clone(),
        ));
    }
    results.dedup();
    assert_eq!(
        results,
        [(
            "the hook strict denies probe.echo: because".to_owned(),
            json!({"by": "last"})
        )]
    );
}

#[tokio::test]
async fn hooks_hear_only_of_the_tools_that_their_matcher_names() {
    let hook = |id| Registration::new(RecordingHook::new(id).shared());
    let matching =
        |tool, namespace| toolcell_executor::hook::Matcher::new(tool, namespace).unwrap();
    let host = own_host(|settings| {
        settings
            .hook(hook("by_tool").matching(matching(Some("probe.c*"), None)))
            .hook(hook("by_namespace").matching(matching(None, Some("hostile"))))
            .hook(hook("neither").matching(matching(Some("probe.counter"), Some("other"))))
    });
    let called = Test::new("probe#counter").on(&host).call(json!({})).await;
    assert_eq!(called.0.invocation.hook_refs, ["by_tool"]);
    assert_eq!(
        called.record()["hooks"][0]["matcher"],
        json!({"tool": "probe.c*"})
    );
    let called = Test::new("probe#echo").on(&host).call(json!({})).await;
    assert!(called.0.hooks.is_empty() && called.0.invocation.hook_refs.is_empty());
    let statuses: Vec<_> = called
        .0
        .invocation
        .status_transitions()
        .iter()
        .map(|step| step.to.as_str())
        .collect();
    assert!(
        !statuses.contains(&"pre_hooks_running"),
        "no hook hears of it"
    );
}

#[tokio::test]
async fn a_stop_at_the_decision_ends_an_allowed_call_and_leaves_a_denied_one_denied() {
    for event in [PermissionRequest, PermissionDecision] {
        let hook = RecordingHook::hearing("stopper", &[event])
            .at(event, [stop("no")])
            .shared();
        let called = Test::new("probe#counter")
            .on(&hooked([&hook]))
            .call(json!({}))
            .await;
        called
            .failed("hook_blocked", "hook_stop")
            .ended("denied", "blocked")
            .never_ran();
    }
    let hook = RecordingHook::hearing("stopper", &[PermissionDecision])
        .at(PermissionDecision, [stop("no")])
        .shared();
    let called = Test::new("probe#read")
        .on(&hooked([&hook]))
        .call(json!({"path": "/a"}))
        .await;
    called
        .failed("permission_denied", "not_granted")
        .ended("denied", "denied");
}

#[tokio::test]
async fn no_hook_changes_the_input_once_it_is_being_decided_on() {
    for event in [PermissionRequest, PermissionDecision] {
        let update = HookOutput::UpdatedInput(json!({"swapped": true}));
        let hook = RecordingHook::hearing("swapper", &[event])
            .at(event, [update])
            .shared();
        let called = Test::new("probe#echo")
            .on(&hooked([&hook]))
            .call(json!({"sent": true}))
            .await;
        assert_eq!(called.succeeded()["input"], json!({"sent": true}));
        assert!(called.0.result.input_mutations.is_empty());
        assert_eq!(called.record()["hooks"][0]["outputs"][0]["ignored"], true);
    }
}

#[tokio::test]
async fn an_updated_output_is_mapped_once_more_and_the_record_says_by_whom() {
    let plain = Test::new("probe#counter").call(json!({})).await;
    assert_eq!(
        plain.record()["result_mappings"],
        json!({"tool": 1, "hooks": []})
    );
    let update = UpdatedOutput {
        content: vec![Content::text("other words")],
        structured: Some(json!({"n": 8})),
    };
    let hook = RecordingHook::new("cleaner")
        .after([HookOutput::UpdatedOutput(update)])
        .shared();
    let called = Test::new("probe#good_structured")
        .on(&hooked([&hook]))
        .call(json!({}))
        .await;
    assert_eq!(called.succeeded(), json!({"n": 8}));
    assert_eq!(called.0.result.content, [Content::text("other words")]);
    assert_eq!(
        called.record()["result_mappings"],
        json!({"tool": 1, "hooks": ["cleaner"]})
    );
    let failed = Test::new("probe#bad_json").call(json!({})).await;
    assert_eq!(
        failed.record()["result_mappings"],
        json!({"tool": 0, "hooks": []})
    );
}

#[tokio::test]
async fn an_updated_output_replaces_everything_the_tool_said_and_forges_nothing() {
    let hook = RecordingHook::new("cleaner")
        .after([HookOutput::UpdatedOutput(UpdatedOutput {
            content: vec![Content::text("clean")],
            structured: None,
        })])
        .shared();
    let called = Test::new("probe#summary")
        .on(&hooked([&hook]))
        .call(json!({}))
        .await;
    let result = &called.0.result;
    assert_eq!(
        (&result.content[..], &result.ui_facing_summary),
        (&[Content::text("clean")][..], &None)
    );
    let changes = json!({"changes": [{"key": "a", "value": 1}]});
    let called = Test::new("modifier#modify")
        .on(&hooked([&hook]))
        .call(changes.clone())
        .await;
    assert!(
        called.0.result.context_modifiers.is_empty(),
        "a change can repeat what the hook removed"
    );
    let untouched = Test::new("modifier#modify").call(changes).await;
    assert_eq!(untouched.0.result.context_modifiers.len(), 1);

    let forged = Content::new(
        "persisted_output_ref",
        json!({"persisted_ref": {"uri": "toolcell:payload/x"}}),
    );
    let output = UpdatedOutput {
        content: vec![forged],
        structured: None,
    };
    let hook = RecordingHook::new("forger")
        .after([HookOutput::UpdatedOutput(output)])
        .shared();
    let called = Test::new("probe#summary")
        .on(&hooked([&hook]))
        .call(json!({}))
        .await;
    called
        .failed("execution_failed", "result_mapping_failed")
        .ended("failed", "failed");
    assert!(
        called.0.result.content.is_empty() && called.0.result.structured_content.is_none(),
        "and nothing leaks"
    );
}

#[tokio::test]
async fn a_partial_output_can_be_updated_and_the_call_stays_failed() {
    let update = UpdatedOutput {
        content: vec![Content::text("what is left")],
        structured: None,
    };
    let hook = RecordingHook::new("cleaner")
        .on_failure([HookOutput::UpdatedOutput(update)])
        .shared();
    let called = Test::new("probe#partial")
        .on(&hooked([&hook]))
        .call(json!({}))
        .await;
    called
        .failed("partial_failure", "second_half_missing")
        .ended("partial_succeeded", "failed");
    assert_eq!(called.0.result.content, [Content::text("what is left")]);
}

#[tokio::test]
async fn a_stop_at_persistence_keeps_the_result_off_the_disk() {
    let (_guard, folder) = scratch();
    let hook = RecordingHook::hearing("private", &[ResultPersistence])
        .at(ResultPersistence, [stop("secret")])
        .shared();
    let host = own_host(|settings| {
        settings
            .home(home_with_own_payloads(&folder))
            .hook(Registration::new(hook))
    });
    let small = Test::new("probe#counter").on(&host).call(json!({})).await;
    small.succeeded();
    assert_eq!(
        small.record()["persistence"][0]["strategy"],
        "never_persist"
    );
    let big = Test::new("probe#big")
        .on(&host)
        .call(json!({"bytes": 1 << 20}))
        .await;
    big.failed("result_too_large", "hook_stop")
        .ended("too_large", "failed");
    assert_eq!(
        big.record()["persistence"][0]["strategy"],
        "drop_with_reason"
    );
    assert!(!folder.join("payloads").exists(), "nothing was written");
}

#[tokio::test]
async fn an_update_at_persistence_is_a_redaction() {
    let update = HookOutput::UpdatedOutput(UpdatedOutput::structured(json!({"n": 0})));
    let hook = RecordingHook::hearing("redactor", &[ResultPersistence])
        .at(ResultPersistence, [update])
        .shared();
    let called = Test::new("probe#good_structured")
        .on(&hooked([&hook]))
        .call(json!({}))
        .await;
    assert_eq!(called.succeeded(), json!({"n": 0}));
    let record = called.record();
    assert_eq!(record["result"]["redaction_state"], "partial");
    assert_eq!(record["persistence"][0]["strategy"], "redact");
    assert_eq!(record["persistence"][0]["redaction_state"], "partial");
    let event = called
        .0
        .events
        .iter()
        .find(|event| event.event_type.as_str() == "tool.result.redacted")
        .unwrap();
    assert_eq!(event.data["rule"], "hook:redactor");
}

#[tokio::test]
async fn a_call_without_hooks_has_no_trace_of_them() {
    let called = Test::new("probe#counter").call(json!({})).await;
    assert!(called.0.hooks.is_empty());
    assert!(called.events().iter().all(|event| !event.contains("hook")));
    let hook = RecordingHook::hearing("elsewhere", &[PostToolUseFailure]).shared();
    let called = Test::new("probe#counter")
        .on(&hooked([&hook]))
        .call(json!({}))
        .await;
    assert!(hook.seen().is_empty() && called.0.hooks.is_empty());
}

#[tokio::test]
async fn nothing_is_heard_of_a_tool_whose_output_came_too_late() {
    let hook = RecordingHook::hearing("all", &[PostToolUse, PostToolUseFailure]).shared();
    let called = Test::new("hostile#spin")
        .on(&hooked([&hook]))
        .timeout_ms(100)
        .call(json!({}))
        .await;
    assert_eq!(called.statuses().1, "timed_out");
    assert_eq!(hook.moments(), ["on_failure"]);
}
