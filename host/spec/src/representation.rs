//! Further representations of a result (AT-REND-01..08), made from the redacted result on request only.

use serde::Serialize;
use serde_json::{Value, json};

use super::{Content, PersistedRef, ResultStatus, ToolResult, TypedFields, Writer};

const RENDERING_BYTES_MAX: usize = 16 << 10;
const SEARCH_BYTES_MAX: usize = 8 << 10;
const NATIVE_BYTES_MAX: usize = 16 << 10;
const SUMMARY_CHARS_MAX: usize = 200;
const SEARCH_DEPTH_MAX: usize = 32;

/// Forms for user interfaces, searches and programs. A model gets only [`ToolResult::model_facing_content`].
///
/// ```
/// use toolcell_spec::ToolResult;
///
/// /// A result as a page shows it, and as an index finds it.
/// fn entry(result: &ToolResult) -> (String, String) {
///     let representations = result.representations();
///     (representations.ui_facing_rendering, representations.transcript_search_text)
/// }
/// ```
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Representations {
    /// Summary, content and error for people; at most 16 KiB (AT-REND-02). Escape it before a terminal shows the tool's
    /// text.
    pub ui_facing_rendering: String,
    /// All words in one line, without control characters; at most 8 KiB (AT-REND-03).
    pub transcript_search_text: String,
    /// First line for the model; at most 200 characters. `None` if the record has a summary (AT-RES-16).
    pub summary: Option<String>,
    /// The first payload of the result (AT-REND-04).
    pub persisted_payload_ref: Option<PersistedRef>,
    /// All payloads in order, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub persisted_payload_refs: Vec<PersistedRef>,
    /// In the terms of the contract `toolcell:tool` (AT-REND-07).
    pub native_output: Option<NativeOutput>,
}

/// The tool's output, as redacted and stored.
///
/// ```
/// use toolcell_spec::ToolResult;
///
/// /// What the tool itself said, if it is not too large.
/// fn said(result: &ToolResult) -> Option<serde_json::Value> {
///     result.representations().native_output?.output
/// }
/// ```
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NativeOutput {
    /// The case of the contract's `outcome`: `success`, `partial` or `failure`. `None` if the host withheld it, or the tool
    /// ended without one.
    pub outcome: Option<&'static str>,
    /// `content`, `structured` and `ui_summary` of the contract, at most 16 KiB.
    pub output: Option<Value>,
    /// Places in the result of what is larger, and of the error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output_refs: Vec<&'static str>,
    /// In order; a block in a payload counts as it was.
    pub content_types: Vec<String>,
    pub structured: bool,
    pub output_bytes: u64,
}

impl ToolResult {
    pub fn representations(&self) -> Representations {
        let persisted: Vec<PersistedRef> = self.content.iter().filter_map(persisted_ref).collect();
        Representations {
            ui_facing_rendering: rendering(self),
            transcript_search_text: search_text(self),
            summary: summary(self),
            persisted_payload_ref: persisted.first().cloned(),
            persisted_payload_refs: if persisted.len() > 1 {
                persisted
            } else {
                Vec::new()
            },
            native_output: native(self),
        }
    }
}

/// Derived from the redacted text, so it says no more.
fn summary(result: &ToolResult) -> Option<String> {
    let text = |block: &Content| {
        if block.is_persisted() {
            block.fields.text("preview").map(str::to_owned)
        } else {
            block.as_text().map(str::to_owned)
        }
    };
    let mut texts = result
        .model_facing_content
        .iter()
        .filter(|_| result.summary.is_none())
        .filter_map(text);
    let line = texts.find_map(|text| {
        text.lines()
            .map(str::trim)
            .find(|line| !line.is_empty())
            .map(str::to_owned)
    })?;
    let plain = line.chars().map(|c| if c.is_control() { ' ' } else { c });
    Some(plain.take(SUMMARY_CHARS_MAX).collect())
}

fn persisted_ref(block: &Content) -> Option<PersistedRef> {
    let reference = block
        .fields
        .get("persisted_ref")
        .filter(|_| block.is_persisted())?;
    serde_json::from_value(reference.clone()).ok()
}

/// `None` if the host added or moved the block as a whole.
fn original_type(block: &Content) -> Option<&str> {
    let kind = if block.is_persisted() {
        block.fields.text("of")?
    } else {
        block.kind.as_str()
    };
    // Output on a stream is a log of the host.
    let is_host =
        block.fields.contains_key("stream") || matches!(kind, "structured_content" | "content");
    (!is_host).then_some(kind)
}

fn outcome(result: &ToolResult) -> Option<&'static str> {
    if result.provenance.written_by == Writer::Host {
        return None;
    }
    Some(match result.is_error {
        false => "success",
        true if result.status == ResultStatus::PartialSucceeded => "partial",
        true => "failure",
    })
}

fn returned(result: &ToolResult, outcome: &str) -> (Option<Value>, Vec<&'static str>) {
    let mut refs = Vec::new();
    if outcome != "success" {
        refs.push("#/error");
    }
    if outcome == "failure" {
        return (None, refs);
    }
    let blocks = result.content.iter();
    let blocks: Vec<&Content> = blocks
        .filter(|block| original_type(block).is_some())
        .collect();
    let output = json!({
        "content": blocks,
        "structured": result.structured_content,
        "ui_summary": result.ui_facing_summary,
    });
    if output.to_string().len() <= NATIVE_BYTES_MAX {
        return (Some(output), refs);
    }
    refs.push("#/content");
    if result.structured_content.is_some() {
        refs.push("#/structured_content");
    }
    (None, refs)
}

fn native(result: &ToolResult) -> Option<NativeOutput> {
    let usage = result.usage.as_ref()?;
    let moved = |block: &Content| {
        block
            .fields
            .get("of")
            .is_some_and(|of| of == "structured_content")
    };
    let (outcome, output, output_refs) = match outcome(result) {
        Some(outcome) => {
            let (output, refs) = returned(result, outcome);
            (Some(outcome), output, refs)
        }
        None => (None, None, Vec::new()),
    };
    Some(NativeOutput {
        outcome,
        output,
        output_refs,
        content_types: result
            .content
            .iter()
            .filter_map(original_type)
            .map(str::to_owned)
            .collect(),
        structured: result.structured_content.is_some() || result.content.iter().any(moved),
        output_bytes: usage.output_bytes.used,
    })
}

struct LimitedText {
    text: String,
    bytes_max: usize,
}

impl LimitedText {
    fn new(bytes_max: usize) -> Self {
        Self {
            text: String::new(),
            bytes_max,
        }
    }

    fn is_full(&self) -> bool {
        self.text.len() >= self.bytes_max
    }

    fn push(&mut self, text: &str) {
        let room = self.bytes_max - self.text.len();
        let end = text.floor_char_boundary(room);
        self.text.push_str(text.get(..end).unwrap_or_default());
        if end < text.len() {
            self.bytes_max = self.text.len();
        }
    }

    fn line(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.push("\n");
        }
        self.push(text);
    }
}

fn rendering(result: &ToolResult) -> String {
    let mut shown = LimitedText::new(RENDERING_BYTES_MAX);
    if let Some(summary) = &result.ui_facing_summary {
        shown.line(summary);
    }
    let mut has_text = false;
    for block in result
        .content
        .iter()
        .filter(|block| block.is_model_facing())
    {
        if shown.is_full() {
            break;
        }
        has_text |= block.as_text().is_some();
        shown.line(&described(block));
    }
    if let (false, Some(structured)) = (has_text, &result.structured_content) {
        shown.line(&serde_json::to_string_pretty(structured).unwrap_or_default());
    }
    for text in result
        .summary
        .iter()
        .chain(result.error.as_ref().map(|error| &error.message))
    {
        shown.line(text);
    }
    if result.empty_result {
        shown.line("(no output)");
    }
    shown.text
}

fn described(block: &Content) -> String {
    if let Some(text) = block.as_text() {
        return text.to_owned();
    }
    let field = |name: &str| block.fields.text(name);
    if block.is_persisted() {
        let reference = persisted_ref(block);
        let size = reference.map_or(0, |reference| reference.size_bytes);
        let of = field("of").unwrap_or("output");
        return format!(
            "{}\n[{of}: {size} bytes in all]",
            field("preview").unwrap_or_default()
        );
    }
    let labels = ["to_agent", "name", "title", "uri", "message"]
        .into_iter()
        .filter_map(field);
    let labels: Vec<&str> = block.media_type().into_iter().chain(labels).collect();
    format!("[{}] {}", block.kind, labels.join(" "))
        .trim_end()
        .to_owned()
}

fn search_text(result: &ToolResult) -> String {
    let mut words = LimitedText::new(SEARCH_BYTES_MAX);
    let summary = [&result.ui_facing_summary, &result.summary]
        .into_iter()
        .flatten();
    summary.for_each(|text| add_words(&mut words, text));
    for block in result
        .content
        .iter()
        .filter(|block| block.is_model_facing())
    {
        for name in [
            "text", "diff", "preview", "name", "title", "path", "uri", "to_agent", "message",
        ] {
            if let Some(text) = block.fields.text(name) {
                add_words(&mut words, text);
            }
        }
    }
    if let Some(structured) = &result.structured_content {
        add_values(&mut words, structured, 0);
    }
    if let Some(error) = &result.error {
        add_words(&mut words, &error.message);
        add_words(&mut words, &error.error_code);
    }
    words.text
}

/// Puts one blank between words, and drops control characters.
fn add_words(words: &mut LimitedText, text: &str) {
    for word in text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
    {
        if words.is_full() {
            return;
        }
        if !words.text.is_empty() {
            words.push(" ");
        }
        words.push(word);
    }
}

fn add_values(words: &mut LimitedText, value: &Value, depth: usize) {
    if words.is_full() || depth > SEARCH_DEPTH_MAX {
        return;
    }
    match value {
        Value::String(text) => add_words(words, text),
        Value::Number(number) => add_words(words, &number.to_string()),
        Value::Array(items) => items
            .iter()
            .for_each(|item| add_values(words, item, depth + 1)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            add_words(words, name);
            add_values(words, value, depth + 1);
        }),
        Value::Null | Value::Bool(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::ToolResult;
    use super::{RENDERING_BYTES_MAX, SEARCH_BYTES_MAX};

    fn result(change: Value) -> ToolResult {
        let mut whole = json!({
            "schema_version": "0.2.0", "result_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "invocation_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "status": "succeeded", "is_error": false, "content": [],
            "model_facing_content": [], "redaction_state": "none",
            "provenance": { "trust": "untrusted", "written_by": "tool" }, "created_at": "2026-01-01T00:00:00Z",
        });
        whole
            .as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn each_representation_has_its_own_words() {
        let reference = json!({
            "uri": "toolcell:payload/sha256:00", "digest": "sha256:00", "media_type": "text/plain", "size_bytes": 9,
        });
        let shown = result(json!({
            "ui_facing_summary": "For\u{1b}[2J people",
            "structured_content": { "count": 7, "names": ["a  b"] },
            "content": [
                { "type": "log", "text": "hidden" },
                { "type": "image", "data": "AAAA", "media_type": "image/png" },
                { "type": "persisted_output_ref", "of": "text", "preview": "pre", "persisted_ref": reference },
            ],
        }))
        .representations();
        assert_eq!(
            shown.ui_facing_rendering,
            "For\u{1b}[2J people\n[image] image/png\npre\n[text: 9 bytes in all]\n{\n  \"count\": 7,\n  \"names\": \
             [\n    \"a  b\"\n  ]\n}"
        );
        assert_eq!(
            shown.transcript_search_text,
            "For [2J people pre count 7 names a b"
        );
        assert_eq!(
            shown
                .persisted_payload_ref
                .map(|reference| reference.size_bytes),
            Some(9)
        );
        assert_eq!(
            (shown.persisted_payload_refs, shown.summary),
            (Vec::new(), None)
        );
        // No tool ran, so nothing was returned.
        assert_eq!(shown.native_output, None);
    }

    #[test]
    fn a_summary_is_the_first_line_for_the_model_and_each_payload_is_named() {
        let reference = |size: u64| {
            let stored = json!({
                "uri": "toolcell:payload/sha256:00", "digest": "sha256:00", "media_type": "text/plain",
                "size_bytes": size,
            });
            json!({ "type": "persisted_output_ref", "of": "text", "preview": "", "persisted_ref": stored })
        };
        let text =
            json!({ "type": "text", "text": format!("\n  two\twords {}\nmore", "x".repeat(300)) });
        let change = json!({ "content": [reference(1), reference(2)], "model_facing_content": [reference(1), text.clone()] });
        let shown = result(change).representations();
        let sizes: Vec<u64> = shown
            .persisted_payload_refs
            .iter()
            .map(|reference| reference.size_bytes)
            .collect();
        assert_eq!(
            (sizes, shown.persisted_payload_ref),
            (vec![1, 2], shown.persisted_payload_refs.first().cloned())
        );
        assert_eq!(
            shown.summary.unwrap(),
            format!("two words {}", "x".repeat(190))
        );
        let shown = result(json!({ "summary": "its own", "model_facing_content": [text] }))
            .representations();
        assert_eq!(shown.summary, None);
    }

    #[test]
    fn representations_are_bounded_at_whole_characters() {
        let long = "\u{1f980} ".repeat(20_000);
        let shown =
            result(json!({ "content": [{ "type": "text", "text": long }] })).representations();
        let rendering = shown.ui_facing_rendering;
        let search = shown.transcript_search_text;
        assert!(
            rendering.len() <= RENDERING_BYTES_MAX && rendering.len() > RENDERING_BYTES_MAX - 8
        );
        assert!(
            search.len() <= SEARCH_BYTES_MAX && search.len() > SEARCH_BYTES_MAX - 8,
            "{}",
            search.len()
        );
    }
}
