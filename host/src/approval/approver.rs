use std::future::Future;
use std::pin::Pin;

use super::Prompt;

/// An approver that can be asked. If an answer comes from elsewhere first, the future is dropped, and what it shows
/// must go away with it.
pub trait Approver: Send + Sync {
    /// The principal who answers. An approval by the caller itself does not count.
    fn principal(&self) -> &str;

    /// Where the answer comes from, for the record: one word, such as `terminal`.
    fn channel(&self) -> &str;

    /// Shows `prompt.text()` and waits. Returns `None` if this approver does not answer; others may.
    fn ask<'a>(&'a self, prompt: &'a Prompt) -> Pin<Box<dyn Future<Output = Option<Reply>> + Send + 'a>>;
}

/// The answer of an approver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub approved: bool,
    /// JSON text of the input that should run instead.
    pub edit: Option<String>,
    /// A note, for the model if approved, else in the refusal.
    pub feedback: Option<String>,
    /// Whether not to ask again for this tool with this capability in this session.
    pub always: bool,
}
