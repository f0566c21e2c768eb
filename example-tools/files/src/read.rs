use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::Path,
};

use toolcell_guest::{Output, ToolError, data, tool};

/// Maximum size of the text that one call returns, in bytes.
const BYTES_MAX: u64 = 256 * 1024;

#[data]
pub(crate) struct Part {
    /// The file.
    path: String,
    /// What `offset` and `limit` count.
    #[serde(default)]
    unit: Unit,
    /// First line (counted from 1) or first byte (counted from 0) to return.
    #[serde(default)]
    offset: Option<u64>,
    /// Maximum number of lines or bytes. Default: 2000 lines or 65536 bytes.
    #[serde(default)]
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

#[data]
#[derive(Clone, Copy, Default, PartialEq, Debug)]
#[serde(rename_all = "snake_case")]
enum Unit {
    #[default]
    Lines,
    Bytes,
}

#[data]
pub(crate) struct Extract {
    path: String,
    unit: Unit,
    /// Where the text begins.
    offset: u64,
    /// How many lines or bytes it has.
    count: u64,
    /// Where the rest begins; absent at the end of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    /// The size of the whole file.
    file_bytes: u64,
}

/// Reads a text file, or a range of its lines or bytes.
///
/// Returns the text unchanged. If there is more, `next_offset` is the offset for the next call. Fails if the file is
/// not UTF-8 text.
#[tool(
    kind = "file_operation",
    search_hint = "read text file lines bytes part",
    access = ["file_read"],
    paths = ["path"],
    content = ["text"],
    read_only,
    concurrency_safe
)]
pub(crate) fn read(input: Part) -> Result<Output<Extract>, ToolError> {
    let path = Path::new(&input.path);
    let failed = |error: io::Error| ToolError::at_path(path, &error);
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    let part = match input.unit {
        Unit::Lines => lines(
            BufReader::new(file),
            input.offset.unwrap_or(1),
            input.limit.unwrap_or(2000),
        ),
        Unit::Bytes => bytes(
            file,
            input.offset.unwrap_or(0),
            input.limit.unwrap_or(1 << 16),
        ),
    };
    let part = part.map_err(|error| error.at(path))?;
    let extract = Extract {
        path: input.path.clone(),
        unit: input.unit,
        offset: part.offset,
        count: part.count,
        next_offset: part.next_offset,
        file_bytes: metadata.len(),
    };
    Ok(Output::new().text(part.text).structured(extract))
}

struct Text {
    text: String,
    offset: u64,
    count: u64,
    next_offset: Option<u64>,
}

/// The reason why a part cannot be returned.
enum Refusal {
    Io(io::Error),
    /// The file is not text; the offset is that of the first byte that shows it.
    Binary(u64),
    /// The line with this number alone is too large.
    LongLine(u64),
    BadOffset(&'static str),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Refusal {
    fn at(self, path: &Path) -> ToolError {
        let path_text = path.display();
        match self {
            Self::Io(error) => ToolError::at_path(path, &error),
            Self::Binary(place) => not_text(path, place),
            Self::LongLine(line) => ToolError::result_too_large(
                "line_too_long",
                format!(
                    "{path_text}: line {line} is longer than {BYTES_MAX} bytes; read it with `unit` bytes"
                ),
            ),
            Self::BadOffset(what) => {
                ToolError::invalid_arguments("offset_invalid", format!("{path_text}: {what}"))
            }
        }
    }
}

/// Reads whole lines, and at most one line more of the file than it needs.
fn lines(mut file: impl BufRead, first: u64, limit: u64) -> Result<Text, Refusal> {
    if first == 0 {
        return Err(Refusal::BadOffset("the first line is 1"));
    }
    let mut place = 0;
    for line in 1..first {
        let skipped = file.skip_until(b'\n')? as u64;
        if skipped == 0 && line > 1 {
            return Err(Refusal::BadOffset("the file has fewer lines"));
        }
        place += skipped;
    }
    let mut text = String::new();
    let mut count = 0;
    while count < limit {
        let room = BYTES_MAX - text.len() as u64;
        let mut line = Vec::new();
        file.by_ref().take(room + 1).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(Text {
                text,
                offset: first,
                count,
                next_offset: None,
            });
        }
        if line.len() as u64 > room {
            match count {
                0 => return Err(Refusal::LongLine(first)),
                _ => {
                    return Ok(Text {
                        text,
                        offset: first,
                        count,
                        next_offset: Some(first + count),
                    });
                }
            }
        }
        text.push_str(utf8(&line).map_err(|bad| Refusal::Binary(place + bad))?);
        place += line.len() as u64;
        count += 1;
    }
    let more = !file.fill_buf()?.is_empty();
    Ok(Text {
        text,
        offset: first,
        count,
        next_offset: more.then_some(first + count),
    })
}

/// Reads bytes, and moves both ends forward to the start of a character, so that `next_offset` skips no byte.
fn bytes(mut file: impl Read + Seek, first: u64, limit: u64) -> Result<Text, Refusal> {
    let limit = limit.clamp(1, BYTES_MAX);
    file.seek(SeekFrom::Start(first))?;
    let mut read = Vec::new();
    // Enough to move each end past the rest of a character, and to see whether more follows.
    file.take(limit + 8).read_to_end(&mut read)?;
    let start = read
        .iter()
        .take(3)
        .take_while(|byte| is_inside_character(**byte))
        .count();
    let mut end = read.len().min(start + limit as usize);
    while end < read.len() && is_inside_character(read[end]) {
        end += 1;
    }
    let offset = first + start as u64;
    let text = utf8(&read[start..end]).map_err(|bad| Refusal::Binary(offset + bad))?;
    let count = text.len() as u64;
    let next_offset = (end < read.len()).then_some(offset + count);
    Ok(Text {
        text: text.to_owned(),
        offset,
        count,
        next_offset,
    })
}

fn is_inside_character(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// The error for a file whose byte `place` is not part of a text.
pub(crate) fn not_text(path: &Path, place: u64) -> ToolError {
    let path = path.display();
    let message = format!("{path} is not text: byte {place} is not part of UTF-8 text");
    ToolError::invalid_arguments("binary_file", message)
}

/// The text, or the offset of the first byte that is not text. A NUL counts as binary, although UTF-8 allows it.
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, u64> {
    if let Some(nul) = bytes.iter().position(|byte| *byte == 0) {
        return Err(nul as u64);
    }
    std::str::from_utf8(bytes).map_err(|error| error.valid_up_to() as u64)
}

#[cfg(test)]
mod tests {
    use toolcell_guest::{
        Outcome,
        serde_json::{Value, json},
        testing,
    };

    use super::*;
    use crate::{Toolkit, folder::Folder};

    fn read(input: Value) -> (String, Value) {
        match testing::invoke::<Toolkit>("read", input) {
            Outcome::Success(output) => (
                output.content[0]
                    .get("text")
                    .unwrap()
                    .as_str()
                    .unwrap()
                    .to_owned(),
                output.structured.unwrap(),
            ),
            other => panic!("{other:?}"),
        }
    }

    fn refused(input: Value) -> ToolError {
        match testing::invoke::<Toolkit>("read", input) {
            Outcome::Failure(error) => error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lines_come_as_they_are_with_where_to_go_on() {
        let folder = Folder::new(&[("a.txt", "one\r\ntwo\nthree")]);
        let path = folder.text("a.txt");
        let (text, part) = read(json!({"path": path}));
        assert_eq!(
            (text.as_str(), &part["count"], part.get("next_offset")),
            ("one\r\ntwo\nthree", &json!(3), None)
        );
        let (text, part) = read(json!({"path": path, "offset": 2, "limit": 1}));
        assert_eq!((text.as_str(), &part["next_offset"]), ("two\n", &json!(3)));
        let (text, part) = read(json!({"path": path, "offset": 3, "limit": 1}));
        assert_eq!(
            (text.as_str(), part.get("next_offset"), &part["file_bytes"]),
            ("three", None, &json!(14))
        );
        assert_eq!(
            refused(json!({"path": path, "offset": 9})).code,
            "offset_invalid"
        );
        assert_eq!(
            refused(json!({"path": path, "offset": 0})).code,
            "offset_invalid"
        );
    }

    #[test]
    fn an_empty_file_is_empty() {
        let folder = Folder::new(&[("empty", "")]);
        let (text, part) = read(json!({"path": folder.text("empty")}));
        assert_eq!((text.as_str(), &part["count"]), ("", &json!(0)));
        let (text, _) = read(json!({"path": folder.text("empty"), "unit": "bytes"}));
        assert_eq!(text, "");
    }

    #[test]
    fn following_the_bytes_gives_the_whole_text() {
        let whole = "aé漢🙂z".repeat(3);
        let folder = Folder::new(&[("t", &whole)]);
        for limit in 1..9 {
            let mut seen = String::new();
            let mut offset = Some(0);
            while let Some(at) = offset {
                let (text, part) = read(
                    json!({"path": folder.text("t"), "unit": "bytes", "offset": at, "limit": limit}),
                );
                assert!(!text.is_empty());
                seen.push_str(&text);
                offset = part.get("next_offset").and_then(Value::as_u64);
            }
            assert_eq!(seen, whole);
        }
        let (text, part) =
            read(json!({"path": folder.text("t"), "unit": "bytes", "offset": 2, "limit": 3}));
        assert_eq!((text.as_str(), &part["offset"]), ("漢", &json!(3)));
    }

    #[test]
    fn what_is_not_text_is_refused_with_the_place() {
        let folder = Folder::new(&[]);
        folder.write("image", b"PNG\n\x00\x01");
        folder.write("latin", b"caf\xe9\n");
        let error = refused(json!({"path": folder.text("image")}));
        assert_eq!(error.code, "binary_file");
        assert!(error.message.contains("byte 4 "), "{}", error.message);
        assert!(
            refused(json!({"path": folder.text("latin")}))
                .message
                .contains("byte 3 ")
        );
        assert_eq!(
            refused(json!({"path": folder.text("")})).code,
            "is_a_folder"
        );
    }

    #[test]
    fn a_line_that_is_too_long_points_to_bytes() {
        let long = "x".repeat(BYTES_MAX as usize + 1);
        let folder = Folder::new(&[("long", &format!("short\n{long}\n"))]);
        let (text, part) = read(json!({"path": folder.text("long")}));
        assert_eq!(
            (text.as_str(), &part["next_offset"]),
            ("short\n", &json!(2))
        );
        assert_eq!(
            refused(json!({"path": folder.text("long"), "offset": 2})).code,
            "line_too_long"
        );
    }
}
