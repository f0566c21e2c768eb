//! Every shape of an answer: valid ones, and those that the host must not trust.

use fixture::{Access, Input, Tool};
use serde_json::{Value, json};

use crate::{
    Call, ErrorClass, Handler, Outcome, Output, PartialOutput, ToolError, answer, show, text_block,
};

/// One transparent pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

const ERROR_CLASSES: [&str; 11] = [
    "invalid_arguments",
    "capability_gap",
    "setup_required",
    "credential_missing",
    "timeout",
    "rate_limited",
    "dependency_unavailable",
    "execution_failed",
    "partial_failure",
    "result_too_large",
    "canceled",
];

const BLOCK_TYPES: [&str; 9] = [
    "text",
    "image",
    "audio",
    "video",
    "file",
    "resource_link",
    "embedded_resource",
    "log",
    "diff",
];

pub(crate) fn tools() -> Vec<Tool> {
    let mut tools = ends();
    tools.extend(shapes());
    tools.extend(sizes());
    tools
}

fn plain(name: &'static str, description: &str) -> Tool {
    Tool::new(name, Access::Nothing, description)
}

/// Every way to end a call, except a trap.
fn ends() -> Vec<Tool> {
    let failure = json!({
        "class": { "type": "string" },
        "code": { "type": "string" },
        "message": { "type": "string" },
        "detail": { "type": "string" },
        "retry_after_ms": { "type": "integer", "minimum": 0 },
    });
    vec![
        plain(
            "partial",
            "Answers something usable together with a failure",
        ),
        plain(
            "fail",
            "Fails with the class that it is told; an unknown word becomes `other`",
        )
        .input(failure, &["class"]),
        plain("empty", "Succeeds with no content and nothing structured"),
        plain("null", "Succeeds with a structured null"),
        plain(
            "summary",
            "Answers three representations that differ from each other",
        ),
    ]
}

fn shapes() -> Vec<Tool> {
    let numbered = || {
        json!({
            "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"],
        })
    };
    vec![
        plain("blocks", "Answers one content block of every type")
            .promises("content_types", json!(BLOCK_TYPES)),
        plain(
            "blocks_unpromised",
            "Answers an image where its records promise text alone",
        )
        .promises("content_types", json!(["text"])),
        plain("bad_content", "Answers content that is JSON, but no array"),
        plain(
            "bad_block",
            "Answers an array whose items are not typed blocks",
        ),
        plain("bad_json", "Answers content that is not JSON"),
        plain(
            "bad_structured_json",
            "Answers structured content that is not JSON",
        ),
        plain("bad_structured", "Violates the schema of its own output")
            .promises("structured_schema", numbered()),
        plain("good_structured", "Keeps the schema of its own output")
            .promises("structured_schema", numbered()),
        said(plain(
            "say",
            "Answers the content, the structured output and the summary that it is told",
        )),
        said(plain(
            "say_report",
            "Says what it is told, and promises a report",
        ))
        .promises(
            "artifact_expectations",
            json!([{ "name": "report.csv", "media_type": "text/csv" }]),
        ),
        said(plain(
            "say_by_reference",
            "Says what it is told, and lets no result hold it",
        ))
        .promises("persistence_policy_ref", "ref_only"),
        said(plain(
            "say_nothing",
            "Says what it is told, and lets none of it out",
        ))
        .promises("persistence_policy_ref", "redact")
        .promises("fallback_summary", "There was an answer."),
        said(plain(
            "say_or_drop",
            "Says what it is told, unless it is large",
        ))
        .promises("persistence_policy_ref", "drop_with_reason")
        .promises("fallback_summary", "There was a long answer."),
        said(plain(
            "say_in_passing",
            "Says what it is told, and lets no disk hold it",
        ))
        .promises("persistence_policy_ref", "never_persist"),
        said(plain(
            "say_to_people",
            "Says what it is told, always something, and no text to a model",
        ))
        .promises("rendering_boundary", "structured_content")
        .claims("empty_result_policy", "error"),
    ]
}

fn said(tool: Tool) -> Tool {
    let properties = json!({ "content": { "type": "array" }, "structured": {}, "summary": { "type": "string" } });
    tool.input(properties, &["content"])
}

fn sizes() -> Vec<Tool> {
    let length = || json!({ "bytes": { "type": "integer", "minimum": 0 } });
    vec![
        plain("big", "Answers one text block of that many bytes").input(length(), &["bytes"]),
        plain(
            "big_multibyte",
            "Like big, but every character takes four bytes",
        )
        .input(length(), &["bytes"]),
        plain(
            "structured_big",
            "Answers a structured text of that many bytes",
        )
        .input(length(), &["bytes"]),
    ]
}

pub(crate) fn handler(tool: &str) -> Option<Handler> {
    Some(match tool {
        "partial" => partial,
        "fail" => fail,
        "empty" => |_, _| show(json!([])),
        "null" => |_, _| answer(Value::Null),
        "blocks" => blocks,
        "blocks_unpromised" => |_, _| show(json!([image()])),
        "bad_content" => |_, _| raw(r#"{"type":"text","text":"not in an array"}"#, None),
        "bad_block" => |_, _| raw(r#"["bare", 7, {"text":"no type"}]"#, None),
        "bad_json" => |_, _| raw("not JSON", None),
        "bad_structured_json" => |_, _| raw("[]", Some("{not JSON")),
        "bad_structured" => |_, _| raw("[]", Some(r#"{"n":"not a number"}"#)),
        "good_structured" => |_, _| raw("[]", Some(r#"{"n":7}"#)),
        "say" | "say_report" | "say_by_reference" | "say_nothing" | "say_or_drop"
        | "say_in_passing" | "say_to_people" => say,
        "big" => |_, input| show(json!([text_block(&filler("x", input))])),
        "big_multibyte" => |_, input| show(json!([text_block(&filler("\u{1F980}", input))])),
        "structured_big" => |_, input| answer(json!({ "text": filler("x", input) })),
        "summary" => summary,
        _ => return None,
    })
}

fn raw(content: &str, structured: Option<&str>) -> Outcome {
    Outcome::Success(Output {
        content: content.into(),
        structured: structured.map(Into::into),
        ui_summary: None,
    })
}

fn say(_: &Call, input: &Input) -> Outcome {
    Outcome::Success(Output {
        content: input.value()["content"].to_string(),
        structured: input.value().get("structured").map(Value::to_string),
        ui_summary: input.given("summary").map(Into::into),
    })
}

/// As many whole `character`s as fit in the wanted length.
fn filler(character: &str, input: &Input) -> String {
    character.repeat(input.number("bytes") as usize / character.len())
}

fn partial(_: &Call, _: &Input) -> Outcome {
    let output = Output {
        content: json!([text_block("half of it")]).to_string(),
        structured: Some(json!({ "done": 1, "of": 2 }).to_string()),
        ui_summary: Some("Half of it is done.".into()),
    };
    let error = ToolError {
        class: ErrorClass::PartialFailure,
        code: "second_half_missing".into(),
        message: "The second half could not be read.".into(),
        detail: Some("for the record only".into()),
        retry_after_ms: Some(1500),
    };
    Outcome::Partial(PartialOutput { output, error })
}

fn fail(_: &Call, input: &Input) -> Outcome {
    Outcome::Failure(ToolError {
        class: error_class(input.text("class")),
        code: input.text_or("code", "told_to_fail").into(),
        message: input
            .text_or("message", "The tool was told to fail.")
            .into(),
        detail: input.given("detail").map(Into::into),
        retry_after_ms: input.given_number("retry_after_ms"),
    })
}

pub(crate) fn error_class(word: &str) -> ErrorClass {
    let classes = [
        ErrorClass::InvalidArguments,
        ErrorClass::CapabilityGap,
        ErrorClass::SetupRequired,
        ErrorClass::CredentialMissing,
        ErrorClass::Timeout,
        ErrorClass::RateLimited,
        ErrorClass::DependencyUnavailable,
        ErrorClass::ExecutionFailed,
        ErrorClass::PartialFailure,
        ErrorClass::ResultTooLarge,
        ErrorClass::Canceled,
    ];
    ERROR_CLASSES
        .into_iter()
        .zip(classes)
        .find_map(|(name, class)| (name == word).then_some(class))
        .unwrap_or_else(|| ErrorClass::Other(word.into()))
}

fn image() -> Value {
    json!({ "type": "image", "data": PIXEL, "media_type": "image/png" })
}

fn blocks(_: &Call, _: &Input) -> Outcome {
    let content = json!([
        text_block("a text"),
        image(),
        { "type": "audio", "data": "UklGRgAAAABXQVZF", "media_type": "audio/wav" },
        { "type": "video", "data": "AAAAGGZ0eXBtcDQy", "media_type": "video/mp4" },
        { "type": "file", "name": "notes.txt", "data": "bm90ZXM=", "media_type": "text/plain" },
        { "type": "resource_link", "uri": "https://example.com/a", "name": "a page" },
        {
            "type": "embedded_resource",
            "resource": { "uri": "memo:1", "media_type": "text/plain", "text": "a memo" },
        },
        { "type": "log", "level": "info", "text": "a line of a log" },
        { "type": "diff", "path": "a.txt", "text": "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-old\n+new\n" },
    ]);
    Outcome::Success(Output {
        content: content.to_string(),
        structured: None,
        ui_summary: Some("One block of every type.".into()),
    })
}

fn summary(_: &Call, _: &Input) -> Outcome {
    Outcome::Success(Output {
        content: json!([text_block("words for the model")]).to_string(),
        structured: Some(json!({ "words": "for the program" }).to_string()),
        ui_summary: Some("words for the person".into()),
    })
}
