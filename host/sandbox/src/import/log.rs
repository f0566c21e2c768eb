use super::wit::log::{Host, Level};
use crate::state::StoreState;

impl Host for StoreState {
    async fn log(
        &mut self,
        level: Level,
        message: String,
        fields: Option<String>,
    ) -> wasmtime::Result<()> {
        let level = match level {
            Level::Trace => "trace",
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        };
        self.log_line(level, &message, fields.as_deref());
        Ok(())
    }
}

impl StoreState {
    /// The observer is told unless the log limit cut the line.
    pub(super) fn log_line(&mut self, level: &str, message: &str, fields: Option<&str>) {
        if self.logs.line(level, message, fields) {
            self.observer.log(level, message, fields);
        }
    }
}
