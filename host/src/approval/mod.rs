//! ASKING. What somebody who is asked gets to see, who can be asked, and what exactly an answer is bound to.
//!
//! Nothing here is stored and nothing is decided: the store is in `journal`, the waiting in `pipeline`.

mod approver;
mod binding;
mod confusable;
mod inquiry;
mod prompt;
mod session;
mod sheet;
mod visible;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

pub use approver::{Approver, Reply};
pub use binding::bind;
pub use inquiry::{Inquiry, Requested, Respondent};
pub use prompt::{Checked, EditCheck, Facts, Prompt};
pub use session::Session;
pub use sheet::{COLUMNS, COLUMNS_MIN, ROWS, Sheet, legible};
pub use visible::{Whitespace, deceives, visible, visible_json};

/// How long a question stays open unless somebody says otherwise.
pub const EXPIRE_DEFAULT: Duration = Duration::from_secs(600);
/// The longest that a question can stay open.
pub const EXPIRE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What a request brings along for the case that somebody has to be asked.
#[derive(Clone)]
pub struct Terms {
    /// How long the question stays open; at most [`EXPIRE_MAX`].
    pub expire: Duration,
    /// What "for the rest of the session" would mean.
    pub session: Session,
    /// How the door can make this request again in another process: its own words, without secrets.
    pub origin: Option<Arc<Value>>,
    /// Who is asked first about this call, instead of whom the host asks.
    pub approver: Option<Arc<dyn Approver>>,
}

impl Default for Terms {
    fn default() -> Self {
        Self { expire: EXPIRE_DEFAULT, session: Session::None, origin: None, approver: None }
    }
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { expire, session, origin, approver } = self;
        let approver = approver.as_deref().map(Approver::principal);
        f.debug_struct("Terms")
            .field("expire", expire)
            .field("session", session)
            .field("origin", origin)
            .field("approver", &approver)
            .finish()
    }
}
