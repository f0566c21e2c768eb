//! Changes of text: a unified diff that a tool wrote, and the lines that differ between two texts.

use maud::{Markup, html};
use serde_json::Value;
use toolcell_spec::text::{Whitespace, visible};

use super::text::start_of;

const LINES_MAX: usize = 2_000;
const LINE_CHARS_MAX: usize = 2_000;
const EDITS_MAX: usize = 50;
/// The names of what an edit replaces, and what by.
const PAIRS: [(&str, &str); 3] = [
    ("old", "new"),
    ("old_text", "new_text"),
    ("old_string", "new_string"),
];
/// Of each text: their comparison takes the product of both.
const COMPARED_MAX: usize = 400;
const COMPARED_BYTES_MAX: usize = 64 << 10;

/// A unified diff, with a colour for each line.
pub(crate) fn unified(text: &str) -> Markup {
    let kind = |line: &str| match line.as_bytes().first() {
        Some(b'+') => "added",
        Some(b'-') => "removed",
        Some(b'@') => "hunk",
        _ => "same",
    };
    let lines = text.lines().take(LINES_MAX).map(|line| (kind(line), line));
    rows(lines, text.lines().count().saturating_sub(LINES_MAX))
}

/// `None` if they are the same, or too long to compare.
pub(crate) fn between(before: &str, after: &str) -> Option<Markup> {
    if before == after || before.len().max(after.len()) > COMPARED_BYTES_MAX {
        return None;
    }
    let old: Vec<&str> = before.lines().collect();
    let new: Vec<&str> = after.lines().collect();
    if old.len().max(new.len()) > COMPARED_MAX {
        return None;
    }
    let changes = changes(&old, &new);
    let lines = changes.iter().map(|(sign, line)| {
        let kind = match sign {
            '+' => "added",
            '-' => "removed",
            _ => "same",
        };
        (kind, format!("{sign}{line}"))
    });
    Some(rows(lines, 0))
}

/// The edits that arguments ask for, by the usual names; empty if there are none.
pub(crate) fn edits(arguments: &Value) -> Vec<Markup> {
    let listed = arguments.get("edits").and_then(Value::as_array);
    let listed = listed.into_iter().flatten();
    let edits = std::iter::once(arguments).chain(listed).take(EDITS_MAX);
    edits
        .filter_map(|edit| {
            let both = |(old, new)| Some((edit.get(old)?.as_str()?, edit.get(new)?.as_str()?));
            let (old, new) = PAIRS.into_iter().find_map(both)?;
            between(old, new)
        })
        .collect()
}

fn rows<T: AsRef<str>>(lines: impl Iterator<Item = (&'static str, T)>, more: usize) -> Markup {
    html! {
        pre class="diff" tabindex="0" {
            @for (kind, line) in lines {
                @let (start, is_cut) = start_of(line.as_ref(), LINE_CHARS_MAX);
                span class=(kind) { (visible(start, Whitespace::Kept)) @if is_cut { " .." } "\n" }
            }
            @if more > 0 { span class="hunk" { ".. and " (more) " more lines\n" } }
        }
    }
}

/// By the longest common subsequence of lines.
fn changes<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(char, &'a str)> {
    let width = new.len() + 1;
    let mut common = vec![0_u32; (old.len() + 1) * width];
    let of = |table: &[u32], i: usize, j: usize| table.get(i * width + j).copied().unwrap_or(0);
    for (i, one) in old.iter().enumerate().rev() {
        for (j, other) in new.iter().enumerate().rev() {
            let length = if one == other {
                of(&common, i + 1, j + 1) + 1
            } else {
                of(&common, i + 1, j).max(of(&common, i, j + 1))
            };
            if let Some(cell) = common.get_mut(i * width + j) {
                *cell = length;
            }
        }
    }
    let mut found = Vec::new();
    let mut i = 0;
    let mut j = 0;
    loop {
        match (old.get(i), new.get(j)) {
            (Some(one), Some(other)) if one == other => {
                found.push((' ', *one));
                (i, j) = (i + 1, j + 1);
            }
            (Some(one), other)
                if other.is_none() || of(&common, i + 1, j) >= of(&common, i, j + 1) =>
            {
                found.push(('-', *one));
                i += 1;
            }
            (_, Some(other)) => {
                found.push(('+', *other));
                j += 1;
            }
            _ => return found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::changes;

    #[test]
    fn lines_that_stay_are_found() {
        let told = |old: &[&str], new: &[&str]| -> String {
            let lines = changes(old, new);
            lines
                .iter()
                .map(|(sign, line)| format!("{sign}{line}"))
                .collect()
        };
        assert_eq!(told(&["a", "b", "c"], &["a", "x", "c"]), " a-b+x c");
        assert_eq!(told(&[], &["a"]), "+a");
        assert_eq!(told(&["a"], &[]), "-a");
        assert_eq!(told(&["a", "b"], &["b", "c"]), "-a b+c");
    }
}
