//! Foreign text in the page: maud escapes it, and what cannot be seen is written out.

use maud::{Markup, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use toolcell_engine::approval::pretty;
use toolcell_spec::text::{Whitespace, visible};

/// In characters; the whole text is behind a link.
pub(crate) const BLOCK_CHARS_MAX: usize = 20_000;
const LINE_CHARS_MAX: usize = 300;
const IN_URL: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// One line, cut.
pub(crate) fn line(text: &str) -> String {
    let (start, is_cut) = start_of(text, LINE_CHARS_MAX);
    let mut line = visible(start, Whitespace::WrittenOut);
    if is_cut {
        line.push_str(" ..");
    }
    line
}

/// The first `chars` characters, and whether there are more.
pub(crate) fn start_of(text: &str, chars: usize) -> (&str, bool) {
    match text.char_indices().nth(chars) {
        Some((at, _)) => (text.get(..at).unwrap_or(text), true),
        None => (text, false),
    }
}

/// Lines of text. What is cut off is at `whole`.
pub(crate) fn block(text: &str, whole: &str) -> Markup {
    let (start, is_cut) = start_of(text, BLOCK_CHARS_MAX);
    html! {
        pre class="said" tabindex="0" { (visible(start, Whitespace::Kept)) }
        @if is_cut {
            p class="cut" {
                "Cut after " (BLOCK_CHARS_MAX) " characters of " (text.len()) " bytes. "
                a href=(whole) { "Show all of it" }
            }
        }
    }
}

/// A part of a path or query.
pub(crate) fn in_url(text: &str) -> String {
    utf8_percent_encode(text, IN_URL).to_string()
}

/// JSON with a line for each value, or, if it is large, on one line: nesting could multiply its size.
pub(crate) fn laid_out(value: &Value) -> String {
    pretty(&value.to_string()).into_owned()
}
