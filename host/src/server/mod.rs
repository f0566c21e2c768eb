//! DOORS. The servers through which other programs call tools: MCP over stdio and over HTTP.
//!
//! A [`Server`] offers selected tools of one host, with the grants, rules and limits that the operator configured. A
//! request carries a name and arguments: it never grants, approves or widens anything. What a client's user answers to
//! a question counts for that one question.

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

/// Maximum memory for the arguments of all calls in flight through one transport, in bytes.
const ARGUMENT_BYTES_MAX: usize = 256 << 20;

/// The settings of a server, apart from its offering.
pub struct Settings {
    /// Writes the record of every call.
    pub recorder: Option<Recorder>,
    /// Tells the operator that a call waits for an approval.
    pub announcer: Announcer,
}

/// Offers tools to clients over any transport.
pub struct Server {
    settings: Settings,
    offering: RwLock<Arc<Offering>>,
    /// The number of changes of the `tools/list` result.
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

    /// The current offering. A call keeps the offering that it began with.
    fn offering(&self) -> Arc<Offering> {
        Arc::clone(&self.offering.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the offering as a whole. Running calls finish with the offering that they began with. Calls that still
    /// wait for an approval are refused, because the question was about the old offering.
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

    /// Cancels every running call and every later one.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Writes the queued records. Must be called after the last call has ended.
    pub fn close(&self) {
        if let Some(recorder) = &self.settings.recorder {
            recorder.close();
        }
    }

    /// Waits until every call has ended and its record is handed to the recorder.
    pub async fn idle(&self) {
        self.calls.end().await;
    }
}

/// Returns a token that is canceled when the connection that waits for the response closes; `None` over stdio.
fn gone(context: &RequestContext<RoleServer>) -> Option<CancellationToken> {
    context.extensions.get::<::http::request::Parts>()?.extensions.get::<Gone>().map(|gone| gone.0.clone())
}

/// An extension of HTTP requests, see [`gone`].
#[derive(Clone)]
struct Gone(CancellationToken);
