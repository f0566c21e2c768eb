use std::fs::File;
use std::io::{Read, Seek, Write};
use std::process::Command;

use anyhow::{Context, bail};

use crate::cli::ask::elsewhere;
use crate::host::{Prompt, Reply, Whitespace, visible};
use crate::record::Input;

use super::{EDIT_BYTES_MAX, Keyboard, write};

/// The question whether a call may run.
pub(super) struct Dialog {
    keyboard: Keyboard,
    prompt: Prompt,
    edit: Option<String>,
}

impl Dialog {
    pub(super) fn new(keyboard: Keyboard, prompt: Prompt) -> Self {
        Self { keyboard, prompt, edit: None }
    }

    pub(super) fn run(&mut self) -> anyhow::Result<Option<Reply>> {
        write(self.prompt.text())?;
        let choices = match self.prompt.can_remember() {
            true => "y yes, n no, a always for this session, e edit the arguments",
            false => "y yes, n no, e edit the arguments",
        };
        loop {
            let asked = format!("[{choices}; a note may follow y or n] ");
            let Some(line) = self.keyboard.answer(&asked)? else { return self.unanswered() };
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
        let why =
            if self.keyboard.is_over() { "answered elsewhere, or over".to_owned() } else { elsewhere(&self.prompt) };
        write(&format!("\n({why})\n"))?;
        Ok(None)
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
                self.keyboard.line()?.context("nothing was typed")?
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
