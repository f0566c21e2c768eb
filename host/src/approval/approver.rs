use std::future::Future;
use std::pin::Pin;

use super::Prompt;

/// Somebody who can be asked. An answer can also come from elsewhere meanwhile: then the future is dropped, and
/// whatever it shows must go away with it.
pub trait Approver: Send + Sync {
    /// The principal who answers. It is never the one who calls: an answer of the caller's own does not count.
    fn principal(&self) -> &str;

    /// Where the answer comes from, for the record: one word, such as `terminal`.
    fn channel(&self) -> &str;

    /// Shows `prompt.text()` and waits. `None`: this one does not answer, and others may.
    fn ask<'a>(&'a self, prompt: &'a Prompt) -> Pin<Box<dyn Future<Output = Option<Reply>> + Send + 'a>>;
}

/// What an approver says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub approved: bool,
    /// JSON text of the input that should run instead.
    pub edit: Option<String>,
    /// A note: for the model when approved, in the refusal when not.
    pub feedback: Option<String>,
    /// Do not ask again for this tool with this capability in this session.
    pub always: bool,
}
