//! A server that speaks before its tools are loaded, because compiling takes longer than clients wait for an answer to
//! `initialize`.

#![allow(
    deprecated,
    reason = "log messages are on their way out of the protocol, and both revisions still have them"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ErrorData, LoggingMessageNotification, ProgressNotification, ProgressToken, ServerNotification,
};
use rmcp::service::RequestContext;
use serde_json::json;
use tokio::sync::watch;
use toolcell_dialect::mcp::{self, ProgressSteps};

use super::session::ClientSession;
use super::{Server, ServerSettings, ServerTools};

/// A waiting client is told why so often, and not before: most loads end sooner.
const TOLD_EVERY: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoadProgress {
    Loading,
    Loaded,
    Failed,
}

pub(super) struct ToolLoad {
    progress: watch::Sender<LoadProgress>,
    reason: String,
}

impl ToolLoad {
    fn is_loaded(&self) -> bool {
        *self.progress.borrow() == LoadProgress::Loaded
    }
}

pub(super) struct LoadEnd(watch::Receiver<LoadProgress>);

impl LoadEnd {
    /// `true` if the tools are loaded. Cancel safe.
    pub(super) async fn wait(&mut self) -> bool {
        let ended = self
            .0
            .wait_for(|progress| *progress != LoadProgress::Loading)
            .await;
        ended.is_ok_and(|progress| *progress == LoadProgress::Loaded)
    }
}

#[derive(Debug, Default)]
pub(super) struct ToldOfLoad(AtomicBool);

impl Server {
    /// `interim` has no tools; `reason` says what is waited for.
    pub fn loading(settings: ServerSettings, interim: ServerTools, reason: String) -> Arc<Self> {
        let loading = ToolLoad {
            progress: watch::Sender::new(LoadProgress::Loading),
            reason,
        };
        Self::with(settings, interim, Some(loading))
    }

    /// The list of tools counts as unchanged, because no client has seen another.
    pub async fn loaded(self: &Arc<Self>, offering: ServerTools) {
        self.install(Arc::new(offering));
        self.announce().await;
        self.end_load(LoadProgress::Loaded);
    }

    /// Answers waiting requests with an error, and stops the server.
    pub fn not_loaded(&self) {
        self.end_load(LoadProgress::Failed);
    }

    fn end_load(&self, progress: LoadProgress) {
        if let Some(loading) = &self.loading {
            loading.progress.send_replace(progress);
        }
    }

    pub(super) fn load_end(&self) -> Option<LoadEnd> {
        self.loading
            .as_ref()
            .map(|loading| LoadEnd(loading.progress.subscribe()))
    }

    /// Completes only if the tools cannot be loaded.
    pub(super) async fn load_failed(&self) {
        let loaded = match self.load_end() {
            Some(mut end) => end.wait().await,
            None => true,
        };
        if loaded {
            std::future::pending().await
        }
    }
}

impl ClientSession {
    /// Tells the client every second that it waits, in a log message, and to `progress`, so that the request does not
    /// time out.
    pub(super) async fn loaded(
        &self,
        context: &RequestContext<RoleServer>,
        progress: Option<ProgressToken>,
    ) -> Result<(), ErrorData> {
        let Some(loading) = self
            .server
            .loading
            .as_ref()
            .filter(|loading| !loading.is_loaded())
        else {
            return Ok(());
        };
        let mut end = LoadEnd(loading.progress.subscribe());
        let mut steps = progress.map(ProgressSteps::new);
        let is_loaded = loop {
            match tokio::time::timeout(TOLD_EVERY, end.wait()).await {
                Ok(is_loaded) => break is_loaded,
                Err(_) => {
                    self.tell_load(&loading.reason, context, steps.as_mut())
                        .await
                }
            }
        };
        // Why they cannot be loaded is the operator's to read: it names files.
        let failed = || {
            ErrorData::internal_error(
                "the tools cannot be loaded; the server's standard error says why",
                None,
            )
        };
        if is_loaded { Ok(()) } else { Err(failed()) }
    }

    async fn tell_load(
        &self,
        reason: &str,
        context: &RequestContext<RoleServer>,
        steps: Option<&mut ProgressSteps>,
    ) {
        if let Some(steps) = steps {
            let param = steps.next(&json!({ "progress": { "message": reason } }));
            let told = ServerNotification::ProgressNotification(ProgressNotification::new(param));
            let _ = context.peer.send_notification(told).await;
        }
        let param = self.least_level(context).and_then(|least| {
            mcp::log(
                "toolcell",
                &json!({ "level": "info", "message": reason }),
                least,
            )
        });
        if let Some(param) = param
            && !self.told_of_load.0.swap(true, Ordering::Relaxed)
        {
            let told = ServerNotification::LoggingMessageNotification(
                LoggingMessageNotification::new(param),
            );
            let _ = context.peer.send_notification(told).await;
        }
    }
}
