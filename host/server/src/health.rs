//! The health of a server: it runs no calls if it cannot record them.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;
use toolcell_spec::{CallRecord, ErrorCode};

use crate::log::LogLevel;

use super::Server;

const LOOK_EVERY: Duration = Duration::from_secs(1);
const FAILURE_TIME: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Health {
    seen: tokio::sync::Mutex<LogCheck>,
    failed: Mutex<Option<Instant>>,
}

#[derive(Debug, Default)]
struct LogCheck {
    at: Option<Instant>,
    why: Option<String>,
}

impl Health {
    fn failed(&self) -> Option<Instant> {
        *self.failed.lock()
    }
}

impl Server {
    /// `None` if calls can be recorded, and so run. Tells the operator of each change.
    pub(super) async fn unready(&self) -> Option<String> {
        let mut seen = self.health.seen.lock().await;
        let is_new = |at: Instant| {
            let knows = seen.why.is_some() || self.health.failed().is_none_or(|failed| failed < at);
            at.elapsed() < LOOK_EVERY && knows
        };
        if seen.at.is_some_and(is_new) {
            return seen.why.clone();
        }
        seen.at = Some(Instant::now());
        let (why, place) = match self.offering().tools.host.check_log().await {
            Err(error) => (Some(error.reason().to_owned()), error.to_string()),
            Ok(())
                if self
                    .health
                    .failed()
                    .is_some_and(|at| at.elapsed() < FAILURE_TIME) =>
            {
                let why = "the last call could not be put on record";
                (Some(why.to_owned()), why.to_owned())
            }
            Ok(()) => (None, String::new()),
        };
        if let (Some(log), true) = (&self.settings.log, seen.why.is_some() != why.is_some()) {
            match &why {
                Some(reason) => {
                    let text = format!(
                        "not ready: no call runs: {place} [{}]",
                        ErrorCode::JournalUnavailable
                    );
                    log.write(
                        LogLevel::Error,
                        "not_ready",
                        &text,
                        &json!({ "reason": reason, "error_code": ErrorCode::JournalUnavailable }),
                    );
                }
                None => log.write(
                    LogLevel::Info,
                    "ready",
                    "ready again: calls are put on record",
                    &json!({}),
                ),
            }
        }
        seen.why.clone_from(&why);
        why
    }

    /// Looks for the cause if the call could not be recorded, and tells the operator.
    pub(super) async fn note(&self, record: &CallRecord) {
        if let Some(log) = &self.settings.log {
            log.call(record);
        }
        if record
            .result
            .error
            .as_ref()
            .is_some_and(|error| error.error_code == ErrorCode::JournalUnavailable)
        {
            *self.health.failed.lock() = Some(Instant::now());
            Box::pin(self.unready()).await;
        }
    }
}
