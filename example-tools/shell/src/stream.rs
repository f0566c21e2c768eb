//! The output of a script: the first 100 KB of each stream inline, a longer stream whole as an artifact, and the newest line as
//! progress.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use toolcell_guest::{
    Artifact, Content, ToolError, cancellation,
    progress::{self, Update},
};

/// Maximum size of a stream in the answer, in bytes.
pub(crate) const INLINE_BYTES_MAX: usize = 100_000;
/// Time between two reports of progress. The host merges faster ones.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// Maximum length of the line that a report shows, in characters.
const LINE_CHARS_MAX: usize = 200;

#[derive(Clone, Copy)]
pub(crate) enum Which {
    Stdout,
    Stderr,
}

/// Both streams of a script while it runs.
pub(crate) struct Streams {
    stdout: Stream,
    stderr: Stream,
    lines: u64,
    reported: Instant,
    /// The error of a write. bashkit would hand on only its text.
    failed: Option<ToolError>,
}

struct Stream {
    name: &'static str,
    inline: Vec<u8>,
    bytes: u64,
    artifact: Option<Artifact>,
}

/// A stream that ended.
pub(crate) struct Ended {
    pub(crate) text: String,
    /// The length of the stream, in bytes.
    pub(crate) bytes: u64,
    /// The whole stream, if `text` is not.
    pub(crate) artifact: Option<Content>,
}

impl Streams {
    pub(crate) fn new() -> Self {
        Self {
            stdout: Stream::new("stdout.txt"),
            stderr: Stream::new("stderr.txt"),
            lines: 0,
            reported: Instant::now(),
            failed: None,
        }
    }

    /// Fails if the artifact cannot take more, or if the call is to stop.
    pub(crate) fn write(&mut self, which: Which, bytes: &[u8]) -> Result<(), ()> {
        let stream = match which {
            Which::Stdout => &mut self.stdout,
            Which::Stderr => &mut self.stderr,
        };
        let written = stream.write(bytes);
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
        self.lines = self.lines.saturating_add(lines as u64);
        if let Err(error) = written.and_then(|()| self.report(bytes)) {
            self.failed = Some(error);
            return Err(());
        }
        Ok(())
    }

    pub(crate) fn failure(&mut self) -> Option<ToolError> {
        self.failed.take()
    }

    /// The end of what the script wrote, for an error.
    pub(crate) fn tail(&self, bytes_max: usize) -> String {
        let inline = match self.stderr.inline.as_slice() {
            [] => &self.stdout.inline,
            inline => inline,
        };
        let start = inline.len().saturating_sub(bytes_max);
        let tail = inline.get(start..).unwrap_or_default();
        String::from_utf8_lossy(tail).trim().to_owned()
    }

    pub(crate) fn end(self) -> Result<(Ended, Ended), ToolError> {
        Ok((self.stdout.end()?, self.stderr.end()?))
    }

    fn report(&mut self, newest: &[u8]) -> Result<(), ToolError> {
        if self.reported.elapsed() < REPORT_EVERY {
            return Ok(());
        }
        self.reported = Instant::now();
        cancellation::check()?;
        let text = String::from_utf8_lossy(newest);
        let line = text.lines().rev().find(|line| !line.trim().is_empty());
        let mut update = Update::new()
            .bytes_written(self.stdout.bytes.saturating_add(self.stderr.bytes))
            .line_count(self.lines);
        if let Some(line) = line {
            update = update.message(line.chars().take(LINE_CHARS_MAX).collect::<String>());
        }
        progress::report(update);
        Ok(())
    }
}

impl Stream {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            inline: Vec::new(),
            bytes: 0,
            artifact: None,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ToolError> {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if let Some(artifact) = &mut self.artifact {
            return Ok(artifact.write_all(bytes)?);
        }
        if self.inline.len().saturating_add(bytes.len()) > INLINE_BYTES_MAX {
            let mut artifact = self.begin()?;
            artifact.write_all(bytes)?;
            self.artifact = Some(artifact);
        }
        let room = INLINE_BYTES_MAX.saturating_sub(self.inline.len());
        self.inline.extend(bytes.iter().take(room));
        Ok(())
    }

    /// Begins the artifact with what is inline.
    fn begin(&self) -> Result<Artifact, ToolError> {
        let mut artifact = Artifact::create(self.name, "text/plain")?;
        artifact.write_all(&self.inline)?;
        Ok(artifact)
    }

    fn end(mut self) -> Result<Ended, ToolError> {
        if self.artifact.is_none() && std::str::from_utf8(&self.inline).is_err() {
            // The text below has replacement characters.
            self.artifact = Some(self.begin()?);
        }
        if self.artifact.is_some() {
            self.inline.truncate(cut(&self.inline));
        }
        let artifact = self.artifact.map(Artifact::finish).transpose()?;
        let text = match String::from_utf8(self.inline) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        Ok(Ended {
            text,
            bytes: self.bytes,
            artifact,
        })
    }
}

/// Where to cut: before a character that is not complete.
fn cut(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}
