//! Reports the progress of a call. The host adds the identity, the time and the order, and merges bursts of reports.

use crate::{Content, host, output::content_json};

/// One report of progress. Every part is optional.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update {
    /// One line for a person.
    pub message: Option<String>,
    /// The part done, in percent, 0 to 100; the host drops any other value.
    pub percent: Option<f64>,
    /// The name of the current step.
    pub current_step: Option<String>,
    /// The number of steps.
    pub total_steps: Option<u32>,
    /// Bytes read since the call began.
    pub bytes_read: Option<u64>,
    /// Bytes written since the call began.
    pub bytes_written: Option<u64>,
    /// Lines handled since the call began.
    pub line_count: Option<u64>,
}

impl Update {
    /// An empty update, to be filled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the line for a person.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// Sets the part done, in percent, 0 to 100.
    #[must_use]
    pub fn percent(mut self, percent: f64) -> Self {
        self.percent = Some(percent);
        self
    }

    /// Sets the current step.
    #[must_use]
    pub fn current_step(mut self, step: impl Into<String>) -> Self {
        self.current_step = Some(step.into());
        self
    }

    /// Sets the number of steps.
    #[must_use]
    pub fn total_steps(mut self, steps: u32) -> Self {
        self.total_steps = Some(steps);
        self
    }

    /// Sets the bytes read so far.
    #[must_use]
    pub fn bytes_read(mut self, bytes: u64) -> Self {
        self.bytes_read = Some(bytes);
        self
    }

    /// Sets the bytes written so far.
    #[must_use]
    pub fn bytes_written(mut self, bytes: u64) -> Self {
        self.bytes_written = Some(bytes);
        self
    }

    /// Sets the lines handled so far.
    #[must_use]
    pub fn line_count(mut self, lines: u64) -> Self {
        self.line_count = Some(lines);
        self
    }
}

/// Reports `update`.
pub fn report(update: Update) {
    host::report(update);
}

/// Reports one line for a person.
pub fn message(message: impl Into<String>) {
    report(Update::new().message(message));
}

/// Reports the part done, in percent, 0 to 100.
pub fn percent(percent: f64) {
    report(Update::new().percent(percent));
}

/// Sends blocks that are usable before the call ends. Returns the reference under which the host keeps them.
pub fn partial(content: impl IntoIterator<Item = Content>) -> String {
    let content: Vec<Content> = content.into_iter().collect();
    host::partial_result(content_json(&content))
}
