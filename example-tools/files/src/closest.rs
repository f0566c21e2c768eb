//! Says where a text almost occurs, so that the caller of an edit sees its mistake.

/// Maximum number of places that are compared line by line, to bound the work.
const PLACES_MAX: usize = 100;
/// Maximum length of a line in a message, in characters.
const LINE_CHARS_MAX: usize = 120;
/// How much of a line must be as wanted for it to be shown, in percent.
const LIKENESS_MIN: usize = 50;

/// Describes the part of `text` that is most like `wanted`, which does not occur.
///
/// The work is linear in both texts: one pass over `text`, and one over `wanted` for each of `PLACES_MAX` places.
pub(crate) fn closest(text: &str, wanted: &str) -> String {
    if text.is_empty() {
        return "the file is empty".to_owned();
    }
    let Some((skipped, first)) = (0..)
        .zip(wanted.split('\n'))
        .find(|(_, line)| !line.trim().is_empty())
    else {
        return "it is white space only".to_owned();
    };
    let rest = || wanted.split('\n').skip(skipped);
    let mut best: Option<(usize, Place)> = None;
    let places = lines(text).filter(|place| place.line().contains(first.trim()));
    for place in places.take(PLACES_MAX) {
        let run = place.run(rest());
        if best.as_ref().is_none_or(|(longest, _)| run > *longest) {
            best = Some((run, place));
        }
    }
    match best {
        Some((_, place)) => place.difference(rest(), skipped == 0),
        None => most_like(text, first.trim()),
    }
}

/// A line of a text.
struct Place<'t> {
    number: usize,
    /// The text from this line on.
    from: &'t str,
}

fn lines(text: &str) -> impl Iterator<Item = Place<'_>> {
    let mut next = 0;
    (1..).zip(text.split('\n')).map(move |(number, line)| {
        let from = &text[next..];
        next += line.len() + 1;
        Place { number, from }
    })
}

impl<'t> Place<'t> {
    fn line(&self) -> &'t str {
        self.from.split('\n').next().unwrap_or_default()
    }

    /// The number of lines from here that are as wanted, apart from white space at their ends.
    fn run<'w>(&self, wanted: impl Iterator<Item = &'w str>) -> usize {
        1 + self
            .from
            .split('\n')
            .zip(wanted)
            .skip(1)
            .take_while(|(has, wants)| has.trim() == wants.trim())
            .count()
    }

    /// Describes the first line that is not as wanted. The first and the last line of an old text may be parts of lines.
    fn difference<'w>(&self, wanted: impl Iterator<Item = &'w str>, is_start: bool) -> String {
        let mut has = self.from.split('\n');
        let mut wanted = wanted.peekable();
        let mut number = self.number;
        while let Some(wants) = wanted.next() {
            let is_first = number == self.number && is_start;
            let Some(line) = has.next() else {
                return format!("the closest ends with line {}, the last one", number - 1);
            };
            let is_as_wanted = match (is_first, wanted.peek().is_none()) {
                (true, true) => line.contains(wants),
                (true, false) => line.ends_with(wants),
                (false, true) => line.starts_with(wants),
                (false, false) => line == wants,
            };
            if !is_as_wanted {
                return format!(
                    "the closest has {} in line {number}, where `old` has {}",
                    shown(line),
                    shown(wants)
                );
            }
            number += 1;
        }
        format!(
            "the closest is line {}: {}",
            self.number,
            shown(self.line())
        )
    }
}

/// The line with the longest start and end in common with `wanted`.
fn most_like(text: &str, wanted: &str) -> String {
    let mut best = (0, None);
    for place in lines(text) {
        let likeness = likeness(place.line().trim(), wanted);
        if likeness > best.0 {
            best = (likeness, Some(place));
        }
    }
    match best {
        (likeness, Some(place)) if likeness >= LIKENESS_MIN => {
            format!(
                "the closest is line {}: {}",
                place.number,
                shown(place.line())
            )
        }
        _ => "no line is like it".to_owned(),
    }
}

/// How much of the longer line is the same in the other one at its start and its end, in percent.
fn likeness(one: &str, other: &str) -> usize {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let start = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let ends = one[start..].iter().rev().zip(other[start..].iter().rev());
    let end = ends.take_while(|(a, b)| a == b).count();
    (start + end) * 100 / one.len().max(other.len()).max(1)
}

/// The line in quotes, with escapes that show white space.
fn shown(line: &str) -> String {
    match line.char_indices().nth(LINE_CHARS_MAX) {
        Some((end, _)) => format!("{:?}…", &line[..end]),
        None => format!("{line:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_shown() {
        let text = "fn a() {\n    one();\n}\n\nfn b() {\n\ttwo();\n}\n";
        for (wanted, said) in [
            (
                "fn b() {\n    two();\n}",
                "the closest has \"\\ttwo();\" in line 6, where `old` has \"    two();\"",
            ),
            (
                "}\n\nfn b() {\n\ttwo()\n}\n",
                "the closest has \"\\ttwo();\" in line 6, where `old` has \"\\ttwo()\"",
            ),
            (
                "\ntwo();\n",
                "the closest has \"\\ttwo();\" in line 6, where `old` has \"two();\"",
            ),
            (
                "\ttwo();\n}\n\nmore",
                "the closest ends with line 8, the last one",
            ),
            ("fn c() {", "the closest is line 1: \"fn a() {\""),
            ("something else", "no line is like it"),
            (" \n", "it is white space only"),
        ] {
            assert_eq!(closest(text, wanted), said, "{wanted:?}");
        }
        assert_eq!(closest("", "x"), "the file is empty");
    }

    #[test]
    fn long_lines_are_cut_between_characters() {
        let long = "é".repeat(LINE_CHARS_MAX + 1);
        let said = closest(&format!("{long}x\n"), &format!("{long}y"));
        assert_eq!(
            said,
            format!("the closest is line 1: \"{}\"…", "é".repeat(LINE_CHARS_MAX))
        );
    }

    #[test]
    fn many_places_that_are_almost_right_take_bounded_work() {
        let text = "a\n".repeat(1 << 20);
        let wanted = format!("{}b", "a\n".repeat(1 << 16));
        let said = closest(&text, &wanted);
        assert!(said.contains("in line 65537, where"), "{said}");
    }
}
