//! With the feature `journal`, a host keeps its calls on disk: the log, payloads, and calls that wait.

use toolcell_engine::pipeline::{self, Request, StoredCallRef};
use toolcell_journal::{
    CallLog, EventReader, Journal, LogError, LogSettings, PayloadStore, RoleLock,
};
use toolcell_spec::CallRecord;

use crate::{CallContext, CallSpec, Home, Host, ToolSet};

/// Where the records of a host are.
pub(crate) struct Records {
    pub(crate) payloads: PayloadStore,
    pub(crate) journal: Journal,
    pub(crate) calls: CallLog,
}

impl Records {
    pub(crate) fn open(home: &Home, settings: LogSettings, callers: usize) -> anyhow::Result<Self> {
        let payloads = PayloadStore::bounded(home.payloads(), settings.payload_bytes_max, callers);
        payloads.sweep(settings.age_max);
        Ok(Self {
            payloads,
            journal: Journal::keeping(home.journal(), home.journal_key(), settings.age_max),
            calls: CallLog::new(home.journal(), home.calls_key(), settings),
        })
    }
}

impl Host {
    /// Follows the events of the log of calls, of all processes that write it, from the sequence `from` on as far as they are
    /// on record, or those that come. No call waits for a follower. A [`Listener`](crate::Listener) hears of the events of
    /// this host as they happen.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn follow(&self, from: Option<u64>) -> Result<EventReader, LogError> {
        self.services.calls.follow(from)
    }

    /// Checks whether a call could be put on record now.
    ///
    /// # Errors
    ///
    /// Why not: a call would be refused as `journal_unavailable`.
    pub async fn check_log(&self) -> Result<(), LogError> {
        self.services.calls.checked().await
    }

    /// Resumes an orphaned call that was approved, or that waits for an answer to its tool's question, which its respondent
    /// gets; `held` is the role of its runner. `request` is made anew from what is `stored`: if it is not for the same call in
    /// every respect, nothing runs. `None` on a host without approvals. Both come from the journal in
    /// [`Home::journal`](crate::Home::journal), which `toolcell_journal` opens.
    pub async fn resume<'k>(
        &self,
        request: Request,
        stored: impl Into<StoredCallRef<'k>>,
        held: RoleLock,
    ) -> Option<CallRecord> {
        let desk = self.services.desk.as_ref()?;
        Some(pipeline::resume(&self.services, desk, request, stored.into(), held).await)
    }

    /// Ends an orphaned call that cannot be resumed, so that it has a result; `held` is the role of its runner. `None`
    /// if it can be resumed, or has ended.
    pub async fn close<'k>(
        &self,
        request: Request,
        stored: impl Into<StoredCallRef<'k>>,
        held: RoleLock,
    ) -> Option<CallRecord> {
        let desk = self.services.desk.as_ref()?;
        pipeline::close(&self.services, desk, request, stored.into(), held).await
    }
}

impl ToolSet {
    /// Resumes an orphaned call, which `spec` describes, see [`Host::resume`].
    pub async fn resume<'k>(
        &self,
        spec: CallSpec,
        stored: impl Into<StoredCallRef<'k>>,
        held: RoleLock,
        context: CallContext,
    ) -> Option<CallRecord> {
        let stored = stored.into();
        let (request, refusal) = self.request(spec, context);
        match refusal {
            // It waits on: its workspace may come back.
            Some(_) => None,
            None => self.host.resume(request, stored, held).await,
        }
    }

    /// Ends an orphaned call that cannot be resumed; `None` if it can, or has ended.
    pub async fn close<'k>(
        &self,
        stored: impl Into<StoredCallRef<'k>>,
        held: RoleLock,
    ) -> Option<CallRecord> {
        let stored = stored.into();
        let (request, _) = self.request(CallSpec::from(stored), CallContext::default());
        self.host.close(request, stored, held).await
    }
}
