//! Asks the user at the terminal.

mod approval;
mod form;

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush, tcgetpgrp, tcgetwinsize};
use toolcell::{Approver, Inquiry, Prompt, Reply, Respondent};
use toolcell_engine::approval::{COLUMNS, COLUMNS_MIN, PromptSheet, ROWS};
use toolcell_spec::InputResponses;
use toolcell_system::BoxFuture;

/// A read checks at this interval for an answer from elsewhere.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const EDIT_BYTES_MAX: u64 = 16 << 20;

pub(crate) struct Terminal {
    principal: String,
}

impl Terminal {
    /// `None` if no user can see the question and type an answer.
    pub(crate) fn if_there(principal: String) -> Option<Self> {
        let seen = io::stdin().is_terminal() && io::stderr().is_terminal();
        // Reading would only stop a process in the background (SIGTTIN).
        let foreground =
            || tcgetpgrp(io::stdin()).is_ok_and(|group| group == rustix::process::getpgrp());
        (seen && foreground()).then_some(Self { principal })
    }
}

impl Approver for Terminal {
    fn principal(&self) -> &str {
        &self.principal
    }

    fn channel(&self) -> &str {
        "terminal"
    }

    fn ask<'a>(&'a self, prompt: &'a Prompt) -> BoxFuture<'a, Option<Reply>> {
        let prompt = prompt.clone();
        Box::pin(read(move |keyboard| {
            approval::Dialog::new(keyboard, prompt).run()
        }))
    }

    fn announce<'a>(&'a self, prompt: &'a Prompt) -> BoxFuture<'a, Option<Reply>> {
        crate::ask::announce(prompt);
        Box::pin(async { None })
    }
}

impl Respondent for Terminal {
    fn respond<'a>(&'a self, inquiry: &'a Inquiry) -> BoxFuture<'a, Option<InputResponses>> {
        let inquiry = inquiry.clone();
        Box::pin(read(move |keyboard| form::fill(&keyboard, &inquiry)))
    }
}

pub(crate) fn is_there() -> bool {
    Terminal::if_there(String::new()).is_some() && Display::of_terminal().is_wide_enough()
}

/// `true` only for a clear yes.
pub(crate) fn agrees(question: &str, fill: impl FnOnce(&mut PromptSheet)) -> bool {
    let display = Display::of_terminal();
    if !is_there() {
        return false;
    }
    let mut sheet = PromptSheet::new(display.columns);
    fill(&mut sheet);
    let keyboard = Keyboard(Arc::default());
    let asked = format!("{}{question} [y/N] ", sheet.into_text());
    let answer = keyboard.answer(&asked).ok().flatten();
    if answer.is_none() {
        let _ = keyboard.0.close("no answer");
    }
    let answer = answer.unwrap_or_default();
    matches!(answer.to_ascii_lowercase().as_str(), "y" | "yes")
}

/// On a thread of its own, because reading blocks.
async fn read<T: Send + 'static>(
    dialog: impl FnOnce(Keyboard) -> anyhow::Result<Option<T>> + Send + 'static,
) -> Option<T> {
    // Dropped with this future, so that the thread stops reading.
    let over = Over::default();
    let keyboard = Keyboard(Arc::clone(&over.0));
    tokio::task::spawn_blocking(move || dialog(keyboard))
        .await
        .ok()?
        .ok()?
}

/// Shared by a question and the thread that reads its answer.
#[derive(Default)]
struct QuestionState {
    /// If `true`, the answer is no longer needed.
    is_over: AtomicBool,
    /// `true` if the cursor is behind a question.
    is_open: AtomicBool,
}

impl QuestionState {
    fn close(&self, why: &str) -> io::Result<()> {
        if self.is_open.swap(false, Ordering::Relaxed) {
            write(&format!("\n({why})\n"))
        } else {
            Ok(())
        }
    }
}

/// Ends the line of the question for the [`Keyboard`], because the result of the call is printed before its thread
/// notices.
#[derive(Default)]
struct Over(Arc<QuestionState>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
        let _ = self.0.close("already answered elsewhere, or expired");
    }
}

struct Keyboard(Arc<QuestionState>);

impl Keyboard {
    fn is_over(&self) -> bool {
        self.0.is_over.load(Ordering::Relaxed)
    }

    /// `None` as for [`Self::line`].
    fn answer(&self, question: &str) -> anyhow::Result<Option<String>> {
        // Input that was typed before the question was visible is not an answer to it.
        tcflush(io::stdin(), QueueSelector::IFlush)?;
        write(question)?;
        self.0.is_open.store(true, Ordering::Relaxed);
        let line = self.line()?;
        if line.is_some() {
            self.0.is_open.store(false, Ordering::Relaxed);
        }
        Ok(line)
    }

    /// `None` at the end of the input, or when the answer is not needed any more.
    fn line(&self) -> anyhow::Result<Option<String>> {
        let stdin = io::stdin();
        let mut text = Vec::new();
        let wait = Timespec::try_from(LOOK_EVERY)?;
        loop {
            if self.is_over() {
                return Ok(None);
            }
            let mut fds = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
            match poll(&mut fds, Some(&wait)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            // Bypasses the standard library's buffer, which would keep what follows the line.
            let mut piece = [0; 4096];
            let count = rustix::io::read(&stdin, &mut piece)?;
            let piece = piece.get(..count).unwrap_or_default();
            text.extend_from_slice(piece);
            if text.last() == Some(&b'\n') {
                return Ok(Some(String::from_utf8_lossy(&text).trim().to_owned()));
            }
            if piece.is_empty() || text.len() as u64 > EDIT_BYTES_MAX {
                return Ok(None);
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Display {
    columns: usize,
    rows: usize,
}

impl Display {
    /// 78 columns and 24 rows if unknown.
    fn of_terminal() -> Self {
        let size = tcgetwinsize(io::stderr()).ok();
        let said = |count: Option<u16>| count.filter(|count| *count > 0).map(usize::from);
        // One less, because a terminal may wrap a row that fills the last column.
        let columns =
            said(size.map(|size| size.ws_col)).map_or(COLUMNS, |columns| columns.saturating_sub(1));
        Self {
            columns,
            rows: said(size.map(|size| size.ws_row)).unwrap_or(ROWS),
        }
    }

    /// A row that wraps by itself could be forged.
    fn is_wide_enough(self) -> bool {
        self.columns >= COLUMNS_MIN
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut err = io::stderr().lock();
    err.write_all(text.as_bytes()).and_then(|()| err.flush())
}
