//! MCP over streamable HTTP/1.1, and the plain HTTP API: a request is authorized before its body is read.

mod accept;
mod api;
mod connections;
mod ends;
mod framing;
mod gate;
mod limits;
mod pages;
mod principals;
mod problem;
mod route;
mod sessions;
mod sign_in;
mod token;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use connections::{ClientConnection, Connections, UnplacedConnection};
use framing::FramedStream;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use route::{ConnectionState, Routes};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;
use toolcell_policy::network::Authority;
use toolcell_sandbox::ListenGuard;

use super::otc::WorkerSecret;
use super::{InterruptFuture, ServeFuture, Server};

pub use gate::OriginGate;
pub use limits::HttpLimits;
pub(crate) use problem::{Problem, told};
pub use sign_in::{DocumentUrl, FetchFn, TokenIssuers};
pub use token::{Tokens, read_private};

/// Limits of one request: headers, and bytes of request line and headers together.
const HEADERS_MAX: usize = 64;
const HEAD_BYTES_MAX: usize = 32 << 10;
const CLOSE_TIME: Duration = Duration::from_secs(1);

pub struct HttpSettings {
    pub listener: TcpListener,
    pub gate: OriginGate,
    pub tokens: Tokens,
    pub limits: HttpLimits,
    /// `HOST[:PORT]` of the server for clients; `None` for its address.
    pub name: Option<String>,
    /// An Arcade engine signs its tokens with it; `None` if the server is no worker.
    pub worker: Option<WorkerSecret>,
    /// A principal in old and new tokens keeps its sessions and its calls; the other sessions end. `None` if tokens
    /// never change.
    pub new_tokens: Option<UnboundedReceiver<Tokens>>,
}

/// Serves until `interrupted`; then running calls have [`HttpLimits::drain_time`] before they are canceled.
pub fn serve_http<'a>(
    server: &'a Arc<Server>,
    settings: HttpSettings,
    interrupted: InterruptFuture,
) -> ServeFuture<'a> {
    Box::pin(accept(server, settings, interrupted))
}

async fn accept(
    server: &Arc<Server>,
    settings: HttpSettings,
    interrupted: InterruptFuture,
) -> anyhow::Result<()> {
    let HttpSettings {
        listener,
        gate,
        tokens,
        limits,
        name,
        worker,
        new_tokens,
    } = settings;
    // Registered before the first request is accepted, because no tool may call its own server.
    let address = listener.local_addr().context("cannot find the address")?;
    let _listening = ListenGuard::at(address);
    let drain = CancellationToken::new();
    let close = CancellationToken::new();
    let principals = tokens.principals().len()
        + server.offering().principals.len()
        + tokens.approvers().len()
        + usize::from(worker.is_some());
    let connections = Connections::new(&limits, principals);
    let resource = resource_base(name.as_deref(), address);
    let base = format!("http://{}", name.unwrap_or_else(|| address.to_string()));
    let routes = Arc::new(Routes::new(
        server,
        gate,
        (base, resource, worker),
        tokens,
        &limits,
        (drain.clone(), close.clone()),
    ));
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
            let routes = Arc::clone(&routes);
            let limits = limits.clone();
            let drain = drain.clone();
            // Waits for nothing: a client that is slow must not keep others from being accepted.
            tokio::spawn(serve(stream, connections.arrive(), routes, limits, drain));
        }
    };
    let ending = async {
        interrupted.await;
        drain.cancel();
        let _ = tokio::time::timeout(limits.drain_time, server.idle()).await;
        server.stop();
        let _ = tokio::time::timeout(CLOSE_TIME, server.idle()).await;
        close.cancel();
        let _ = tokio::time::timeout(CLOSE_TIME, connections.end(&limits)).await;
    };
    let renewing = async {
        let mut new_tokens = new_tokens;
        let mut replaced = server.replaced.subscribe();
        loop {
            let tokens = async {
                match &mut new_tokens {
                    Some(new) => new.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(tokens) = tokens => routes.renew(Some(tokens)),
                Ok(()) = replaced.changed() => routes.renew(None),
                else => std::future::pending().await,
            }
        }
    };
    // Until the end, because who comes while calls still run is told that the server ends.
    tokio::select! {
        () = accepting => {}
        () = renewing => {}
        () = ending => {}
    }
    Ok(())
}

/// What the URL of this server begins with in OAuth, which has plain HTTP on one machine alone.
fn resource_base(name: Option<&str>, address: SocketAddr) -> String {
    match name
        .filter(|name| Authority::parse(name).is_ok_and(|name| !gate::is_loopback(&name.host)))
    {
        Some(name) => format!("https://{name}"),
        None => format!("http://{address}"),
    }
}

/// A client that has begun a request gets an answer before its connection is evicted.
async fn serve(
    stream: TcpStream,
    arrived: UnplacedConnection,
    routes: Arc<Routes>,
    limits: HttpLimits,
    drain: CancellationToken,
) {
    // `peek` leaves the byte to be read.
    let speaks = async {
        let spoke = tokio::time::timeout(limits.first_byte_time, stream.peek(&mut [0])).await;
        matches!(spoke, Ok(Ok(1)))
    };
    let spoke = tokio::select! {
        spoke = speaks => spoke,
        // On a busy machine, it may have spoken long ago.
        () = arrived.left() => {
            matches!(tokio::time::timeout(Duration::ZERO, stream.peek(&mut [0])).await, Ok(Ok(1)))
        }
    };
    if !spoke {
        return;
    }
    let connection = tokio::select! {
        connection = arrived.enter() => Arc::new(connection),
        () = arrived.left() => return ends::turn_away(stream).await,
    };
    drop(arrived);
    speak(stream, connection, routes, &limits, drain).await;
}

/// HTTP/1.1 only, which rules out the flooding attacks of HTTP/2.
async fn speak(
    stream: TcpStream,
    connection: Arc<ClientConnection>,
    routes: Arc<Routes>,
    limits: &HttpLimits,
    drain: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    // Drops clients that stop reading. On systems other than Linux, only the end of the response frees the connection.
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(limits.stalled_time));
    let peer = stream.peer_addr().map_or_else(
        |_| "an unknown address".to_owned(),
        |peer| peer.ip().to_string(),
    );
    let (stream, sound) = FramedStream::new(stream);
    let client = Arc::new(ConnectionState::new(Arc::clone(&connection), sound, peer));
    let served = Arc::clone(&client);
    let service = service_fn(move |request| {
        let routes = Arc::clone(&routes);
        let open = Arc::clone(&client).opens();
        async move { Ok::<_, std::convert::Infallible>(routes.answer(request, open.client()).await) }
    });
    let mut http = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    // A connection that begins while the server ends is there to be told so.
    let mut may_go_on = !drain.is_cancelled();
    let mut may_be_evicted = true;
    let mut ended = false;
    loop {
        tokio::select! {
            // First, so that a request that is here already counts.
            biased;
            // An error on a connection concerns its client only.
            result = &mut http => {
                ended = ended && result.is_ok();
                break;
            }
            () = drain.cancelled(), if may_go_on => {
                (may_go_on, ended) = (false, true);
                std::pin::Pin::new(&mut http).graceful_shutdown();
            }
            () = connection.left(), if may_be_evicted => {
                // A request is answered, and is the last one.
                may_be_evicted = false;
                ended = true;
                if !served.is_open() {
                    break;
                }
                std::pin::Pin::new(&mut http).graceful_shutdown();
            }
        }
    }
    connection.is_over();
    let stream = http.into_parts().io.into_inner();
    // A client whose request was on its way learns that nothing became of it.
    if ended && stream.is_amid_head() {
        ends::turn_away(stream.into_inner()).await
    } else {
        ends::linger(stream.into_inner()).await
    }
}
