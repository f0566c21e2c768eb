//! MCP over streamable HTTP/1.1, and the plain HTTP API: a request is authorized before its body is read.

mod accept;
mod api;
mod connections;
mod ends;
mod framing;
mod gate;
mod limits;
mod listener;
mod metrics;
mod page_sessions;
mod pages;
mod principals;
mod problem;
mod process;
mod proxy;
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
use listener::ClientStream;
use principals::PrincipalCount;
use route::{ConnectionState, Routes, ServerStates};
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;
use toolcell_policy::network::Authority;
use toolcell_sandbox::ListenGuard;

use super::otc::WorkerSecret;
use super::{InterruptFuture, ServeFuture, Server};

pub use gate::OriginGate;
pub use limits::HttpLimits;
pub use listener::{HttpListener, Peer};
pub(crate) use problem::{Problem, told};
pub use proxy::{ProxySettings, PublicUrl};
pub use sign_in::{DocumentUrl, FetchFn, TokenIssuers};
pub use token::{Tokens, read_private};

/// Limits of one request: headers, and bytes of request line and headers together.
const HEADERS_MAX: usize = 64;
const HEAD_BYTES_MAX: usize = 32 << 10;
const CLOSE_TIME: Duration = Duration::from_secs(1);

pub struct HttpSettings {
    pub listener: HttpListener,
    /// Answers at `/metrics` instead, and to probes; whoever connects can read them, unless [`Tokens`] have one for metrics.
    pub metrics_listener: Option<TcpListener>,
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
    pub proxy: ProxySettings,
}

/// Serves until `interrupted`; after [`HttpLimits::drain_delay`], running calls have [`HttpLimits::drain_time`] before
/// they are canceled.
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
        metrics_listener,
        gate,
        tokens,
        limits,
        name,
        worker,
        new_tokens,
        proxy,
    } = settings;
    // Registered before the first request is accepted, because no tool may call its own server.
    let address = listener.address()?;
    let metrics_address = match &metrics_listener {
        Some(listener) => Some(listener.local_addr().context("cannot find the address")?),
        None => None,
    };
    let own = address.into_iter().chain(metrics_address);
    let _listening: Vec<ListenGuard> = own.map(ListenGuard::at).collect();
    let states = ServerStates::default();
    let ended = states.clone();
    let count = PrincipalCount::new(&tokens, &server.offering(), worker.is_some());
    let connections = Connections::new(&limits, count.all());
    let resource = match &proxy.public_url {
        Some(url) => url.to_string(),
        None => resource_base(name.as_deref(), address),
    };
    let host = name.or_else(|| address.map(|address| address.to_string()));
    let base = match &proxy.public_url {
        Some(url) => url.to_string(),
        None => format!("http://{}", host.as_deref().unwrap_or("localhost")),
    };
    let gate = gate.with_public(proxy.public_url.as_ref());
    let routes = Arc::new(Routes::new(
        server,
        (gate, proxy, metrics_listener.is_some()),
        (base, resource, worker),
        tokens,
        (&limits, Arc::clone(&connections)),
        states,
    ));
    let accepting = async {
        loop {
            let stream = match listener.accept().await {
                Ok(stream) => stream,
                // The client disconnected, or too many files are open: neither may end the server.
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let routes = Arc::clone(&routes);
            let limits = limits.clone();
            let drain = ended.drain.clone();
            // Waits for nothing: a client that is slow must not keep others from being accepted.
            tokio::spawn(serve(stream, connections.arrive(), routes, limits, drain));
        }
    };
    let ending = end(server, &limits, &ended, &connections, interrupted);
    let renewing = renew(server, &routes, new_tokens);
    let measuring = async {
        match metrics_listener {
            Some(listener) => metrics::serve(&listener, &routes, &limits).await,
            None => std::future::pending().await,
        }
    };
    // Until the end, because who comes while calls still run is told that the server ends.
    tokio::select! {
        () = accepting => {}
        () = renewing => {}
        () = measuring => {}
        () = ending => {}
    }
    Ok(())
}

/// What the URL of this server begins with in OAuth, which has plain HTTP on one machine alone.
fn resource_base(name: Option<&str>, address: Option<SocketAddr>) -> String {
    match name
        .filter(|name| Authority::parse(name).is_ok_and(|name| !gate::is_loopback(&name.host)))
    {
        Some(name) => format!("https://{name}"),
        None => match address {
            Some(address) => format!("http://{address}"),
            None => "http://localhost".to_owned(),
        },
    }
}

/// Resolves when nothing is left to do after `interrupted`.
async fn end(
    server: &Server,
    limits: &HttpLimits,
    states: &ServerStates,
    connections: &Connections,
    interrupted: InterruptFuture,
) {
    interrupted.await;
    states.unready.cancel();
    tokio::time::sleep(limits.drain_delay).await;
    states.drain.cancel();
    let _ = tokio::time::timeout(limits.drain_time, server.idle()).await;
    server.stop();
    let _ = tokio::time::timeout(CLOSE_TIME, server.idle()).await;
    states.close.cancel();
    let _ = tokio::time::timeout(CLOSE_TIME, connections.end()).await;
}

/// Never ends.
async fn renew(
    server: &Server,
    routes: &Routes,
    mut new_tokens: Option<UnboundedReceiver<Tokens>>,
) {
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
}

/// A client that has begun a request gets an answer before its connection is evicted.
async fn serve(
    stream: ClientStream,
    arrived: UnplacedConnection,
    routes: Arc<Routes>,
    limits: HttpLimits,
    drain: CancellationToken,
) {
    let speaks = async {
        let spoke = tokio::time::timeout(limits.first_byte_time, stream.speaks()).await;
        spoke.unwrap_or(false)
    };
    let spoke = tokio::select! {
        spoke = speaks => spoke,
        // On a busy machine, it may have spoken long ago.
        () = arrived.left() => speaks_now(&stream).await,
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
    stream: ClientStream,
    connection: Arc<ClientConnection>,
    routes: Arc<Routes>,
    limits: &HttpLimits,
    drain: CancellationToken,
) {
    stream.prepare(limits.stalled_time);
    let peer = stream.peer();
    let (stream, sound) = FramedStream::new(stream, limits.head_time);
    let client = Arc::new(ConnectionState::new(Arc::clone(&connection), sound, peer));
    let served = Arc::clone(&client);
    let service = service_fn(move |request| {
        let routes = Arc::clone(&routes);
        let open = Arc::clone(&client).opens();
        async move {
            let response = routes.answer(request, open.client()).await;
            // Until the response is sent, the connection is not idle.
            Ok::<_, std::convert::Infallible>(open.holds(response))
        }
    });
    let mut http = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.keep_alive)
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
                // A client that was idle for too long may have begun a request in this moment.
                ended = match &result {
                    Ok(()) => ended,
                    Err(error) => error.is_timeout(),
                };
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
                // Hyper does not count one that has asked for nothing yet as idle. Of others, the last answer goes out.
                if !served.has_asked() {
                    break;
                }
                std::pin::Pin::new(&mut http).graceful_shutdown();
            }
        }
    }
    // Drops what is in flight, which rests then.
    let stream = http.into_parts().io.into_inner();
    connection.is_over();
    let is_amid_head = stream.is_amid_head();
    let awaits_head = stream.awaits_head();
    let stream = stream.into_inner();
    // A client whose request was on its way learns that nothing became of it.
    if ended && (is_amid_head || awaits_head && speaks_now(&stream).await) {
        ends::turn_away(stream).await
    } else {
        ends::linger(stream).await
    }
}

async fn speaks_now(stream: &ClientStream) -> bool {
    let spoke = tokio::time::timeout(Duration::ZERO, stream.speaks()).await;
    spoke.unwrap_or(false)
}
