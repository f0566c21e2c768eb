//! The progress line while a component is compiled.

use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::ProgressBar;
use toolcell_sandbox::{Compilation, CompileWatch};

use super::show;

/// A line that appears and goes at once only flickers.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(120);

pub(crate) fn shown() -> Option<CompileWatch> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let line: Mutex<Option<Line>> = Mutex::default();
    Some(Arc::new(move |step| {
        let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
        match step {
            Compilation::Begins { bytes } => *line = Line::start(bytes),
            Compilation::Ends { took, compiled } => {
                drop(line.take());
                if let Some(text) = ended(took, compiled) {
                    show::say(&text);
                }
            }
        }
    }))
}

pub(crate) fn running(bytes: usize) -> String {
    let size = match bytes.saturating_mul(10) >> 20 {
        0..10 => format!("{} KiB", bytes.div_ceil(1 << 10)),
        tenths => format!("{}.{} MiB", tenths / 10, tenths % 10),
    };
    format!("compiling a component of {size}, once")
}

fn ended(took: Duration, compiled: bool) -> Option<String> {
    (compiled && took >= SHOWN_AFTER).then(|| format!("compiled in {:.1} s", took.as_secs_f64()))
}

struct Line {
    /// Dropping it ends the thread.
    ends: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Line {
    /// `None` if no thread can be started: the compilation goes on without a line.
    fn start(bytes: usize) -> Option<Self> {
        let (ends, ended) = channel::<()>();
        let draw = move || {
            if ended.recv_timeout(SHOWN_AFTER) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let bar = ProgressBar::new_spinner();
            if let Some(style) = show::style("{spinner} {msg} ({elapsed})") {
                bar.set_style(style);
            }
            bar.set_message(running(bytes));
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                bar.tick();
            }
            bar.finish_and_clear();
        };
        let thread = std::thread::Builder::new()
            .name("compiling".to_owned())
            .spawn(draw)
            .ok()?;
        Some(Self {
            ends: Some(ends),
            thread: Some(thread),
        })
    }
}

impl Drop for Line {
    /// Waits, so that what is printed next does not share the row.
    fn drop(&mut self) {
        drop(self.ends.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compilation_is_said_to_have_ended_if_it_was_seen() {
        assert_eq!(
            running(19_398_656),
            "compiling a component of 18.5 MiB, once"
        );
        assert_eq!(running(49_500), "compiling a component of 49 KiB, once");
        assert_eq!(
            ended(Duration::from_millis(16_240), true).as_deref(),
            Some("compiled in 16.2 s")
        );
        assert_eq!(ended(Duration::from_millis(100), true), None);
        assert_eq!(
            ended(Duration::from_secs(16), false),
            None,
            "the refusal says more"
        );
    }
}
