//! What becomes of an output: its blocks are checked, and operator, tool and size decide where it is kept.
//!
//! Promise: An output is kept as the strictest says.

use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolcell::{Home, Host, Listener, OutputError};
use toolcell_spec::{EventType, GUEST_BLOCKS, OutputRetention, Strategy, ToolEvent};

use super::doubles::{home_with_own_payloads, own_host};
use crate::support::{Called, Test, scratch};

/// The limit of the results of [`host`], in bytes.
const LIMIT: u64 = 4_000;

fn host(folder: &Path, keeping: OutputRetention) -> Arc<Host> {
    let is_set_up = folder.join("cache").is_symlink();
    own_host(|settings| {
        settings
            .home(if is_set_up {
                Home::at(folder)
            } else {
                home_with_own_payloads(folder)
            })
            .inline_bytes_max(LIMIT)
            .keeping(keeping)
    })
}

async fn say(tool: &str, on: Option<&Arc<Host>>, input: Value) -> Called {
    let test = Test::new(&format!("probe#{tool}"));
    match on {
        Some(host) => test.on(host).call(input).await,
        None => test.call(input).await,
    }
}

fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

fn strategies(called: &Called) -> Vec<Value> {
    called
        .0
        .persistence
        .iter()
        .map(|decision| serde_json::to_value(decision.strategy).unwrap())
        .collect()
}

/// Whether a file below `folder` holds `text`.
fn is_on_disk(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).is_ok_and(|entries| {
        entries.map(|entry| entry.unwrap().path()).any(|path| {
            match path.symlink_metadata().unwrap() {
                // The links lead to what all tests share: compiled code and its key.
                metadata if metadata.is_symlink() => false,
                metadata if metadata.is_dir() => is_on_disk(&path, text),
                _ => String::from_utf8_lossy(&std::fs::read(&path).unwrap()).contains(text),
            }
        })
    })
}

#[tokio::test]
async fn a_block_of_every_class_comes_back_as_it_was_written() {
    let content = json!([
        { "type": "text", "text": "t", "annotations": { "audience": ["user"] } },
        { "type": "image", "data": "AAAA", "media_type": "image/png" },
        { "type": "audio", "uri": "https://example.com/a.wav", "media_type": "audio/wav" },
        { "type": "video", "data": "AAAA", "media_type": "video/mp4" },
        { "type": "file", "name": "a.txt", "data": "AA==", "media_type": "text/plain; charset=utf-8" },
        { "type": "resource_link", "uri": "https://example.com/a", "name": "a" },
        { "type": "embedded_resource", "uri": "memo:1", "text": "m" },
        { "type": "log", "level": "info", "text": "l" },
        { "type": "diff", "path": "a", "diff": "-a" },
        { "type": "handoff_ref", "to_agent": "billing", "message": "m", "x_unknown": [1.5, null] },
    ]);
    let called = say("say", None, json!({ "content": content })).await;
    called.succeeded();
    assert_eq!(called.record()["result"]["content"], content);
    // All but the reference to an artifact, which `artifacts.rs` tests.
    assert_eq!(content.as_array().unwrap().len(), GUEST_BLOCKS.len() - 1);
    // Structured output, a class without a block, has its own place.
    let called = say(
        "say",
        None,
        json!({ "content": [], "structured": { "n": 1 } }),
    )
    .await;
    assert_eq!(
        called.record()["result"]["structured_content"],
        json!({ "n": 1 })
    );
}

#[tokio::test]
async fn an_output_is_read_as_a_type_of_the_caller() {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Count {
        n: u32,
    }
    let structured = json!({ "content": [], "structured": { "n": 1 } });
    let called = say("say", None, structured).await;
    assert_eq!(called.0.output::<Count>().unwrap(), Count { n: 1 });
    let mismatch = called.0.output::<Vec<Count>>().unwrap_err();
    assert!(matches!(mismatch, OutputError::Structured(_)), "{mismatch}");
    let called = say("say", None, text("{ \"n\": 2 }")).await;
    assert_eq!(called.0.output::<Count>().unwrap(), Count { n: 2 });
    let prose = say("say", None, text("two matches")).await;
    let prose = prose.0.output::<Count>().unwrap_err();
    assert!(
        prose.to_string().contains("no structured content"),
        "{prose}"
    );
}

#[tokio::test]
async fn an_output_that_is_missing_is_an_error_that_says_where_it_is() {
    let empty = say("say", None, json!({ "content": [] })).await;
    let error = empty.0.output::<Value>().unwrap_err();
    assert!(matches!(error, OutputError::Empty), "{error}");
    let failed = say("say", None, json!({ "content": 1 })).await;
    let error = failed.0.output::<Value>().unwrap_err().to_string();
    assert!(
        error.contains(failed.message()) && error.ends_with(']'),
        "{error}"
    );
    let (_guard, folder) = scratch();
    let host = host(&folder, OutputRetention::default());
    let large = json!({ "content": [], "structured": { "text": "x".repeat(5_000) } });
    let called = say("say", Some(&host), large.clone()).await;
    let error = called.0.output::<Value>().unwrap_err();
    let OutputError::Persisted { digest } = error else {
        panic!("{error}")
    };
    let kept = host.payload(&digest, 100_000).await.unwrap();
    assert_eq!(
        serde_json::from_slice::<Value>(&kept).unwrap(),
        large["structured"]
    );
}

#[tokio::test]
async fn a_block_without_what_its_type_needs_fails_the_call_and_is_named() {
    for (block, member) in [
        (json!({ "type": "text" }), "`text`"),
        (
            json!({ "type": "image", "data": "not base64!", "media_type": "image/png" }),
            "`data`",
        ),
        (json!({ "type": "image", "data": "AAAA" }), "`media_type`"),
        (
            json!({ "type": "file", "data": "AAAA", "media_type": "plain" }),
            "`media_type`",
        ),
        (
            json!({ "type": "resource_link", "uri": "no address" }),
            "`uri`",
        ),
        (
            json!({ "type": "embedded_resource", "uri": "memo:1" }),
            "`text`",
        ),
        (
            json!({ "type": "handoff_ref", "to_agent": "" }),
            "`to_agent`",
        ),
    ] {
        let called = say(
            "say",
            None,
            json!({ "content": [{ "type": "text", "text": "fine" }, block] }),
        )
        .await;
        called
            .failed("execution_failed", "content_invalid")
            .ended("failed", "failed");
        assert!(
            called.message().contains("block 1") && called.message().contains(member),
            "{}",
            called.message()
        );
        assert!(called.0.result.content.is_empty());
    }
}

#[tokio::test]
async fn no_tool_writes_a_class_that_is_the_hosts() {
    let reference =
        json!({ "uri": "toolcell:payload/sha256:00", "digest": "sha256:00", "size_bytes": 1 });
    let block = json!({ "type": "persisted_output_ref", "of": "text", "persisted_ref": reference });
    let called = say("say", None, json!({ "content": [block] })).await;
    called.failed("execution_failed", "content_invalid");
    assert!(
        called.message().contains("may not write"),
        "{}",
        called.message()
    );
}

#[tokio::test]
async fn a_block_may_hold_the_structured_output_if_nothing_else_does() {
    let block = json!({ "type": "structured_content", "structured_content": { "n": [1] } });
    let called = say("say", None, json!({ "content": [block] })).await;
    assert_eq!(called.succeeded(), json!({ "n": [1] }));
    assert!(called.0.result.content.is_empty() && !called.0.result.empty_result);
    for output in [
        json!({ "content": [block, block] }),
        json!({ "content": [block], "structured": { "n": 1 } }),
        json!({ "content": [{ "type": "structured_content" }] }),
    ] {
        let called = say("say", None, output).await;
        called.failed("execution_failed", "content_invalid");
    }
}

#[tokio::test]
async fn a_tool_draws_the_boundary_between_what_a_model_and_what_people_get() {
    let both =
        json!({ "content": [{ "type": "text", "text": "for people" }], "structured": { "n": 1 } });
    let called = say("say_to_people", None, both).await;
    let result = &called.0.result;
    assert_eq!(result.text(), "{\"n\":1}");
    let shown = result.representations().ui_facing_rendering;
    assert!(shown.contains("for people"), "{shown}");
    let alone = say("say_to_people", None, text("for people")).await;
    assert_eq!(
        alone.0.result.text(),
        "(tool completed; its output is for people)"
    );
    assert!(!alone.0.result.empty_result);
    // The same tool promises that there is an output.
    let empty = say("say_to_people", None, json!({ "content": [] })).await;
    empty.failed("execution_failed", "output_schema_mismatch");
}

#[tokio::test]
async fn structured_output_without_a_text_is_compact_json_for_the_model() {
    let image = json!({ "type": "image", "data": "AAAA", "media_type": "image/png" });
    let called = say(
        "say",
        None,
        json!({ "content": [image], "structured": { "n": [1, 2] } }),
    )
    .await;
    let shown = &called.0.result.model_facing_content;
    assert_eq!(
        (shown.len(), shown[1].as_text()),
        (2, Some("{\"n\":[1,2]}"))
    );
    let with_text =
        json!({ "content": [{ "type": "text", "text": "two" }], "structured": { "n": 2 } });
    assert_eq!(say("say", None, with_text).await.0.result.text(), "two");
}

#[tokio::test]
async fn an_output_without_its_promised_artifact_is_partial_and_kept() {
    let report = |name: &str, kind: &str| json!({ "type": "file", "name": name, "data": "AA==", "media_type": kind });
    let called = say(
        "say_report",
        None,
        json!({ "content": [report("report.csv", "text/csv")] }),
    )
    .await;
    called.ended("succeeded", "succeeded");
    for content in [
        json!([]),
        json!([report("report.csv", "text/plain")]),
        json!([report("other.csv", "text/csv")]),
    ] {
        let called = say("say_report", None, json!({ "content": content })).await;
        called
            .failed("partial_failure", "artifact_missing")
            .ended("partial_succeeded", "failed");
        assert!(
            called.message().contains("\"report.csv\"")
                && called.message().contains("\"text/csv\"")
        );
        assert_eq!(called.record()["result"]["content"], content);
        assert!(!called.0.result.empty_result);
    }
}

#[tokio::test]
async fn a_tool_chooses_how_its_output_is_kept() {
    let (_guard, folder) = scratch();
    let host = host(&folder, OutputRetention::default());
    let large = "y".repeat(LIMIT as usize);
    let called = say("say_by_reference", Some(&host), text("short")).await;
    called.ended("succeeded", "succeeded");
    assert_eq!(strategies(&called), ["ref_only"]);
    let block = called.record()["result"]["content"][0].clone();
    assert_eq!(
        (&block["type"], &block["preview"]),
        (&json!("persisted_output_ref"), &json!(""))
    );
    assert_eq!(block["persisted_ref"]["size_bytes"], 5);

    let called = say("say_nothing", Some(&host), text("short")).await;
    called.failed("result_redacted", "redacted_by_setting");
    let mut events = called.0.events.iter();
    let told = events.find(|event| event.event_type == EventType::ResultRedacted);
    let told = &told.unwrap().data;
    assert_eq!(
        (&told["rule"], &told["pointers"]),
        (&json!("persistence_policy_ref"), &json!(["/content"]))
    );
    assert_eq!(
        called.record()["result"]["error"]["policy_refs"],
        json!(["setting:persistence_policy_ref"])
    );
    assert_eq!(strategies(&called), ["redact"]);
    let result = called.record()["result"].clone();
    assert_eq!(
        (&result["status"], &result["redaction_state"]),
        (&json!("redacted"), &json!("full"))
    );
    assert_eq!(
        (&result["summary"], &result["content"]),
        (&json!("There was an answer."), &json!([]))
    );
    assert_eq!(
        result["model_facing_content"][0]["text"],
        "There was an answer."
    );

    assert_eq!(
        strategies(&say("say_or_drop", Some(&host), text("short")).await),
        ["inline"]
    );
    let before = std::fs::read_dir(folder.join("payloads")).unwrap().count();
    let called = say("say_or_drop", Some(&host), text(&large)).await;
    called
        .failed("result_too_large", "never_persisted")
        .ended("too_large", "failed");
    assert_eq!(strategies(&called), ["drop_with_reason"]);
    assert_eq!(
        called.0.result.summary.as_deref(),
        Some("There was a long answer.")
    );
    let called = say("say_in_passing", Some(&host), text(&large)).await;
    assert_eq!(strategies(&called), ["drop_with_reason", "never_persist"]);
    assert_eq!(
        std::fs::read_dir(folder.join("payloads")).unwrap().count(),
        before,
        "nothing was stored"
    );
}

#[tokio::test]
async fn an_operator_and_a_tool_only_narrow_each_other() {
    for (keeping, tool, expected) in [
        (Strategy::NeverPersist, "say_or_drop", "never_persist"),
        (Strategy::Inline, "say_by_reference", "ref_only"),
        (
            Strategy::PreviewAndPersist,
            "say_in_passing",
            "never_persist",
        ),
        (Strategy::RefOnly, "say_in_passing", "drop_with_reason"),
        (
            Strategy::DropWithReason,
            "say_by_reference",
            "drop_with_reason",
        ),
        (Strategy::Redact, "say_by_reference", "redact"),
    ] {
        let (_guard, folder) = scratch();
        let host = host(&folder, OutputRetention::by(keeping));
        let called = say(tool, Some(&host), text("short")).await;
        assert_eq!(strategies(&called)[0], expected, "{keeping:?} and {tool}");
        let is_gone = matches!(expected, "drop_with_reason" | "redact");
        assert_eq!(
            called.0.result.is_error, is_gone,
            "{:?}",
            called.0.result.error
        );
        assert_eq!(folder.join("payloads").exists(), expected == "ref_only");
    }
}

#[tokio::test]
async fn an_output_that_may_be_on_no_disk_is_in_no_file() {
    let (_guard, folder) = scratch();
    // The output repeats what the input does not hold.
    let call = |host: Arc<Host>, bytes: u64| async move {
        Test::new("probe#big")
            .on(&host)
            .call(json!({ "bytes": bytes }))
            .await
    };
    let passing = host(&folder, OutputRetention::by(Strategy::NeverPersist));
    let small = call(Arc::clone(&passing), 2_000).await;
    assert_eq!(small.0.result.text().len(), 2_000, "the caller has it");
    let large = call(passing, LIMIT * 2).await;
    large.failed("result_too_large", "never_persisted");
    let partial = Test::new("probe#partial_result")
        .on(&host(&folder, OutputRetention::by(Strategy::NeverPersist)))
        .call(json!({ "text": "x".repeat(300) }))
        .await;
    assert!(!partial.0.progress.is_empty());
    // Long enough that events are noted while it runs.
    let told = Test::new("probe#progress")
        .on(&host(&folder, OutputRetention::by(Strategy::NeverPersist)))
        .call(json!({ "count": 4, "interval_ms": 200 }))
        .await;
    assert!(
        told.record()["progress"]
            .to_string()
            .contains("current_step")
    );
    assert!(
        !is_on_disk(&folder, "current_step"),
        "progress is on the disk"
    );
    assert!(
        folder.join("journal/calls").exists(),
        "the calls themselves are on record"
    );
    assert!(
        !is_on_disk(&folder, &"x".repeat(1_000)),
        "an output is on the disk"
    );
    assert!(
        !is_on_disk(&folder, "partial_content"),
        "a partial result is on the disk"
    );
    // The same search finds an output that may be stored.
    call(host(&folder, OutputRetention::default()), 2_000).await;
    assert!(is_on_disk(&folder, &"x".repeat(1_000)));
}

/// The data of every event that a listener received.
#[derive(Default)]
struct Heard(Mutex<String>);

impl Listener for Heard {
    fn event(&self, event: &ToolEvent) {
        self.0.lock().unwrap().push_str(&event.data.to_string());
    }
}

/// What the tools of [`talk`] say: in a partial result, in an error, in its code, in progress, in a log.
const SAID: [&str; 5] = [
    "usable already",
    "could not be done",
    "failed_after_partial_result",
    "step 1 of 2",
    "xxxxxxxxxxxxxxxx",
];

/// The calls of three tools that say something beside their output, and what a listener received of them.
async fn talk(folder: &Path, strategy: Strategy) -> (Arc<Host>, Vec<Called>, String) {
    let heard = Arc::new(Heard::default());
    let listener = Arc::clone(&heard);
    let host = own_host(|settings| {
        settings
            .home(home_with_own_payloads(folder))
            .keeping(OutputRetention::by(strategy))
            .listener(listener)
    });
    let mut calls = Vec::new();
    for (tool, input) in [
        ("partial_result", json!({ "then": "fail" })),
        // Long enough that events are noted while it runs.
        ("progress", json!({ "count": 2, "interval_ms": 300 })),
        ("log", json!({ "count": 2, "bytes": 16 })),
    ] {
        calls.push(
            Test::new(&format!("probe#{tool}"))
                .on(&host)
                .call(input)
                .await,
        );
    }
    let heard = heard.0.lock().unwrap().clone();
    (host, calls, heard)
}

#[tokio::test]
async fn what_a_tool_says_beside_its_output_is_in_no_record_that_may_not_have_the_output() {
    for strategy in [Strategy::Redact, Strategy::RefOnly] {
        let (_guard, folder) = scratch();
        let (host, calls, heard) = talk(&folder, strategy).await;
        for words in SAID {
            for called in &calls {
                let record = called.record().to_string();
                assert!(
                    !record.contains(words),
                    "{strategy:?}: {words:?} is in the record: {record}"
                );
            }
            assert!(
                !heard.contains(words),
                "{strategy:?}: {words:?} is in an event"
            );
            assert!(
                !is_on_disk(&folder.join("journal"), words),
                "{strategy:?}: {words:?} is in the log"
            );
        }
        let [failed, told, _] = calls.as_slice() else {
            panic!("three calls")
        };
        failed.failed("execution_failed", "tool_failed");
        let steps = told
            .0
            .progress
            .iter()
            .filter(|step| step.message.as_deref() == Some("[redacted]"));
        assert_eq!(steps.count(), 2, "that it advances is told");
        // The caller of a tool whose output is kept by reference can read what the tool says of its failure.
        let references = &failed.0.result.resource_refs;
        assert_eq!(
            references.len(),
            usize::from(strategy == Strategy::RefOnly),
            "{references:?}"
        );
        if let [reference] = references.as_slice() {
            let payload = host
                .payload(reference["digest"].as_str().unwrap(), 1_000)
                .await
                .unwrap();
            assert_eq!(
                String::from_utf8(payload).unwrap(),
                "The rest could not be done. [failed_after_partial_result]"
            );
        }
        assert_eq!(
            strategies(failed),
            [serde_json::to_value(strategy).unwrap()]
        );
    }
}

#[tokio::test]
async fn the_caller_alone_has_what_a_tool_says_if_that_may_be_on_no_disk() {
    let (_guard, folder) = scratch();
    let (_, calls, heard) = talk(&folder, Strategy::NeverPersist).await;
    let records = calls
        .iter()
        .map(|called| called.record().to_string())
        .collect::<String>();
    for words in SAID {
        assert!(records.contains(words), "the caller has {words:?}");
        assert!(!is_on_disk(&folder, words), "{words:?} is on the disk");
    }
    for words in ["usable already", "step 1 of 2", "xxxxxxxxxxxxxxxx"] {
        assert!(heard.contains(words), "the listener has {words:?}");
    }
    // The same search finds what may be stored.
    let (_guard, folder) = scratch();
    talk(&folder, Strategy::Inline).await;
    for words in SAID {
        assert!(is_on_disk(&folder, words), "{words:?} is not on the disk");
    }
}

#[tokio::test]
async fn sizes_of_decisions_are_those_of_the_bytes() {
    let (_guard, folder) = scratch();
    let host = host(&folder, OutputRetention::default());
    let content = json!([{ "type": "text", "text": "a \"quoted\"\n\u{e9}" }]);
    let called = say(
        "say",
        Some(&host),
        json!({ "content": content, "structured": { "n": "\u{1}" } }),
    )
    .await;
    let record = called.record();
    let exact =
        content[0].to_string().len() + record["result"]["structured_content"].to_string().len();
    let kept = &called.0.persistence[0];
    assert_eq!(
        (kept.original_size_bytes, kept.preview_size_bytes),
        (exact as u64, exact as u64)
    );
}

#[tokio::test]
async fn the_preview_of_structured_output_is_json_with_its_outline() {
    let (_guard, folder) = scratch();
    let host = host(&folder, OutputRetention::default());
    let structured =
        json!({ "log": "z".repeat(9_000), "rows": (0..900).collect::<Vec<_>>(), "total": 900 });
    let called = say(
        "say",
        Some(&host),
        json!({ "content": [], "structured": structured }),
    )
    .await;
    let block = called.record()["result"]["content"][0].clone();
    assert_eq!(
        (&block["of"], &block["preview_is_cut"]),
        (&json!("structured_content"), &json!(true))
    );
    let preview = block["preview"].as_str().unwrap();
    assert!(preview.chars().count() <= LIMIT as usize / 8, "{preview}");
    let outline: Value = serde_json::from_str(preview).unwrap();
    assert_eq!(outline["total"], 900);
    assert_eq!(outline["rows"][1], 1);
    assert!(
        outline["log"].as_str().unwrap().starts_with("zz") && preview.contains("[cut: "),
        "{preview}"
    );
    assert_eq!(
        called.0.persistence[0].preview_size_bytes,
        preview.len() as u64
    );
}

#[tokio::test]
async fn the_preview_of_a_text_stops_outside_of_escape_sequences() {
    let (_guard, folder) = scratch();
    let host = host(&folder, OutputRetention::default());
    let colours = "\u{1b}[38;5;196m\u{1f44d}\u{1f3fd}".repeat(2_000);
    let called = say("say", Some(&host), text(&colours)).await;
    let preview = called.record()["result"]["content"][0]["preview"]
        .as_str()
        .unwrap()
        .to_owned();
    let whole = "\u{1b}[38;5;196m\u{1f44d}\u{1f3fd}";
    assert!(preview.starts_with(whole));
    // 500 characters end in the 39th sequence.
    let last = preview.rsplit(whole).next().unwrap();
    assert!(last.is_empty() || last == "\u{1b}[38;5;196m", "{last:?}");
}
