//! Doc comments as a model reads them.

/// `text`, the lines of whose paragraphs become one, because where they break says nothing. Other Markdown, such as a list, a
/// code block or an indented line, keeps its lines.
pub(crate) fn paragraphs(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut is_code = false;
    let mut joins = false;
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        let begins_plainly = line.starts_with(|c: char| c.is_alphanumeric() || "`\"'(".contains(c));
        // A number can begin an item of a list.
        let is_item = line
            .split_once(['.', ')'])
            .is_some_and(|(head, _)| head.bytes().all(|byte| byte.is_ascii_digit()));
        if !joined.is_empty() {
            joined.push(
                if joins && begins_plainly && !is_item && !is_code && !is_fence {
                    ' '
                } else {
                    '\n'
                },
            );
        }
        joined.push_str(line.trim_end());
        joins = !is_code
            && !is_fence
            && !line.trim().is_empty()
            && !line.starts_with(['#', '|'])
            && !line.ends_with("  ");
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::paragraphs;

    #[test]
    fn the_lines_of_a_paragraph_become_one() {
        for (text, shown) in [
            (
                "Counts the words\nof a text.",
                "Counts the words of a text.",
            ),
            ("A.\n\nB\n`c` d", "A.\n\nB `c` d"),
            (
                "Takes:\n- one\n  of two\n2. two\n3) three",
                "Takes:\n- one\n  of two\n2. two\n3) three",
            ),
            ("# Title\nText\n| a |\n| b |", "# Title\nText\n| a |\n| b |"),
            (
                "For example\n```\na\nb\n```\nand\nso on",
                "For example\n```\na\nb\n```\nand so on",
            ),
            ("  Indented.\nbreaks  \nhere", "  Indented. breaks\nhere"),
            ("", ""),
        ] {
            assert_eq!(paragraphs(text), shown, "{text:?}");
        }
    }
}
