//! Requests to a registry: within its patience, and with a rule for where a redirect may lead.

use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{Method, StatusCode};
use tokio_rustls::TlsConnector;
use toolcell_policy::network::{reached, special};
use toolcell_spec::Refusal;
use url::Url;

use crate::exchange::{self, ExchangeFailure, HttpCall, HttpReply, REDIRECTS_MAX};
use crate::tls;

use super::{DOCKER_HUB_HOST, DOCKER_HUB_TOKENS, refusal};

pub(super) struct RegistryClient {
    tls: TlsConnector,
    /// Time without progress.
    patience: Duration,
}

/// Its own addresses may be internal, because the user named it.
pub(super) struct RegistryHost(pub(super) Url);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NetworkZone {
    Public,
    Private,
    Loopback,
}

impl RegistryHost {
    /// Its host, as URLs have it.
    fn name(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// The registry may send its clients with their credentials to itself, a host below its own name, the parent
    /// domain, or one of `known`.
    pub(super) fn trusts(&self, url: &Url, known: &[String]) -> bool {
        let Some(host) = url.host_str() else {
            return false;
        };
        let port = url.port_or_known_default().unwrap_or_default();
        let authority = format!("{host}:{port}");
        let is_known = |known: &String| *known == authority || (*known == host && port == 443);
        let is_hub = self.name() == DOCKER_HUB_HOST && authority == DOCKER_HUB_TOKENS;
        if self.is(url) || is_hub || known.iter().any(is_known) {
            return true;
        }
        let is_name = matches!(url.host(), Some(url::Host::Domain(_)));
        let is_above = || {
            self.name()
                .split_once('.')
                .is_some_and(|(_, above)| above == host && above.contains('.'))
        };
        let is_below = || {
            host.strip_suffix(self.name())
                .is_some_and(|rest| rest.ends_with('.'))
        };
        url.scheme() == "https"
            && port == 443
            && is_name
            && (host == self.name() || is_above() || is_below())
    }

    /// `url` is on the registry itself.
    pub(super) fn is(&self, url: &Url) -> bool {
        url.origin() == self.0.origin()
    }
}

impl RegistryClient {
    /// Trusts Mozilla's root certificates, and those in the PEM files `roots`.
    pub(super) fn new(roots: &[PathBuf], patience: Duration) -> anyhow::Result<Self> {
        Ok(Self {
            tls: tls::client(roots)?,
            patience,
        })
    }

    /// Follows redirects where the rule of `home` allows.
    pub(super) async fn send(
        &self,
        mut call: HttpCall,
        home: &RegistryHost,
    ) -> Result<RegistryResponse, Refusal> {
        for _ in 0..=REDIRECTS_MAX {
            let answer = self.once(&call, home).await?;
            match redirect(&answer, &call, home)? {
                Some(next) => call = next,
                None => return Ok(answer),
            }
        }
        Err(refusal::redirected(
            home.name(),
            call.url.as_str(),
            "after too many other redirects",
        ))
    }

    async fn once(
        &self,
        call: &HttpCall,
        home: &RegistryHost,
    ) -> Result<RegistryResponse, Refusal> {
        let host = call.url.host_str().unwrap_or_default().to_owned();
        let addresses = self.addresses(&call.url, home).await?;
        let reply = exchange::send(&self.tls, call, &addresses, self.patience).await;
        let reply = reply.map_err(|failure| failed(&host, failure))?;
        Ok(RegistryResponse {
            host,
            is_home: home.is(&call.url),
            patience: self.patience,
            reply,
        })
    }

    /// Those of any host but the registry must be public, or in the zone of the registry's own.
    async fn addresses(&self, url: &Url, home: &RegistryHost) -> Result<Vec<SocketAddr>, Refusal> {
        let addresses = look_up(url).await?;
        if home.is(url) || !guard!("registry_redirects") {
            return Ok(addresses);
        }
        let refused = |why: &str| Err(refusal::redirected(home.name(), url.as_str(), why));
        let own = look_up(&home.0).await?;
        let own: Vec<Option<NetworkZone>> = own.iter().map(|address| zone(address.ip())).collect();
        let zones: Vec<Option<NetworkZone>> =
            addresses.iter().map(|address| zone(address.ip())).collect();
        if !zones.iter().all(|found| may_lead(&own, *found)) {
            return refused("which is an address inside of a private network or of this machine");
        }
        let on_this_machine = home.0.scheme() == "http"
            && zones
                .iter()
                .all(|zone| *zone == Some(NetworkZone::Loopback));
        if url.scheme() != "https" && !on_this_machine {
            return refused("without TLS");
        }
        Ok(addresses)
    }
}

/// `None` if nothing that a registry leads to can be there, such as a cloud's metadata.
fn zone(address: IpAddr) -> Option<NetworkZone> {
    match special(reached(address)) {
        None => Some(NetworkZone::Public),
        Some("private" | "shared" | "site-local") => Some(NetworkZone::Private),
        Some("loopback") => Some(NetworkZone::Loopback),
        Some(_) => None,
    }
}

/// The registry's owner chooses its addresses, so one internal address among public ones opens nothing.
fn may_lead(own: &[Option<NetworkZone>], to: Option<NetworkZone>) -> bool {
    to == Some(NetworkZone::Public)
        || (to.is_some() && !own.is_empty() && own.iter().all(|own| *own == to))
}

async fn look_up(url: &Url) -> Result<Vec<SocketAddr>, Refusal> {
    let found = exchange::look_up(url).await;
    found.map_err(|failure| failed(url.host_str().unwrap_or_default(), failure))
}

fn failed(host: &str, failure: ExchangeFailure) -> Refusal {
    match failure {
        ExchangeFailure::Unreachable(why) => refusal::unreachable(host, &why),
        ExchangeFailure::TooSlow(why) => refusal::too_slow(host, &why),
    }
}

/// `None` if `answer` is no redirect.
fn redirect(
    answer: &RegistryResponse,
    call: &HttpCall,
    home: &RegistryHost,
) -> Result<Option<HttpCall>, Refusal> {
    let reads = call.method == Method::GET || call.method == Method::HEAD;
    match answer.status() {
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => {}
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER if reads => {}
        _ => return Ok(None),
    }
    let Some(location) = answer.location() else {
        return Err(refusal::malformed(home.name(), "a redirect to nowhere"));
    };
    let refused = |why: &str| refusal::redirected(home.name(), location, why);
    let url = call
        .url
        .join(location)
        .map_err(|_| refused("which is not a URL"))?;
    if !matches!(url.scheme(), "https" | "http") || url.host().is_none() {
        return Err(refused("which is neither https nor http"));
    }
    let mut next = HttpCall {
        url,
        ..call.clone()
    };
    // Credentials are for the origin that they were sent to.
    let leaves = next.url.origin() != call.url.origin();
    if leaves && call.is_secret && guard!("identity_redirects") {
        return Err(refused(
            "which is another host than the one that the credentials are for",
        ));
    }
    if leaves && guard!("registry_credentials") {
        next.headers.remove(AUTHORIZATION);
    }
    Ok(Some(next))
}

pub(super) struct RegistryResponse {
    pub(super) host: String,
    /// `false` for a host that the registry redirected to.
    pub(super) is_home: bool,
    patience: Duration,
    reply: HttpReply,
}

impl Deref for RegistryResponse {
    type Target = HttpReply;

    fn deref(&self) -> &HttpReply {
        &self.reply
    }
}

impl RegistryResponse {
    pub(super) async fn bytes(self, bytes_max: u64) -> Result<Vec<u8>, Refusal> {
        let host = self.host.clone();
        let too_long = |bytes: u64| bytes > bytes_max;
        if self.length().is_some_and(too_long) {
            return Err(refusal::too_long(&host, bytes_max));
        }
        let mut read = Vec::new();
        let pouring = self.pour(|part| {
            if too_long((read.len() + part.len()) as u64) {
                return Err(refusal::too_long(&host, bytes_max));
            }
            read.extend_from_slice(part);
            Ok(())
        });
        pouring.await?;
        Ok(read)
    }

    /// Never fails.
    pub(super) async fn start(self, bytes_max: usize) -> Vec<u8> {
        let mut read = Vec::new();
        let stop = || refusal::too_long("", 0);
        let reading = self.pour(|part| {
            read.extend_from_slice(part);
            if read.len() >= bytes_max {
                Err(stop())
            } else {
                Ok(())
            }
        });
        let _ = reading.await;
        read.truncate(bytes_max);
        read
    }

    /// Fails if too few bytes arrive while the patience lasts.
    pub(super) async fn pour(
        self,
        take: impl FnMut(&[u8]) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let Self {
            host,
            patience,
            reply,
            ..
        } = self;
        reply
            .pour(patience, |failure| failed(&host, failure), take)
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_zones() {
        let of = |text: &str| zone(text.parse().unwrap());
        assert_eq!(of("1.1.1.1"), Some(NetworkZone::Public));
        assert_eq!(
            (of("10.0.0.1"), of("fd00::1")),
            (Some(NetworkZone::Private), Some(NetworkZone::Private))
        );
        for loopback in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(of(loopback), Some(NetworkZone::Loopback), "{loopback}");
        }
        assert_eq!(
            (of("169.254.169.254"), of("169.254.1.1"), of("224.0.0.1")),
            (None, None, None)
        );
    }

    #[test]
    fn a_registry_leads_to_public_addresses_and_to_the_one_zone_of_its_own() {
        let public = Some(NetworkZone::Public);
        let private = Some(NetworkZone::Private);
        let loopback = Some(NetworkZone::Loopback);
        assert!(
            may_lead(&[private], public)
                && may_lead(&[private, private], private)
                && may_lead(&[], public)
        );
        for own in [
            &[public, private][..],
            &[private, loopback],
            &[public],
            &[None],
            &[],
        ] {
            assert!(!may_lead(own, private), "{own:?}");
        }
        assert!(!may_lead(&[None], None));
    }

    #[test]
    fn a_registry_names_token_servers_of_its_own_domain() {
        let known = ["tokens.lan:5001".to_owned()];
        let trusts = |home: &str, realm: &str| {
            RegistryHost(Url::parse(home).unwrap()).trusts(&Url::parse(realm).unwrap(), &known)
        };
        for (home, realm, is) in [
            ("https://ghcr.io/", "https://ghcr.io/token", true),
            (
                "https://registry.gitlab.com/",
                "https://gitlab.com/jwt/auth",
                true,
            ),
            ("https://quay.io/", "https://auth.quay.io/t", true),
            ("https://registry.lan:5000/", "https://registry.lan/t", true),
            (
                "https://registry-1.docker.io/",
                "https://auth.docker.io/token",
                true,
            ),
            (
                "https://registry.lan:5000/",
                "https://tokens.lan:5001/t",
                true,
            ),
            ("https://registry.lan:5000/", "https://tokens.lan/t", false),
            ("https://ghcr.io/", "https://evil.test/token", false),
            ("https://ghcr.io/", "https://auth.docker.io/token", false),
            ("https://ghcr.io/", "https://notghcr.io/token", false),
            ("https://ghcr.io/", "https://io/token", false),
            (
                "https://registry.gitlab.com/",
                "https://other.gitlab.com/t",
                false,
            ),
            (
                "http://127.0.0.1:5000/",
                "http://127.0.0.1:5001/token",
                false,
            ),
            (
                "http://127.0.0.1:5000/",
                "http://127.0.0.1:5000/token",
                true,
            ),
            ("https://10.0.0.1/", "https://0.0.1/t", false),
        ] {
            assert_eq!(trusts(home, realm), is, "{home} {realm}");
        }
    }

    #[test]
    fn a_registry_is_its_scheme_host_and_port() {
        let home = RegistryHost(Url::parse("https://ghcr.io/v2/").unwrap());
        for (url, is) in [
            ("https://ghcr.io:443/x", true),
            ("https://ghcr.io/other", true),
            ("http://ghcr.io/x", false),
            ("https://ghcr.io:444/x", false),
            ("https://ghcr.io.example.org/x", false),
        ] {
            assert_eq!(home.is(&Url::parse(url).unwrap()), is, "{url}");
        }
    }
}
