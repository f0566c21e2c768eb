//! `toolcell.lock`: which bytes each installed name stands for.

/// Maximum length of the name of an installed tool.
const NAME_MAX: usize = 64;

/// Whether an installed tool can have this name: letters, digits, `_` and `-`, beginning with a letter or a digit, so
/// that it is no path and no option.
pub fn is_name(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric();
    text.len() <= NAME_MAX
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|byte| is_word(byte) || b"_-".contains(&byte))
}
