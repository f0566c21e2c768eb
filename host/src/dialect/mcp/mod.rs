//! MCP, revisions 2025-11-25 and 2026-07-28: tools, results and notices in the protocol's terms (requirements 3).
//!
//! Facts that the protocol has no field for are in `_meta`, under keys that begin with `toolcell/`.

mod content;
mod name;
mod notice;
mod question;
mod result;
mod tool;

pub use name::exported;
pub use notice::{Level, Steps, log, log_level};
pub use question::{
    APPROVAL, Said, approval_meta, approval_pending, filled, form, input_meta, input_required, input_response,
    question, response, said,
};
pub use result::{call_result, hint, payload, payload_link, protocol_error, structured_at};
pub use tool::{Listed, tool};

/// Removes characters that a person does not see from a text that a model reads before any call: control,
/// bidirectional, zero-width and tag characters. Instructions can be hidden in them.
fn visible(text: &str) -> String {
    let hidden = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
            || matches!(c, '\u{e0000}'..='\u{e007f}')
    };
    text.chars().filter(|c| !hidden(*c)).collect()
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn what_nobody_sees_is_not_there() {
        assert_eq!(visible("a\u{202e}b\u{200b}c\u{e0041}d\x1b[2Je\n\tf"), "abcd[2Je\n\tf");
    }
}
