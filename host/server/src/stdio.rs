//! MCP on standard input and output. Standard output carries protocol frames and nothing else.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

use super::frames::FrameTransport;
use super::session::{ClientIdentity, ClientSession};
use super::{InterruptFuture, ServeFuture, Server};

/// A client that pipes requests in closes standard input at once and wants the responses.
const LINGER: Duration = Duration::from_millis(100);
/// Time for a stopped server's calls to end, and for the client to read the rest.
const STOP: Duration = Duration::from_millis(600);

pub type ClientReader = Box<dyn AsyncRead + Send + Unpin>;
pub type ClientWriter = Box<dyn AsyncWrite + Send + Unpin>;

/// Ends when the client disconnects or `interrupted` completes. Fails if the standard streams cannot be opened, or the
/// client violates the protocol during initialization.
pub fn serve_stdio<'a>(
    server: &'a Arc<Server>,
    actor: Option<String>,
    interrupted: InterruptFuture,
) -> ServeFuture<'a> {
    Box::pin(async move {
        run(
            server,
            actor,
            (standard_input()?, standard_output()?),
            interrupted,
        )
        .await
    })
}

/// Ends when the client disconnects or `interrupted` completes. Fails if the client violates the protocol during
/// initialization.
pub fn serve_streams<'a>(
    server: &'a Arc<Server>,
    actor: Option<String>,
    streams: (ClientReader, ClientWriter),
    interrupted: InterruptFuture,
) -> ServeFuture<'a> {
    Box::pin(run(server, actor, streams, interrupted))
}

async fn run(
    server: &Arc<Server>,
    actor: Option<String>,
    (reader, writer): (ClientReader, ClientWriter),
    interrupted: InterruptFuture,
) -> anyhow::Result<()> {
    let closed = CancellationToken::new();
    let frames =
        FrameTransport::new(reader, writer, closed.clone()).until_loaded(server.load_end());
    let pending = frames.pending();
    let identity = Arc::new(ClientIdentity::of_streams(actor));
    let session = ClientSession::new(Arc::clone(server), identity);
    let ends = async {
        tokio::select! {
            () = interrupted => {}
            () = closed.cancelled() => {
                // A request that was read may not have become a call yet; a call may outlast its request.
                let answered = async {
                    pending.empty().await;
                    server.idle().await;
                };
                let _ = tokio::time::timeout(LINGER, answered).await;
            }
            () = server.load_failed() => {
                let _ = tokio::time::timeout(LINGER, pending.empty()).await;
            }
        }
        server.stop();
    };
    let serving = async {
        match session.serve(frames).await {
            Ok(running) => {
                let stop = server.stop.clone();
                let cancel = running.cancellation_token();
                // The service loop writes the responses of stopped calls, and then ends.
                tokio::spawn(async move {
                    stop.cancelled().await;
                    cancel.cancel();
                });
                running
                    .waiting()
                    .await
                    .map(|_| ())
                    .context("serve the client")
            }
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(error).context("greet the client"),
        }
    };
    let mut serving = std::pin::pin!(serving);
    let served = tokio::select! {
        served = &mut serving => { server.stop(); served }
        () = ends => tokio::time::timeout(STOP, &mut serving).await.unwrap_or(Ok(())),
    };
    let _ = tokio::time::timeout(STOP, server.idle()).await;
    served
}

/// Pipes and sockets need no reader thread, which would cost each call two context switches.
fn standard_input() -> anyhow::Result<ClientReader> {
    let stdin = std::io::stdin();
    let owned = || {
        stdin
            .as_fd()
            .try_clone_to_owned()
            .context("cannot open standard input")
    };
    if let Ok(pipe) = pipe::Receiver::from_file(File::from(owned()?)) {
        return Ok(Box::new(pipe));
    }
    if let Some(socket) = socket(owned()?) {
        return Ok(Box::new(socket));
    }
    Ok(Box::new(tokio::io::stdin()))
}

fn standard_output() -> anyhow::Result<ClientWriter> {
    let stdout = std::io::stdout();
    let owned = || {
        stdout
            .as_fd()
            .try_clone_to_owned()
            .context("cannot open standard output")
    };
    if let Ok(pipe) = pipe::Sender::from_file(File::from(owned()?)) {
        return Ok(Box::new(pipe));
    }
    if let Some(socket) = socket(owned()?) {
        return Ok(Box::new(socket));
    }
    Ok(Box::new(tokio::io::stdout()))
}

fn socket(fd: std::os::fd::OwnedFd) -> Option<tokio::net::UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(fd);
    socket.local_addr().ok()?;
    socket.set_nonblocking(true).ok()?;
    tokio::net::UnixStream::from_std(socket).ok()
}
