//! Guards against HTTP request smuggling: hyper accepts a request that gives its body length in two ways, of which a
//! proxy in front may have used the other one. hyper removes one of the headers before the service sees them, so the
//! raw bytes are scanned.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::{HEAD_BYTES_MAX, HEADERS_MAX};

/// Hyper accepts no longer lines of a chunked body.
const LINE_BYTES_MAX: usize = 16 << 10;

/// Scans incoming bytes for the framing of requests. Fails to read a head that takes longer than its time, which hyper
/// would count from the end of the request before.
pub(super) struct FramedStream<S> {
    stream: S,
    requests: FramingScanner,
    head_time: Duration,
    /// `Some` while a head has arrived in part.
    deadline: Option<Pin<Box<Sleep>>>,
}

/// Number of requests so far that give their body length once, or not at all.
#[derive(Clone, Debug, Default)]
pub(super) struct SoundRequests(Arc<AtomicU64>);

impl SoundRequests {
    pub(super) fn is(&self, number: u64) -> bool {
        number < self.0.load(Ordering::Acquire) || !guard!("request_framing")
    }
}

impl<S> FramedStream<S> {
    pub(super) fn new(stream: S, head_time: Duration) -> (Self, SoundRequests) {
        let sound = SoundRequests::default();
        (
            Self {
                stream,
                requests: FramingScanner {
                    at: ScanPosition::Head,
                    kept: Vec::new(),
                    sound: sound.clone(),
                },
                head_time,
                deadline: None,
            },
            sound,
        )
    }

    pub(super) fn into_inner(self) -> S {
        self.stream
    }

    /// The head of a request has arrived in part.
    pub(super) fn is_amid_head(&self) -> bool {
        self.awaits_head() && !self.requests.kept.is_empty()
    }

    /// The next byte belongs to the head of a request.
    pub(super) fn awaits_head(&self) -> bool {
        self.requests.at == ScanPosition::Head
    }
}

struct FramingScanner {
    at: ScanPosition,
    /// An incomplete head, or line of a chunked body.
    kept: Vec<u8>,
    sound: SoundRequests,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ScanPosition {
    Head,
    Body(u64),
    Size,
    Chunk(u64),
    ChunkEnd,
    Trailer,
    /// The framing is ambiguous or invalid, so the bytes that follow cannot be interpreted.
    Lost,
}

impl FramingScanner {
    fn see(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.at != ScanPosition::Lost {
            bytes = match self.at {
                ScanPosition::Head => self.head(bytes),
                ScanPosition::Body(left) => {
                    self.skip(bytes, left, ScanPosition::Body, ScanPosition::Head)
                }
                ScanPosition::Chunk(left) => {
                    self.skip(bytes, left, ScanPosition::Chunk, ScanPosition::ChunkEnd)
                }
                ScanPosition::Size | ScanPosition::ChunkEnd | ScanPosition::Trailer => {
                    self.line(bytes)
                }
                ScanPosition::Lost => &[],
            };
        }
    }

    fn skip<'a>(
        &mut self,
        bytes: &'a [u8],
        left: u64,
        still: fn(u64) -> ScanPosition,
        then: ScanPosition,
    ) -> &'a [u8] {
        let skipped = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let left = left - skipped as u64;
        self.at = if left == 0 { then } else { still(left) };
        bytes.get(skipped..).unwrap_or_default()
    }

    fn head<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let before = self.kept.len();
        self.kept.extend_from_slice(bytes);
        // Only the end of a line can be the end of a head.
        if !bytes.contains(&b'\n') && self.kept.len() <= HEAD_BYTES_MAX {
            return &[];
        }
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        let (end, next) = match request.parse(&self.kept) {
            Ok(httparse::Status::Complete(end)) => (end, body(request.headers)),
            Ok(httparse::Status::Partial) if self.kept.len() <= HEAD_BYTES_MAX => return &[],
            _ => (self.kept.len(), ScanPosition::Lost),
        };
        self.kept = Vec::new();
        self.at = next;
        if next != ScanPosition::Lost {
            self.sound.0.fetch_add(1, Ordering::Release);
        }
        bytes.get(end.saturating_sub(before)..).unwrap_or_default()
    }

    fn line<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let end = bytes
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(bytes.len(), |at| at + 1);
        let (line, rest) = bytes.split_at_checked(end).unwrap_or((bytes, &[]));
        self.kept.extend_from_slice(line);
        if self.kept.len() > LINE_BYTES_MAX {
            self.at = ScanPosition::Lost;
        } else if let Some(line) = self.kept.strip_suffix(b"\n") {
            let line = line.trim_ascii();
            self.at = match self.at {
                ScanPosition::Size => chunk(line),
                ScanPosition::ChunkEnd if line.is_empty() => ScanPosition::Size,
                ScanPosition::Trailer if line.is_empty() => ScanPosition::Head,
                ScanPosition::Trailer => ScanPosition::Trailer,
                _ => ScanPosition::Lost,
            };
            self.kept.clear();
        }
        rest
    }
}

fn body(headers: &[httparse::Header<'_>]) -> ScanPosition {
    let named = |name: &'static str| {
        headers
            .iter()
            .filter(move |header| header.name.eq_ignore_ascii_case(name))
    };
    let mut lengths = named("content-length");
    let mut encodings = named("transfer-encoding");
    match (
        lengths.next(),
        lengths.next(),
        encodings.next(),
        encodings.next(),
    ) {
        (None, _, None, _) => ScanPosition::Head,
        (Some(length), None, None, _) => match number(length.value, 10) {
            Some(0) => ScanPosition::Head,
            Some(length) => ScanPosition::Body(length),
            None => ScanPosition::Lost,
        },
        (None, _, Some(encoding), None)
            if encoding.value.trim_ascii().eq_ignore_ascii_case(b"chunked") =>
        {
            ScanPosition::Size
        }
        _ => ScanPosition::Lost,
    }
}

fn chunk(line: &[u8]) -> ScanPosition {
    let size = line.split(|byte| *byte == b';').next().unwrap_or_default();
    match number(size.trim_ascii(), 16) {
        Some(0) => ScanPosition::Trailer,
        Some(size) => ScanPosition::Chunk(size),
        None => ScanPosition::Lost,
    }
}

fn number(digits: &[u8], radix: u32) -> Option<u64> {
    let digits = std::str::from_utf8(digits)
        .ok()
        .filter(|digits| !digits.starts_with('+'))?;
    u64::from_str_radix(digits, radix).ok()
}

impl<S: AsyncRead + Unpin> AsyncRead for FramedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, buf) {
            let bytes = buf.filled().get(before..).unwrap_or_default();
            self.requests.see(bytes);
            if !self.is_amid_head() {
                self.deadline = None;
            } else if self.deadline.is_none() {
                let deadline = Instant::now() + self.head_time;
                self.deadline = Some(Box::pin(sleep_until(deadline)));
            }
            return Poll::Ready(read);
        }
        match &mut self.deadline {
            Some(deadline) => deadline
                .as_mut()
                .poll(cx)
                .map(|()| Err(io::ErrorKind::TimedOut.into())),
            None => Poll::Pending,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FramedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Leaves the stream open, for what is said at its end (`ends.rs`).
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{FramedStream, ScanPosition, SoundRequests};

    fn read(text: &str, piece: usize) -> (u64, ScanPosition) {
        let (mut framed, sound): (_, SoundRequests) = FramedStream::new((), Duration::MAX);
        text.as_bytes()
            .chunks(piece)
            .for_each(|bytes| framed.requests.see(bytes));
        (
            sound.0.load(std::sync::atomic::Ordering::SeqCst),
            framed.requests.at,
        )
    }

    #[test]
    fn requests_are_followed_from_head_to_head() {
        let text = "GET / HTTP/1.1\r\nHost: a\r\n\r\n\
                    POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\n\r\n\r\nx\
                    POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n3;x=y\r\n\r\n\r\r\n0A\r\n0123456789\r\n0\r\nA: b\r\n\r\n\
                    POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n";
        for piece in [1, 7, 10_000] {
            assert_eq!(read(text, piece), (4, ScanPosition::Head), "{piece}");
        }
    }

    #[test]
    fn a_request_that_says_its_length_twice_is_none() {
        for headers in [
            "Transfer-Encoding: chunked, chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: chunked\r\nContent-Length: 5",
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            "Content-Length: 5\r\nContent-Length: 5",
            "Content-Length: +5",
            "Content-Length: 5, 5",
        ] {
            let text = format!(
                "GET / HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\n{headers}\r\n\r\nGET / HTTP/1.1\r\n\r\n"
            );
            assert_eq!(read(&text, 3), (1, ScanPosition::Lost), "{headers}");
        }
    }
}
