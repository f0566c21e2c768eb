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
    /// A listener for the call, and what has to run beside it until the listener is gone.
    pub(super) fn listen(
        self,
        logger: String,
        peer: Peer<RoleServer>,
    ) -> (Arc<dyn Listener>, impl Future<Output = ()>) {
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        let listener = Notices { queue, progress: self.progress.is_some(), logs: self.logs.is_some() };
        (Arc::new(listener), self.pass_on(waiting, logger, peer))
    }

    async fn pass_on(self, mut waiting: mpsc::Receiver<ToolEvent>, logger: String, peer: Peer<RoleServer>) {
        let mut steps = self.progress.map(Steps::new);
        while let Some(event) = waiting.recv().await {
            let Some(notification) = notification(&event, &mut steps, self.logs, &logger) else { continue };
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
