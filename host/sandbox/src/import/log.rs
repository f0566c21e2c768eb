use super::wit::log::{Host, Level};
use crate::state::State;

impl Host for State {
    async fn log(&mut self, level: Level, message: String, fields: Option<String>) -> wasmtime::Result<()> {
        let level = match level {
            Level::Trace => "trace",
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        };
        // A line that the log limit cut is not sent to the observer either.
        if self.logs.line(level, &message, fields.as_deref()) {
            self.observer.log(level, &message, fields.as_deref());
        }
        Ok(())
    }
}
