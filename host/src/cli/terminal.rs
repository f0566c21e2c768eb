//! Asking whoever sits at the terminal.

use std::fs::File;
use std::future::Future;
use std::io::{self, IsTerminal, Read, Seek, Write};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush, tcgetpgrp};

use crate::host::{Approver, Prompt, Reply, Whitespace, visible};
use crate::record::Input;

use super::ask::elsewhere;

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
        let over = Over::default();
        let mut dialog = Dialog { over: Arc::clone(&over.0), prompt: prompt.clone(), edit: None };
        Box::pin(async move {
            // Dropped with this future: then the thread stops reading.
            let _over = over;
            let asked = tokio::task::spawn_blocking(move || dialog.run()).await;
            match asked {
                Ok(Ok(reply)) => reply,
                // A terminal that went away answers nothing.
                Ok(Err(_)) | Err(_) => None,
            }
        })
    }
}

/// Says that nobody waits for the answer any more.
#[derive(Default)]
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One question at the terminal.
struct Dialog {
    over: Arc<AtomicBool>,
    prompt: Prompt,
    edit: Option<String>,
}

impl Dialog {
    fn run(&mut self) -> anyhow::Result<Option<Reply>> {
        write(self.prompt.text())?;
        let choices = match self.prompt.can_remember() {
            true => "y yes, n no, a always for this session, e edit the arguments",
            false => "y yes, n no, e edit the arguments",
        };
        loop {
            // What was typed before the question was there to be read is no answer to it.
            tcflush(io::stdin(), QueueSelector::IFlush)?;
            write(&format!("[{choices}; a note may follow y or n] "))?;
            let Some(line) = self.line()? else { return self.unanswered() };
            let (word, note) = line.split_once(char::is_whitespace).unwrap_or((&line, ""));
            let note = Some(note.trim().to_owned()).filter(|note| !note.is_empty());
            let yes = |always| Reply { approved: true, edit: self.edit.clone(), feedback: note.clone(), always };
            match word.to_lowercase().as_str() {
                "y" | "yes" => return Ok(Some(yes(false))),
                "a" | "always" if self.prompt.can_remember() => return Ok(Some(yes(true))),
                "n" | "no" => return Ok(Some(Reply { feedback: note, ..Reply::default() })),
                "e" | "edit" => match self.edit() {
                    Ok(text) => self.change(text)?,
                    Err(error) => write(&format!("{}\n", visible(&format!("{error:#}"), Whitespace::WrittenOut)))?,
                },
                _ => {}
            }
        }
    }

    fn unanswered(&self) -> anyhow::Result<Option<Reply>> {
        let why = if self.is_over() { "answered elsewhere, or over".to_owned() } else { elsewhere(&self.prompt) };
        write(&format!("\n({why})\n"))?;
        Ok(None)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
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

    fn change(&mut self, text: String) -> anyhow::Result<()> {
        write(&format!("  arguments  {}\n", visible(&text, Whitespace::WrittenOut)))?;
        self.edit = Some(text);
        Ok(())
    }

    /// The arguments as somebody changed them, in an editor or on one line.
    fn edit(&self) -> anyhow::Result<String> {
        let old = self.edit.as_deref().unwrap_or(self.prompt.arguments().text());
        let editor =
            ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok().filter(|word| !word.is_empty()));
        let new = match editor {
            Some(editor) => in_editor(&editor, old)?,
            None => {
                write("the new arguments, as one line of JSON: ")?;
                self.line()?.context("nothing was typed")?
            }
        };
        let new = new.trim();
        match Input::from_text(new).value() {
            Ok(_) => Ok(new.to_owned()),
            Err(error) => bail!("these are not JSON: {error}"),
        }
    }
}

fn in_editor(editor: &str, text: &str) -> anyhow::Result<String> {
    // Readable by its owner only, like the journal.
    let mut file = tempfile::Builder::new().prefix("arguments-").suffix(".json").tempfile().context("make a file")?;
    file.write_all(text.as_bytes()).context("write the arguments")?;
    let mut words = editor.split_whitespace();
    let program = words.next().context("the editor has no name")?;
    let status =
        Command::new(program).args(words).arg(file.path()).status().with_context(|| format!("run {editor}"))?;
    if !status.success() {
        bail!("{editor} ended with {status}");
    }
    // By its path: editors write a new file in the place of the old one.
    let mut new = String::new();
    let mut changed = File::open(file.path()).context("read the arguments")?;
    changed
        .rewind()
        .and_then(|()| changed.take(EDIT_BYTES_MAX).read_to_string(&mut new))
        .context("read the arguments")?;
    Ok(new)
}

fn write(text: &str) -> io::Result<()> {
    let mut err = io::stderr().lock();
    err.write_all(text.as_bytes()).and_then(|()| err.flush())
}
