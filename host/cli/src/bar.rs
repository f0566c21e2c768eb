//! The progress of a call on a terminal.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;
use toolcell::Listener;
use toolcell_spec::{EventType, ToolEvent};

use super::show::{printable, style};

/// A terminal that cannot move its cursor (`TERM=dumb`) shows nothing.
pub(crate) struct Bar {
    bar: ProgressBar,
    styles: [ProgressStyle; 2],
    /// `true` if the bar moves by itself.
    ticks: AtomicBool,
}

impl Bar {
    /// `None` unless standard error is a terminal.
    pub(crate) fn if_seen() -> Option<Arc<Self>> {
        if !io::stderr().is_terminal() {
            return None;
        }
        let styles = [
            style("{spinner} {msg}")?,
            style("{spinner} {wide_bar} {pos:>3}% {msg}")?,
        ];
        Some(Arc::new(Self {
            bar: ProgressBar::new(100),
            styles,
            ticks: AtomicBool::new(false),
        }))
    }

    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Not shown for a call that waits, because a question may be on the terminal.
    fn update(&self, event: &ToolEvent) {
        let field = |name: &str| event.data.pointer(&format!("/progress/{name}"));
        if !field("status").is_some_and(|status| status == "running" || status == "partial_result")
        {
            return;
        }
        let percent = field("percent").and_then(|percent| percent.as_f64());
        let first = !self.ticks.swap(true, Ordering::Relaxed);
        let [spinner, bar] = &self.styles;
        if let Some(percent) = percent {
            self.bar.set_style(bar.clone());
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "0 to 100"
            )]
            self.bar.set_position(percent as u64);
        } else if first {
            self.bar.set_style(spinner.clone());
        }
        let message = field("message").or(field("current_step"));
        if let Some(message) = message.and_then(Value::as_str) {
            self.bar.set_message(printable(message, true));
        }
        if first {
            self.bar.enable_steady_tick(Duration::from_millis(120));
        }
    }
}

impl Listener for Bar {
    fn event(&self, event: &ToolEvent) {
        match event.event_type {
            EventType::NeedsInput => {
                // The user types on this line now.
                self.ticks.store(false, Ordering::Relaxed);
                self.bar.disable_steady_tick();
                self.bar.finish_and_clear();
                self.bar.set_draw_target(ProgressDrawTarget::hidden());
            }
            EventType::Resumed => {
                self.bar.reset();
                self.bar.set_draw_target(ProgressDrawTarget::stderr());
            }
            EventType::Progress | EventType::PartialResult => self.update(event),
            _ => {}
        }
    }
}
