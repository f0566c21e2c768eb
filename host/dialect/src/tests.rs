//! Every kind of result in every dialect: each says the same, and nothing that is only for developers or people
//! (requirements 3.3, 3.4).

use rmcp::model::ProtocolVersion;
use serde_json::{Value, json};
use toolcell_spec::{CallRecord, Content, ErrorClass, ErrorCode, Refusal};

use super::otc::samples::{Sample, record};
use super::{Dialect, agentool, amplifier, http, mcp, otc};

/// Class, `can_retry` of Open Tool Calling, HTTP status, and `error.type` of Amplifier. An underlying error makes a
/// tool's failure a crash: 502, not 200.
const TABLE: [(ErrorClass, bool, u16, &str); 22] = [
    (ErrorClass::UnknownTool, false, 404, "validation"),
    (ErrorClass::InvalidArguments, true, 422, "validation"),
    (ErrorClass::SchemaValidationFailed, true, 422, "validation"),
    (ErrorClass::SchemaNotLoaded, true, 409, "validation"),
    (ErrorClass::PermissionDenied, false, 403, "execution"),
    (ErrorClass::ApprovalRejected, false, 403, "execution"),
    (ErrorClass::PolicyBlocked, false, 403, "execution"),
    (ErrorClass::HookBlocked, false, 403, "execution"),
    (ErrorClass::CapabilityGap, false, 501, "execution"),
    (ErrorClass::SetupRequired, false, 424, "execution"),
    (ErrorClass::CredentialMissing, false, 401, "execution"),
    (ErrorClass::SandboxViolation, false, 403, "execution"),
    (ErrorClass::Timeout, true, 504, "timeout"),
    (ErrorClass::RateLimited, true, 429, "execution"),
    (ErrorClass::DependencyUnavailable, true, 503, "execution"),
    (ErrorClass::ExecutionFailed, false, 502, "execution"),
    (ErrorClass::PartialFailure, false, 207, "execution"),
    (ErrorClass::ResultTooLarge, true, 413, "execution"),
    (ErrorClass::ResultRedacted, false, 451, "execution"),
    (ErrorClass::SiblingCanceled, true, 409, "execution"),
    (
        ErrorClass::StreamingFallbackDiscarded,
        false,
        409,
        "execution",
    ),
    (ErrorClass::Canceled, true, 409, "execution"),
];

const MESSAGE: &str = "it broke down";
/// In every place that a record has.
const FOR_DEVELOPERS: [&str; 2] = ["zz-detail", "zz-native"];
/// Summary of a result, and a tool's logs.
const FOR_PEOPLE: [&str; 2] = ["zz-summary", "zz-log"];

fn called(blocks: Value, class: Option<ErrorClass>) -> CallRecord {
    let mut blocks: Vec<Content> = serde_json::from_value(blocks).unwrap();
    let error = class.map(|class| {
        Refusal::new(ErrorCode::TooManyCalls, MESSAGE)
            .with_class(class)
            .detail("zz-detail")
            .native("zz-native")
    });
    blocks.extend(error.iter().map(|error| Content::text(&error.message)));
    let content: Vec<Content> = blocks
        .iter()
        .cloned()
        .chain([Content::log("stderr", "zz-log")])
        .collect();
    let mut record = record(json!({
        "content": content, "model_facing_content": blocks, "ui_facing_summary": "zz-summary",
        "is_error": error.is_some(), "error": error.as_ref().map(Refusal::to_error),
    }));
    if let Some(class) = class {
        record.result.status = class.result_status();
    }
    record.invocation.native_call_id = Some("call-1".to_owned());
    record
        .invocation
        .extra
        .insert("error_detail".to_owned(), "zz-detail".into());
    record
}

fn told(record: &CallRecord) -> Vec<(String, Value)> {
    let invocation = &record.invocation;
    let result = &record.result;
    let mut builder = agentool::TraceBuilder::new("s", agentool::Detectors::default());
    builder.call(invocation, Some(result));
    let mut told = vec![
        ("agentool".to_owned(), agentool::result(invocation, result)),
        ("a trace".to_owned(), json!(builder.finish())),
    ];
    for revision in [ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28] {
        told.push((
            format!("mcp {revision}"),
            json!(mcp::call_result(result, &revision, None)),
        ));
    }
    for mode in [
        amplifier::AmplifierMode::Seed,
        amplifier::AmplifierMode::Upstream,
    ] {
        told.push((
            format!("amplifier {mode:?}"),
            amplifier::result(invocation, result, mode),
        ));
        told.push((
            format!("events {mode:?}"),
            json!(amplifier::events(invocation, result, "find", mode)),
        ));
    }
    for mode in otc::OtcMode::ALL {
        told.push((
            format!("otc {mode:?}"),
            otc::result(invocation, result, &otc::OtcReply::new(mode, "call-1")),
        ));
    }
    for dialect in Dialect::ALL {
        let answers = dialect
            .exchange()
            .map(|exchange| exchange.answers(&[(invocation, result)]));
        told.extend(answers.map(|answers| (dialect.as_str().to_owned(), json!(answers))));
    }
    told
}

/// No answer may have texts for others.
#[track_caller]
fn all_say(record: &CallRecord, wanted: &[&str]) {
    for (dialect, answer) in told(record) {
        let text = answer.to_string();
        for words in wanted {
            assert!(
                text.contains(words),
                "{dialect} does not say {words:?}: {answer:#}"
            );
        }
        for hidden in FOR_DEVELOPERS.iter().chain(&FOR_PEOPLE) {
            assert!(
                !text.contains(hidden),
                "{dialect} says {hidden:?}: {answer:#}"
            );
        }
    }
    // A program gets the whole result, and so what is for people.
    for answer in [
        http::result(&record.result),
        json!(mcp::protocol_error(&record.result)),
    ] {
        let text = answer.to_string();
        assert!(
            FOR_DEVELOPERS.iter().all(|hidden| !text.contains(hidden)),
            "{answer:#}"
        );
        assert!(
            FOR_PEOPLE.iter().all(|shown| text.contains(shown)),
            "{answer:#}"
        );
    }
}

fn one(record: &CallRecord, dialect: &str) -> Value {
    told(record)
        .into_iter()
        .find(|(name, _)| name.starts_with(dialect))
        .unwrap()
        .1
}

/// With words that each dialect must have.
fn blocks() -> Vec<(Value, &'static str)> {
    let payload = "toolcell:payload/sha256:ab";
    let reference = json!({ "uri": payload, "digest": "sha256:ab", "media_type": "text/plain", "size_bytes": 9 });
    vec![
        (json!({ "type": "text", "text": "zz-text" }), "zz-text"),
        (
            json!({ "type": "text", "text": "[redacted]" }),
            "[redacted]",
        ),
        (
            json!({ "type": "structured_content", "structured_content": { "zz-key": 1 } }),
            "zz-key",
        ),
        (
            json!({ "type": "image", "data": "AAAA", "media_type": "image/png" }),
            "image/png",
        ),
        (
            json!({ "type": "audio", "data": "AAAA", "media_type": "audio/wav" }),
            "audio/wav",
        ),
        (
            json!({ "type": "video", "uri": "https://example.com/v.mp4" }),
            "https://example.com/v.mp4",
        ),
        (
            json!({ "type": "file", "data": "AAAA", "media_type": "text/csv" }),
            "text/csv",
        ),
        (
            json!({ "type": "resource_link", "uri": "https://example.com/a", "name": "a" }),
            "https://example.com/a",
        ),
        (
            json!({ "type": "embedded_resource", "uri": "memo:1", "text": "zz-flat" }),
            "zz-flat",
        ),
        (
            json!({ "type": "embedded_resource", "resource": { "uri": "memo:1", "text": "zz-memo" } }),
            "zz-memo",
        ),
        (
            json!({ "type": "diff", "path": "a", "diff": "zz-diff" }),
            "zz-diff",
        ),
        (
            json!({ "type": "artifact_ref", "uri": payload, "digest": "sha256:ab", "name": "a.csv", "size_bytes": 9 }),
            payload,
        ),
        (
            json!({ "type": "handoff_ref", "to_agent": "billing" }),
            "billing",
        ),
        (
            json!({ "type": "persisted_output_ref", "of": "text", "preview": "p", "persisted_ref": reference }),
            payload,
        ),
    ]
}

#[test]
fn every_class_of_error_is_the_same_error_in_every_dialect() {
    assert_eq!(TABLE.map(|(class, ..)| class), ErrorClass::ALL);
    for (class, can_retry, status, kind) in TABLE {
        let record = called(json!([]), Some(class));
        let name = class.as_str();
        all_say(&record, &[MESSAGE, name]);
        assert_eq!(http::status(&record.result), status, "{name}");
        assert_eq!(http::result(&record.result)["error"]["error_class"], name);
        let answer = one(&record, "mcp");
        let facts = &answer["_meta"]["toolcell/error"];
        assert_eq!(
            (&answer["isError"], &facts["class"], &facts["code"]),
            (&json!(true), &json!(name), &json!("too_many_calls"))
        );
        let spoken = format!("ERROR [{name}/too_many_calls]: {MESSAGE}\nHint: ");
        let texts = [
            one(&record, "openai")[0]["content"].clone(),
            one(&record, "openai-responses")[0]["output"].clone(),
            one(&record, "anthropic")[0]["content"][0]["content"][0]["text"].clone(),
        ];
        assert!(
            texts
                .iter()
                .all(|text| text.as_str().unwrap().starts_with(&spoken)),
            "{texts:?}"
        );
        assert_eq!(one(&record, "anthropic")[0]["content"][0]["is_error"], true);
        let ended = one(&record, "agentool");
        assert_eq!(
            (&ended["error"], &ended["output"]),
            (&json!(format!("{name}: {MESSAGE}")), &Value::Null)
        );
        let error = &one(&record, "amplifier Upstream")["error"];
        assert_eq!(
            (&error["type"], &error["class"], &error["code"]),
            (&json!(kind), &json!(name), &json!("too_many_calls"))
        );
        assert_eq!(one(&record, "events")[1]["event"], "tool:error");
        for mode in ["otc Otc", "otc OtcSeed", "otc Arcade"] {
            let error = &one(&record, mode)["output"]["error"];
            assert_eq!(
                (&error["message"], &error["can_retry"]),
                (&json!(MESSAGE), &json!(can_retry)),
                "{mode}: {name}"
            );
            let prompt = error["additional_prompt_content"].as_str().unwrap();
            assert!(
                prompt.starts_with(&format!("{name}/too_many_calls: "))
                    && !prompt.contains(MESSAGE),
                "{prompt}"
            );
        }
    }
}

#[test]
fn every_class_of_content_is_in_every_dialect_also_beside_an_error() {
    for (block, words) in blocks() {
        let whole = called(json!([block]), None);
        all_say(&whole, &[words]);
        assert_eq!(http::status(&whole.result), 200);
        let partial = called(json!([block]), Some(ErrorClass::PartialFailure));
        all_say(&partial, &[words, MESSAGE]);
        assert!(
            !one(&partial, "agentool")["output"]
                .to_string()
                .contains(MESSAGE),
            "the error is no part of the output"
        );
        let prompt = one(&partial, "otc")["output"]["error"]["additional_prompt_content"].clone();
        assert!(
            !prompt.as_str().unwrap().contains(MESSAGE),
            "the error did not succeed: {prompt}"
        );
    }
}

#[test]
fn an_empty_result_is_a_success_without_words_of_the_host() {
    let said = "(tool completed with no output)";
    let mut record = called(json!([{ "type": "text", "text": said }]), None);
    record.result.empty_result = true;
    all_say(&record, &[]);
    for (dialect, answer) in told(&record) {
        assert!(!answer.to_string().contains(said), "{dialect}: {answer:#}");
    }
    assert_eq!(one(&record, "mcp")["content"], json!([]));
    assert_eq!(one(&record, "openai")[0]["content"], "(no output)");
    let ended = one(&record, "agentool");
    assert_eq!(
        (&ended["output"], &ended["error"]),
        (&Value::Null, &Value::Null)
    );
    let amplifier = one(&record, "amplifier");
    assert_eq!(
        (&amplifier["success"], &amplifier["output"]),
        (&json!(true), &Value::Null)
    );
    assert_eq!(one(&record, "otc Otc").get("output"), None);
    assert_eq!(
        one(&record, "otc Arcade")["output"],
        json!({ "value": null })
    );
}

#[test]
fn what_hooks_add_reaches_every_model() {
    for class in [None, Some(ErrorClass::PermissionDenied)] {
        let mut record = called(json!([{ "type": "text", "text": "zz-text" }]), class);
        record.result.additional_context = vec![json!("mind the gap"), json!({ "zz-context": 7 })];
        // A trace tells what the tool answered.
        let told = told(&record)
            .into_iter()
            .filter(|(dialect, _)| dialect != "agentool" && dialect != "a trace");
        for (dialect, answer) in told {
            let text = answer.to_string();
            assert!(
                text.contains("mind the gap") && text.contains("zz-context"),
                "{dialect}: {answer:#}"
            );
        }
    }
}

#[test]
fn every_dialect_describes_a_tool_in_visible_words() {
    let sample = Sample::new();
    for dialect in Dialect::ALL {
        let described = dialect.tool(&sample.listed(), false).to_string();
        let name = dialect.as_str();
        assert!(
            described.contains("find") && described.contains("Finds issues."),
            "{name}: {described}"
        );
        assert!(
            !described.contains('\u{200b}') && !described.contains("sensitive_fields"),
            "{name}: {described}"
        );
    }
}
