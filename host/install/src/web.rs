//! URLs as a source of components. A URL says nothing of its bytes before they are fetched, and a server may answer
//! with anything: redirects, sizes and times are bounded.

use std::net::SocketAddr;

use http::header::{ACCEPT, HeaderValue};
use http::{Method, StatusCode};
use tokio_rustls::TlsConnector;
use toolcell_policy::network::{reached, special};
use toolcell_spec::{ErrorCode, Refusal};
use url::Url;

use crate::exchange::{self, ExchangeFailure, HttpCall, HttpReply, PATIENCE, REDIRECTS_MAX};
use crate::local::SIGNATURES;
use crate::reference::is_loopback;
use crate::source::{ComponentSink, REFERRER_BYTES_MAX, Referrer, too_large};

const ABSENT: [StatusCode; 2] = [StatusCode::NOT_FOUND, StatusCode::GONE];

pub struct WebSource {
    tls: TlsConnector,
}

impl WebSource {
    pub fn new(tls: TlsConnector) -> Self {
        Self { tls }
    }

    pub(crate) async fn fetch(
        &self,
        url: &Url,
        sink: &mut ComponentSink<'_>,
    ) -> Result<(), Refusal> {
        self.download(url, url, sink).await
    }

    /// `first` led to `url`, and may be on this machine.
    pub(crate) async fn download(
        &self,
        url: &Url,
        first: &Url,
        sink: &mut ComponentSink<'_>,
    ) -> Result<(), Refusal> {
        let Some(reply) = self.get(url, first, &ABSENT, None).await? else {
            let message = format!("there is nothing at {}: check the URL", shown(url));
            return Err(Refusal::new(ErrorCode::ReferenceNotFound, message));
        };
        pour(reply, url, sink).await
    }

    /// `None` if there is none. As with [`Self::download`], the second URL led to the first.
    pub async fn document(
        &self,
        from: (&Url, &Url),
        media_type: &'static str,
        bytes_max: u64,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        self.all(from, &ABSENT, Some(media_type), bytes_max).await
    }

    pub(crate) async fn signatures(&self, url: &Url) -> Result<Vec<Referrer>, Refusal> {
        let mut found = Vec::new();
        for (ending, media_type) in SIGNATURES {
            let mut beside = url.clone();
            beside.set_path(&format!("{}{ending}", url.path()));
            // A bucket that cannot be listed forbids what it does not have.
            let absent = [ABSENT.as_slice(), &[StatusCode::FORBIDDEN]].concat();
            let found_there = self.all((&beside, &beside), &absent, None, REFERRER_BYTES_MAX);
            if let Some(bytes) = found_there.await? {
                found.push(Referrer {
                    media_type: media_type.to_owned(),
                    found: beside.to_string(),
                    bytes,
                });
            }
        }
        Ok(found)
    }

    /// Follows redirects. `None` if the server answers with one of `absent`.
    async fn get(
        &self,
        url: &Url,
        first: &Url,
        absent: &[StatusCode],
        accept: Option<&'static str>,
    ) -> Result<Option<HttpReply>, Refusal> {
        if !leads_on(first, url) {
            let message = format!("{first} leads to {}, which is not https", shown(url));
            return Err(Refusal::new(ErrorCode::RedirectRefused, message));
        }
        let mut at = url.clone();
        for _ in 0..=REDIRECTS_MAX {
            let reply = self.request(&at, first, accept).await?;
            match reply.status() {
                status if status.is_success() => return Ok(Some(reply)),
                status if absent.contains(&status) => return Ok(None),
                status if status.is_redirection() => at = redirected(&at, &reply, first)?,
                status => {
                    let at = shown(&at);
                    let status = status.as_u16();
                    let message =
                        format!("{at} answers {status}: check the URL, or try again later");
                    return Err(Refusal::new(ErrorCode::SourceRefused, message));
                }
            }
        }
        let message =
            format!("{url} redirects more than {REDIRECTS_MAX} times: use the URL that it ends at");
        Err(Refusal::new(ErrorCode::TooManyRedirects, message))
    }

    async fn request(
        &self,
        at: &Url,
        first: &Url,
        accept: Option<&'static str>,
    ) -> Result<HttpReply, Refusal> {
        let addresses = exchange::look_up(at)
            .await
            .map_err(|failure| failed(at, failure))?;
        vet(at, first, &addresses)?;
        let mut call = HttpCall::new(Method::GET, at.clone());
        if let Some(media_type) = accept {
            call.headers
                .insert(ACCEPT, HeaderValue::from_static(media_type));
        }
        exchange::send(&self.tls, &call, &addresses, PATIENCE)
            .await
            .map_err(|failure| failed(at, failure))
    }

    /// `None` if there is no such file.
    async fn all(
        &self,
        (url, first): (&Url, &Url),
        absent: &[StatusCode],
        accept: Option<&'static str>,
        bytes_max: u64,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let Some(reply) = self.get(url, first, absent, accept).await? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        let mut sink = ComponentSink::new(&mut bytes, bytes_max);
        pour(reply, url, &mut sink).await?;
        Ok(Some(bytes))
    }
}

fn leads_on(first: &Url, to: &Url) -> bool {
    match to.scheme() {
        "https" => true,
        "http" => is_loopback(first) && is_loopback(to),
        _ => false,
    }
}

/// A redirect leads to https, or as the first URL to this machine.
fn redirected(at: &Url, reply: &HttpReply, first: &Url) -> Result<Url, Refusal> {
    let refused = |why: &str| {
        let message = format!(
            "{} redirects {why}: use the URL that it should end at, if you trust it",
            shown(at)
        );
        Refusal::new(ErrorCode::RedirectRefused, message)
    };
    let to = reply
        .location()
        .and_then(|location| at.join(location).ok())
        .ok_or_else(|| refused("to nowhere"))?;
    let is_allowed = leads_on(first, &to);
    if is_allowed || !guard!("redirect_schemes") {
        Ok(to)
    } else {
        Err(refused(&format!(
            "to `{}`, which is not https",
            to.scheme()
        )))
    }
}

/// The first URL is the user's own word; what a server redirects to, on another host, must be public.
fn vet(at: &Url, first: &Url, addresses: &[SocketAddr]) -> Result<(), Refusal> {
    let is_own = (at.host(), at.port_or_known_default())
        == (first.host(), first.port_or_known_default())
        || (is_loopback(first) && is_loopback(at));
    if is_own || !guard!("redirect_addresses") {
        return Ok(());
    }
    let Some(what) = addresses
        .iter()
        .find_map(|address| special(reached(address.ip())))
    else {
        return Ok(());
    };
    let name = at.host_str().unwrap_or_default();
    let message = format!(
        "{first} redirects to {name}, whose address is not public ({what}), so nothing was fetched; use another URL"
    );
    Err(Refusal::new(ErrorCode::RedirectRefused, message))
}

async fn pour(reply: HttpReply, url: &Url, sink: &mut ComponentSink<'_>) -> Result<(), Refusal> {
    if reply.length().is_some_and(|length| length > sink.room()) {
        return Err(too_large(sink.room()));
    }
    reply
        .pour(
            PATIENCE,
            |failure| failed(url, failure),
            |part| sink.write(part),
        )
        .await
}

/// A redirect's query can have a signature in it, which is a credential.
fn shown(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_query(None);
    shown.into()
}

fn failed(url: &Url, failure: ExchangeFailure) -> Refusal {
    let url = shown(url);
    match failure {
        ExchangeFailure::Unreachable(why) => {
            let message = format!("{url} cannot be reached: {why}; check the URL and the network");
            Refusal::new(ErrorCode::SourceUnreachable, message)
        }
        ExchangeFailure::TooSlow(why) => {
            let message = format!("{url} {why}; try again later");
            Refusal::new(ErrorCode::SourceTooSlow, message)
        }
    }
}
