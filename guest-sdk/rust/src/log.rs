//! Writes to the call's log. The host bounds its bytes, and keeps it away from the model.

use serde_json::Value;

use crate::host;

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Every step.
    Trace,
    /// For whoever works on the tool.
    Debug,
    /// Worth knowing.
    Info,
    /// Something is odd.
    Warn,
    /// Something went wrong.
    Error,
}

/// Writes a line, with a JSON object of `fields` if there is one.
pub fn log(level: Level, message: impl AsRef<str>, fields: Option<&Value>) {
    host::log(level, message.as_ref(), fields);
}

/// Writes a line for whoever wants every step.
pub fn trace(message: impl AsRef<str>) {
    log(Level::Trace, message, None);
}

/// Writes a line for whoever works on the tool.
pub fn debug(message: impl AsRef<str>) {
    log(Level::Debug, message, None);
}

/// Writes a line worth knowing.
pub fn info(message: impl AsRef<str>) {
    log(Level::Info, message, None);
}

/// Writes a line about something odd.
pub fn warn(message: impl AsRef<str>) {
    log(Level::Warn, message, None);
}

/// Writes a line about something that went wrong.
pub fn error(message: impl AsRef<str>) {
    log(Level::Error, message, None);
}
