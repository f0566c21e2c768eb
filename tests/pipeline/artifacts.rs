//! Artifacts: files that a tool writes in chunks, of which only those are kept that the answer refers to.
//!
//! Promise: Disk use is bounded.
//! Promise: Artifacts are redacted as they are written.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolcell::Host;
use toolcell_executor::hook::{HookOutput, Registration, UpdatedOutput};
use toolcell_spec::{AbortReason, ErrorClass, HookEvent, digest};

use crate::support::{Called, Canary, Test, scratch};

use super::doubles::{RecordingHook, RecordingListener, home_with_own_payloads, own_host};

const CANARY: Canary = Canary::new("art-5d2/Qz+tT\"x0~long-enough");

/// A host with its own payloads, in a folder that lives as long as the guard.
fn place() -> (tempfile::TempDir, PathBuf, Arc<Host>) {
    let (guard, folder) = scratch();
    let host = own_host(|settings| settings.home(home_with_own_payloads(&folder)));
    (guard, folder, host)
}

fn hooked(hook: &Arc<RecordingHook>) -> (tempfile::TempDir, PathBuf, Arc<Host>) {
    let (guard, folder) = scratch();
    let host = own_host(|settings| {
        settings
            .home(home_with_own_payloads(&folder))
            .hook(Registration::new(Arc::<RecordingHook>::clone(hook)))
    });
    (guard, folder, host)
}

/// The payloads in `folder`. No draft may be left.
#[track_caller]
fn payloads(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder.join("payloads")) else {
        return Vec::new();
    };
    let entries: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    let (drafts, payloads): (Vec<_>, Vec<_>) = entries
        .into_iter()
        .partition(|path| path.ends_with("drafts"));
    for folder in drafts {
        let left: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert!(left.is_empty(), "drafts are left: {left:?}");
    }
    payloads
}

fn test(host: &Arc<Host>) -> Test {
    Test::new("probe#artifacts").on(host)
}

fn errors(called: &Called) -> Vec<String> {
    let errors = called.succeeded()["errors"].as_array().unwrap().clone();
    errors
        .into_iter()
        .map(|error| error.as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_file_that_the_answer_refers_to_is_kept_and_listed_wherever_the_call_is_recorded() {
    let (_guard, folder, host) = place();
    let file =
        json!({ "name": "report.csv", "media_type": "text/csv", "text": "a,b\n1,2\n", "chunk": 3 });
    let called = test(&host)
        .call(json!({ "files": [file], "note": "the guest's own" }))
        .await;
    assert!(errors(&called).is_empty());
    let kept = payloads(&folder);
    assert_eq!(kept.len(), 1);
    assert_eq!(std::fs::read_to_string(&kept[0]).unwrap(), "a,b\n1,2\n");

    let record = called.record();
    let listed = &record["result"]["artifact_refs"];
    let digest = digest(b"a,b\n1,2\n");
    let uri = format!("toolcell:payload/{digest}");
    assert_eq!(listed.as_array().unwrap().len(), 1);
    for (field, value) in [
        ("name", json!("report.csv")),
        ("media_type", json!("text/csv")),
        ("size_bytes", json!(8)),
        ("digest", json!(digest)),
        ("uri", json!(uri)),
        ("version", json!(digest)),
        ("access", json!("caller")),
        (
            "source",
            json!({
                "relation": "output_of",
                "invocation_id": record["invocation"]["invocation_id"],
                "result_id": record["result"]["result_id"],
            }),
        ),
    ] {
        assert_eq!(listed[0][field], value, "{field}");
    }
    assert_eq!(record["invocation"]["artifact_refs"], *listed);
    let mut block = listed[0].clone();
    for field in ["id", "version", "access", "source"] {
        block.as_object_mut().unwrap().remove(field);
    }
    block["type"] = json!("artifact_ref");
    assert_eq!(
        record["result"]["content"],
        json!([block]),
        "the host's fields, and none of the guest's"
    );
    let text = json!({ "type": "text", "text": called.succeeded().to_string() });
    assert_eq!(
        record["result"]["model_facing_content"],
        json!([block, text])
    );

    let decision = &record["persistence"][0];
    assert_eq!(
        (&decision["strategy"], &decision["persisted_ref"]["digest"]),
        (&json!("ref_only"), &json!(digest))
    );
    assert_eq!(
        (
            &decision["original_size_bytes"],
            &decision["preview_size_bytes"]
        ),
        (&json!(8), &json!(0))
    );
    assert!(called.events().contains(&"tool.result.persisted"));
    let usage = &record["result"]["usage"]["artifacts"];
    assert_eq!(
        (&usage["bytes"]["used"], &usage["created"]["used"]),
        (&json!(8), &json!(1))
    );
}

#[tokio::test]
async fn a_partial_result_names_its_artifacts_and_only_those_of_its_call() {
    let (_guard, _, host) = place();
    let input = json!({ "files": [{ "name": "a.csv" }], "early": true, "refer_to": ["toolcell:artifact/none"] });
    let record = test(&host).call(input).await.record();
    let early = &record["progress"][0];
    assert_eq!(early["status"], "partial_result", "{record}");
    let named = early["artifact_refs"].as_array().unwrap();
    assert_eq!(named.len(), 1, "{early}");
    assert_eq!(
        (&named[0]["name"], &named[0]["reference"]),
        (&json!("a.csv"), &early["partial_content"][0]["reference"])
    );
    let whole = test(&host)
        .call(json!({ "files": [{ "name": "a.csv" }], "early": true }))
        .await
        .record();
    assert_eq!(
        whole["progress"][0]["artifact_refs"][0]["digest"],
        whole["result"]["artifact_refs"][0]["digest"]
    );
    // A name that repeats a sensitive argument is hidden there as everywhere.
    let secret = json!({ "files": [{ "name": "a" }], "early": true, "secret": CANARY.value() });
    let hidden = test(&host).call(secret).await.record()["progress"][0].to_string();
    assert!(
        hidden.contains("artifact_refs") && !hidden.contains(CANARY.value()),
        "{hidden}"
    );
}

#[tokio::test]
async fn a_call_without_artifacts_has_no_trace_of_them() {
    let (_guard, folder, host) = place();
    let called = Test::new("probe#echo").on(&host).call(json!({})).await;
    called.succeeded();
    let record = called.record();
    assert!(
        record["result"]["artifact_refs"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    assert!(record["invocation"].get("artifact_refs").is_none());
    assert!(record["result"]["usage"].get("artifacts").is_none());
    assert!(!folder.join("payloads").exists());
}

#[tokio::test]
async fn only_a_reference_that_this_call_got_counts() {
    let (_guard, folder, host) = place();
    let other = test(&host)
        .call(json!({ "files": [{ "text": "of another call" }] }))
        .await;
    let of_another = other.0.result.artifact_refs[0]["reference"]
        .as_str()
        .unwrap()
        .to_owned();
    let own = digest(b"own");
    for refer_to in [
        "toolcell:artifact/01ARZ3NDEKTSV4RRFFQ69G5FAV".to_owned(),
        of_another,
        // The digest is not the reference: a guest could compute it.
        format!("toolcell:payload/{own}"),
        own,
        "../../keys/calls".to_owned(),
        String::new(),
        "\u{1b}[2J".repeat(1_000),
    ] {
        let files =
            json!([{ "text": "own", "refer": false }, { "text": "unfinished", "finish": "never" }]);
        let called = test(&host)
            .call(json!({ "files": files, "refer_to": [refer_to] }))
            .await;
        called
            .failed("execution_failed", "artifact_ref_invalid")
            .ended("failed", "failed");
        assert!(called.0.result.artifact_refs.is_empty() && called.0.result.content.is_empty());
        assert!(
            called.message().len() < 1_500 && !called.message().contains('\u{1b}'),
            "{}",
            called.message()
        );
        assert_eq!(payloads(&folder).len(), 1, "only that of the other call");
    }
}

#[tokio::test]
async fn a_hook_forges_no_reference_either() {
    let block = json!([{ "type": "artifact_ref", "reference": "toolcell:artifact/01ARZ3NDEKTSV4RRFFQ69G5FAV" }]);
    let updated = UpdatedOutput {
        content: serde_json::from_value(block).unwrap(),
        structured: None,
    };
    let hook = RecordingHook::new("forger")
        .after([HookOutput::UpdatedOutput(updated)])
        .shared();
    let (_guard, folder, host) = hooked(&hook);
    let called = test(&host)
        .call(json!({ "files": [{ "text": "x" }] }))
        .await;
    called.failed("execution_failed", "result_mapping_failed");
    assert!(payloads(&folder).is_empty());
}

#[tokio::test]
async fn a_reference_that_occurs_twice_is_refused() {
    // The number of references bounds what they take in the result.
    let (_guard, folder, host) = place();
    let called = test(&host)
        .call(json!({ "files": [{ "text": "one" }], "twice": true }))
        .await;
    called.failed("execution_failed", "artifact_ref_invalid");
    assert!(payloads(&folder).is_empty());
}

#[tokio::test]
async fn what_the_answer_does_not_refer_to_is_removed() {
    let (_guard, folder, host) = place();
    let files = json!([
        { "text": "referred to" },
        { "text": "finished", "refer": false },
        { "text": "dropped", "finish": "never" },
        { "text": "left open", "finish": "keep_open" },
    ]);
    let called = test(&host).call(json!({ "files": files })).await;
    assert_eq!(called.0.result.artifact_refs.len(), 1);
    let kept = payloads(&folder);
    assert_eq!(kept.len(), 1);
    assert_eq!(std::fs::read_to_string(&kept[0]).unwrap(), "referred to");
    let usage = called.0.result.usage.as_ref().unwrap().artifacts.unwrap();
    assert_eq!(usage.created.used, 4, "what is removed counts too");
}

#[tokio::test]
async fn a_call_that_fails_leaves_no_file() {
    let (_guard, folder, host) = place();
    let files = json!([{ "text": "finished" }, { "bytes": 300_000, "finish": "keep_open" }]);
    for (then, class, code) in [
        ("fail", "execution_failed", "told_to_fail"),
        ("panic", "execution_failed", "guest_panicked"),
    ] {
        let called = test(&host)
            .call(json!({ "files": files, "then": then }))
            .await;
        called.failed(class, code);
        assert!(
            called.0.result.artifact_refs.is_empty() && payloads(&folder).is_empty(),
            "{then}"
        );
    }
    for (then, code) in [("spin", "epoch_deadline"), ("sleep", "deadline_exceeded")] {
        let called = test(&host)
            .timeout_ms(400)
            .call(json!({ "files": files, "then": then }))
            .await;
        called.failed("timeout", code);
        assert!(payloads(&folder).is_empty(), "{then}");
    }
    // In the middle of a write.
    let endless = json!([{ "bytes": 4_000_000_000_u64, "chunk": 1 << 20 }]);
    let many = test(&host)
        .limit(|limits| limits.artifact_bytes = 1 << 41)
        .timeout_ms(300);
    let called = many.call(json!({ "files": endless })).await;
    let error = called.0.result.error.as_ref().unwrap();
    assert_eq!(error.error_class, ErrorClass::Timeout);
    assert!(payloads(&folder).is_empty());
}

#[tokio::test]
async fn a_canceled_call_leaves_no_file() {
    let (_guard, folder) = scratch();
    let listener = Arc::new(RecordingListener::default());
    let heard = Arc::clone(&listener);
    let host = own_host(|settings| {
        settings
            .home(home_with_own_payloads(&folder))
            .listener(heard)
    });
    let test = test(&host);
    let cancellation = test.cancellation();
    let drafts = folder.join("payloads/drafts");
    let cancel = async {
        listener.wait_for("", "tool.invocation.started").await;
        // After the first artifact was created.
        while std::fs::read_dir(&drafts).map_or(0, Iterator::count) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancellation.cancel(AbortReason::UserInterruption);
    };
    let files = json!([{ "text": "finished" }, { "text": "open", "finish": "keep_open" }]);
    let (called, ()) = tokio::join!(
        test.call(json!({ "files": files, "then": "sleep" })),
        cancel
    );
    called.failed("canceled", "canceled");
    assert!(payloads(&folder).is_empty());
}

#[tokio::test]
async fn quotas_are_told_to_the_tool_and_what_fits_is_kept() {
    let (_guard, folder, host) = place();
    let files = json!([{ "bytes": 600, "chunk": 100 }, { "bytes": 600, "chunk": 100 }]);
    let small = test(&host).limit(|limits| limits.artifact_bytes = 1_000);
    let called = small.call(json!({ "files": files })).await;
    let told = errors(&called);
    assert_eq!(
        told,
        [
            "quota: the artifacts of this call would have 1100 bytes, 1000 are allowed; \
                       --max-artifact-bytes raises it"
        ]
    );
    assert_eq!(
        (called.0.result.artifact_refs.len(), payloads(&folder).len()),
        (1, 1)
    );

    let called = test(&host)
        .call(json!({ "files": [{ "text": "x" }], "repeat": 10_000 }))
        .await;
    assert_eq!(
        errors(&called),
        ["quota: this call created 100 artifacts, which is all it may"]
    );
    assert_eq!(called.0.result.artifact_refs.len(), 100);
    assert_eq!(payloads(&folder).len(), 2, "equal bytes share one payload");

    let called = test(&host)
        .call(json!({ "files": [{ "finish": "keep_open" }], "repeat": 10 }))
        .await;
    assert_eq!(
        errors(&called),
        ["quota: 8 artifacts are open; finish or drop one first"]
    );

    let called = test(&host)
        .call(json!({ "files": [{ "bytes": 2 << 20, "chunk": 2 << 20 }] }))
        .await;
    assert!(
        errors(&called)[0].starts_with("invalid: a chunk has 2097152 bytes"),
        "{:?}",
        errors(&called)
    );
    let called = test(&host)
        .call(json!({ "files": [{ "media_type": "no type" }] }))
        .await;
    assert!(
        errors(&called)[0].starts_with("invalid: the media type"),
        "{:?}",
        errors(&called)
    );
}

#[tokio::test]
async fn many_tiny_writes_are_one_file() {
    let (_guard, folder, host) = place();
    let called = test(&host)
        .call(json!({ "files": [{ "bytes": 200_001, "chunk": 1 }] }))
        .await;
    assert!(errors(&called).is_empty());
    assert_eq!(
        std::fs::metadata(&payloads(&folder)[0]).unwrap().len(),
        200_001
    );
}

#[tokio::test]
async fn a_name_is_short_and_legible_and_leads_nowhere_else() {
    let (_guard, folder, host) = place();
    for (name, times, shown) in [
        ("../../../etc/passwd", 1, "etc/passwd".to_owned()),
        ("a\u{1b}[31m\u{202e}\nb", 1, "a[31mb".to_owned()),
        ("x", 3_000_000, "x".repeat(128)),
        ("", 1, "file".to_owned()),
        ("/", 1, "artifact".to_owned()),
    ] {
        let name = if name.is_empty() {
            Value::Null
        } else {
            json!(name)
        };
        let called = test(&host)
            .call(json!({ "files": [{ "name": name, "name_times": times, "text": "t" }] }))
            .await;
        assert!(errors(&called).is_empty(), "{:?}", errors(&called));
        assert_eq!(called.0.result.artifact_refs[0]["name"], shown);
        assert_eq!(payloads(&folder).len(), 1);
    }
}

#[tokio::test]
async fn a_sensitive_value_is_in_no_artifact_wherever_its_chunks_are_cut() {
    let (_guard, folder, host) = place();
    for chunk in [1, 3, 7, 1_000] {
        let file = json!({ "name": "log-", "text": "the value is ", "chunk": chunk });
        let called = test(&host)
            .call(json!({ "files": [file], "secret": CANARY.value() }))
            .await;
        assert!(errors(&called).is_empty());
        let kept = payloads(&folder);
        assert_eq!(kept.len(), 1, "the bytes do not depend on the chunks");
        assert_eq!(
            std::fs::read_to_string(&kept[0]).unwrap(),
            "the value is [redacted]"
        );
        CANARY.is_not_in("the record", &called.record().to_string());
        assert_eq!(called.0.result.artifact_refs[0]["name"], "log-[redacted]");
        assert_eq!(called.0.result.redaction_state, "partial");
        let event = called
            .0
            .events
            .iter()
            .find(|event| event.event_type.as_str() == "tool.result.redacted")
            .unwrap();
        assert!(
            event.data["pointers"]
                .as_array()
                .unwrap()
                .contains(&json!("/artifact_refs")),
            "{:?}",
            event.data
        );
    }
}

#[tokio::test]
async fn a_tool_whose_output_has_redaction_rules_writes_no_artifact() {
    let (_guard, folder, host) = place();
    let called = Test::new("probe#artifacts_ruled")
        .on(&host)
        .call(json!({ "files": [{ "text": "x" }] }))
        .await;
    let told = errors(&called);
    assert!(
        told[0].starts_with("denied: the output contract has redaction_rules"),
        "{told:?}"
    );
    assert!(payloads(&folder).is_empty());
}

#[tokio::test]
async fn a_hook_that_keeps_a_result_from_being_stored_keeps_its_artifacts_too() {
    let stop = HookOutput::Stop {
        reason: "not on this disk".to_owned(),
    };
    let hook = RecordingHook::hearing("keeper", &[HookEvent::ResultPersistence])
        .at(HookEvent::ResultPersistence, [stop])
        .shared();
    let (_guard, folder, host) = hooked(&hook);
    let called = test(&host)
        .call(json!({ "files": [{ "text": "secret enough" }] }))
        .await;
    called.failed("result_too_large", "hook_stop");
    assert!(
        called.message().contains("not on this disk"),
        "{}",
        called.message()
    );
    assert!(called.0.result.artifact_refs.is_empty() && payloads(&folder).is_empty());
}

#[tokio::test]
async fn an_artifact_that_a_hook_takes_out_of_the_output_is_removed() {
    let updated = UpdatedOutput {
        content: Vec::new(),
        structured: Some(json!({ "errors": [] })),
    };
    let hook = RecordingHook::new("remover")
        .after([HookOutput::UpdatedOutput(updated)])
        .shared();
    let (_guard, folder, host) = hooked(&hook);
    let called = test(&host)
        .call(json!({ "files": [{ "text": "taken out" }] }))
        .await;
    called.succeeded();
    assert!(called.0.result.artifact_refs.is_empty() && payloads(&folder).is_empty());
    let seen = hook.seen();
    let shown = &seen.last().unwrap().result.as_ref().unwrap().content[0];
    assert_eq!(
        (shown.kind.as_str(), &shown.fields["size_bytes"]),
        ("artifact_ref", &json!(9))
    );
}

#[tokio::test]
async fn an_artifact_that_cannot_be_stored_is_an_error_without_a_path() {
    let (_guard, folder, host) = place();
    std::fs::write(folder.join("payloads"), "in the way").unwrap();
    let called = test(&host)
        .call(json!({ "files": [{ "text": "x" }] }))
        .await;
    let told = errors(&called);
    assert!(
        told[0].starts_with("failed: the host cannot store the artifact"),
        "{told:?}"
    );
    assert!(!told[0].contains(folder.to_str().unwrap()), "{told:?}");
}

#[tokio::test]
async fn zeros_of_an_artifact_take_no_room_on_the_disk() {
    use std::os::unix::fs::MetadataExt;
    let (_guard, folder, host) = place();
    let text = format!("begin{}", "\0".repeat(400 << 10));
    let called = test(&host)
        .call(json!({ "files": [{ "text": text, "bytes": 3 }] }))
        .await;
    assert!(errors(&called).is_empty());
    let kept = payloads(&folder);
    let metadata = std::fs::metadata(&kept[0]).unwrap();
    assert!(
        metadata.blocks() * 512 < 64 << 10,
        "{} blocks",
        metadata.blocks()
    );
    assert!(std::fs::read(&kept[0]).unwrap() == format!("{text}xxx").into_bytes());
}
