//! Outgoing HTTP of guests. The host of a request is looked up once, every address is vetted, and the connection goes
//! to a vetted one, with the certificate checked against the name. Toolcell writes the request line, `Host` and the
//! framing.
//!
//! HTTP/1.1 only, one connection for each request, no redirects, cookies or proxies. A request's futures belong to the
//! call, so that dropping the store closes its sockets.

mod barred;
mod body;
mod concurrent;
mod connect;
mod credentials;
mod exchange;
mod gate;
mod headers;
mod machine;
mod meter;
mod request_parts;
mod resolver;
mod target;
mod tls;
#[cfg(feature = "foreign-worlds")]
mod whole_request;

use std::path::PathBuf;
use std::sync::Arc;

use http::uri::Scheme;
use http::{HeaderName, Request, Response};
use toolcell_executor::Observer;
use toolcell_policy::NetworkLimits;
use wasmtime_wasi_http::{
    Error, ForbiddenHeaderFilter, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView,
    WasiHttpHooks, WasiHttpView,
};

use super::limiter::MemoryCharge;
use super::state::StoreState;

pub(super) use concurrent::{
    add_client_to_linker as link_0_3_client, add_types_to_linker as link_0_3_types,
};
pub(super) use credentials::RequestSecrets;
pub(super) use gate::NetworkGate;
pub use machine::ListenGuard;
pub(super) use request_parts::{
    add_handler_to_linker as link_handler, add_to_linker as link_types,
};
pub use resolver::{Resolver, SystemResolver};
#[cfg(feature = "foreign-worlds")]
pub(super) use target::escaped;
#[cfg(feature = "foreign-worlds")]
pub(super) use whole_request::{RequestFailure, WholeRequest, WholeResponse, listed};

use barred::BarredRequests;
use tls::TlsClient;

const BODY_CHUNK_BYTES: usize = 64 << 10;
const BODY_CHUNKS_WAITING: usize = 1;

/// How all calls of a sandbox reach the network.
///
/// ```
/// use std::sync::Arc;
///
/// use toolcell_sandbox::{NetworkSettings, SystemResolver};
///
/// let resolver = Arc::new(SystemResolver::asking(vec!["192.0.2.53:53".parse()?]));
/// let settings = NetworkSettings { resolver, extra_roots: Some("company-ca.pem".into()) };
/// assert!(NetworkSettings::default().extra_roots.is_none());
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct NetworkSettings {
    pub resolver: Arc<dyn Resolver>,
    /// PEM file, trusted in addition to the public roots.
    pub extra_roots: Option<PathBuf>,
}

impl Default for NetworkSettings {
    fn default() -> Self {
        Self {
            resolver: Arc::new(SystemResolver::default()),
            extra_roots: None,
        }
    }
}

pub(super) struct NetworkResources {
    resolver: Arc<dyn Resolver>,
    tls: TlsClient,
}

impl NetworkResources {
    pub(super) fn new(settings: NetworkSettings) -> anyhow::Result<Self> {
        Ok(Self {
            resolver: settings.resolver,
            tls: TlsClient::new(settings.extra_roots.as_deref())?,
        })
    }
}

pub(super) struct Egress {
    fields: WasiHttpCtx,
    header_bytes: usize,
    held: Option<MemoryCharge>,
    hooks: EgressHooks,
}

struct EgressHooks {
    /// `None` in the empty world, and for components that do not import HTTP.
    gate: Option<Arc<NetworkGate>>,
    /// Hears of requests without a gate.
    barred: Option<BarredRequests>,
}

type ExchangeResult = Result<(Response<WasiBody>, ConnectionFuture), Error>;
type ConnectionFuture = Box<dyn Future<Output = Result<(), Error>> + Send>;

impl Egress {
    pub(super) fn new(gate: Option<Arc<NetworkGate>>) -> Self {
        let known = gate.as_ref().map(|gate| gate.limits().header_bytes);
        let header_bytes = known.unwrap_or(NetworkLimits::default().header_bytes);
        let header_bytes = usize::try_from(header_bytes).unwrap_or(usize::MAX);
        let mut fields = WasiHttpCtx::new();
        fields.set_field_size_limit(header_bytes);
        Self {
            fields,
            header_bytes,
            held: None,
            hooks: EgressHooks { gate, barred: None },
        }
    }

    /// Sends nothing; `observer` hears what the guest tried to send.
    pub(super) fn barred(observer: Arc<dyn Observer>) -> Self {
        let mut egress = Self::new(None);
        egress.hooks.barred = Some(BarredRequests::new(observer));
        egress
    }

    /// Limit of the headers of one request or response.
    #[cfg(feature = "foreign-worlds")]
    pub(super) fn header_bytes(&self) -> usize {
        self.header_bytes
    }

    pub(super) fn gate(&self) -> Option<&NetworkGate> {
        self.hooks.gate.as_deref()
    }

    pub(super) fn shared_gate(&self) -> Option<Arc<NetworkGate>> {
        self.hooks.gate.clone()
    }
}

impl WasiHttpView for StoreState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView {
            hooks: &mut self.egress.hooks,
            table: &mut self.table,
            ctx: &mut self.egress.fields,
        }
    }
}

impl WasiHttpHooks for EgressHooks {
    fn is_forbidden_header(&mut self, name: &HeaderName) -> bool {
        headers::is_ours(name)
    }

    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        Arc::new(headers::is_ours)
    }

    fn is_supported_scheme(&mut self, _: &Scheme) -> bool {
        // The gate checks the scheme, and records a refusal.
        true
    }

    fn set_host_header(&mut self) -> bool {
        false
    }

    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = ExchangeResult> + Send> {
        match &self.gate {
            Some(gate) => Box::new(exchange::send(
                Arc::clone(gate),
                request,
                options.unwrap_or_default(),
            )),
            None => {
                if let Some(barred) = &mut self.barred {
                    barred.tell(request);
                }
                Box::new(std::future::ready(Err(Error::HttpRequestDenied)))
            }
        }
    }

    fn p2_outgoing_body_buffer_chunks(&mut self) -> usize {
        BODY_CHUNKS_WAITING
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        BODY_CHUNK_BYTES
    }
}
