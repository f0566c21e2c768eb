//! The tool of the host itself with which a client that reads no resources gets what is cut from a result.

use data_encoding::BASE64;
use rmcp::model::{CallToolResult, ContentBlock, MetaObject, Resource, Tool};
use serde::Deserialize;
use serde_json::json;
use toolcell_core::pipeline::text_boundary;
use toolcell_core::record::{ErrorClass, Input, Refusal, ResultProvenance};

use super::discovery::{own, read};
use super::refused;
use super::result::PROVENANCE_KEY;

/// The name of the tool.
pub const READ_RESULT: &str = "read_result";
/// Bytes of one part, if the call does not say.
const LENGTH_DEFAULT: usize = 16 << 10;
/// Maximum bytes of one part: an answer is no larger than a result, so it is never cut itself.
const LENGTH_MAX: usize = 64 << 10;
const URI_PREFIX: &str = "toolcell:payload/";

/// The arguments of [`READ_RESULT`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadArguments {
    /// The URI of a payload, or its digest.
    reference: String,
    /// Where the part begins, in bytes.
    #[serde(default)]
    offset: u64,
    /// Maximum bytes of the part.
    #[serde(default = "length")]
    length: usize,
}

fn length() -> usize {
    LENGTH_DEFAULT
}

impl ReadArguments {
    /// Reads the arguments of a call.
    ///
    /// # Errors
    ///
    /// `invalid_arguments`, if they do not fit the schema.
    pub fn read(input: &Input) -> Result<Self, Refusal> {
        read(input, READ_RESULT)
    }

    /// The URI that the reference means.
    pub fn uri(&self) -> String {
        match self.reference.strip_prefix(URI_PREFIX) {
            Some(_) => self.reference.clone(),
            None => format!("{URI_PREFIX}{}", self.reference),
        }
    }
}

/// Why a reference cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// No result referred this client to it.
    Unknown,
    /// Newer payloads displaced it.
    Expired,
    /// Its file was removed.
    Gone,
    /// The operator lets no output out.
    Redacted,
}

impl Unreadable {
    /// The word for it, the class of the error, and what to do.
    fn said(self) -> (&'static str, ErrorClass, &'static str) {
        use ErrorClass::{InvalidArguments, ResultRedacted};
        match self {
            Self::Unknown => {
                ("unknown_reference", InvalidArguments, "no result referred you to it; copy the URI from a result")
            }
            Self::Expired => ("expired", InvalidArguments, "newer results displaced it; call the tool again"),
            Self::Gone => ("gone", InvalidArguments, "it was removed from the host; call the tool again"),
            Self::Redacted => ("redacted", ResultRedacted, "the operator lets no output out"),
        }
    }
}

/// Builds the description of the tool.
pub fn read_result() -> Tool {
    let properties = json!({
        "reference": { "type": "string", "description": "The URI of the resource in which the whole result is" },
        "offset": { "type": "integer", "minimum": 0, "default": 0, "description": "Where to begin, in bytes" },
        "length": { "type": "integer", "minimum": 1, "maximum": LENGTH_MAX, "default": LENGTH_DEFAULT },
    });
    own(
        READ_RESULT,
        "Reads a part of a result of which you got only a preview, marked with [cut].",
        properties,
        "reference",
    )
}

/// Answers with the part of `bytes` that `arguments` ask for. A text begins and ends at a whole character.
pub fn part(link: &Resource, bytes: &[u8], arguments: &ReadArguments, provenance: &ResultProvenance) -> CallToolResult {
    let size = bytes.len();
    let from = usize::try_from(arguments.offset).unwrap_or(size).min(size);
    let length = arguments.length.clamp(1, LENGTH_MAX);
    let (from, to, shown, encoding) = match str::from_utf8(bytes) {
        Ok(text) => {
            let (from, to) = range(text, from, length);
            (from, to, text.get(from..to).unwrap_or_default().to_owned(), "utf-8")
        }
        Err(_) => {
            let to = from.saturating_add(length).min(size);
            (from, to, BASE64.encode(bytes.get(from..to).unwrap_or_default()), "base64")
        }
    };
    let next = (to < size).then_some(to);
    let note = match next {
        Some(next) => format!("[bytes {from} to {to} of {size}; the next offset is {next}]"),
        None => format!("[bytes {from} to {to} of {size}: the end]"),
    };
    let mut answer = CallToolResult::success(vec![ContentBlock::text(shown), ContentBlock::text(note)]);
    answer.structured_content = Some(json!({
        "reference": link.uri, "media_type": link.mime_type, "encoding": encoding, "size_bytes": size,
        "offset": from, "length": to - from, "next_offset": next,
    }));
    answer.meta = Some(MetaObject([(PROVENANCE_KEY.to_owned(), json!(provenance))].into_iter().collect()));
    answer
}

/// The part of `text` from about byte `from`, of at most `length` bytes, but at least one character, so that a reader who
/// goes on at its end arrives at the end of the text.
fn range(text: &str, from: usize, length: usize) -> (usize, usize) {
    let from = text.floor_char_boundary(from);
    let to = text.floor_char_boundary(from.saturating_add(length));
    if to == text.len() {
        return (from, to);
    }
    let rest = text.get(from..).unwrap_or_default();
    match text_boundary(rest, to - from) {
        0 => (from, to.max(text.ceil_char_boundary(from + 1))),
        end => (from, from + end),
    }
}

/// Answers that `uri` cannot be read, in words and in a form for programs.
pub fn unreadable(uri: &str, why: Unreadable) -> CallToolResult {
    let (code, class, advice) = why.said();
    let shown: String = uri.chars().take(100).collect();
    let refusal = Refusal::new(class, code, format!("{shown:?} cannot be read: {advice}"));
    let mut answer = refused(&refusal);
    answer.structured_content = Some(json!({ "reference": shown, "state": code }));
    answer
}

#[cfg(test)]
mod tests {
    use rmcp::model::Resource;
    use serde_json::{Value, json};
    use toolcell_core::record::{Input, ResultProvenance, Trust, Writer};

    use super::{ReadArguments, Unreadable, part, range, unreadable};

    const URI: &str = "toolcell:payload/sha256:ab";

    fn read(bytes: &[u8], arguments: Value) -> Value {
        let arguments = ReadArguments::read(&Input::from_value(arguments)).unwrap();
        let provenance = ResultProvenance {
            trust: Trust::Untrusted,
            written_by: Writer::Tool,
            tool_id: None,
            component: None,
            hooks: Vec::new(),
        };
        serde_json::to_value(part(&Resource::new(URI, "output"), bytes, &arguments, &provenance)).unwrap()
    }

    #[test]
    fn parts_of_a_text_are_whole_characters_and_together_the_text() {
        let text = "a\u{e9}\u{1f980}e\u{301}\u{1b}[31mred\u{1b}[0m".repeat(50);
        for length in [1, 2, 3, 5, 7, 64, 10_000] {
            let (mut at, mut whole) = (0, String::new());
            while at < text.len() {
                let (from, to) = range(&text, at, length);
                assert!(from == at && to > at && (to - from <= length.max(4)), "{from} to {to} of {length}");
                whole.push_str(&text[from..to]);
                at = to;
            }
            assert_eq!(whole, text);
        }
        // An offset inside a character is moved to its beginning.
        assert_eq!(range("\u{1f980}x", 2, 5), (0, 5));
        assert_eq!((range("abc", 9, 5), range("", 0, 5)), ((3, 3), (0, 0)));
    }

    #[test]
    fn a_part_says_where_it_is_and_where_the_next_one_begins() {
        let first = read(b"abcdef", json!({ "reference": URI, "length": 4 }));
        assert_eq!((&first["content"][0]["text"], &first["isError"]), (&json!("abcd"), &json!(false)));
        assert_eq!(first["structuredContent"]["next_offset"], json!(4));
        assert_eq!(first["_meta"]["toolcell/provenance"]["trust"], "untrusted");
        let last = read(b"abcdef", json!({ "reference": "sha256:ab", "offset": 4 }));
        assert_eq!(
            (&last["content"][0]["text"], &last["structuredContent"]["next_offset"]),
            (&json!("ef"), &Value::Null)
        );
        let past = read(b"abcdef", json!({ "reference": URI, "offset": u64::MAX }));
        assert_eq!((&past["content"][0]["text"], &past["structuredContent"]["length"]), (&json!(""), &json!(0)));
        let bytes = read(&[0xff, 0xfe, 0xfd], json!({ "reference": URI, "offset": 1, "length": 1 }));
        assert_eq!(
            (&bytes["content"][0]["text"], &bytes["structuredContent"]["encoding"]),
            (&json!("/g=="), &json!("base64"))
        );
        let large = read("x".repeat(1 << 20).as_bytes(), json!({ "reference": URI, "length": 1 << 30 }));
        assert_eq!(large["content"][0]["text"].as_str().map(str::len), Some(64 << 10));
    }

    #[test]
    fn a_reference_that_cannot_be_read_has_a_word_for_programs() {
        for (why, word) in [
            (Unreadable::Unknown, "unknown_reference"),
            (Unreadable::Expired, "expired"),
            (Unreadable::Gone, "gone"),
            (Unreadable::Redacted, "redacted"),
        ] {
            let answer = serde_json::to_value(unreadable(URI, why)).unwrap();
            assert_eq!((&answer["isError"], &answer["structuredContent"]["state"]), (&json!(true), &json!(word)));
            assert_eq!(answer["_meta"]["toolcell/error"]["code"], word);
        }
        let wrong = ReadArguments::read(&Input::from_value(json!({ "reference": URI, "offset": -1 }))).unwrap_err();
        assert_eq!(wrong.code, "schema_mismatch");
    }
}
