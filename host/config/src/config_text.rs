use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Deserializer};
use toml::Spanned;

/// A text of a file, and where it is written.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "Spanned<String>")]
pub struct ConfigText {
    text: String,
    /// Offset of its first byte in the file.
    pub(super) at: usize,
}

/// A size: a string, or a number without quotes.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a size, such as \"64MiB\"")]
enum SizeText {
    Text(String),
    Number(i64),
}

impl From<Spanned<String>> for ConfigText {
    fn from(read: Spanned<String>) -> Self {
        Self {
            at: read.span().start,
            text: read.into_inner(),
        }
    }
}

/// Reads a size, which needs no quotes if it has no unit: `memory = 64` is the same as `--memory 64`, bytes.
pub(super) fn size<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ConfigText>, D::Error> {
    let read = Spanned::<SizeText>::deserialize(deserializer)?;
    Ok(Some(ConfigText {
        at: read.span().start,
        text: match read.into_inner() {
            SizeText::Text(text) => text,
            SizeText::Number(number) => number.to_string(),
        },
    }))
}

impl Deref for ConfigText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl AsRef<str> for ConfigText {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

/// Shows the text as a quoted string, as messages do.
impl fmt::Debug for ConfigText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

/// Returns the number of the line that holds the byte `at` of `text`; the first line is 1. The end of the text belongs
/// to its last line.
pub(super) fn line(text: &[u8], at: usize) -> usize {
    let at = at.min(text.len().saturating_sub(1));
    text.iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}
