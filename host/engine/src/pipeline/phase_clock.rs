use std::time::Instant;

use tracing::{Level, debug, enabled, info};

use toolcell_spec::{CallRecord, ErrorCode, InvocationId, ToolError};

#[derive(Clone, Copy, Default)]
pub(super) struct PhaseClock {
    /// `None` if nobody listens.
    begun: Option<Instant>,
    running: Option<(&'static str, Instant)>,
}

impl PhaseClock {
    pub(super) fn start() -> Self {
        Self {
            begun: enabled!(Level::INFO).then(Instant::now),
            running: None,
        }
    }

    pub(super) fn enter(&mut self, call: InvocationId, phase: &'static str) {
        if self.begun.is_some() {
            self.leave(call);
            self.running = Some((phase, Instant::now()));
        }
    }

    fn leave(&mut self, call: InvocationId) {
        if let Some((phase, since)) = self.running.take() {
            debug!(%call, phase, took = ?since.elapsed(), "a phase ended");
        }
    }

    pub(super) fn end(mut self, record: &CallRecord) {
        let Some(begun) = self.begun else { return };
        let call = record.invocation.invocation_id;
        self.leave(call);
        // Not the name that the caller sent: it can be anything.
        let declaration = record.declaration.as_deref();
        let tool = declaration.map_or("unknown", |declaration| declaration.tool_id.as_str());
        let status = record.invocation.status().as_str();
        let error = record.result.error.as_ref();
        // Not a code that the tool chose, for the same reason.
        let known = |error: &ToolError| ErrorCode::from_name(&error.error_code);
        let code = error.map_or("none", |error| {
            known(error).map_or("own", ErrorCode::as_str)
        });
        info!(%call, tool, status, code, took = ?begun.elapsed(), "a call ended");
    }
}
