//! DOORS. What other programs reach tools through: MCP over stdio, and over HTTP.
//!
//! A [`Server`] offers chosen tools of one host, with the grants and limits that a person gave it. Nothing that comes in
//! through a door grants, approves or widens anything: a request carries a name and arguments, and nothing else counts.

mod call;
mod http;
mod notices;
mod offer;
mod recorder;
mod session;
mod shelf;
mod stdio;

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::service::RequestContext;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::host::{Grants, Host, Limits};

pub use http::{Gate, HttpSettings, Tokens, serve_http};
pub use offer::Offers;
pub use recorder::Recorder;
pub use stdio::serve_stdio;

/// Calls that one server holds at once, waiting ones included; more are refused as `rate_limited`.
const CALLS_MAX: u32 = 4_096;

/// What a server serves, and with what.
pub struct Settings {
    pub host: Arc<Host>,
    pub offers: Offers,
    pub grants: Arc<Grants>,
    pub limits: Limits,
    /// Keeps the record of every call.
    pub recorder: Option<Recorder>,
}

/// Offers tools to clients, whatever way they come.
pub struct Server {
    settings: Settings,
    calls: Arc<Semaphore>,
    stop: CancellationToken,
}

impl Server {
    pub fn new(settings: Settings) -> Arc<Self> {
        let calls = Arc::new(Semaphore::new(CALLS_MAX as usize));
        Arc::new(Self { settings, calls, stop: CancellationToken::new() })
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
        let _ = self.calls.acquire_many(CALLS_MAX).await;
    }
}

/// Ends when the connection that waits for the answer to this request is gone; a door that can tell puts it there.
fn gone(context: &RequestContext<RoleServer>) -> Option<CancellationToken> {
    context.extensions.get::<::http::request::Parts>()?.extensions.get::<Gone>().map(|gone| gone.0.clone())
}

/// Travels with a request of HTTP.
#[derive(Clone)]
struct Gone(CancellationToken);
