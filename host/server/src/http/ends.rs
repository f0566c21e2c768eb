//! The end of a connection: closing a socket while bytes are unread resets it, and the client loses its answer.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Semaphore;

/// Limits of a client that was answered and goes on sending.
const LINGER_TIME: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 16 << 20;
/// Time to accept the answer of a connection that has to go.
const ANSWER_TIME: Duration = Duration::from_millis(500);

/// The others are closed at once.
const LINGERING_MAX: usize = 256;

static LINGERING: Semaphore = Semaphore::const_new(LINGERING_MAX);

/// The client has begun a request and loses its place.
const NO_PLACE: &str =
    "too many connections wait here; send the request at once, or try again later";

/// Waits until the client has seen the end, and discards what it still sends.
pub(super) async fn linger(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let Ok(_place) = LINGERING.try_acquire() else {
        return;
    };
    let discard = async {
        let _ = stream.shutdown().await;
        let mut buffer = [0; 4 << 10];
        let mut left = LINGER_BYTES_MAX;
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            match left.checked_sub(read) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    let _ = tokio::time::timeout(LINGER_TIME, discard).await;
}

/// Tells a client that has begun a request that there is no place for it.
pub(super) async fn turn_away(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
         content-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\r\n{NO_PLACE}",
        NO_PLACE.len()
    );
    if let Ok(Ok(())) = tokio::time::timeout(ANSWER_TIME, stream.write_all(answer.as_bytes())).await
    {
        linger(stream).await;
    }
}
