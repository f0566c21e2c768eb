//! MCP, revisions 2025-11-25 and 2026-07-28: tools, results and notices in the protocol's terms (requirements 3).
//!
//! Facts that the protocol has no field for are in `_meta`, under keys that begin with `toolcell/`.

mod content;
mod discovery;
mod name;
mod notice;
mod question;
mod reading;
mod result;
mod task;
mod tool;

pub use discovery::{LOAD_TOOL, LoadArguments, SEARCH_TOOLS, SearchArguments, discovery, found, loaded};
pub use name::exported;
pub use notice::{Level, Steps, log, log_level};
pub use question::{
    APPROVAL, Said, approval_meta, approval_pending, filled, form, input_meta, input_required, input_response,
    question, response, said,
};
pub use reading::{READ_RESULT, ReadArguments, Unreadable, part, read_result, unreadable};
pub use result::{
    call_result, hint, part_of, payload, payload_link, payload_part, protocol_error, refused, structured_at,
};
pub use task::{TaskFacts, task_asks, task_created, task_ended, task_failed, task_working};
pub use tool::{Listed, surface, tool};

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
