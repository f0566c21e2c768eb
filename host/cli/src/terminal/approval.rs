use std::fs::File;
use std::io::{Read, Seek, Write};
use std::process::Command;

use anyhow::{Context, bail};
use tokio::runtime::Handle;
use toolcell::{Prompt, Reply};
use toolcell_engine::approval::{PromptSheet, pretty};
use toolcell_spec::Input;
use toolcell_spec::text::visible_json;

use crate::ask::elsewhere;

use super::{Display, EDIT_BYTES_MAX, Keyboard, write};

const EDIT_ROWS_MAX: usize = 14;

pub(super) struct Dialog {
    keyboard: Keyboard,
    prompt: Prompt,
    edit: Option<String>,
    draft: Option<String>,
    seen: bool,
}

impl Dialog {
    pub(super) fn new(keyboard: Keyboard, prompt: Prompt) -> Self {
        Self {
            keyboard,
            prompt,
            edit: None,
            draft: None,
            seen: false,
        }
    }

    pub(super) fn run(&mut self) -> anyhow::Result<Option<Reply>> {
        let display = Display::of_terminal();
        if !display.is_wide_enough() {
            write(&format!(
                "(terminal too narrow to show the approval prompt; {})\n",
                elsewhere(&self.prompt)
            ))?;
            return Ok(None);
        }
        let (text, cut) = self.prompt.on_display(display.columns, display.rows);
        self.seen = !cut;
        write(&text)?;
        loop {
            let Some(line) = self.keyboard.answer(&self.choices())? else {
                return self.unanswered();
            };
            let (word, note) = line.split_once(char::is_whitespace).unwrap_or((&line, ""));
            let note = Some(note.trim().to_owned()).filter(|note| !note.is_empty());
            let yes = |always| Reply {
                approved: true,
                edit: self.edit.clone(),
                feedback: note.clone(),
                always,
            };
            match word.to_lowercase().as_str() {
                "y" | "yes" | "a" | "always" if !self.seen => {
                    write(
                        "part of the call is hidden; press v to view all of it before you approve\n",
                    )?;
                }
                "y" | "yes" => return Ok(Some(yes(false))),
                "a" | "always" if self.can_remember() => return Ok(Some(yes(true))),
                "n" | "no" => {
                    return Ok(Some(Reply {
                        feedback: note,
                        ..Reply::default()
                    }));
                }
                "v" | "view" => self.view()?,
                "e" | "edit" => self.edit()?,
                _ => {}
            }
        }
    }

    /// An edit rules out "always", because the question says what it covers for the original call.
    fn can_remember(&self) -> bool {
        self.prompt.can_remember() && self.edit.is_none()
    }

    fn choices(&self) -> String {
        let (before, after) = if self.seen {
            ("y yes", ", v view all")
        } else {
            ("v view all of it, then y yes", "")
        };
        let always = if self.can_remember() {
            ", a always"
        } else {
            ""
        };
        let left = self.prompt.time_left();
        format!("[{before}, n no{always}, e edit{after}] ({left}; add a note after y or n) ")
    }

    /// Skipping to the end counts as shown: the approver chose not to read.
    fn view(&mut self) -> anyhow::Result<()> {
        let display = Display::of_terminal();
        let text = self.prompt.full_text(display.columns);
        let rows: Vec<&str> = text.lines().collect();
        let page = display.rows.saturating_sub(2).max(1);
        let mut at = 0;
        loop {
            let shown = rows.get(at..rows.len().min(at + page)).unwrap_or_default();
            write(&format!("{}\n", shown.join("\n")))?;
            at += page;
            if at >= rows.len() {
                self.seen = true;
                return Ok(());
            }
            let left = rows.len() - at;
            let asked = format!("[{left} more rows: Enter for more, g for the end, q to go back] ");
            match self.keyboard.answer(&asked)?.as_deref() {
                Some("") => {}
                Some("g") => at = at.max(rows.len().saturating_sub(page)),
                _ => return Ok(()),
            }
        }
    }

    fn unanswered(&self) -> anyhow::Result<Option<Reply>> {
        // One that is over has said so already.
        if !self.keyboard.is_over() {
            self.keyboard.0.close(&elsewhere(&self.prompt))?;
        }
        Ok(None)
    }

    /// A rejected edit stays a draft, which the next edit begins with.
    fn edit(&mut self) -> anyhow::Result<()> {
        let new = match self.typed() {
            Ok(new) => new,
            Err(error) => return tell("the arguments were not edited:", &format!("{error:#}")),
        };
        match self.check(&new) {
            Ok(()) => {
                tell("the call will run with these arguments:", &new)?;
                (self.edit, self.draft) = (Some(new), None);
            }
            Err(why) => {
                tell(
                    "these arguments are not valid; keeping the previous ones:",
                    &why,
                )?;
                tell("e edits them again:", &new)?;
                self.draft = Some(new);
            }
        }
        Ok(())
    }

    fn typed(&self) -> anyhow::Result<String> {
        let editor = ["VISUAL", "EDITOR"]
            .iter()
            .find_map(|name| std::env::var(name).ok().filter(|word| !word.is_empty()));
        let new = match editor {
            Some(editor) => in_editor(&editor, &self.start())?,
            None => {
                write("the new arguments, as one line of JSON: ")?;
                self.keyboard.line()?.context("nothing was typed")?
            }
        };
        Ok(new.trim().to_owned())
    }

    /// The arguments are escaped, because an editor shows them as they are.
    fn start(&self) -> String {
        let changed = self.draft.as_ref().or(self.edit.as_ref());
        changed
            .cloned()
            .unwrap_or_else(|| pretty(&visible_json(self.prompt.arguments().text())).into_owned())
    }

    fn check(&self, new: &str) -> Result<(), String> {
        Input::from_text(new)
            .value()
            .map_err(|error| format!("these are not JSON: {error}"))?;
        // This thread is for blocking reads, so it may wait.
        Handle::current().block_on(self.prompt.check_edit(new))
    }
}

/// `text` is behind the gutter.
fn tell(words: &str, text: &str) -> anyhow::Result<()> {
    let mut sheet = PromptSheet::new(Display::of_terminal().columns);
    sheet.host(words);
    sheet.lines(text, EDIT_ROWS_MAX);
    Ok(write(&sheet.into_text())?)
}

fn in_editor(editor: &str, text: &str) -> anyhow::Result<String> {
    // Readable by its owner only, like the journal.
    let mut file = tempfile::Builder::new()
        .prefix("arguments-")
        .suffix(".json")
        .tempfile()
        .context("cannot create a file")?;
    file.write_all(text.as_bytes())
        .context("cannot write the arguments")?;
    let mut words = editor.split_whitespace();
    let program = words.next().context("the editor has no name")?;
    let status = Command::new(program)
        .args(words)
        .arg(file.path())
        .status()
        .with_context(|| format!("cannot run {editor}"))?;
    if !status.success() {
        bail!("{editor} ended with {status}");
    }
    // Reopened by its path, because editors may replace the file.
    let mut new = String::new();
    let mut changed = File::open(file.path()).context("cannot read the arguments")?;
    changed
        .rewind()
        .and_then(|()| changed.take(EDIT_BYTES_MAX).read_to_string(&mut new))
        .context("cannot read the arguments")?;
    Ok(new)
}
