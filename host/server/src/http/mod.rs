//! MCP over streamable HTTP/1.1, and the plain HTTP API, for a server that is left running: a request is authorized
//! before its body is read.

mod api;
mod connections;
mod framing;
mod gate;
mod limits;
mod problem;
mod route;
mod sessions;
mod token;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use connections::{Connection, Connections};
use framing::Framed;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use route::{Client, Routes};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use toolcell::Listening;

use super::otc::{Worker, WorkerSecret};
use super::{Interrupted, Server, Serving};

pub use gate::Gate;
pub use limits::HttpLimits;
pub use token::{Tokens, read_private};

/// Maximum number of headers of one request, and maximum size of its request line and headers together, in bytes.
const HEADERS_MAX: usize = 64;
const HEAD_BYTES_MAX: usize = 32 << 10;
/// How long canceled calls, and then their connections, may take to end.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// The settings of an HTTP server.
pub struct HttpSettings {
    pub listener: TcpListener,
    /// The hosts and origins that requests may name.
    pub gate: Gate,
    /// The tokens of the principals.
    pub tokens: Tokens,
    pub limits: HttpLimits,
    /// `HOST[:PORT]` that clients reach the server by; `None` for its address.
    pub name: Option<String>,
    /// The secret that an Arcade engine signs its tokens with; without one, the server is no worker.
    pub worker: Option<WorkerSecret>,
}

/// Serves until `interrupted` completes; then running calls may continue for [`HttpLimits::drain_time`] before they are
/// canceled.
pub fn serve_http<'a>(server: &'a Arc<Server>, settings: HttpSettings, interrupted: Interrupted) -> Serving<'a> {
    Box::pin(accept(server, settings, interrupted))
}

async fn accept(server: &Arc<Server>, settings: HttpSettings, interrupted: Interrupted) -> anyhow::Result<()> {
    let HttpSettings { listener, gate, tokens, limits, name, worker } = settings;
    // Registered before the first request is accepted, because no tool may call its own server.
    let address = listener.local_addr().context("cannot find the address")?;
    let _listening = Listening::at(address);
    let drain = CancellationToken::new();
    let close = CancellationToken::new();
    let principals = tokens.principals().len() + tokens.approvers().len() + usize::from(worker.is_some());
    let connections = Connections::new(&limits, principals);
    let base = format!("http://{}", name.unwrap_or_else(|| address.to_string()));
    let dialects = (base, worker.map(Worker::new));
    let routes = Arc::new(Routes::new(server, gate, dialects, tokens, &limits, (drain.clone(), close.clone())));
    let accepting = async {
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                // The client disconnected, or too many files are open: neither may end the server.
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let (routes, limits, drain) = (Arc::clone(&routes), limits.clone(), drain.clone());
            let place = connections.enter().await;
            tokio::spawn(serve(stream, place, routes, limits, drain));
        }
    };
    tokio::select! {
        () = accepting => {}
        () = interrupted => {}
    }
    drop(listener);
    drain.cancel();
    let _ = tokio::time::timeout(limits.drain_time, server.idle()).await;
    server.stop();
    let _ = tokio::time::timeout(CLOSE_TIME, server.idle()).await;
    close.cancel();
    let _ = tokio::time::timeout(CLOSE_TIME, connections.end(&limits)).await;
    Ok(())
}

/// Serves one connection until it ends, or until it is evicted before it has authenticated.
async fn serve(
    stream: TcpStream,
    connection: Connection,
    routes: Arc<Routes>,
    limits: HttpLimits,
    drain: CancellationToken,
) {
    let connection = Arc::new(connection);
    let http = async {
        // `peek` leaves the byte to be read.
        if let Ok(Ok(1)) = tokio::time::timeout(limits.first_byte_time, stream.peek(&mut [0])).await {
            connection.speaks();
            speak(stream, Arc::clone(&connection), routes, &limits, drain).await;
        }
    };
    tokio::select! {
        () = http => {}
        () = connection.left() => {}
    }
}

/// Speaks HTTP/1.1 only, which rules out the flooding attacks of HTTP/2.
async fn speak(
    stream: TcpStream,
    connection: Arc<Connection>,
    routes: Arc<Routes>,
    limits: &HttpLimits,
    drain: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    // Drops clients that stop reading. On systems other than Linux, only the end of the response frees the connection.
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(limits.stalled_time));
    let (stream, sound) = Framed::new(stream);
    let client = Arc::new(Client::new(connection, sound));
    let service = service_fn(move |request| {
        let (routes, client) = (Arc::clone(&routes), Arc::clone(&client));
        async move { Ok::<_, std::convert::Infallible>(routes.answer(request, &client).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // An error on a connection concerns its client only.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = drain.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
