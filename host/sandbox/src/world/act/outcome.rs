//! The result of an ACT call: events, made into an outcome.

use data_encoding::BASE64;
use serde_json::{Value, json};
use toolcell_spec::{
    Content, ErrorCode, JSON_VALUES_MAX, ProgressStatus, ToolProgress, check_numbers, read_json,
};

use super::cbor;
use super::types::{ActError, ContentPart, ToolEvent, value};
use crate::bindings::tool::exports::toolcell::tool::guest::{Outcome, Output, PartialOutput};
use crate::bindings::tool::toolcell::tool::types::{ErrorClass, ToolError};
use crate::world::answer;

const PROGRESS_CHARS_MAX: usize = 1_000;
const OPAQUE: &str = "application/octet-stream";

#[derive(Debug, PartialEq)]
pub(super) enum ResultPart {
    Block(Content),
    /// JSON, or CBOR that JSON can hold.
    Data(Value),
}

/// An error is the last event; what came before it is kept.
pub(super) fn outcome(events: Vec<ToolEvent>) -> Outcome {
    let mut parts = ResultParts::default();
    let mut failure = None;
    for event in events {
        match event {
            ToolEvent::Content(part) if progress(&part).is_none() => parts.add(piece(part)),
            ToolEvent::Content(_) => {}
            ToolEvent::Error(error) => {
                failure = Some(tool_error(error));
                break;
            }
        }
    }
    match failure {
        None => Outcome::Success(parts.output()),
        Some(error) if parts.is_empty() => Outcome::Failure(error),
        Some(error) => Outcome::Partial(PartialOutput {
            output: parts.output(),
            error,
        }),
    }
}

pub(super) fn invalid_arguments(why: String) -> Outcome {
    let code = ErrorCode::ArgumentsNotEncodable.as_str();
    answer::failure(ErrorClass::InvalidArguments, code, why)
}

/// Keeps the values of at most one part, because many parts have no common limit, and take up to 30 times as much
/// memory as their bytes.
#[derive(Default)]
struct ResultParts {
    only: Option<ResultPart>,
    blocks: Vec<Content>,
}

impl ResultParts {
    fn add(&mut self, piece: ResultPart) {
        if self.is_empty() {
            self.only = Some(piece);
            return;
        }
        self.blocks
            .extend(self.only.take().map(ResultPart::into_block));
        self.blocks.push(piece.into_block());
    }

    fn is_empty(&self) -> bool {
        self.only.is_none() && self.blocks.is_empty()
    }

    fn output(self) -> Output {
        let Self { only, mut blocks } = self;
        let structured = match only {
            // A text is read as a block.
            Some(ResultPart::Data(value)) if !value.is_string() => Some(value.to_string()),
            only => {
                blocks.extend(only.map(ResultPart::into_block));
                None
            }
        };
        Output {
            content: json!(blocks).to_string(),
            structured,
            ui_summary: None,
        }
    }
}

impl ResultPart {
    pub(super) fn into_block(self) -> Content {
        match self {
            Self::Block(block) => block,
            Self::Data(Value::String(text)) => Content::text(text),
            Self::Data(value) => Content::text(value.to_string()),
        }
    }
}

fn exactly(text: &str) -> Result<Value, String> {
    read_json(text, JSON_VALUES_MAX).and_then(|value| check_numbers(text).map(|()| value))
}

/// A part that is not of its media type, or has none, is a file.
pub(super) fn piece(part: ContentPart) -> ResultPart {
    let mime = part.mime_type.unwrap_or_default();
    let essence = mime
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let text = || std::str::from_utf8(&part.data);
    if essence == "application/json" || essence.ends_with("+json") {
        if let Some(value) = text().ok().and_then(|text| exactly(text).ok()) {
            return ResultPart::Data(value);
        }
    } else if essence == "application/cbor" {
        if let Ok(value) = cbor::to_json(&part.data) {
            return ResultPart::Data(value);
        }
    } else if essence.starts_with("text/")
        && let Ok(text) = text()
    {
        return ResultPart::Block(Content::text(text));
    }
    let family = essence.split('/').next().unwrap_or_default();
    let kind = if ["image", "audio", "video"].contains(&family) {
        family
    } else {
        "file"
    };
    let block = |kind, mime: &str| {
        Content::new(
            kind,
            json!({ "data": BASE64.encode(&part.data), "media_type": mime }),
        )
    };
    let block_as_said = block(kind, &mime);
    // A media type that no reader would accept is the guest's mistake, and not a reason to lose the bytes.
    ResultPart::Block(if block_as_said.problem().is_none() {
        block_as_said
    } else {
        block("file", OPAQUE)
    })
}

/// `None` if the part belongs to the result.
pub(super) fn progress(part: &ContentPart) -> Option<ToolProgress> {
    let done = value(&part.metadata, "std:progress")?.as_f64()?;
    let total = value(&part.metadata, "std:progress-total").and_then(|total| total.as_f64());
    let percent = total
        .filter(|total| *total > 0.0)
        .map(|total| 100.0 * done / total);
    let said = std::str::from_utf8(&part.data)
        .ok()
        .filter(|text| !text.is_empty());
    Some(ToolProgress {
        message: said.map(|text| text.chars().take(PROGRESS_CHARS_MAX).collect()),
        percent: percent.filter(|percent| (0.0..=100.0).contains(percent)),
        ..ToolProgress::new(ProgressStatus::Running)
    })
}

fn tool_error(error: ActError) -> ToolError {
    let class = match error.kind.as_str() {
        "std:invalid-args" => ErrorClass::InvalidArguments,
        "std:timeout" => ErrorClass::Timeout,
        "std:capability-denied" => ErrorClass::CapabilityGap,
        "std:session-not-found" => ErrorClass::SetupRequired,
        _ => ErrorClass::ExecutionFailed,
    };
    let message = error.message.into_text();
    // The error class of a kind of another namespace is not known: its name is all there is.
    let message = if message.is_empty() {
        format!("the tool failed: {}", error.kind)
    } else {
        message
    };
    answer::error(class, error.kind, message)
}

#[cfg(test)]
mod tests {
    use crate::bindings::tool::exports::toolcell::tool::guest::PartialOutput;
    use serde_json::{Value, json};

    use super::super::cbor;
    use super::super::types::{ActError, ContentPart, ToolEvent};
    use super::{ErrorClass, Outcome, Output, ResultPart, ResultParts, outcome, progress};

    fn part(data: &[u8], mime: Option<&str>) -> ContentPart {
        ContentPart {
            data: data.to_vec(),
            mime_type: mime.map(str::to_owned),
            metadata: Vec::new(),
        }
    }

    fn content(data: &[u8], mime: Option<&str>) -> ToolEvent {
        ToolEvent::Content(part(data, mime))
    }

    #[track_caller]
    fn success(events: Vec<ToolEvent>) -> (Value, Option<Value>) {
        let Outcome::Success(Output {
            content,
            structured,
            ..
        }) = outcome(events)
        else {
            panic!()
        };
        let parse = |text: &str| serde_json::from_str(text).unwrap();
        (parse(&content), structured.as_deref().map(parse))
    }

    #[test]
    fn parts_become_blocks_of_their_media_type() {
        let cbor = cbor::from_json(&json!({ "a": 1 })).unwrap();
        let (blocks, structured) = success(vec![
            content(b"hello", Some("text/plain; charset=utf-8")),
            content(b"\x89PNG", Some("image/png")),
            content(b"RIFF", Some("audio/wav")),
            content(b"[1]", Some("application/problem+json")),
            content(&cbor, Some("application/cbor")),
            content(b"\x01", None),
            content(b"\xff\xfe", Some("text/plain")),
            content(b"{", Some("application/json")),
            content(b"x", Some("not a type")),
        ]);
        assert_eq!(structured, None);
        let opaque = "application/octet-stream";
        assert_eq!(
            blocks,
            json!([
                { "type": "text", "text": "hello" },
                { "type": "image", "data": "iVBORw==", "media_type": "image/png" },
                { "type": "audio", "data": "UklGRg==", "media_type": "audio/wav" },
                { "type": "text", "text": "[1]" },
                { "type": "text", "text": r#"{"a":1}"# },
                { "type": "file", "data": "AQ==", "media_type": opaque },
                { "type": "file", "data": "//4=", "media_type": "text/plain" },
                { "type": "file", "data": "ew==", "media_type": "application/json" },
                { "type": "file", "data": "eA==", "media_type": opaque },
            ])
        );
    }

    #[test]
    fn one_part_of_data_is_structured_output() {
        let bytes = cbor::from_json(&json!({ "file": { "$bytes": "AQ==" } })).unwrap();
        let (blocks, structured) = success(vec![content(&bytes, Some("application/cbor"))]);
        assert_eq!(
            (blocks, structured),
            (json!([]), Some(json!({ "file": { "$bytes": "AQ==" } })))
        );
        let (blocks, structured) =
            success(vec![content(br#""only a text""#, Some("application/json"))]);
        assert_eq!(
            (blocks, structured),
            (json!([{ "type": "text", "text": "only a text" }]), None)
        );
        assert_eq!(success(Vec::new()), (json!([]), None));
    }

    #[test]
    fn the_values_of_one_part_at_most_are_kept() {
        let mut parts = ResultParts::default();
        parts.add(ResultPart::Data(json!([1])));
        assert!(parts.only.is_some() && parts.blocks.is_empty());
        for count in 2..5 {
            parts.add(ResultPart::Data(json!([2])));
            assert!(parts.only.is_none() && parts.blocks.len() == count);
        }
        assert!(
            parts
                .output()
                .content
                .starts_with(r#"[{"type":"text","text":"[1]"},{"#)
        );
    }

    #[test]
    fn an_error_ends_the_events_and_keeps_what_came_before() {
        let failed = |kind: &str| ToolEvent::Error(ActError::new(kind, "no"));
        let Outcome::Failure(error) =
            outcome(vec![failed("std:invalid-args"), content(b"late", None)])
        else {
            panic!()
        };
        assert!(matches!(error.class, ErrorClass::InvalidArguments));
        assert_eq!(
            (error.code.as_str(), error.message.as_str()),
            ("std:invalid-args", "no")
        );
        let Outcome::Partial(PartialOutput { output, error }) = outcome(vec![
            content(b"half", Some("text/plain")),
            failed("acme:tired"),
            content(b"late", None),
        ]) else {
            panic!()
        };
        assert_eq!(output.content, r#"[{"type":"text","text":"half"}]"#);
        assert!(matches!(error.class, ErrorClass::ExecutionFailed));
        let classes: Vec<ErrorClass> = [
            "std:timeout",
            "std:capability-denied",
            "std:not-found",
            "std:internal",
        ]
        .into_iter()
        .filter_map(|kind| match outcome(vec![failed(kind)]) {
            Outcome::Failure(error) => Some(error.class),
            _ => None,
        })
        .collect();
        use ErrorClass::{CapabilityGap, ExecutionFailed, Timeout};
        assert!(matches!(
            classes[..],
            [Timeout, CapabilityGap, ExecutionFailed, ExecutionFailed]
        ));
        let Outcome::Failure(silent) = outcome(vec![ToolEvent::Error(ActError::new("acme:x", ""))])
        else {
            panic!()
        };
        assert_eq!(silent.message, "the tool failed: acme:x");
    }

    #[test]
    fn progress_is_no_part_of_the_result() {
        let report = |done: Value, total: Value| {
            let metadata = [("std:progress", done), ("std:progress-total", total)]
                .map(|(key, value)| (key.to_owned(), cbor::from_json(&value).unwrap()));
            ContentPart {
                metadata: metadata.into(),
                ..part(b"reading", Some("text/plain"))
            }
        };
        let update = progress(&report(json!(1), json!(4))).unwrap();
        assert_eq!(
            (update.percent, update.message.as_deref()),
            (Some(25.0), Some("reading"))
        );
        assert_eq!(progress(&report(json!(5), json!(4))).unwrap().percent, None);
        assert_eq!(progress(&report(json!(5), json!(0))).unwrap().percent, None);
        assert_eq!(progress(&report(json!("x"), json!(1))), None);
        let events = vec![
            ToolEvent::Content(report(json!(1), json!(4))),
            content(b"7", Some("application/json")),
        ];
        assert_eq!(success(events), (json!([]), Some(json!(7))));
    }
}
