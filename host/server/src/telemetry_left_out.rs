//! The place of `telemetry/` in a build without the feature `telemetry`: no server has any.

use toolcell_spec::TraceContext;

/// Telemetry, which cannot be started.
#[derive(Debug)]
pub enum Telemetry {}

impl Telemetry {
    /// The trace of a call without one.
    pub fn trace(&self, _session: Option<&str>) -> Option<TraceContext> {
        match *self {}
    }

    /// The metrics, as text.
    pub fn prometheus(&self) -> Option<String> {
        match *self {}
    }

    /// Sends the rest.
    pub fn close(&self) {
        match *self {}
    }
}
