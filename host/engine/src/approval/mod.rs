//! ASKING: an approver's view, who can be asked, and what an answer is bound to. The store is in `journal`, the waiting
//! in `pipeline`.

mod approver;
mod binding;
mod confusable;
mod inquiry;
mod layout;
mod prompt;
mod session;
mod sheet;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

pub use approver::{Approver, Reply};
pub use binding::{bind, declaration_digest, scope};
pub use inquiry::{Inquiry, RequestedInput, Respondent};
pub use layout::pretty;
pub use prompt::{EditCheck, EditCheckFuture, Prompt, PromptContent};
pub use session::Session;
pub use sheet::{COLUMNS, COLUMNS_MIN, PromptSheet, ROWS, legible};

/// The part of a request that applies if an approval is needed.
///
/// ```
/// use std::time::Duration;
///
/// use toolcell_engine::approval::{Session, Terms};
/// use toolcell_engine::pipeline::Request;
///
/// let session = Session::Named("review".to_owned());
/// let terms = Terms { expire: Duration::from_secs(60), session, ..Terms::default() };
/// let request = Request::new("patch.apply", r#"{"patch": ""}"#).approval(terms);
/// assert_eq!(request.approval.expire, Duration::from_secs(60));
/// ```
#[derive(Clone)]
pub struct Terms {
    /// Time that the question stays open; at most [`EXPIRE_MAX`](toolcell_spec::EXPIRE_MAX).
    pub expire: Duration,
    pub session: Session,
    /// Data of the entry point to repeat this request in another process; without secrets.
    pub origin: Option<Arc<Value>>,
    /// The approver that is asked first; `None`: the host's own.
    pub approver: Option<Arc<dyn Approver>>,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            expire: toolcell_spec::EXPIRE_DEFAULT,
            session: Session::None,
            origin: None,
            approver: None,
        }
    }
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            expire,
            session,
            origin,
            approver,
        } = self;
        let approver = approver.as_deref().map(Approver::principal);
        f.debug_struct("Terms")
            .field("expire", expire)
            .field("session", session)
            .field("origin", origin)
            .field("approver", &approver)
            .finish()
    }
}
