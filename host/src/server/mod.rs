//! DOORS. What other programs reach tools through: MCP over stdio, and over HTTP.
//!
//! A [`Server`] offers chosen tools of one host, with the grants, rules and limits that a person gave it. Nothing that
//! comes in through a door grants, approves or widens anything: a request carries a name and arguments, and what a
//! client's user answers to a question is the answer to that one question.

mod asking;
mod budget;
mod call;
mod calls;
mod frames;
mod held;
mod http;
mod notices;
mod offer;
mod offering;
mod outline;
mod pending;
mod recorder;
mod sent;
mod session;
mod shelf;
mod stdio;

use std::sync::{Arc, PoisonError, RwLock};

use rmcp::RoleServer;
use rmcp::service::RequestContext;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use calls::Calls;
use held::HeldCalls;

pub use asking::{Announcer, Away};
pub use http::{Gate, HttpLimits, HttpSettings, Tokens, serve_http};
pub use offer::{Offered, Offers};
pub use offering::{ApprovalSettings, Offering};
pub use recorder::Recorder;
pub use stdio::{Reader, Writer, serve_stdio, serve_streams};

/// Bytes of memory for the arguments of all calls that are on their way through one door.
const ARGUMENT_BYTES_MAX: usize = 256 << 20;

/// How a server is set up, beside what it offers.
pub struct Settings {
    /// Keeps the record of every call.
    pub recorder: Option<Recorder>,
    /// Says to whoever runs the server that a call waits for them.
    pub announcer: Announcer,
}

/// Offers tools to clients, whatever way they come.
pub struct Server {
    settings: Settings,
    offering: RwLock<Arc<Offering>>,
    /// Counts the changes of what `tools/list` answers.
    changes: watch::Sender<u64>,
    calls: Arc<Calls>,
    held: HeldCalls,
    stop: CancellationToken,
}

impl Server {
    pub fn new(settings: Settings, offering: Offering) -> Arc<Self> {
        Arc::new(Self {
            settings,
            offering: RwLock::new(Arc::new(offering)),
            changes: watch::Sender::new(0),
            calls: Arc::default(),
            held: HeldCalls::default(),
            stop: CancellationToken::new(),
        })
    }

    /// What is offered now. A call keeps what it began with.
    fn offering(&self) -> Arc<Offering> {
        Arc::clone(&self.offering.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Offers `offering` from now on, all of it at once. Calls that run finish with what they began with; calls that
    /// still wait for an approval are not approved any more, because what was asked about is not what is offered.
    pub fn replace(&self, offering: Offering) {
        let listed = offering.offers.listed();
        let old = {
            let mut current = self.offering.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, Arc::new(offering))
        };
        old.outdate();
        if old.offers.listed() != listed {
            self.changes.send_modify(|count| *count += 1);
        }
    }

    /// Cancels every call that runs, and every one that would still come.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Writes the records that wait to be written. To be called when no call is left.
    pub fn close(&self) {
        if let Some(recorder) = &self.settings.recorder {
            recorder.close();
        }
    }

    /// Waits until no call is left, and its record is handed over.
    pub async fn idle(&self) {
        self.calls.end().await;
    }
}

/// Ends when the connection that waits for the answer to this request is gone; a door that can tell puts it there.
fn gone(context: &RequestContext<RoleServer>) -> Option<CancellationToken> {
    context.extensions.get::<::http::request::Parts>()?.extensions.get::<Gone>().map(|gone| gone.0.clone())
}

/// Travels with a request of HTTP.
#[derive(Clone)]
struct Gone(CancellationToken);
