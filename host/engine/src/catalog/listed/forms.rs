use std::fmt::Write;

use serde_json::Value;

use crate::catalog::unions::shown;

/// In characters: a model reads the note with each request.
const NOTE_CHARS_MAX: usize = 2_000;
/// In characters; longer notes have names alone.
const WORDY_CHARS_MAX: usize = 900;
const SAID_CHARS_MAX: usize = 80;

/// Alternative forms of a tool's arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgumentForms {
    /// The argument that decides the form; `None` if no single one does.
    pub tag: Option<String>,
    pub forms: Vec<ArgumentForm>,
    /// `true` if the schema asserts more.
    pub is_lossy: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ArgumentForm {
    pub values: Vec<Value>,
    /// Excludes the argument that decides.
    pub required: Vec<String>,
    pub optional: Vec<String>,
    pub said: Option<String>,
}

impl ArgumentForms {
    /// Facts for the model that the schema lacks.
    pub fn note(&self) -> String {
        let note = self.written(true);
        let note = if note.chars().count() > WORDY_CHARS_MAX {
            self.written(false)
        } else {
            note
        };
        match note.char_indices().nth(NOTE_CHARS_MAX) {
            None => note,
            Some((end, _)) => {
                let whole = note.get(..end).unwrap_or_default();
                let whole = whole
                    .rfind('\n')
                    .and_then(|end| whole.get(..end))
                    .unwrap_or(whole);
                format!("{whole}\n- .. (an error names the arguments of the others)")
            }
        }
    }

    fn written(&self, with_words: bool) -> String {
        let mut note = String::new();
        if !self.forms.is_empty() {
            note = match &self.tag {
                Some(tag) => format!("Arguments by `{}` (in brackets: optional):", name(tag)),
                None => "The arguments have one of these forms (in brackets: optional):".to_owned(),
            };
        }
        for form in &self.forms {
            // Writing to a String cannot fail.
            let _ = write!(note, "\n- {}", form.written(with_words));
        }
        if self.is_lossy {
            let separator = if note.is_empty() { "" } else { "\n" };
            let _ = write!(
                note,
                "{separator}Further conditions apply; an error names the one that is not satisfied."
            );
        }
        note
    }
}

impl ArgumentForm {
    pub fn named(&self) -> String {
        self.values
            .iter()
            .map(shown)
            .collect::<Vec<_>>()
            .join(" or ")
    }

    /// Such as `range, [major]`.
    pub fn arguments(&self) -> String {
        let required = self.required.iter().map(|argument| name(argument));
        let optional = self
            .optional
            .iter()
            .map(|argument| format!("[{}]", name(argument)));
        let all: Vec<String> = required.chain(optional).collect();
        if all.is_empty() {
            "no others".to_owned()
        } else {
            all.join(", ")
        }
    }

    fn written(&self, with_words: bool) -> String {
        let mut text = if self.values.is_empty() {
            self.arguments()
        } else {
            format!("{}: {}", self.named(), self.arguments())
        };
        let said = self
            .said
            .as_deref()
            .filter(|_| with_words)
            .map(sentence)
            .filter(|said| !said.is_empty());
        if let Some(said) = said {
            let _ = write!(text, " - {said}");
        }
        text
    }
}

/// Quoted if it could be read as something else.
fn name(name: &str) -> String {
    shown(&name.into())
}

/// The first sentence of `text` if it is short, else its beginning.
fn sentence(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let first = text
        .split_once(". ")
        .map_or(text.as_str(), |(first, _)| first);
    match first.char_indices().nth(SAID_CHARS_MAX) {
        None => first.to_owned(),
        Some((end, _)) => format!("{}..", first.get(..end).unwrap_or_default()),
    }
}
