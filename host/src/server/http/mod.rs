//! MCP over streamable HTTP/1.1, as something that can be left on: who may speak is decided before anything is read.

mod gate;
mod limits;
mod route;
mod sessions;
mod token;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::Server;
use route::Routes;

pub use gate::Gate;
pub use limits::HttpLimits;
pub use token::Tokens;

/// Headers of one request, and bytes of all of them together with the request line.
const HEADERS_MAX: usize = 64;
const HEAD_BYTES_MAX: usize = 32 << 10;
/// How long connections may take to end after their calls were canceled.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// How a server is reached over HTTP.
pub struct HttpSettings {
    pub listener: TcpListener,
    /// The hosts and origins that requests may name.
    pub gate: Gate,
    /// Who may speak.
    pub tokens: Tokens,
    pub limits: HttpLimits,
}

/// Serves until `interrupted` comes to its end; then calls that run are given a while, and canceled after it.
pub async fn serve_http(
    server: &Arc<Server>,
    settings: HttpSettings,
    interrupted: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let HttpSettings { listener, gate, tokens, limits } = settings;
    let drain = CancellationToken::new();
    let close = CancellationToken::new();
    let routes = Arc::new(Routes::new(server, gate, tokens, &limits, drain.clone(), close.clone()));
    let connections = Arc::new(Semaphore::new(limits.connections as usize));
    let accepting = async {
        loop {
            let place = Arc::clone(&connections).acquire_owned().await.context("wait for a connection to end")?;
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                // A client that went away, or too many open files: neither may end the server.
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let (routes, limits, drain) = (Arc::clone(&routes), limits.clone(), drain.clone());
            tokio::spawn(async move {
                connection(stream, routes, &limits, drain).await;
                drop(place);
            });
        }
    };
    let ended: anyhow::Result<()> = tokio::select! {
        ended = accepting => ended,
        () = interrupted => Ok(()),
    };
    drop(listener);
    drain.cancel();
    let _ = tokio::time::timeout(limits.drain_time, server.idle()).await;
    server.stop();
    let _ = tokio::time::timeout(CLOSE_TIME, server.idle()).await;
    close.cancel();
    let _ = tokio::time::timeout(CLOSE_TIME, connections.acquire_many(limits.connections)).await;
    ended
}

/// HTTP/1.1 only: none of the floods of HTTP/2 can reach what is not there.
async fn connection(stream: TcpStream, routes: Arc<Routes>, limits: &HttpLimits, drain: CancellationToken) {
    let _ = stream.set_nodelay(true);
    // Who reads nothing must not hold a connection for ever. Elsewhere than on Linux only the answers' own end helps.
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(limits.stalled_time));
    let service = service_fn(move |request| {
        let routes = Arc::clone(&routes);
        async move { Ok::<_, std::convert::Infallible>(routes.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // How a connection ends is its client's business.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = drain.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
