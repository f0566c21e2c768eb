use serde_json::Value;
use toolcell_spec::{ProgressStatus, ToolProgress, digest, read_json};

use crate::call::cut;
use crate::state::StoreState;

use super::wit::progress::{Host, Update};

/// One line on a screen; longer text is cut.
const MESSAGE_CHARS_MAX: usize = 1_000;
const PARTIAL_BYTES_MAX: u64 = 256 << 10;
/// The host keeps many results.
const PARTIAL_VALUES_MAX: usize = 1_000;

impl Host for StoreState {
    async fn report(&mut self, update: Update) -> wasmtime::Result<()> {
        let short = |text| cut(text, MESSAGE_CHARS_MAX);
        let update = ToolProgress {
            message: update.message.map(short),
            percent: update
                .percent
                .filter(|percent| (0.0..=100.0).contains(percent)),
            current_step: update.current_step.map(short),
            total_steps: update.total_steps,
            bytes_read: update.bytes_read,
            bytes_written: update.bytes_written,
            line_count: update.line_count,
            ..ToolProgress::new(ProgressStatus::Running)
        };
        self.pass(update);
        Ok(())
    }

    async fn partial_result(&mut self, content: String) -> wasmtime::Result<String> {
        Ok(self.offer_partial(content))
    }
}

impl StoreState {
    pub(crate) fn offer_partial(&mut self, content: String) -> String {
        let reference = format!("partial:{}", digest(content.as_bytes()));
        let bytes = content.len() as u64;
        if bytes > self.partial_bytes_left && guard!("partial_results") {
            self.logs.line(
                "warn",
                "a partial result was dropped: all together are larger than an answer may be",
                None,
            );
        } else if bytes <= PARTIAL_BYTES_MAX
            && let Ok(value @ Value::Array(_)) = read_json(&content, PARTIAL_VALUES_MAX)
        {
            self.partial_bytes_left = self.partial_bytes_left.saturating_sub(bytes);
            self.pass(ToolProgress {
                partial_result_refs: vec![reference.clone()],
                partial_content: Some(value),
                ..ToolProgress::new(ProgressStatus::PartialResult)
            });
        } else {
            self.logs.line(
                "warn",
                "a partial result was dropped: it must be a JSON array of at most 256 KiB and 1000 values",
                None,
            );
        }
        reference
    }

    pub(crate) fn pass(&mut self, update: ToolProgress) {
        if let Some(update) = self.progress.pass(update) {
            self.observer.progress(update);
        }
    }
}
