//! Fetches what a reference in a record refers to.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use toolcell::Home;
use toolcell_journal::{PayloadStore, Reference, ReferenceInfo, StoredPayload};

use super::{calls, wrap};
use crate::exit::{BadRequest, Exit};
use crate::show;

/// In bytes.
const TERMINAL_BYTES_MAX: u64 = 16 << 20;

/// Fetches what the references in records refer to: large results, artifacts, partial results and inputs.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 1 if it was removed, has expired or is damaged, 3 if it was redacted."
)]
pub(crate) struct Artifact {
    /// The reference, as a record has it: toolcell:payload/sha256:.., sha256:.., partial:sha256:..
    reference: String,
    /// Write it to this new file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
    /// Print what is known of it as JSON; its content goes to --output alone
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Available,
    /// A call on record refers to it.
    Gone,
    /// A call on record refers to it.
    Redacted,
    /// Older calls were removed from the log.
    Expired,
    /// Its bytes do not match its digest.
    Damaged,
    /// No call ever referred to it.
    Unknown,
}

enum Content {
    File(File, u64),
    Text(String),
}

impl State {
    fn facts(self) -> (&'static str, Exit, &'static str) {
        match self {
            Self::Available => ("available", Exit::Succeeded, "it is there"),
            Self::Gone => (
                "result_removed",
                Exit::ToolFailed,
                "a call on record refers to it, and it was removed since",
            ),
            Self::Redacted => (
                "redacted",
                Exit::Refused,
                "it was redacted before it was stored",
            ),
            Self::Expired => (
                "reference_expired",
                Exit::ToolFailed,
                "no call on record refers to it, and older calls were removed from the log",
            ),
            Self::Damaged => ("damaged", Exit::ToolFailed, "the file was changed on disk"),
            Self::Unknown => (
                "unknown",
                Exit::BadRequest,
                "no call on record refers to it; `toolcell show` prints the references of a call",
            ),
        }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    reference: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size_bytes: Option<u64>,
    calls: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<Cow<'a, str>>,
}

impl Content {
    fn size(&self) -> u64 {
        match self {
            Self::File(_, size) => *size,
            Self::Text(text) => text.len() as u64,
        }
    }

    fn copy(self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::File(mut file, _) => io::copy(&mut file, out).map(drop),
            Self::Text(text) => out.write_all(text.as_bytes()),
        }
    }

    /// `None` if it is no text, or too large for a terminal.
    fn text(self) -> io::Result<Option<String>> {
        match self {
            Self::Text(text) => Ok(Some(text)),
            Self::File(_, size) if size > TERMINAL_BYTES_MAX => Ok(None),
            Self::File(file, _) => {
                let mut bytes = Vec::new();
                file.take(TERMINAL_BYTES_MAX).read_to_end(&mut bytes)?;
                Ok(String::from_utf8(bytes).ok())
            }
        }
    }
}

impl Artifact {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let text = &self.reference;
        let wrong = || {
            let forms =
                "toolcell:payload/sha256:.., sha256:.., partial:sha256:.. or blake3-keyed:..";
            BadRequest(format!(
                "{text:?} is not a reference; give one as a record has it: {forms}"
            ))
        };
        let reference = Reference::parse(text).ok_or_else(wrong)?;
        let (state, content, known) = find(&Home::find()?, &reference, self.json)?;
        let size = content.as_ref().map(Content::size);
        match (content, &self.output) {
            (Some(content), Some(file)) => {
                // Readable by its owner only.
                wrap::write_with(file, self.force, 0o600, |draft| content.copy(draft))?
            }
            (Some(content), None) if !self.json => return print_content(content),
            _ => {}
        }
        let (word, exit, why) = state.facts();
        if self.json {
            let is_written = state == State::Available;
            let file = self.output.as_ref().filter(|_| is_written);
            let document = Document {
                reference: text,
                state: word,
                media_type: known.media_type,
                size_bytes: size,
                calls: known.calls,
                file: file.map(|file| file.to_string_lossy()),
            };
            return show::done(show::json(&document), exit);
        }
        if state != State::Available {
            show::say(&format!("error: cannot fetch {text}: {why} [{word}]"));
        }
        Ok(exit)
    }
}

/// Searches the records of calls if it is not a payload on disk, or to `describe` it.
fn find(
    home: &Home,
    reference: &Reference,
    describe: bool,
) -> anyhow::Result<(State, Option<Content>, ReferenceInfo)> {
    let log = calls::log(home)?;
    let stored = match reference {
        Reference::Digest(digest) => PayloadStore::new(home.payloads()).open(digest),
        Reference::Partial(_) | Reference::Concealed(_) => Ok(StoredPayload::Missing),
    };
    let stored =
        stored.with_context(|| format!("cannot read the payload {}", reference.as_str()))?;
    let known = match (&stored, describe) {
        (StoredPayload::Whole(..), false) => None,
        _ => log.look_up(reference)?,
    };
    let (state, content) = match (stored, &known) {
        (StoredPayload::Whole(file, size), _) => {
            (State::Available, Some(Content::File(file, size)))
        }
        (StoredPayload::Changed, _) => (State::Damaged, None),
        (StoredPayload::Missing, None) if log.was_pruned()? => (State::Expired, None),
        (StoredPayload::Missing, None) => (State::Unknown, None),
        (StoredPayload::Missing, Some(known)) => match &known.text {
            Some(text) => (State::Available, Some(Content::Text(text.clone()))),
            None if known.redacted => (State::Redacted, None),
            None => (State::Gone, None),
        },
    };
    Ok((state, content, known.unwrap_or_default()))
}

/// A terminal gets only text, in which nothing acts on it.
fn print_content(content: Content) -> anyhow::Result<Exit> {
    let mut out = io::stdout().lock();
    let size = content.size();
    let printed = if out.is_terminal() {
        let text = content.text()?.ok_or_else(|| {
            BadRequest(format!(
                "its {size} bytes are no text for a terminal; write them to a file: --output FILE"
            ))
        })?;
        writeln!(
            out,
            "{}",
            show::printable(text.strip_suffix('\n').unwrap_or(&text), true)
        )
    } else {
        content.copy(&mut out)
    };
    show::done(printed.and_then(|()| out.flush()), Exit::Succeeded)
}
