use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use http::StatusCode;
use http::request::Parts;
use tokio::sync::Semaphore;
use toolcell_executor::{Observer, SandboxDenial};
use toolcell_policy::network::{self, HostName, NotAllowed};
use toolcell_policy::{Network, NetworkLimits};
use toolcell_spec::{ErrorCode, MeteredUsage, NetworkUsage, Touch, TouchList};
use wasmtime_wasi_http::Error;

use crate::locked;
use crate::trap::CallDenial;

use super::target::RequestTarget;
use super::{NetworkResources, RequestSecrets, headers, machine};

pub(super) const DENIALS_RECORDED_MAX: u64 = 32;
/// In characters, for records.
const TARGET_CHARS_MAX: usize = 300;

/// Stands between one call and the network: permissions, usage and denials.
pub(crate) struct NetworkGate {
    network: Network,
    pub(super) credentials: Option<RequestSecrets>,
    limits: NetworkLimits,
    pub(super) uplink: Arc<NetworkResources>,
    pub(super) connections: Arc<Semaphore>,
    observer: Arc<dyn Observer>,
    requests: AtomicU64,
    pub(super) sent: AtomicU64,
    pub(super) received: AtomicU64,
    /// Set at the first limit that was exceeded, because only one is recorded.
    limited: AtomicBool,
    denials: AtomicU64,
    last: Mutex<Option<CallDenial>>,
    failed: Mutex<Option<String>>,
    /// Of the last response.
    status: AtomicU16,
    touched: Mutex<TouchList>,
}

impl NetworkGate {
    pub(crate) fn new(
        network: Network,
        credentials: Option<RequestSecrets>,
        limits: NetworkLimits,
        uplink: Arc<NetworkResources>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let connections = usize::try_from(limits.connections)
            .unwrap_or(1)
            .min(Semaphore::MAX_PERMITS);
        Self {
            network,
            credentials,
            limits,
            uplink,
            connections: Arc::new(Semaphore::new(connections)),
            observer,
            requests: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            limited: AtomicBool::new(false),
            denials: AtomicU64::new(0),
            last: Mutex::new(None),
            failed: Mutex::new(None),
            status: AtomicU16::new(0),
            touched: Mutex::default(),
        }
    }

    pub(super) fn limits(&self) -> &NetworkLimits {
        &self.limits
    }

    pub(crate) fn usage(&self) -> Option<NetworkUsage> {
        let metered = |meter: &AtomicU64, limit| MeteredUsage {
            used: meter.load(Ordering::Relaxed),
            limit,
        };
        let requests = metered(&self.requests, self.limits.requests);
        (requests.used > 0).then(|| NetworkUsage {
            requests,
            sent_bytes: metered(&self.sent, self.limits.sent_bytes),
            received_bytes: metered(&self.received, self.limits.received_bytes),
            connections_limit: u64::from(self.limits.connections),
        })
    }

    /// Counts what a call that the guest made consumed.
    pub(crate) fn charge(&self, below: &NetworkUsage) {
        self.requests
            .fetch_add(below.requests.used, Ordering::Relaxed);
        self.sent
            .fetch_add(below.sent_bytes.used, Ordering::Relaxed);
        self.received
            .fetch_add(below.received_bytes.used, Ordering::Relaxed);
    }

    pub(crate) fn touched(&self) -> TouchList {
        locked(&self.touched).clone()
    }

    pub(super) fn requested(&self, target: &RequestTarget) -> Option<usize> {
        let what = format!(
            "{} {}{}",
            target.method,
            target.origin,
            target.request().path
        );
        locked(&self.touched).note(Touch::Requested, what)
    }

    pub(super) fn answered(&self, place: Option<usize>, status: StatusCode) {
        self.status.store(status.as_u16(), Ordering::Relaxed);
        if let Some(place) = place {
            locked(&self.touched).answered(place, status.as_u16());
        }
    }

    /// `true` if a secret was removed from what the guest received.
    pub(crate) fn redacted(&self) -> bool {
        self.credentials.as_ref().is_some_and(RequestSecrets::found)
    }

    pub(crate) fn carries(&self, name: &str) -> bool {
        self.credentials
            .as_ref()
            .is_some_and(|credentials| credentials.hold(name))
    }

    pub(crate) fn denied(&self) -> Option<CallDenial> {
        locked(&self.last).clone()
    }

    /// The words of `wasi:http`; `None` if the last request was answered.
    pub(crate) fn failed(&self) -> Option<String> {
        locked(&self.failed).clone()
    }

    /// The status of the last response, if that says that the request failed.
    pub(crate) fn failed_status(&self) -> Option<u16> {
        Some(self.status.load(Ordering::Relaxed)).filter(|status| *status >= 400)
    }

    pub(super) fn ended(&self, failed: Option<&Error>) {
        *locked(&self.failed) = failed.map(|error| printable(&format!("{error:?}")));
    }

    /// Counts and decides before anything is looked up or sent.
    pub(super) fn admit(&self, parts: &Parts) -> Result<RequestTarget, Error> {
        if self.requests.fetch_add(1, Ordering::Relaxed) >= self.limits.requests
            && guard!("network_requests")
        {
            let what = format!("more than {} requests in one call", self.limits.requests);
            return Err(self.over(
                ErrorCode::NetworkRequestLimit,
                &what,
                Error::ConnectionLimitReached,
            ));
        }
        let target = RequestTarget::from_parts(parts).map_err(|rule| {
            let shown = format!("{} {}", parts.method, parts.uri);
            self.deny(
                &shown,
                "malformed",
                ErrorCode::NetworkRequestRefused,
                rule,
                "",
            );
            Error::HttpRequestDenied
        })?;
        if let Some(name) =
            headers::credential(&parts.headers).filter(|_| guard!("guest_credentials"))
        {
            let rule = format!("a tool sends no `{name}` header of its own");
            self.deny(
                &shown(&target),
                "credential",
                ErrorCode::NetworkRequestRefused,
                &rule,
                "",
            );
            return Err(Error::HttpRequestDenied);
        }
        self.network
            .check(&target.request())
            .map_err(|reason| self.not_allowed(&target, &reason, None))?;
        Ok(target)
    }

    /// All addresses must be allowed, or none is used.
    pub(super) fn vet(&self, target: &RequestTarget, addresses: &[IpAddr]) -> Result<(), Error> {
        let mut addresses = addresses.iter().filter(|_| guard!("vet_addresses"));
        addresses
            .try_for_each(|address| self.vet_address(target, *address, machine::is_here(*address)))
    }

    /// A connection with the same address at both ends led back to this machine, by an address or a route that was
    /// added meanwhile.
    pub(super) fn vet_route(
        &self,
        target: &RequestTarget,
        from: SocketAddr,
        to: SocketAddr,
    ) -> Result<(), Error> {
        if from.ip() == to.ip() && guard!("vet_addresses") {
            self.vet_address(target, to.ip(), true)
        } else {
            Ok(())
        }
    }

    fn vet_address(
        &self,
        target: &RequestTarget,
        address: IpAddr,
        here: bool,
    ) -> Result<(), Error> {
        // Checked before the grants, because no grant can allow it.
        if guard!("own_addresses")
            && machine::listens_at(SocketAddr::new(address, target.origin.port), here)
        {
            return Err(self.own(target));
        }
        let checked = self.network.check_address(&target.request(), address, here);
        checked.map_err(|reason| self.not_allowed(target, &reason, Some(address)))
    }

    fn own(&self, target: &RequestTarget) -> Error {
        self.deny(
            &shown(target),
            "own address",
            ErrorCode::NetworkDenied,
            "toolcell itself listens there",
            "",
        );
        Error::DestinationIpProhibited
    }

    fn not_allowed(
        &self,
        target: &RequestTarget,
        reason: &NotAllowed,
        address: Option<IpAddr>,
    ) -> Error {
        let host = address.map_or_else(|| target.origin.host.clone(), HostName::Address);
        let purpose = match &host {
            HostName::Address(address) => network::special(*address),
            HostName::Name(_) => None,
        };
        let class = match (reason.code, purpose) {
            (ErrorCode::SpecialAddress, _) => reason.rule.clone(),
            (_, Some(purpose)) => format!("{purpose} address"),
            (_, None) => "public".to_owned(),
        };
        let error = match (reason.code, address) {
            (ErrorCode::SpecialAddress | ErrorCode::DeniedByRule, Some(_)) => {
                Error::DestinationIpProhibited
            }
            _ => Error::HttpRequestDenied,
        };
        let origin = &target.origin;
        let hint = match (reason.code, address) {
            (ErrorCode::DeniedByRule, _) => String::new(),
            _ if host.is_metadata() => format!("; {}", network::METADATA_HINT),
            (ErrorCode::SpecialAddress, Some(_)) => {
                let named = network::Origin {
                    host,
                    ..origin.clone()
                };
                format!("; --allow-net={named} beside it would allow that")
            }
            _ => format!("; add --allow-net={origin} if the tool declares this host"),
        };
        self.deny(
            &shown(target),
            &class,
            ErrorCode::NetworkDenied,
            &reason.rule,
            &hint,
        );
        error
    }

    fn deny(&self, target: &str, class: &str, code: ErrorCode, rule: &str, hint: &str) {
        let target = printable(target);
        let message = format!("blocked request {target}: {rule}{hint}");
        self.record(class, target, rule, CallDenial { code, message });
    }

    /// The certificate was not accepted; `why` can have names of the certificate.
    pub(super) fn unproven(&self, target: &RequestTarget, why: &str) -> Error {
        let why = printable(why);
        let message = format!(
            "the certificate of {} is not accepted: {why}",
            target.origin
        );
        let denied = CallDenial {
            code: ErrorCode::CertificateNotAccepted,
            message,
        };
        self.record("certificate", printable(&shown(target)), &why, denied);
        Error::TlsCertificateError
    }

    /// Records a limit on all requests of the call, and returns `error`.
    pub(super) fn over(&self, code: ErrorCode, what: &str, error: Error) -> Error {
        if !self.limited.swap(true, Ordering::Relaxed) {
            let message = format!("the tool is over a limit of the network: {what}");
            self.record(
                "limit",
                what.to_owned(),
                code.as_str(),
                CallDenial { code, message },
            );
        }
        error
    }

    fn record(&self, target_class: &str, target: String, rule: &str, denied: CallDenial) {
        *locked(&self.last) = Some(denied);
        if self.denials.fetch_add(1, Ordering::Relaxed) < DENIALS_RECORDED_MAX {
            self.observer.denied(SandboxDenial {
                capability: "network",
                target,
                target_class: target_class.to_owned(),
                rule: rule.to_owned(),
            });
        }
    }
}

/// Method and origin only, because the path may hold confidential data.
pub(super) fn shown(target: &RequestTarget) -> String {
    format!("{} {}", target.method, target.origin)
}

pub(super) fn printable(text: &str) -> String {
    text.chars()
        .take(TARGET_CHARS_MAX)
        .map(|c| {
            if c.is_ascii_graphic() || c == ' ' {
                c
            } else {
                '_'
            }
        })
        .collect()
}
