//! MCP on standard input and output. Standard output carries protocol frames and nothing else.

use std::collections::HashSet;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use rmcp::model::{ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, ServerInitializeError, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{RoleServer, ServiceExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

use super::Server;
use super::session::{Identity, Session};

/// How long calls may still run after standard input was closed: whoever pipes requests in closes it at once, and wants
/// the answers; whoever was killed wants nothing any more.
const LINGER: Duration = Duration::from_millis(100);
/// How long a stopped server waits for its calls to end, and for a client to take what is left.
const STOP: Duration = Duration::from_millis(600);

type Reader = Box<dyn AsyncRead + Send + Unpin>;
type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// Serves the client at standard input and output until it goes away, or `interrupted` comes to its end.
pub async fn serve_stdio(
    server: &Arc<Server>,
    actor: Option<String>,
    interrupted: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let closed = CancellationToken::new();
    let frames = Frames::new(AsyncRwTransport::new(standard_input()?, standard_output()?), closed.clone());
    let session = Session::new(
        Arc::clone(server),
        Identity { actor: actor.map(Into::into), owner: "stdio".into(), lasts: true, shelf: Arc::default() },
    );
    let ends = async {
        tokio::select! {
            () = interrupted => {}
            () = closed.cancelled() => { let _ = tokio::time::timeout(LINGER, server.idle()).await; }
        }
        server.stop();
    };
    let serving = async {
        match session.serve(frames).await {
            Ok(running) => {
                let stop = server.stop.clone();
                let cancel = running.cancellation_token();
                // The loop drains the answers of calls that were stopped, and then ends.
                tokio::spawn(async move {
                    stop.cancelled().await;
                    cancel.cancel();
                });
                running.waiting().await.map(|_| ()).context("serve the client")
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

/// A transport that tells when the client closed its end, and lets no id stand for two requests at once.
struct Frames {
    inner: AsyncRwTransport<RoleServer, Reader, Writer>,
    closed: CancellationToken,
    pending: Arc<Mutex<HashSet<RequestId>>>,
}

impl Frames {
    fn new(inner: AsyncRwTransport<RoleServer, Reader, Writer>, closed: CancellationToken) -> Self {
        Self { inner, closed, pending: Arc::default() }
    }

    /// Notes a request that came in. Whether its id is free.
    fn begins(&self, message: &RxJsonRpcMessage<RoleServer>) -> Result<(), RequestId> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        match message {
            JsonRpcMessage::Request(request) if !pending.insert(request.id.clone()) => Err(request.id.clone()),
            JsonRpcMessage::Notification(notification) => {
                // Nobody answers a request that was canceled.
                if let rmcp::model::ClientNotification::CancelledNotification(canceled) = &notification.notification
                    && let Some(id) = &canceled.params.request_id
                {
                    pending.remove(id);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn ends(&self, message: &TxJsonRpcMessage<RoleServer>) {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        if let Some(id) = id {
            self.pending.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        }
    }
}

impl Transport<RoleServer> for Frames {
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.ends(&item);
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let Some(message) = self.inner.receive().await else {
                self.closed.cancel();
                return None;
            };
            let Err(id) = self.begins(&message) else { return Some(message) };
            // Without an id: the answer to the first request keeps its own.
            let error = ErrorData::invalid_request(format!("the id {id} is that of a request that still runs"), None);
            if self.inner.send(JsonRpcMessage::error(error, None)).await.is_err() {
                self.closed.cancel();
                return None;
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

/// Pipes and sockets are read without a thread in between, which would cost each call two switches.
fn standard_input() -> anyhow::Result<Reader> {
    let stdin = std::io::stdin();
    let owned = || stdin.as_fd().try_clone_to_owned().context("open standard input");
    if let Ok(pipe) = pipe::Receiver::from_file(File::from(owned()?)) {
        return Ok(Box::new(pipe));
    }
    if let Some(socket) = socket(owned()?) {
        return Ok(Box::new(socket));
    }
    Ok(Box::new(tokio::io::stdin()))
}

fn standard_output() -> anyhow::Result<Writer> {
    let stdout = std::io::stdout();
    let owned = || stdout.as_fd().try_clone_to_owned().context("open standard output");
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
