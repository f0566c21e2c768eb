//! Asking whoever sits at the terminal.

mod approval;
mod form;

use std::future::Future;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush, tcgetpgrp, tcgetwinsize};

use crate::host::{Approver, COLUMNS, COLUMNS_MIN, Inquiry, Prompt, ROWS, Reply, Respondent, Sheet};
use crate::record::InputResponses;

/// How often a read of the terminal looks whether the answer came from elsewhere.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Bytes of an edited input.
const EDIT_BYTES_MAX: u64 = 16 << 20;

/// The terminal that this program runs in.
pub(super) struct Terminal {
    principal: String,
}

impl Terminal {
    /// The terminal, if somebody can see the question and type an answer to it.
    pub(super) fn if_there(principal: String) -> Option<Self> {
        let seen = io::stdin().is_terminal() && io::stderr().is_terminal();
        // A program in the background would only be stopped by reading.
        let foreground = || tcgetpgrp(io::stdin()).is_ok_and(|group| group == rustix::process::getpgrp());
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

    fn ask<'a>(&'a self, prompt: &'a Prompt) -> Pin<Box<dyn Future<Output = Option<Reply>> + Send + 'a>> {
        let prompt = prompt.clone();
        Box::pin(read(move |keyboard| approval::Dialog::new(keyboard, prompt).run()))
    }
}

impl Respondent for Terminal {
    fn respond<'a>(
        &'a self,
        inquiry: &'a Inquiry,
    ) -> Pin<Box<dyn Future<Output = Option<InputResponses>> + Send + 'a>> {
        let inquiry = inquiry.clone();
        Box::pin(read(move |keyboard| form::fill(&keyboard, &inquiry)))
    }
}

/// Asks whoever sits at the terminal a question that only a clear yes answers with yes: `question`, after the rows that `fill`
/// adds. Without a terminal, or at one that is too narrow, nobody agrees.
pub(super) fn agrees(question: &str, fill: impl FnOnce(&mut Sheet)) -> bool {
    let display = Display::of_terminal();
    if Terminal::if_there(String::new()).is_none() || !display.is_wide_enough() {
        return false;
    }
    let mut sheet = Sheet::new(display.columns);
    fill(&mut sheet);
    let keyboard = Keyboard(Arc::default());
    let asked = format!("{}{question} [y/N] ", sheet.into_text());
    let answer = keyboard.answer(&asked).ok().flatten().unwrap_or_default();
    matches!(answer.to_ascii_lowercase().as_str(), "y" | "yes")
}

/// Runs `dialog` on a thread of its own: reading blocks. A terminal that went away answers nothing.
async fn read<T: Send + 'static>(
    dialog: impl FnOnce(Keyboard) -> anyhow::Result<Option<T>> + Send + 'static,
) -> Option<T> {
    // Dropped with this future: then the thread stops reading.
    let over = Over::default();
    let keyboard = Keyboard(Arc::clone(&over.0));
    tokio::task::spawn_blocking(move || dialog(keyboard)).await.ok()?.ok()?
}

/// Says that nobody waits for the answer any more.
#[derive(Default)]
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads lines until nobody waits for them any more.
struct Keyboard(Arc<AtomicBool>);

impl Keyboard {
    fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The line that follows `question`; nothing as with [`Self::line`].
    fn answer(&self, question: &str) -> anyhow::Result<Option<String>> {
        // What was typed before the question was there to be read is no answer to it.
        tcflush(io::stdin(), QueueSelector::IFlush)?;
        write(question)?;
        self.line()
    }

    /// The next line; nothing at the end of the input, or when nobody waits for it any more.
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
            // Past the standard library's buffer: it would keep what follows the line.
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

/// What the terminal shows at once.
#[derive(Clone, Copy, Debug)]
struct Display {
    columns: usize,
    rows: usize,
}

impl Display {
    /// The terminal's size; one that does not say has 80 columns and 24 rows.
    fn of_terminal() -> Self {
        let size = tcgetwinsize(io::stderr()).ok();
        let said = |count: Option<u16>| count.filter(|count| *count > 0).map(usize::from);
        // A terminal may break a row that fills it to the last column.
        let columns = said(size.map(|size| size.ws_col)).map_or(COLUMNS, |columns| columns.saturating_sub(1));
        Self { columns, rows: said(size.map(|size| size.ws_row)).unwrap_or(ROWS) }
    }

    /// Whether a question can be shown: one that wraps by itself could be forged.
    fn is_wide_enough(self) -> bool {
        self.columns >= COLUMNS_MIN
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut err = io::stderr().lock();
    err.write_all(text.as_bytes()).and_then(|()| err.flush())
}
