//! A guest's output and logs: captured, limited, and separate from the host's own streams.

use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use toolcell_spec::Content;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

use super::locked;
use super::trap::ExceededLimit;

const CHUNK: usize = 64 << 10;

#[derive(Clone, Debug)]
pub(super) struct GuestLogs(Arc<Mutex<LogBuffer>>);

#[derive(Debug)]
struct LogBuffer {
    left: usize,
    /// Bytes written, kept or not.
    written: u64,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    log: String,
    truncated: bool,
    /// Bytes that a command may still print as output; `None` for other guests, whose streams are logs.
    output_left: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum StandardStream {
    Stdout,
    Stderr,
}

impl GuestLogs {
    /// `output`: bytes that a command may print besides.
    pub(super) fn new(limit: u64, output: Option<u64>) -> Self {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        Self(Arc::new(Mutex::new(LogBuffer {
            left: size(limit),
            written: 0,
            stdout: Vec::new(),
            stderr: Vec::new(),
            log: String::new(),
            truncated: false,
            output_left: output.map(size),
        })))
    }

    fn inner(&self) -> MutexGuard<'_, LogBuffer> {
        locked(&self.0)
    }

    /// Fails because a command's output would be wrong without the rest.
    fn print(&self, stream: StandardStream, bytes: &[u8]) -> Result<(), ExceededLimit> {
        let mut inner = self.inner();
        let kept = match inner.output_left {
            None => inner.take(bytes.len()),
            Some(left) if bytes.len() > left && guard!("command_output") => {
                return Err(ExceededLimit::Output);
            }
            Some(left) => {
                inner.output_left = Some(left.saturating_sub(bytes.len()));
                bytes.len()
            }
        };
        let bytes = bytes.get(..kept).unwrap_or_default();
        match stream {
            StandardStream::Stdout => inner.stdout.extend_from_slice(bytes),
            StandardStream::Stderr => inner.stderr.extend_from_slice(bytes),
        }
        Ok(())
    }

    pub(super) fn output(&self) -> (Vec<u8>, Vec<u8>) {
        let inner = self.inner();
        (inner.stdout.clone(), inner.stderr.clone())
    }

    pub(super) fn drop_output(&self) {
        let mut inner = self.inner();
        if inner.output_left.take().is_some() {
            inner.stdout = Vec::new();
            inner.stderr = Vec::new();
        }
    }

    /// The command was stopped, or its answer is too large; the limit of logs applies.
    pub(super) fn keep_output(&self) {
        let mut inner = self.inner();
        if inner.output_left.take().is_none() {
            return;
        }
        // Standard error first, because it is more likely to name the cause.
        let length = inner.stderr.len();
        let kept = inner.take(length);
        inner.stderr.truncate(kept);
        let length = inner.stdout.len();
        let kept = inner.take(length);
        inner.stdout.truncate(kept);
    }

    /// Returns `false` if the line was cut.
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

    pub(super) fn written(&self) -> u64 {
        self.inner().written
    }

    /// Its last 500 bytes: the only place where a panic's message is.
    pub(super) fn stderr_tail(&self) -> String {
        let inner = self.inner();
        let start = inner.stderr.len().saturating_sub(500);
        String::from_utf8_lossy(inner.stderr.get(start..).unwrap_or_default())
            .trim()
            .to_owned()
    }

    pub(super) fn into_content(self) -> Vec<Content> {
        let mut inner = self.inner();
        let mut content = Vec::new();
        let stdout = std::mem::take(&mut inner.stdout);
        let stderr = std::mem::take(&mut inner.stderr);
        let streams = [
            ("stdout", lossy(stdout)),
            ("stderr", lossy(stderr)),
            ("log", std::mem::take(&mut inner.log)),
        ];
        for (stream, text) in streams {
            if !text.is_empty() {
                content.push(Content::log(stream, text));
            }
        }
        if inner.truncated {
            let note = format!(
                "the guest wrote {} bytes to its log; what is over the limit was dropped",
                inner.written
            );
            content.push(Content::log("host", note));
        }
        content
    }
}

impl LogBuffer {
    fn take(&mut self, length: usize) -> usize {
        self.written = self.written.saturating_add(length as u64);
        let kept = if guard!("log_limit") {
            length.min(self.left)
        } else {
            length
        };
        self.left = self.left.saturating_sub(kept);
        self.truncated |= kept < length;
        kept
    }
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Writes to logs always succeed, so that a guest that prints too much stays alive.
#[derive(Clone, Debug)]
pub(super) struct CapturedStream {
    pub(super) logs: GuestLogs,
    pub(super) stream: StandardStream,
}

impl IsTerminal for CapturedStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for CapturedStream {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        // Only WASI 0.3 of wasmtime-wasi asks for it; this host's own uses the stream above.
        Box::new(tokio::io::sink())
    }
}

impl OutputStream for CapturedStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.logs
            .print(self.stream, &bytes)
            .map_err(|exceeded| StreamError::Trap(exceeded.into()))
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(CHUNK)
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for CapturedStream {
    async fn ready(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(logs: GuestLogs) -> Vec<(String, String)> {
        let text = |block: &Content, field: &str| block.fields[field].as_str().unwrap().to_owned();
        logs.into_content()
            .iter()
            .map(|block| (text(block, "stream"), text(block, "text")))
            .collect()
    }

    #[test]
    fn what_a_command_prints_is_no_log_and_has_a_limit_of_its_own() {
        let logs = GuestLogs::new(2, Some(6));
        logs.print(StandardStream::Stdout, b"out").unwrap();
        logs.print(StandardStream::Stderr, b"err").unwrap();
        assert!(matches!(
            logs.print(StandardStream::Stderr, b"!"),
            Err(ExceededLimit::Output)
        ));
        assert_eq!(logs.stderr_tail(), "err");
        assert_eq!(logs.output(), (b"out".to_vec(), b"err".to_vec()));
        logs.drop_output();
        assert_eq!(logs.written(), 0);
        assert!(texts(logs).is_empty());
    }

    #[test]
    fn what_a_command_printed_before_it_was_stopped_is_a_log() {
        let logs = GuestLogs::new(4, Some(100));
        logs.print(StandardStream::Stdout, b"out").unwrap();
        logs.print(StandardStream::Stderr, b"err").unwrap();
        logs.keep_output();
        assert_eq!(logs.written(), 6);
        let note =
            "the guest wrote 6 bytes to its log; what is over the limit was dropped".to_owned();
        let kept = [
            ("stdout", "o".to_owned()),
            ("stderr", "err".to_owned()),
            ("host", note),
        ];
        assert_eq!(
            texts(logs),
            kept.map(|(stream, text)| (stream.to_owned(), text))
        );
    }

    #[test]
    fn what_any_other_guest_prints_is_a_log() {
        let logs = GuestLogs::new(2, None);
        logs.print(StandardStream::Stdout, b"out").unwrap();
        logs.keep_output();
        logs.drop_output();
        assert_eq!(texts(logs)[0], ("stdout".to_owned(), "ou".to_owned()));
    }
}
