//! What a guest prints and logs: captured, bounded, and kept away from the host's own streams.

use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use toolcell_core::record::Content;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

/// Maximum size of one write of a guest, in bytes.
const CHUNK: usize = 64 << 10;

#[derive(Clone, Debug)]
pub(super) struct Logs(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    /// Bytes that may still be kept.
    left: usize,
    /// Bytes that the guest wrote, kept or not.
    written: u64,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    log: String,
    truncated: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

impl Logs {
    pub(super) fn new(limit: u64) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            left: usize::try_from(limit).unwrap_or(usize::MAX),
            written: 0,
            stdout: Vec::new(),
            stderr: Vec::new(),
            log: String::new(),
            truncated: false,
        })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn print(&self, stream: Stream, bytes: &[u8]) {
        let mut inner = self.inner();
        let kept = inner.take(bytes.len());
        let bytes = bytes.get(..kept).unwrap_or_default();
        match stream {
            Stream::Stdout => inner.stdout.extend_from_slice(bytes),
            Stream::Stderr => inner.stderr.extend_from_slice(bytes),
        }
    }

    /// Adds one line of the `log` interface. Returns whether all of it was kept.
    pub(super) fn line(&self, level: &str, message: &str, fields: Option<&str>) -> bool {
        let mut inner = self.inner();
        let length = level.len() + message.len() + fields.map_or(0, |fields| fields.len() + 1) + 2;
        let start = inner.log.len();
        let kept = inner.take(length);
        // Writing to a String cannot fail.
        let _ = match fields {
            Some(fields) => writeln!(inner.log, "{level} {message} {fields}"),
            None => writeln!(inner.log, "{level} {message}"),
        };
        let end = inner.log.floor_char_boundary(start + kept);
        inner.log.truncate(end);
        kept == length
    }

    /// Bytes that the guest wrote.
    pub(super) fn written(&self) -> u64 {
        self.inner().written
    }

    /// Returns the last 500 bytes of stderr, the only place where a panic's message is.
    pub(super) fn stderr_tail(&self) -> String {
        let inner = self.inner();
        let start = inner.stderr.len().saturating_sub(500);
        String::from_utf8_lossy(inner.stderr.get(start..).unwrap_or_default()).trim().to_owned()
    }

    pub(super) fn into_content(self) -> Vec<Content> {
        let mut inner = self.inner();
        let mut content = Vec::new();
        let (stdout, stderr) = (std::mem::take(&mut inner.stdout), std::mem::take(&mut inner.stderr));
        let streams = [("stdout", lossy(stdout)), ("stderr", lossy(stderr)), ("log", std::mem::take(&mut inner.log))];
        for (stream, text) in streams {
            if !text.is_empty() {
                content.push(Content::log(stream, text));
            }
        }
        if inner.truncated {
            let note =
                format!("the guest wrote {} bytes to its log; what is over the limit was dropped", inner.written);
            content.push(Content::log("host", note));
        }
        content
    }
}

impl Inner {
    /// Counts `length` bytes, and returns how many of them may be kept.
    fn take(&mut self, length: usize) -> usize {
        self.written = self.written.saturating_add(length as u64);
        let kept = if guard!("log_limit") { length.min(self.left) } else { length };
        self.left = self.left.saturating_sub(kept);
        self.truncated |= kept < length;
        kept
    }
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// One of the guest's standard streams. Writes always succeed, so that a guest that prints too much stays alive.
#[derive(Clone, Debug)]
pub(super) struct Captured {
    pub(super) logs: Logs,
    pub(super) stream: Stream,
}

impl IsTerminal for Captured {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Captured {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        // Only WASI 0.3 asks for it, which this host does not link.
        Box::new(tokio::io::sink())
    }
}

impl OutputStream for Captured {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.logs.print(self.stream, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(CHUNK)
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Captured {
    async fn ready(&mut self) {}
}
