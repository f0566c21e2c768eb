use gix::bstr::ByteSlice;
use gix::date::time::format::ISO8601_STRICT;
use toolcell_guest::{ToolError, data};

use crate::repository::damaged;

/// Maximum length of a message in an answer, in characters.
const MESSAGE_CHARS_MAX: usize = 4_000;

#[data]
pub(crate) struct Commit {
    pub(crate) id: String,
    pub(crate) parents: Vec<String>,
    pub(crate) author: String,
    pub(crate) email: String,
    /// When it was written, as in ISO 8601.
    pub(crate) date: String,
    /// The first line of the message.
    pub(crate) subject: String,
    /// The rest of the message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) body: String,
}

impl Commit {
    pub(crate) fn new(commit: &gix::Commit<'_>) -> Result<Self, ToolError> {
        let author = commit.author().map_err(damaged)?;
        let message = commit.message().map_err(damaged)?;
        let date = author.time().map_err(damaged)?;
        let body = message.body.map(ToString::to_string).unwrap_or_default();
        Ok(Self {
            id: commit.id.to_string(),
            parents: commit.parent_ids().map(|id| id.to_string()).collect(),
            author: author.name.to_str_lossy().into_owned(),
            email: author.email.to_str_lossy().into_owned(),
            date: date.format_or_unix(ISO8601_STRICT),
            subject: limited(&message.summary().to_str_lossy()),
            body: limited(body.trim_end()),
        })
    }

    pub(crate) fn render(&self) -> String {
        let mut text = format!(
            "commit {}\nAuthor: {} <{}>\nDate:   {}\n\n    {}\n",
            self.id, self.author, self.email, self.date, self.subject
        );
        if !self.body.is_empty() {
            text.push('\n');
        }
        for line in self.body.lines() {
            text.push_str(format!("    {line}").trim_end());
            text.push('\n');
        }
        text
    }
}

fn limited(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
