//! Says how far a call has come. The host adds who, when and in which order, and merges floods.

use crate::{Content, host, output::content_json};

/// One report of progress. Every part is optional.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update {
    /// One line for a person.
    pub message: Option<String>,
    /// 0 to 100; anything else is dropped by the host.
    pub percent: Option<f64>,
    /// The name of the step at work.
    pub current_step: Option<String>,
    /// How many steps there are.
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

    /// Sets how much is done, 0 to 100.
    #[must_use]
    pub fn percent(mut self, percent: f64) -> Self {
        self.percent = Some(percent);
        self
    }

    /// Sets the step at work.
    #[must_use]
    pub fn current_step(mut self, step: impl Into<String>) -> Self {
        self.current_step = Some(step.into());
        self
    }

    /// Sets how many steps there are.
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

/// Reports how much is done, 0 to 100.
pub fn percent(percent: f64) {
    report(Update::new().percent(percent));
}

/// Hands out blocks that are usable now, before the call ends. Gives the reference under which the host keeps them.
pub fn partial(content: impl IntoIterator<Item = Content>) -> String {
    let content: Vec<Content> = content.into_iter().collect();
    host::partial_result(content_json(&content))
}
