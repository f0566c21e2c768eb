//! Forwards the progress and log messages of a running tool to the client.

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{ProgressToken, ServerNotification};
use rmcp::service::Peer;
use serde_json::Value;
use tokio::sync::mpsc;
use toolcell::Listener;
use toolcell_dialect::mcp::{self, Level, ProgressSteps};
use toolcell_spec::{EventType, ToolEvent};

/// More notices for a slow client are dropped, so that they never block the tool.
const WAITING_MAX: usize = 256;

/// Queues the events of one call that its client requested.
struct Notices {
    queue: mpsc::Sender<ToolEvent>,
    progress: bool,
    logs: bool,
}

impl Listener for Notices {
    fn event(&self, event: &ToolEvent) {
        let wanted = match event.event_type {
            // The rest is the host's own, and has no number that grows.
            EventType::Progress | EventType::PartialResult => self.progress && is_of_tool(event),
            EventType::Logged => self.logs,
            _ => false,
        };
        if wanted {
            let _ = self.queue.try_send(event.clone());
        }
    }
}

/// The tool or a hook reports the progress.
fn is_of_tool(event: &ToolEvent) -> bool {
    let status = event
        .data
        .pointer("/progress/status")
        .and_then(Value::as_str);
    matches!(status, Some("running" | "partial_result"))
}

pub(super) struct WantedNotices {
    pub(super) progress: Option<ProgressToken>,
    pub(super) logs: Option<Level>,
}

impl WantedNotices {
    pub(super) fn anything(&self) -> bool {
        self.progress.is_some() || self.logs.is_some()
    }

    pub(super) fn listen(&self, logger: String) -> (Arc<dyn Listener>, CallEventQueue) {
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        let listener = Notices {
            queue,
            progress: self.progress.is_some(),
            logs: self.logs.is_some(),
        };
        (Arc::new(listener), CallEventQueue { waiting, logger })
    }
}

pub(super) struct CallEventQueue {
    waiting: mpsc::Receiver<ToolEvent>,
    logger: String,
}

impl CallEventQueue {
    /// Ends when the listener is dropped or the client disconnects.
    pub(super) async fn pass_on(&mut self, wanted: &WantedNotices, peer: &Peer<RoleServer>) {
        let mut steps = wanted.progress.clone().map(ProgressSteps::new);
        while let Some(event) = self.waiting.recv().await {
            let Some(notification) = notification(&event, &mut steps, wanted.logs, &self.logger)
            else {
                continue;
            };
            if peer.send_notification(notification).await.is_err() {
                return;
            }
        }
    }
}

#[allow(
    deprecated,
    reason = "log messages are on their way out of the protocol, and both revisions still have them"
)]
fn notification(
    event: &ToolEvent,
    steps: &mut Option<ProgressSteps>,
    least: Option<Level>,
    logger: &str,
) -> Option<ServerNotification> {
    use rmcp::model::{LoggingMessageNotification, ProgressNotification};
    match event.event_type {
        EventType::Logged => {
            let param = mcp::log(logger, &event.data, least?)?;
            Some(ServerNotification::LoggingMessageNotification(
                LoggingMessageNotification::new(param),
            ))
        }
        _ => {
            let param = steps.as_mut()?.next(&event.data);
            Some(ServerNotification::ProgressNotification(
                ProgressNotification::new(param),
            ))
        }
    }
}
