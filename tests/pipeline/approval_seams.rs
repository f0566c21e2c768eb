//! Approvals with hooks and redaction: a call that is resumed, or gets another input, must pass every check of a call.
//!
//! Promise: An approval is for one thing.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use toolcell::{Home, Host};
use toolcell_engine::approval::{Reply, Session};
use toolcell_executor::hook::{Hook, HookCall, HookFuture, HookOutput, Registration};
use toolcell_policy::{Policy, Provenance, Rule, RuleWords};
use toolcell_spec::{Behavior, EventType, HookEvent, Mode, PermissionResult, ToolEvent, digest};

use crate::support::{Canary, Test, fixture, scratch};

use super::approvals::{
    again, appending, approved, asked, asked_with, input, lines, place, resume,
};
use super::doubles::{RecordingHook, declaring, own_host, with_internal_field};

const CANARY: Canary = Canary::new("seam-7f3/Qz+tT\"x0~long-enough");

/// A hook whose outputs depend on the call.
struct Deciding<F>(&'static [HookEvent], F);

impl<F: Fn(&HookCall) -> Vec<HookOutput> + Send + Sync> Hook for Deciding<F> {
    fn id(&self) -> &str {
        "deciding"
    }

    fn events(&self) -> &[HookEvent] {
        self.0
    }

    fn handle<'a>(&'a self, call: &'a HookCall) -> HookFuture<'a> {
        let outputs = (self.1)(call);
        Box::pin(async move { outputs.into() })
    }
}

fn stop() -> HookOutput {
    HookOutput::Stop {
        reason: "not this".to_owned(),
    }
}

/// Another process with the journal of `folder`, and with these hooks beside the one at the start of the call.
async fn elsewhere(folder: &Path, hooks: Vec<Registration>) -> Arc<Host> {
    let rewriter = RecordingHook::new("rewriter")
        .before([HookOutput::UpdatedInput(input(folder))])
        .shared();
    let host = own_host(|settings| {
        settings
            .home(Home::at(folder.with_file_name("home")))
            .approvals(true)
            .hooks(
                [Registration::new(rewriter)]
                    .into_iter()
                    .chain(hooks)
                    .collect(),
            )
    });
    host.load_file(&fixture("probe")).await.unwrap();
    host
}

#[tokio::test]
async fn a_call_that_goes_on_elsewhere_is_heard_by_the_hooks_that_are_there() {
    let late = |hook: RecordingHook| Registration::new(hook.shared());
    let stops = late(RecordingHook::new("late").before([stop()]));
    let changes = late(
        RecordingHook::new("late")
            .before([HookOutput::UpdatedInput(json!({"path": "x", "text": "y"}))]),
    );
    let missing = Registration::not_loaded("late", "the file is gone");
    for (hook, class, code) in [
        (stops, "hook_blocked", "hook_stop"),
        (missing, "hook_blocked", "hook_not_loaded"),
        (changes, "approval_rejected", "approval_outdated"),
    ] {
        let (_guard, folder) = place();
        let (_host, journal, kept) = approved(&folder, "agent:7").await;
        let host = elsewhere(&folder, vec![hook]).await;
        let called = resume(&host, &journal, &kept, again(&folder, "agent:7")).await;
        called.failed(class, code).never_ran();
        assert_eq!(lines(&folder), 0, "{code}");
    }
    let (_guard, folder) = place();
    let (_host, journal, kept) = approved(&folder, "agent:7").await;
    let host = elsewhere(&folder, Vec::new()).await;
    let called = resume(&host, &journal, &kept, again(&folder, "agent:7")).await;
    called.succeeded();
    assert_eq!(
        (called.0.result.input_mutations.len(), lines(&folder)),
        (1, 1),
        "a change is on record once"
    );
}

#[tokio::test]
async fn what_an_approver_makes_of_the_input_passes_the_hooks_as_well() {
    let (_guard, folder) = place();
    let guard = Deciding(&[HookEvent::PreToolUse], |call: &HookCall| {
        if call.input["text"] == "bad\n" {
            vec![stop()]
        } else {
            Vec::new()
        }
    });
    let edit = json!({ "path": folder.join("lines"), "text": "bad\n" }).to_string();
    let reply = Reply {
        approved: true,
        edit: Some(edit),
        ..Reply::default()
    };
    let (host, _sayer) = asked_with(&folder, Some(reply), vec![Arc::new(guard)]);
    let called = appending(&host, &folder).call(input(&folder)).await;
    called.failed("hook_blocked", "hook_stop").never_ran();
    let named = called.record()["result"]["policy_refs"].clone();
    assert!(
        named.as_array().unwrap().contains(&json!("hook:deciding")),
        "{named}"
    );
    assert_eq!(lines(&folder), 0);
}

#[tokio::test]
async fn always_answers_the_question_that_was_asked_and_no_other() {
    let (_guard, folder) = place();
    let asked_before = AtomicUsize::new(0);
    let asks = Deciding(&[HookEvent::PermissionRequest], move |_: &HookCall| {
        let reason = ["harmless", "harmless", "drops the database"]
            [asked_before.fetch_add(1, Ordering::SeqCst)];
        vec![HookOutput::PermissionResult(PermissionResult {
            behavior: Behavior::Ask,
            reason: reason.to_owned(),
        })]
    });
    let always = Reply {
        approved: true,
        always: true,
        ..Reply::default()
    };
    let (host, sayer) = asked_with(&folder, Some(always.clone()), vec![Arc::new(asks)]);
    for questions in [1, 1, 2] {
        let test = Test::new("probe#counter").on(&host);
        test.asking(|terms| terms.session = Session::Named("a".to_owned()))
            .call(json!({}))
            .await
            .succeeded();
        assert_eq!(sayer.asked.lock().unwrap().len(), questions);
    }
    // Two rules about one tool are two questions.
    let (_guard, folder) = place();
    let (host, sayer) = asked(&folder, Some(always));
    let rule = |reason: &str| {
        let words = RuleWords {
            behavior: "ask",
            tool: Some("probe.*"),
            reason: Some(reason),
            ..RuleWords::default()
        };
        Rule::compile(&words, &Provenance::COMMAND_LINE).unwrap()
    };
    for (reason, questions) in [("staging", 1), ("staging", 1), ("production", 2)] {
        let test = Test::new("probe#counter")
            .on(&host)
            .asking(|terms| terms.session = Session::Named("a".to_owned()));
        let test = test.policy(|policy| *policy = Policy::new(Mode::Default, vec![rule(reason)]));
        test.call(json!({})).await.succeeded();
        assert_eq!(sayer.asked.lock().unwrap().len(), questions, "{reason}");
    }
    sayer.journal.with(|store| store.forget_sessions()).unwrap();
    let test = Test::new("probe#counter")
        .on(&host)
        .asking(|terms| terms.session = Session::Named("a".to_owned()));
    let test = test.policy(|policy| *policy = Policy::new(Mode::Default, vec![rule("staging")]));
    test.call(json!({})).await.succeeded();
    assert_eq!(
        sayer.asked.lock().unwrap().len(),
        3,
        "what was forgotten is asked about again"
    );
}

/// A host rule asks about every call of the tool with sensitive arguments.
fn asking_about_sensitive(host: &Arc<Host>) -> Test {
    let words = RuleWords {
        behavior: "ask",
        tool: Some("probe.*"),
        ..RuleWords::default()
    };
    let rule = Rule::compile(&words, &Provenance::COMMAND_LINE).unwrap();
    Test::new("probe#sensitive")
        .on(host)
        .policy(|policy| *policy = Policy::new(Mode::Default, vec![rule]))
}

#[tokio::test]
async fn a_wrong_edit_of_a_tool_with_internal_fields_names_none_of_them() {
    let component = with_internal_field("internal_edit");
    let asks = Deciding(&[HookEvent::PermissionRequest], |_: &HookCall| {
        vec![HookOutput::PermissionResult(PermissionResult {
            behavior: Behavior::Ask,
            reason: "harmless".to_owned(),
        })]
    });
    let reply = Reply {
        approved: true,
        edit: Some(json!({"query": "x", "zz_internal_7f3": "seven"}).to_string()),
        ..Reply::default()
    };
    let (_guard, folder) = place();
    let (host, _sayer) = asked_with(&folder, Some(reply), vec![Arc::new(asks)]);
    let test = Test::of_bytes(component, None).on(&host);
    let called = test.call(json!({"query": "x"})).await;
    called
        .failed("approval_rejected", "edit_invalid")
        .never_ran();
    let shown = called.record()["result"]["model_facing_content"].to_string();
    assert!(!shown.contains("zz_internal_7f3"), "{shown}");
    assert!(!called.message().contains("zz_internal_7f3"));
}

#[tokio::test]
async fn whoever_is_asked_sees_no_sensitive_argument_and_an_edit_keeps_what_they_did_not_see() {
    let (_guard, folder) = place();
    let sent = json!({"user": "alice", "token": CANARY.value()});
    let edit = json!({"user": "bob", "token": "[redacted]"}).to_string();
    let feedback = Some(format!("I know {}", CANARY.value()));
    let reply = Reply {
        approved: true,
        edit: Some(edit),
        feedback,
        ..Reply::default()
    };
    let context = HookOutput::AdditionalContext(json!({"said": CANARY.value()}));
    let hook = RecordingHook::new("talks")
        .at(HookEvent::PermissionRequest, [context])
        .shared();
    let (host, sayer) = asked_with(&folder, Some(reply), vec![hook]);
    let called = asking_about_sensitive(&host).call(sent).await;
    called.succeeded();
    CANARY.is_not_in("the record", &called.record().to_string());
    let ran = json!({"user": "bob", "token": "[redacted]"});
    assert_eq!(called.0.invocation.call_input.as_deref(), Some(&ran));
    let asked = sayer.asked.lock().unwrap();
    let (prompt, stored) = &asked[0];
    CANARY.is_not_in("the prompt", prompt.text());
    CANARY.is_not_in("what the approver edits", prompt.arguments().text());
    assert!(
        stored.approval.plan.permission_input.contains("seam-7f3"),
        "what would run is kept, sealed"
    );
    let journal = folder.with_file_name("home").join("journal");
    let files = std::fs::read_dir(journal)
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.is_file());
    for bytes in files.map(|file| std::fs::read(file).unwrap()) {
        CANARY.is_not_in("the journal", &String::from_utf8_lossy(&bytes));
    }
}

/// A tool `long.echo` that answers its input, with a sensitive field `token`.
fn asking_about_numbers(host: &Arc<Host>, sensitive: Value) -> Test {
    let bytes = declaring("long", |declaration| {
        declaration["input_contract"] = json!({"model_input_schema": {"type": "object"}, "strict": false, "sensitive_fields": sensitive});
    });
    let words = RuleWords {
        behavior: "ask",
        tool: Some("long.*"),
        ..RuleWords::default()
    };
    let rule = Rule::compile(&words, &Provenance::COMMAND_LINE).unwrap();
    Test::of_bytes(bytes, None)
        .on(host)
        .policy(|policy| *policy = Policy::new(Mode::Default, vec![rule]))
}

fn saying(edit: &str) -> Option<Reply> {
    Some(Reply {
        approved: true,
        edit: Some(edit.to_owned()),
        ..Reply::default()
    })
}

#[tokio::test]
async fn whoever_is_asked_sees_every_digit_and_the_last_one_can_be_edited() {
    let sent = r#"{"n": 12345678901234567890123}"#;
    for (edit, runs) in [
        (sent.replace(' ', ""), sent),
        (sent.replace("0123}", "0124}"), ""),
    ] {
        let (_guard, folder) = place();
        let (host, sayer) = asked(&folder, saying(&edit));
        let called = asking_about_numbers(&host, json!([])).call_text(sent).await;
        // It ran: what it answers is the number again, which readers of JSON would round.
        called.failed("execution_failed", "output_schema_mismatch");
        assert!(
            sayer.asked.lock().unwrap()[0]
                .0
                .text()
                .contains("12345678901234567890123")
        );
        let runs = if runs.is_empty() { edit.as_str() } else { runs };
        assert_eq!(
            called.0.invocation.call_input_ref.as_deref(),
            Some(digest(runs.as_bytes()).as_str()),
            "{edit}"
        );
    }
}

#[tokio::test]
async fn digits_stay_beside_what_is_hidden_and_are_not_lost_in_an_edit() {
    let sent = r#"{"token":"hidden-from-all","n":12345678901234567890123,"m":1}"#.to_owned();
    let shown = sent.replace("hidden-from-all", "[redacted]");
    for (edit, runs) in [
        (shown.clone(), Some(sent.clone())),
        (shown.replace("1}", "2}"), Some(sent.replace("1}", "2}"))),
        (shown.replace("0123,", "0124,"), None),
    ] {
        let (_guard, folder) = place();
        let (host, sayer) = asked(&folder, saying(&edit));
        let called = asking_about_numbers(&host, json!(["token"]))
            .call_text(&sent)
            .await;
        assert_eq!(sayer.asked.lock().unwrap()[0].0.arguments().text(), shown);
        match runs {
            Some(runs) => {
                // The size of the guest's answer, which is not passed on, because readers of JSON would round the number.
                called.failed("execution_failed", "output_schema_mismatch");
                let usage = called.0.result.usage.as_ref().unwrap();
                assert_eq!(
                    usage.output_bytes.used,
                    "[]".len() as u64 + runs.len() as u64,
                    "{edit}"
                );
            }
            None => {
                called
                    .failed("approval_rejected", "edit_invalid")
                    .never_ran();
            }
        }
    }
}

#[tokio::test]
async fn hooks_that_are_told_of_a_decision_see_no_sensitive_argument_in_it() {
    let hook = RecordingHook::hearing("told", &[HookEvent::PermissionDecision]).shared();
    let words = format!("denied for {}", CANARY.value());
    let says = PermissionResult {
        behavior: Behavior::Deny,
        reason: words,
    };
    let denies = RecordingHook::new("denies").at(
        HookEvent::PermissionRequest,
        [HookOutput::PermissionResult(says)],
    );
    let both = own_host(|settings| {
        settings
            .hook(Registration::new(denies.shared()))
            .hook(Registration::new(hook.clone()))
    });
    let called = Test::new("probe#sensitive")
        .on(&both)
        .call(json!({"user": "a", "token": CANARY.value()}))
        .await;
    called
        .failed("permission_denied", "denied_by_hook")
        .never_ran();
    CANARY.is_not_in("the record", &called.record().to_string());
    let seen = hook.seen();
    let decision = serde_json::to_value(&seen[0].call.decision).unwrap();
    assert!(
        decision["reason"]["message"]
            .as_str()
            .unwrap()
            .contains("[redacted]"),
        "{decision}"
    );
    CANARY.is_not_in("the decision", &decision.to_string());
}

#[tokio::test]
async fn a_sensitive_value_of_a_hook_is_kept_back_also_when_the_hook_stops_the_call() {
    let updated: Value = json!({"user": "a", "token": CANARY.value()});
    let hook = RecordingHook::new("injects")
        .before([HookOutput::UpdatedInput(updated), stop()])
        .shared();
    let called = Test::new("probe#sensitive")
        .on(&super::doubles::hooked([&hook]))
        .call(json!({"user": "a"}))
        .await;
    called.failed("hook_blocked", "hook_stop").never_ran();
    CANARY.is_not_in("the record", &called.record().to_string());
}

#[tokio::test]
async fn what_was_withdrawn_is_not_run_though_it_was_approved() {
    let (_guard, folder) = place();
    let (host, journal, kept) = approved(&folder, "agent:7").await;
    journal
        .with(|store| store.withdraw(kept.invocation.invocation_id))
        .unwrap();
    let called = resume(&host, &journal, &kept, again(&folder, "agent:7")).await;
    called.ended("canceled", "canceled").never_ran();
    assert_eq!(
        called.0.result.error.as_ref().unwrap().error_code,
        "approval_withdrawn"
    );
    assert_eq!(lines(&folder), 0);
}

#[tokio::test]
async fn nothing_is_read_before_a_hook_that_can_deny_the_call() {
    let (_guard, folder) = scratch();
    let file = folder.join("file");
    std::fs::write(&file, "private").unwrap();
    let denies = RecordingHook::new("denies").before([HookOutput::Stop {
        reason: "not this one".into(),
    }]);
    let host = own_host(|settings| settings.hook(Registration::new(denies.shared())));
    let called = Test::new("validated#prepared")
        .on(&host)
        .write(&folder)
        .call(json!({ "path": file }))
        .await;
    called.never_ran();
    let error = called.0.result.error.as_ref().unwrap();
    assert!(error.message.contains("not this one"), "{error:?}");
}

#[tokio::test]
async fn what_preflight_could_not_read_it_reads_once_the_call_is_allowed() {
    let (_guard, folder) = place();
    let file = folder.join("file");
    let words = RuleWords {
        behavior: "ask",
        tool: Some("validated.prepared"),
        ..RuleWords::default()
    };
    let rule = Rule::compile(&words, &Provenance::COMMAND_LINE).unwrap();
    let yes = Reply {
        approved: true,
        ..Reply::default()
    };
    let (asking, sayer) = asked(&folder, Some(yes));
    let heard = RecordingHook::new("heard").at(HookEvent::PermissionRequest, []);
    let hooked = own_host(|settings| settings.hook(Registration::new(heard.shared())));
    let approved = |host: &Arc<Host>| {
        let test = Test::new("validated#prepared").on(host).write(&folder);
        test.policy(|policy| *policy = Policy::new(Mode::Default, vec![rule.clone()]))
    };
    let allowed = |host: &Arc<Host>| Test::new("validated#prepared").on(host).write(&folder);
    for (text, is_ready) in [("ready", true), ("not yet", false)] {
        std::fs::write(&file, text).unwrap();
        for test in [approved(&asking), allowed(&hooked)] {
            let called = test.call(json!({ "path": file })).await;
            if is_ready {
                assert_eq!(called.succeeded()["ran"], "prepared")
            } else {
                called
                    .failed("setup_required", "not_ready")
                    .ended("failed", "failed")
                    .never_ran();
                let steps = called.0.invocation.status_transitions().iter();
                let steps: Vec<&str> = steps.map(|step| step.to.as_str()).collect();
                assert!(
                    steps.ends_with(&["approved", "running", "failed"]),
                    "{steps:?}"
                );
                let told = |event: &&ToolEvent| event.event_type == EventType::ValidationFailed;
                let told = called.0.events.iter().find(told).unwrap();
                assert_eq!(told.data["which"], "io_preflight");
                let decided = called.0.invocation.permission_input_ref.as_deref();
                assert_eq!(told.data["input_ref"].as_str(), decided);
            }
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }
    }
    assert_eq!(sayer.asked.lock().unwrap().len(), 2, "it was asked first");
}
