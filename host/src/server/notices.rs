//! What a tool says while it runs, on its way to the client.

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{ProgressToken, ServerNotification};
use rmcp::service::Peer;
use tokio::sync::mpsc;

use crate::dialect::mcp::{self, Level, Steps};
use crate::host::Listener;
use crate::record::{EventType, ToolEvent};

/// Notices that wait for a slow client; more are dropped, because none of them may hold the tool up.
const WAITING_MAX: usize = 256;

/// Hears one call, and keeps what its client asked to hear.
struct Notices {
    queue: mpsc::Sender<ToolEvent>,
    progress: bool,
    logs: bool,
}

impl Listener for Notices {
    fn event(&self, event: &ToolEvent) {
        let wanted = match event.event_type {
            EventType::Progress | EventType::PartialResult => self.progress,
            EventType::Logged => self.logs,
            _ => false,
        };
        if wanted {
            let _ = self.queue.try_send(event.clone());
        }
    }
}

/// What a client wants to hear of one call.
pub(super) struct Wanted {
    pub(super) progress: Option<ProgressToken>,
    pub(super) logs: Option<Level>,
}

impl Wanted {
    /// Whether there is anything that it wants to hear.
    pub(super) fn anything(&self) -> bool {
        self.progress.is_some() || self.logs.is_some()
    }

    /// A listener for the call, and where that comes out which it heard.
    pub(super) fn listen(&self, logger: String) -> (Arc<dyn Listener>, Spoken) {
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        let listener = Notices { queue, progress: self.progress.is_some(), logs: self.logs.is_some() };
        (Arc::new(listener), Spoken { waiting, logger })
    }
}

/// What the tool of one call says.
pub(super) struct Spoken {
    waiting: mpsc::Receiver<ToolEvent>,
    logger: String,
}

impl Spoken {
    /// Passes it on until there is no more to come, or the client is gone.
    pub(super) async fn pass_on(&mut self, wanted: &Wanted, peer: &Peer<RoleServer>) {
        let mut steps = wanted.progress.clone().map(Steps::new);
        while let Some(event) = self.waiting.recv().await {
            let Some(notification) = notification(&event, &mut steps, wanted.logs, &self.logger) else { continue };
            if peer.send_notification(notification).await.is_err() {
                return;
            }
        }
    }
}

#[allow(deprecated, reason = "log messages are on their way out of the protocol, and both revisions still have them")]
fn notification(
    event: &ToolEvent,
    steps: &mut Option<Steps>,
    least: Option<Level>,
    logger: &str,
) -> Option<ServerNotification> {
    use rmcp::model::{LoggingMessageNotification, ProgressNotification};
    match event.event_type {
        EventType::Logged => {
            let param = mcp::log(logger, &event.data, least?)?;
            Some(ServerNotification::LoggingMessageNotification(LoggingMessageNotification::new(param)))
        }
        _ => {
            let param = steps.as_mut()?.next(&event.data);
            Some(ServerNotification::ProgressNotification(ProgressNotification::new(param)))
        }
    }
}
