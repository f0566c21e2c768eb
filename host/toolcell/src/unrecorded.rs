//! The place of `recorded.rs` in a build without the feature `journal`: nothing of a call outlives the host.

use anyhow::Context;
use toolcell_journal::{CallLog, Journal, LogSettings, PayloadStore};

use crate::Home;

/// The facts that a host has of its calls while it lives.
pub(crate) struct Records {
    pub(crate) payloads: PayloadStore,
    pub(crate) journal: Journal,
    pub(crate) calls: CallLog,
}

impl Records {
    pub(crate) fn open(home: &Home, settings: LogSettings, callers: usize) -> anyhow::Result<Self> {
        let payloads = PayloadStore::passing(&home.payloads(), settings.payload_bytes_max, callers)
            .context("cannot make a folder for large results")?;
        Ok(Self {
            payloads,
            journal: Journal::default(),
            calls: CallLog::default(),
        })
    }
}
