use std::fmt;
use std::ops::Deref;

use serde::de::{Error, Visitor};
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

/// A string, or a number without quotes.
struct SizeText(String);

impl<'de> Deserialize<'de> for SizeText {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StringOrNumber)
    }
}

struct StringOrNumber;

impl Visitor<'_> for StringOrNumber {
    type Value = SizeText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size, such as \"64MiB\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<SizeText, E> {
        Ok(SizeText(text.to_owned()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<SizeText, E> {
        Ok(SizeText(number.to_string()))
    }
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
        text: read.into_inner().0,
    }))
}

impl Deref for ConfigText {
    type Target = str;

    fn deref(&self) -> &str {
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
