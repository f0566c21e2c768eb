//! The host's tool for cut results, for clients that read no resources.

use data_encoding::BASE64;
use rmcp::model::{CallToolResult, ContentBlock, Resource, Tool};
use serde::Deserialize;
use serde_json::json;
use toolcell_engine::pipeline::text_boundary;
use toolcell_spec::{ErrorCode, Input, Refusal, ResultProvenance};

use super::both::complete;
use super::discovery::{own, read};
use super::result::PROVENANCE_KEY;
use super::{meta_of, refused};

pub const READ_RESULT: &str = "read_result";
const LENGTH_DEFAULT: usize = 16 << 10;
/// In bytes: a part is no larger than a result, so it is never cut itself.
const LENGTH_MAX: usize = 64 << 10;
const AROUND: u64 = 8;
const URI_PREFIX: &str = "toolcell:payload/";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadArguments {
    /// The URI of a payload, or its digest.
    reference: String,
    #[serde(default)]
    offset: u64,
    #[serde(default = "length")]
    length: usize,
}

fn length() -> usize {
    LENGTH_DEFAULT
}

impl ReadArguments {
    /// Fails with `invalid_arguments`.
    pub fn read(input: &Input) -> Result<Self, Refusal> {
        read(input, READ_RESULT)
    }

    /// Start and length in bytes, for a payload of `size` bytes.
    pub fn window(&self, size: u64) -> (u64, u64) {
        let offset = self.offset.min(size);
        let from = offset.saturating_sub(AROUND);
        let to = offset
            .saturating_add(self.bytes_max() as u64)
            .saturating_add(AROUND)
            .min(size);
        (from, to - from)
    }

    fn bytes_max(&self) -> usize {
        self.length.clamp(1, LENGTH_MAX)
    }

    pub fn uri(&self) -> String {
        match self.reference.strip_prefix(URI_PREFIX) {
            Some(_) => self.reference.clone(),
            None => format!("{URI_PREFIX}{}", self.reference),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceError {
    /// No result referred this client to it.
    Unknown,
    /// Newer payloads displaced it.
    Expired,
    /// Its file was removed.
    Gone,
    /// The operator lets no output out.
    Redacted,
}

impl ReferenceError {
    /// The code of the error, and what to do.
    pub fn said(self) -> (ErrorCode, &'static str) {
        match self {
            Self::Unknown => (
                ErrorCode::UnknownReference,
                "no result referred you to it; copy the URI from a result",
            ),
            Self::Expired => (
                ErrorCode::ReferenceExpired,
                "newer results displaced it; call the tool again",
            ),
            Self::Gone => (
                ErrorCode::ResultRemoved,
                "it was removed from the host; call the tool again",
            ),
            Self::Redacted => (ErrorCode::Redacted, "the operator lets no output out"),
        }
    }
}

pub fn read_result() -> Tool {
    let properties = json!({
        "reference": { "type": "string", "description": "The resource URI of the full result, as given with the preview" },
        "offset": { "type": "integer", "minimum": 0, "default": 0, "description": "Byte offset to start at" },
        "length": { "type": "integer", "minimum": 1, "maximum": LENGTH_MAX, "default": LENGTH_DEFAULT },
    });
    own(
        READ_RESULT,
        "Returns another part of a large result. Use it when a result was shortened to a preview, marked with [cut].",
        properties,
        "reference",
    )
}

/// `window` has the bytes of [`ReadArguments::window`]. Text begins and ends at a whole character.
pub fn part(
    link: &Resource,
    window: &[u8],
    arguments: &ReadArguments,
    provenance: &ResultProvenance,
) -> CallToolResult {
    let size = link.size.unwrap_or_default();
    let length = arguments.bytes_max();
    let (start, _) = arguments.window(size);
    let is_last = start.saturating_add(window.len() as u64) >= size;
    let at = usize::try_from(arguments.offset.min(size) - start).unwrap_or_default();
    let (from, to, shown, encoding) = match text_of(window, start > 0, !is_last) {
        Some((skipped, text)) => {
            let (from, to) = range(text, at.saturating_sub(skipped), length);
            (
                skipped + from,
                skipped + to,
                text.get(from..to).unwrap_or_default().to_owned(),
                "utf-8",
            )
        }
        None => {
            let to = at.saturating_add(length).min(window.len());
            (
                at,
                to,
                BASE64.encode(window.get(at..to).unwrap_or_default()),
                "base64",
            )
        }
    };
    let from = start + from as u64;
    let to = start + to as u64;
    let next = (to < size).then_some(to);
    let note = match next {
        Some(next) => format!("[bytes {from} to {to} of {size}; the next offset is {next}]"),
        None => format!("[bytes {from} to {to} of {size}: the end]"),
    };
    let mut answer =
        CallToolResult::success(vec![ContentBlock::text(shown), ContentBlock::text(note)]);
    answer.structured_content = Some(json!({
        "reference": link.uri, "media_type": link.mime_type, "encoding": encoding, "size_bytes": size,
        "offset": from, "length": to - from, "next_offset": next,
    }));
    answer.meta = Some(meta_of(PROVENANCE_KEY, json!(provenance)));
    complete(&mut answer, None, false);
    answer
}

/// The text, and the bytes before it, which end an earlier character. `None` for other data: only where the payload
/// goes on can a character be cut.
fn text_of(window: &[u8], goes_on_before: bool, goes_on: bool) -> Option<(usize, &str)> {
    // All bytes of a character but its first begin with the bits 10.
    let ends_one = |byte: &&u8| **byte & 0xc0 == 0x80;
    let skipped = if goes_on_before {
        window.iter().take(3).take_while(ends_one).count()
    } else {
        0
    };
    let rest = window.get(skipped..)?;
    match str::from_utf8(rest) {
        Ok(text) => Some((skipped, text)),
        Err(error) if goes_on && error.error_len().is_none() => Some((
            skipped,
            str::from_utf8(rest.get(..error.valid_up_to())?).ok()?,
        )),
        Err(_) => None,
    }
}

/// At most `length` bytes, but at least one character, so that a reader who goes on arrives at the end.
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

/// In words and in a form for programs.
pub fn unreadable(uri: &str, why: ReferenceError) -> CallToolResult {
    let (code, advice) = why.said();
    let shown: String = uri.chars().take(100).collect();
    let refusal = Refusal::new(code, format!("{shown:?} cannot be read: {advice}"));
    let mut answer = refused(&refusal);
    answer.structured_content = Some(json!({ "reference": shown, "state": code }));
    complete(&mut answer, None, false);
    answer
}

#[cfg(test)]
mod tests {
    use data_encoding::BASE64;
    use rmcp::model::Resource;
    use serde_json::{Value, json};
    use toolcell_spec::{ErrorCode, Input, ResultProvenance, Trust, Writer};

    use super::{ReadArguments, ReferenceError, part, range, unreadable};

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
        let mut link = Resource::new(URI, "output");
        link.size = Some(bytes.len() as u64);
        let (from, count) = arguments.window(bytes.len() as u64);
        let window = &bytes[from as usize..(from + count) as usize];
        serde_json::to_value(part(&link, window, &arguments, &provenance)).unwrap()
    }

    fn read_all(bytes: &[u8], length: usize) -> (Vec<u8>, Vec<String>) {
        let mut whole = Vec::new();
        let mut encodings = Vec::new();
        let mut offset = json!(0);
        while !offset.is_null() {
            let answer = read(
                bytes,
                json!({ "reference": URI, "offset": offset, "length": length }),
            );
            let said = answer["content"][0]["text"].as_str().unwrap();
            let at = &answer["structuredContent"];
            assert_eq!(
                (&at["offset"], &at["size_bytes"]),
                (&offset, &json!(bytes.len()))
            );
            let encoding = at["encoding"].as_str().unwrap().to_owned();
            whole.extend(if encoding == "base64" {
                BASE64.decode(said.as_bytes()).unwrap()
            } else {
                said.into()
            });
            encodings.push(encoding);
            offset = at["next_offset"].clone();
        }
        (whole, encodings)
    }

    #[test]
    fn parts_are_the_same_whether_the_rest_of_the_payload_is_there_or_not() {
        let text = "a\u{e9}\u{1f980}e\u{301}\u{1b}[31mred\u{1b}[0m".repeat(9);
        for length in 1..40 {
            let (whole, encodings) = read_all(text.as_bytes(), length);
            assert_eq!(String::from_utf8(whole).unwrap(), text, "{length}");
            assert!(
                encodings.iter().all(|encoding| encoding == "utf-8"),
                "{length}"
            );
        }
        // A character that the payload cuts is not text, neither at its beginning nor at its end.
        for cut in [&text.as_bytes()[2..], &text.as_bytes()[..5]] {
            assert_eq!(
                read_all(cut, 1_000),
                (cut.to_vec(), vec!["base64".to_owned()])
            );
        }
        // An offset inside a character is moved to its beginning, wherever the window begins.
        let crabs = "\u{1f980}".repeat(20);
        for offset in 0..80 {
            let at = read(
                crabs.as_bytes(),
                json!({ "reference": URI, "offset": offset, "length": 4 }),
            );
            assert_eq!(at["structuredContent"]["offset"], json!(offset / 4 * 4));
            assert_eq!(at["content"][0]["text"], "\u{1f980}");
        }
    }

    #[test]
    fn parts_of_a_text_are_whole_characters_and_together_the_text() {
        let text = "a\u{e9}\u{1f980}e\u{301}\u{1b}[31mred\u{1b}[0m".repeat(50);
        for length in [1, 2, 3, 5, 7, 64, 10_000] {
            let mut at = 0;
            let mut whole = String::new();
            while at < text.len() {
                let (from, to) = range(&text, at, length);
                assert!(
                    from == at && to > at && (to - from <= length.max(4)),
                    "{from} to {to} of {length}"
                );
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
        assert_eq!(
            (&first["content"][0]["text"], &first["isError"]),
            (&json!("abcd"), &json!(false))
        );
        assert_eq!(first["structuredContent"]["next_offset"], json!(4));
        assert_eq!(first["_meta"]["toolcell/provenance"]["trust"], "untrusted");
        let last = read(b"abcdef", json!({ "reference": "sha256:ab", "offset": 4 }));
        assert_eq!(
            (
                &last["content"][0]["text"],
                &last["structuredContent"]["next_offset"]
            ),
            (&json!("ef"), &Value::Null)
        );
        let past = read(b"abcdef", json!({ "reference": URI, "offset": u64::MAX }));
        assert_eq!(
            (
                &past["content"][0]["text"],
                &past["structuredContent"]["length"]
            ),
            (&json!(""), &json!(0))
        );
        let bytes = read(
            &[0xff, 0xfe, 0xfd],
            json!({ "reference": URI, "offset": 1, "length": 1 }),
        );
        assert_eq!(
            (
                &bytes["content"][0]["text"],
                &bytes["structuredContent"]["encoding"]
            ),
            (&json!("/g=="), &json!("base64"))
        );
        let large = read(
            "x".repeat(1 << 20).as_bytes(),
            json!({ "reference": URI, "length": 1 << 30 }),
        );
        assert_eq!(
            large["content"][0]["text"].as_str().map(str::len),
            Some(64 << 10)
        );
    }

    #[test]
    fn a_reference_that_cannot_be_read_has_a_word_for_programs() {
        for (why, word) in [
            (ReferenceError::Unknown, "unknown_reference"),
            (ReferenceError::Expired, "reference_expired"),
            (ReferenceError::Gone, "result_removed"),
            (ReferenceError::Redacted, "redacted"),
        ] {
            let answer = serde_json::to_value(unreadable(URI, why)).unwrap();
            assert_eq!(
                (&answer["isError"], &answer["structuredContent"]["state"]),
                (&json!(true), &json!(word))
            );
            assert_eq!(answer["_meta"]["toolcell/error"]["code"], word);
        }
        let wrong = ReadArguments::read(&Input::from_value(
            json!({ "reference": URI, "offset": -1 }),
        ))
        .unwrap_err();
        assert_eq!(wrong.code, ErrorCode::SchemaMismatch);
    }
}
