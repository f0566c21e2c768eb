//! Writes to the call's log. The host limits its size, and does not show it to the model.

use serde_json::Value;

use crate::host;

/// The severity of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Every step.
    Trace,
    /// For the tool author.
    Debug,
    /// Worth knowing.
    Info,
    /// Something is unexpected.
    Warn,
    /// Something went wrong.
    Error,
}

/// Writes a line, with a JSON object of `fields` if there is one.
pub fn log(level: Level, message: impl AsRef<str>, fields: Option<&Value>) {
    host::log(level, message.as_ref(), fields);
}

/// Writes a line at [`Level::Trace`].
pub fn trace(message: impl AsRef<str>) {
    log(Level::Trace, message, None);
}

/// Writes a line at [`Level::Debug`].
pub fn debug(message: impl AsRef<str>) {
    log(Level::Debug, message, None);
}

/// Writes a line at [`Level::Info`].
pub fn info(message: impl AsRef<str>) {
    log(Level::Info, message, None);
}

/// Writes a line at [`Level::Warn`].
pub fn warn(message: impl AsRef<str>) {
    log(Level::Warn, message, None);
}

/// Writes a line at [`Level::Error`].
pub fn error(message: impl AsRef<str>) {
    log(Level::Error, message, None);
}
