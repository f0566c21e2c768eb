use std::fmt;

use serde::Serialize;

/// Approximate: place and message contain text of the tool author.
const PATH_BYTES_MAX: usize = 300;
const MESSAGE_BYTES_MAX: usize = 1_000;

/// An error in a component's description, or a part without effect.
///
/// ```
/// use toolcell_spec::Finding;
///
/// let finding = Finding::new("/declarations/0/name", "must not be empty");
/// assert_eq!(finding.to_string(), "/declarations/0/name: must not be empty");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// JSON Pointer (RFC 6901) in the toolkit; empty for all of it.
    pub path: String,
    pub message: String,
}

impl Finding {
    /// Bounds the texts, and escapes control and invisible characters.
    pub fn new(path: &str, message: &str) -> Self {
        Self {
            path: plain(path, PATH_BYTES_MAX),
            message: plain(message, MESSAGE_BYTES_MAX),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() {
            "the toolkit"
        } else {
            &self.path
        };
        write!(f, "{path}: {}", self.message)
    }
}

fn plain(text: &str, bytes_max: usize) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        if plain.len() >= bytes_max {
            plain.push_str("...");
            break;
        }
        match c {
            '"' | '\'' | '\\' => plain.push(c),
            _ => plain.extend(c.escape_debug()),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::Finding;

    #[test]
    fn foreign_words_are_bounded_and_act_on_nothing() {
        let found = Finding::new("/a\u{1b}[2J\n", &"\u{202e}\"x\\".repeat(1_000));
        assert_eq!(found.path, "/a\\u{1b}[2J\\n");
        assert!(
            found.message.starts_with("\\u{202e}\"x\\\\u{202e}") && found.message.ends_with("...")
        );
        assert!(found.message.len() < 2_000 && found.to_string().starts_with("/a"));
        assert_eq!(
            Finding::new("", "gr\u{f6}\u{df}e").to_string(),
            "the toolkit: gr\u{f6}\u{df}e"
        );
    }
}
