use toolcell_spec::{CallRecord, InvocationId, ToolEvent, ToolInvocation};

use crate::trail::WeakTrail;
use crate::{Keep, LogError, LogSettings, Start};

/// The log of a host that keeps none: the same as one that is told to keep nothing ([`Keep::None`]).
#[derive(Clone, Debug, Default)]
pub struct CallLog(());

impl CallLog {
    pub fn settings(&self) -> LogSettings {
        LogSettings {
            keep: Keep::None,
            replay: false,
            ..LogSettings::default()
        }
    }

    /// Takes the start of a call, of which nothing is kept.
    pub async fn started(&self, _start: Start, _is_large: bool) -> Result<(), LogError> {
        Ok(())
    }

    /// Takes a call that waits, of which nothing is kept.
    pub async fn suspended(
        &self,
        _invocation: ToolInvocation,
        _changes: bool,
    ) -> Result<(), LogError> {
        Ok(())
    }

    /// Takes the end of a call, of which nothing is kept.
    pub async fn ended(&self, _record: &CallRecord) -> Result<(), LogError> {
        Ok(())
    }

    /// As [`Self::ended`].
    pub async fn large_ended(&self, record: CallRecord) -> (CallRecord, Result<(), LogError>) {
        (record, Ok(()))
    }

    /// Takes events that belong to no call, of which nothing is kept.
    pub async fn announced(
        &self,
        _events: Vec<ToolEvent>,
        _session: Option<String>,
    ) -> Result<(), LogError> {
        Ok(())
    }

    /// The events of a call that are on record: none.
    pub async fn noted_events(&self, _id: InvocationId) -> Vec<ToolEvent> {
        Vec::new()
    }

    /// Returns whether a call that this host does not run has ended: nothing is known of one.
    pub async fn has_ended(&self, _id: InvocationId) -> Option<bool> {
        None
    }

    /// `true` if an event is for followers of the log: there are none.
    pub(crate) fn wants(&self, _event: &ToolEvent) -> bool {
        false
    }

    pub(crate) fn note_soon(&self, _call: WeakTrail) {}

    pub(crate) fn noted(
        &self,
        _id: InvocationId,
        _session: Option<&str>,
        _first: usize,
        _events: &[ToolEvent],
    ) -> Result<(), LogError> {
        Ok(())
    }
}
