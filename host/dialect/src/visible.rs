/// Removes control, bidirectional, zero-width and tag characters, which can hide instructions, from a text that a model
/// reads before any call.
pub fn visible(text: &str) -> String {
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
        assert_eq!(
            visible("a\u{202e}b\u{200b}c\u{e0041}d\x1b[2Je\n\tf"),
            "abcd[2Je\n\tf"
        );
    }
}
