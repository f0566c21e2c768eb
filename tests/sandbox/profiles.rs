//! The same code under many profiles: the sandbox is the intersection of the profile and the grants, and a claim can
//! only narrow it.
//!
//! Promise: Nothing without a grant.
//! Promise: Read-only means read-only.
//! Promise: One component, three profiles.
//! Promise: Claims only narrow.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use toolcell::{Home, Host};
use toolcell_spec::Mode;

use crate::support::{Called, Test, host, scratch};

/// A file in a folder that is granted for reading and writing.
struct Granted {
    _guard: tempfile::TempDir,
    dir: PathBuf,
    file: PathBuf,
}

impl Granted {
    fn new() -> Self {
        let (guard, dir) = scratch();
        let file = dir.join("a");
        fs::write(&file, "here").unwrap();
        Self {
            _guard: guard,
            dir,
            file,
        }
    }

    async fn call(&self, tool: &str, more: Value) -> Called {
        let mut input = json!({ "path": self.file });
        input
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        Test::new(tool).write(&self.dir).call(input).await
    }

    async fn touch(&self, tool: &str) -> Value {
        self.call(tool, json!({})).await.succeeded()
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn is_ok(outcome: &Value) -> bool {
    outcome.get("ok").is_some()
}

#[tokio::test]
async fn three_profiles_of_one_component_differ_by_what_they_declare_and_by_nothing_else() {
    let granted = Granted::new();
    let nothing = granted.touch("probe#touch_nothing").await;
    assert_eq!(nothing["preopens"], json!([]));
    assert!(
        !is_ok(&nothing["read"]) && !is_ok(&nothing["listed"]) && !is_ok(&nothing["wrote"]),
        "{nothing}"
    );
    assert_eq!(granted.names(), ["a"]);

    let reads = granted.touch("probe#touch_reads").await;
    assert_eq!(
        (&reads["read"]["ok"], &reads["listed"]["ok"]),
        (&json!("here"), &json!(["a"]))
    );
    assert!(!is_ok(&reads["wrote"]), "{reads}");
    assert_eq!(granted.names(), ["a"]);

    let writes = granted.touch("probe#touch_writes").await;
    assert!(
        is_ok(&writes["read"]) && is_ok(&writes["wrote"]),
        "{writes}"
    );
    assert_eq!(granted.names(), ["a", "a.new"]);
    assert_eq!(
        fs::read_to_string(granted.dir.join("a.new")).unwrap(),
        "new"
    );
    for answer in [nothing, reads, writes] {
        assert_eq!(answer["scratch"], Value::Null);
    }
}

#[tokio::test]
async fn a_tool_that_changes_things_elsewhere_changes_no_file_here() {
    let granted = Granted::new();
    let touched = granted.touch("probe#touch_remote").await;
    assert!(
        is_ok(&touched["read"]) && !is_ok(&touched["wrote"]),
        "{touched}"
    );
    assert_eq!(granted.names(), ["a"]);
}

#[tokio::test]
async fn a_liar_that_says_it_only_reads_is_held_to_it_and_the_record_shows_both() {
    let granted = Granted::new();
    let called = granted.call("probe#touch_liar", json!({})).await;
    let touched = called.succeeded();
    assert!(
        is_ok(&touched["read"]) && !is_ok(&touched["wrote"]),
        "{touched}"
    );
    assert_eq!(granted.names(), ["a"]);
    let decision = serde_json::to_value(&called.0.decisions[0]).unwrap();
    assert_eq!(decision["declared_facts"]["is_read_only"], true);
    assert_eq!(
        decision["effective_facts"]["is_read_only"], true,
        "because the host sees to it"
    );
    assert_eq!(
        called.record()["declaration"]["permission_profile_ref"],
        "probe.touch_liar.permissions"
    );
    // A writer that makes no such claim is recorded as a writer.
    let written = granted.call("probe#touch_writes", json!({})).await;
    let decision = serde_json::to_value(&written.0.decisions[0]).unwrap();
    assert!(
        decision.get("effective_facts").is_none(),
        "it said no other: {decision}"
    );
}

#[tokio::test]
async fn a_sandbox_profile_takes_away_and_an_unknown_one_is_refused() {
    let granted = Granted::new();
    let boxed = granted.call("probe#touch_boxed", json!({})).await;
    let decision = serde_json::to_value(&boxed.0.decisions[0]).unwrap();
    let applied = decision["sandbox_ref"].as_str().unwrap();
    assert_eq!(decision["sandbox_profile"], format!("read_only@{applied}"));
    let boxed = boxed.succeeded();
    assert!(is_ok(&boxed["read"]) && !is_ok(&boxed["wrote"]), "{boxed}");
    let emptied = granted.touch("probe#touch_emptied").await;
    assert!(
        !is_ok(&emptied["read"]) && emptied["preopens"] == json!([]),
        "{emptied}"
    );
    assert_eq!(granted.names(), ["a"]);
    let unknown = granted.call("probe#touch_unknown", json!({})).await;
    unknown
        .failed("capability_gap", "sandbox_profile_unknown")
        .ended("failed", "blocked")
        .never_ran();
}

/// A separate host, in which only the test makes drafts.
fn drafting() -> (tempfile::TempDir, PathBuf, Arc<Host>) {
    let (guard, home) = scratch();
    let host = Arc::new(host(|settings| {
        settings.home(Home::at(&home)).pooled(false)
    }));
    (guard, home.join("scratch"), host)
}

fn left_in(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .collect()
}

#[tokio::test]
async fn drafts_go_to_a_folder_of_the_calls_own_that_is_gone_however_the_call_ends() {
    let (_home, drafts, host) = drafting();
    let granted = Granted::new();
    for (then, ends) in [
        ("answer", None),
        ("panic", Some("execution_failed")),
        ("spin", Some("timeout")),
    ] {
        let input = json!({ "path": granted.file, "then": then });
        let test = Test::new("probe#touch_drafts")
            .on(&host)
            .write(&granted.dir)
            .timeout_ms(500);
        let called = test.call(input).await;
        match ends {
            None => {
                let touched = called.succeeded();
                assert_eq!(touched["scratch"], "/scratch");
                assert_eq!(touched["drafted"]["ok"], "a draft");
                assert!(
                    is_ok(&touched["read"]) && !is_ok(&touched["wrote"]),
                    "granted folders are read only: {touched}"
                );
            }
            Some(class) => assert_eq!(called.record()["result"]["error"]["error_class"], class),
        }
        assert!(drafts.is_dir(), "there was a place for drafts");
        assert_eq!(left_in(&drafts), Vec::<PathBuf>::new(), "after {then}");
    }
    assert_eq!(granted.names(), ["a"]);
}

#[tokio::test]
async fn a_canceled_call_leaves_no_draft() {
    let (_home, drafts, host) = drafting();
    let granted = Granted::new();
    let test = Test::new("probe#touch_drafts").on(&host).read(&granted.dir);
    let cancellation = test.cancellation();
    let seen = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let watch = {
        let drafts = drafts.clone();
        let seen = Arc::clone(&seen);
        // Cancels the call once a draft exists.
        std::thread::spawn(move || {
            let is_drafted = |folder: &PathBuf| folder.join("draft").exists();
            while !left_in(&drafts).iter().any(is_drafted) {
                std::thread::yield_now();
            }
            seen.store(true, std::sync::atomic::Ordering::SeqCst);
            cancellation.cancel(toolcell_spec::AbortReason::UserInterruption);
        })
    };
    let called = test
        .call(json!({ "path": granted.file, "then": "spin" }))
        .await;
    watch.join().unwrap();
    called.failed("canceled", "canceled");
    assert!(seen.load(std::sync::atomic::Ordering::SeqCst));
    assert_eq!(left_in(&drafts), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn what_a_component_says_of_one_input_narrows_the_call() {
    let granted = Granted::new();
    let write = |claims: Value| {
        let mut input = json!({ "path": granted.file, "text": "new" });
        input
            .as_object_mut()
            .unwrap()
            .extend(claims.as_object().unwrap().clone());
        Test::new("classified#writer")
            .write(&granted.dir)
            .call(input)
    };
    let called = write(json!({ "read_only": "yes" })).await;
    assert_eq!(
        called.succeeded()["ok"],
        false,
        "it said that it only reads"
    );
    assert_eq!(fs::read_to_string(&granted.file).unwrap(), "here");
    let decision = serde_json::to_value(&called.0.decisions[0]).unwrap();
    assert_eq!(decision["classified_facts"]["is_read_only"], true);
    let check = &decision["pending_classifier_check"];
    let component = &called.record()["invocation"]["runtime_refs"][0];
    assert_eq!(
        check,
        &json!({
            "classifier_ref": component, "confidence": null, "classifier_reason": "is_read_only: true",
            "can": "recommend",
        })
    );
    assert_eq!(decision["effective_facts"]["is_read_only"], true);

    let called = write(json!({ "read_only": "no", "destructive": "no" })).await;
    assert_eq!(called.succeeded()["ok"], true);
    assert_eq!(fs::read_to_string(&granted.file).unwrap(), "new");
    let decision = serde_json::to_value(&called.0.decisions[0]).unwrap();
    assert_eq!(decision["effective_facts"]["is_read_only"], false);
    assert_eq!(
        decision["effective_facts"]["is_destructive"], true,
        "the claim cannot be enforced"
    );
}

/// A classification recommends, and decides nothing: without it, the tool can change files.
#[tokio::test]
async fn what_a_component_says_of_one_input_does_not_make_plan_mode_allow_it() {
    let granted = Granted::new();
    for claim in ["yes", "no", "unstated"] {
        let called = Test::new("classified#writer")
            .write(&granted.dir)
            .policy(|policy| policy.mode = Mode::Plan)
            .call(json!({ "path": granted.file, "text": "new", "read_only": claim }))
            .await;
        called
            .failed("permission_denied", "plan_mode")
            .ended("denied", "denied")
            .never_ran();
        let decision = serde_json::to_value(&called.0.decisions[0]).unwrap();
        assert_eq!(decision["reason"]["type"], "mode");
    }
}

#[tokio::test]
async fn a_component_classifies_the_arguments_that_it_names_alone() {
    let claims = json!({ "read_only": "yes", "open_world": "no", "destructive": "no" });
    let called = Test::new("classified#in_part").call(claims).await;
    let decision = serde_json::to_value(&called.0.decisions[0]).unwrap();
    let facts = &decision["classified_facts"];
    assert_eq!(
        (&facts["is_read_only"], &facts["is_open_world"]),
        (&json!(true), &json!(false))
    );
    assert!(facts["is_destructive"].is_null(), "{facts}");
}

#[tokio::test]
async fn a_classification_that_never_comes_is_unknown_and_the_call_goes_on_with_care() {
    for tool in ["classified#classify_panics", "classified#classify_spins"] {
        let called = Test::new(tool).call(json!({})).await;
        assert!(called.succeeded()["ran"].is_string());
        let decision = serde_json::to_value(&called.0.decisions[0]).unwrap();
        assert!(
            decision.get("classified_facts").is_none(),
            "nothing was claimed: {decision}"
        );
    }
}
