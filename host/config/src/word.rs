use std::fmt;
use std::ops::Deref;

use serde::Deserialize;
use toml::Spanned;

/// A text of a file, and where it is written.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "Spanned<String>")]
pub struct Word {
    text: String,
    /// Offset of its first byte in the file.
    pub(super) at: usize,
}

impl From<Spanned<String>> for Word {
    fn from(read: Spanned<String>) -> Self {
        Self { at: read.span().start, text: read.into_inner() }
    }
}

impl Deref for Word {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// Shows the text as a quoted string, as messages do.
impl fmt::Debug for Word {
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
