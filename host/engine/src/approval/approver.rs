use std::future::Future;
use std::pin::Pin;

use super::Prompt;

/// An approver that can be asked. If another answer comes first, the future is dropped, and what it shows must go away
/// with it.
///
/// ```
/// use toolcell_engine::approval::{Approver, Prompt, Reply};
/// use toolcell_system::BoxFuture;
///
/// /// Denies every call: approvers answer during the day.
/// struct NightWatch;
///
/// impl Approver for NightWatch {
///     fn principal(&self) -> &str {
///         "night-watch"
///     }
///
///     fn channel(&self) -> &str {
///         "program"
///     }
///
///     fn ask<'a>(&'a self, _prompt: &'a Prompt) -> BoxFuture<'a, Option<Reply>> {
///         let feedback = Some("ask again in the morning".to_owned());
///         Box::pin(async move { Some(Reply { approved: false, feedback, ..Reply::default() }) })
///     }
/// }
/// ```
pub trait Approver: Send + Sync {
    /// The principal who answers: the caller itself cannot approve.
    fn principal(&self) -> &str;

    /// Origin of the answer, for the record: one word, such as `terminal`.
    fn channel(&self) -> &str;

    /// Shows `prompt.text()` and waits. `None`: no answer from this approver.
    fn ask<'a>(
        &'a self,
        prompt: &'a Prompt,
    ) -> Pin<Box<dyn Future<Output = Option<Reply>> + Send + 'a>>;

    /// Hears, in place of [`Self::ask`], of a call whose tool names another `permission_channel` (AT-PERM-12). It can
    /// only answer no. Default: nothing.
    fn announce<'a>(
        &'a self,
        _prompt: &'a Prompt,
    ) -> Pin<Box<dyn Future<Output = Option<Reply>> + Send + 'a>> {
        Box::pin(async { None })
    }
}

/// Answer of an approver.
///
/// ```
/// use toolcell_engine::approval::Reply;
///
/// let reply = Reply { approved: true, edit: Some(r#"{"path": "src"}"#.to_owned()), ..Reply::default() };
/// assert!(!reply.always, "only this call is approved");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// `true` if the call may run. Default: `false`.
    pub approved: bool,
    /// JSON text of the input that should run instead.
    pub edit: Option<String>,
    /// A note, for the model if approved, else in the refusal.
    pub feedback: Option<String>,
    /// `true` to stop asking for this tool and capability in this session.
    pub always: bool,
}
