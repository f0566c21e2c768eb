//! Confusable characters, as in `pаypal` with a Cyrillic `а`.

use unicode_security::confusable_detection::skeleton;

/// ASCII characters that separate the parts of a path, a URL or JSON; their look-alikes are always escaped. Not quotes
/// and dashes, because prose has non-ASCII forms of both.
const SEPARATORS: &str = "/\\.:;@|#?&=%{}[]<>*$";

/// Escapes confusable characters that could mislead: separators always, letters in a word that mixes them with ASCII or
/// that looks like ASCII throughout.
pub(super) fn marked(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len());
    let mut word = String::new();
    for c in text.chars() {
        if c.is_alphanumeric() {
            word.push(c);
            continue;
        }
        end_word(&mut shown, &mut word);
        let separates =
            || skeleton(c.encode_utf8(&mut [0; 4])).all(|like| SEPARATORS.contains(like));
        if !c.is_ascii() && separates() {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    end_word(&mut shown, &mut word);
    shown
}

fn end_word(shown: &mut String, word: &mut String) {
    let mixed = word.chars().any(|c| c.is_ascii_alphabetic());
    if !word.is_ascii() && (mixed || word.chars().all(|c| c.is_ascii() || passes(c))) {
        for c in word.chars() {
            if passes(c) {
                shown.extend(c.escape_unicode());
            } else {
                shown.push(c);
            }
        }
    } else {
        shown.push_str(word);
    }
    word.clear();
}

fn passes(c: char) -> bool {
    !c.is_ascii() && skeleton(c.encode_utf8(&mut [0; 4])).all(|like| like.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::marked;

    #[test]
    fn a_letter_that_passes_for_another_is_written_out() {
        for (text, shown) in [
            ("p\u{430}ypal.com", "p\\u{430}ypal.com"),
            ("\u{440}\u{430}\u{443}", "\\u{440}\\u{430}\\u{443}"),
            ("\u{ff41}dmin", "\\u{ff41}dmin"),
            ("example.com\u{2044}path", "example.com\\u{2044}path"),
            ("a\u{2024}b", "a\\u{2024}b"),
        ] {
            assert_eq!(marked(text), shown, "{text}");
        }
    }

    #[test]
    fn other_scripts_and_ordinary_prose_stay_readable() {
        let same = [
            "\u{43f}\u{440}\u{438}\u{432}\u{435}\u{442} world",
            "gr\u{f6}\u{df}e",
            "\u{65e5}\u{672c} 2",
            "don\u{2019}t \u{2013} no",
            "\u{1f980}",
        ];
        for text in same {
            assert_eq!(marked(text), text);
        }
    }
}
