//! Requests to the API: each on a connection of its own, over the client that serves the operator (proxies, certificates).

use std::fmt;
use std::time::Duration;

use anyhow::{Context, bail};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use toolcell_install::exchange::{self, ExchangeFailure, HttpCall, HttpReply};
use url::{Host, Url};
use zeroize::Zeroizing;

use super::sse::{SseEvent, SseReader};
use super::wire::{
    BETA, Event, EventPage, Heartbeat, PAGE_EVENTS, POLL_BLOCK_MS, Session, VERSION, WorkItem,
};

/// Until the head of an answer, and between its parts.
const PATIENCE: Duration = Duration::from_secs(30);
/// A stream of events that is silent for longer is opened again.
const SILENCE: Duration = Duration::from_secs(120);
/// Of an answer, in bytes: a page of events can have results of a megabyte each.
const ANSWER_BYTES_MAX: usize = 256 << 20;
const ERROR_BYTES_MAX: usize = 64 << 10;
const ERROR_CHARS_MAX: usize = 300;
/// Of one history; an endless list would never be answered.
const PAGES_MAX: usize = 1000;
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// A bearer token. It is shown nowhere.
#[derive(Clone)]
pub(super) struct Credential(Zeroizing<String>);

impl Credential {
    pub(super) fn new(text: &str) -> anyhow::Result<Self> {
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            bail!("the environment key is empty, or has spaces or line breaks: give the key alone");
        }
        Ok(Self(Zeroizing::new(text.to_owned())))
    }

    fn header(&self) -> Option<HeaderValue> {
        let text = Zeroizing::new(format!("Bearer {}", &*self.0));
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

#[derive(Debug)]
pub(super) enum ApiError {
    Refused {
        status: u16,
        message: String,
        retry_after: Option<Duration>,
    },
    /// The request may have arrived.
    Network(String),
}

impl ApiError {
    /// Sending the same again does not help.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if (300..500).contains(status) && ![408, 409, 429].contains(status))
    }

    pub(super) fn is_status(&self, wanted: u16) -> bool {
        matches!(self, Self::Refused { status, .. } if *status == wanted)
    }

    /// The server did nothing for this request.
    pub(super) fn did_nothing(&self) -> bool {
        self.is_status(429)
    }

    /// Time to wait before the attempt after `attempt`, counted from 0: longer each time, never the same for two workers.
    pub(super) fn pause(&self, attempt: u32, longest: Duration) -> Duration {
        let doubled = Duration::from_millis(500).saturating_mul(1 << attempt.min(16));
        let asked = match self {
            Self::Refused { retry_after, .. } => retry_after.unwrap_or_default(),
            Self::Network(_) => Duration::ZERO,
        };
        let least = doubled.min(longest).max(asked.min(RETRY_AFTER_MAX));
        least + least.mul_f64(fastrand::f64() / 2.0)
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused {
                status, message, ..
            } => write!(f, "the API answers {status}: {message}"),
            Self::Network(why) => write!(f, "the API cannot be reached: {why}"),
        }
    }
}

impl From<ExchangeFailure> for ApiError {
    fn from(failure: ExchangeFailure) -> Self {
        match failure {
            ExchangeFailure::Unreachable(why) => Self::Network(why),
            ExchangeFailure::TooSlow(why) => Self::Network(format!("it {why}")),
        }
    }
}

fn late() -> ApiError {
    ApiError::Network(format!("it sent nothing for {} s", PATIENCE.as_secs()))
}

fn unreadable(why: &dyn fmt::Display) -> ApiError {
    ApiError::Network(format!("its answer cannot be read: {why}"))
}

/// `https`, or `http` on this machine.
pub(super) fn base_url(text: &str) -> anyhow::Result<Url> {
    let url: Url = text
        .parse()
        .with_context(|| format!("{text:?} is not a URL"))?;
    let is_here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_here => Ok(url),
        _ => bail!(
            "{text:?} would send the environment key unencrypted: use https (http only on this machine)"
        ),
    }
}

/// The API of one environment.
pub(super) struct Api {
    tls: TlsConnector,
    base: Url,
    environment: String,
    worker: HeaderValue,
}

struct Request<'a> {
    method: Method,
    path: &'a [&'a str],
    query: Vec<(&'static str, String)>,
    body: Option<Value>,
    accept: &'static str,
}

impl<'a> Request<'a> {
    fn new(method: Method, path: &'a [&'a str]) -> Self {
        Self {
            method,
            path,
            query: Vec::new(),
            body: None,
            accept: "application/json",
        }
    }

    fn query(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.query.push((name, value.to_string()));
        self
    }

    fn body(self, body: Value) -> Self {
        Self {
            body: Some(body),
            ..self
        }
    }
}

impl Api {
    pub(super) fn new(
        tls: TlsConnector,
        base: Url,
        environment: &str,
        worker: &str,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            tls,
            base,
            environment: environment.to_owned(),
            worker: HeaderValue::from_str(worker)?,
        })
    }

    /// `None` if there is no work at the moment.
    pub(super) async fn poll(&self, key: &Credential) -> Result<Option<WorkItem>, ApiError> {
        let path = ["environments", &self.environment, "work", "poll"];
        let request = Request::new(Method::GET, &path).query("block_ms", POLL_BLOCK_MS);
        self.json(key, request).await
    }

    pub(super) async fn ack(&self, key: &Credential, work: &str) -> Result<(), ApiError> {
        let acknowledged = self.work::<Value>(key, work, "ack", Vec::new(), None);
        acknowledged.await.map(drop)
    }

    /// `last`: the answer of the heartbeat before; with it, another worker's heartbeat is seen.
    pub(super) async fn heartbeat(
        &self,
        key: &Credential,
        work: &str,
        last: &str,
    ) -> Result<Heartbeat, ApiError> {
        let query = vec![("expected_last_heartbeat", last.to_owned())];
        self.work(key, work, "heartbeat", query, None).await
    }

    pub(super) async fn stop(&self, key: &Credential, work: &str) -> Result<(), ApiError> {
        let body = json!({ "force": true });
        let stopped = self.work::<Value>(key, work, "stop", Vec::new(), Some(body));
        match stopped.await {
            // It has stopped already.
            Err(error) if error.is_status(409) => Ok(()),
            stopped => stopped.map(drop),
        }
    }

    async fn work<T: DeserializeOwned>(
        &self,
        key: &Credential,
        work: &str,
        verb: &str,
        query: Vec<(&'static str, String)>,
        body: Option<Value>,
    ) -> Result<T, ApiError> {
        let path = ["environments", &self.environment, "work", work, verb];
        let request = Request {
            query,
            body,
            ..Request::new(Method::POST, &path)
        };
        self.json(key, request).await
    }

    pub(super) async fn session(
        &self,
        key: &Credential,
        session: &str,
    ) -> Result<Session, ApiError> {
        let path = ["sessions", session];
        self.json(key, Request::new(Method::GET, &path)).await
    }

    /// All events until now.
    pub(super) async fn history(
        &self,
        key: &Credential,
        session: &str,
    ) -> Result<Vec<Event>, ApiError> {
        let path = ["sessions", session, "events"];
        let mut events = Vec::new();
        let mut left = ANSWER_BYTES_MAX;
        let mut page: Option<String> = None;
        for _ in 0..PAGES_MAX {
            let mut request = Request::new(Method::GET, &path).query("limit", PAGE_EVENTS);
            request.query.extend(page.map(|page| ("page", page)));
            let reply = self.reply(key, request).await?;
            let bytes = read(reply, left).await?;
            left -= bytes.len();
            let read: EventPage =
                serde_json::from_slice(&bytes).map_err(|error| unreadable(&error))?;
            events.extend(read.data.into_iter().map(Event::read));
            page = read.next_page.filter(|next| !next.is_empty());
            if page.is_none() {
                return Ok(events);
            }
        }
        Err(unreadable(&"the list of events does not end"))
    }

    pub(super) async fn send(
        &self,
        key: &Credential,
        session: &str,
        events: Value,
    ) -> Result<(), ApiError> {
        let path = ["sessions", session, "events"];
        let request = Request::new(Method::POST, &path).body(events);
        self.json::<Value>(key, request).await.map(drop)
    }

    pub(super) async fn stream(
        &self,
        key: &Credential,
        session: &str,
    ) -> Result<EventStream, ApiError> {
        let path = ["sessions", session, "events", "stream"];
        let mut request = Request::new(Method::GET, &path);
        request.accept = "text/event-stream";
        let reply = self.reply(key, request).await?;
        Ok(EventStream {
            reply,
            reader: SseReader::default(),
            read: Vec::new().into_iter(),
        })
    }

    async fn json<T: DeserializeOwned>(
        &self,
        key: &Credential,
        request: Request<'_>,
    ) -> Result<T, ApiError> {
        let reply = self.reply(key, request).await?;
        let mut bytes = read(reply, ANSWER_BYTES_MAX).await?;
        if bytes.is_empty() {
            bytes = b"null".to_vec();
        }
        serde_json::from_slice(&bytes).map_err(|error| unreadable(&error))
    }

    /// Follows no redirect, because another host must not get the key.
    async fn reply(&self, key: &Credential, request: Request<'_>) -> Result<HttpReply, ApiError> {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("v1").extend(request.path);
        }
        if !request.query.is_empty() {
            url.query_pairs_mut().extend_pairs(request.query);
        }
        let mut call = HttpCall::new(request.method, url);
        call.headers = self.headers(key, request.accept);
        call.is_secret = true;
        if let Some(body) = request.body {
            call.body = body.to_string().into_bytes().into();
        }
        let addresses = exchange::look_up(&call.url).await?;
        let reply = exchange::send(&self.tls, &call, &addresses, PATIENCE).await?;
        if reply.status().is_success() {
            return Ok(reply);
        }
        Err(refused(reply, key).await)
    }

    fn headers(&self, key: &Credential, accept: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert("anthropic-version", HeaderValue::from_static(VERSION));
        headers.insert("anthropic-beta", HeaderValue::from_static(BETA));
        headers.insert("anthropic-worker-id", self.worker.clone());
        headers.extend(key.header().map(|bearer| (AUTHORIZATION, bearer)));
        headers
    }
}

async fn refused(reply: HttpReply, key: &Credential) -> ApiError {
    let status = reply.status().as_u16();
    let seconds = reply
        .header("retry-after")
        .and_then(|text| text.parse().ok());
    let body = read(reply, ERROR_BYTES_MAX).await.unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let message = body.pointer("/error/message").and_then(Value::as_str);
    let message = message.unwrap_or("without a reason");
    // An answer that repeats the key must not bring it into a log.
    let message = message.replace(&**key.0, "[hidden]");
    ApiError::Refused {
        status,
        message: message.chars().take(ERROR_CHARS_MAX).collect(),
        retry_after: seconds.map(Duration::from_secs),
    }
}

async fn read(mut reply: HttpReply, bytes_max: usize) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    while let Some(part) = timeout(PATIENCE, reply.chunk())
        .await
        .map_err(|_| late())??
    {
        bytes.extend_from_slice(&part);
        if bytes.len() > bytes_max {
            return Err(unreadable(&format!("it has more than {bytes_max} bytes")));
        }
    }
    Ok(bytes)
}

/// The events of a session from now on.
pub(super) struct EventStream {
    reply: HttpReply,
    reader: SseReader,
    read: std::vec::IntoIter<SseEvent>,
}

impl EventStream {
    /// `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Result<Option<Event>, ApiError> {
        loop {
            for event in self.read.by_ref() {
                match event.name.as_str() {
                    "ping" => {}
                    "error" => return Err(unreadable(&"the stream ended with an error")),
                    _ => {
                        let value = serde_json::from_slice(&event.data);
                        return Ok(Some(Event::read(value.unwrap_or_default())));
                    }
                }
            }
            // Nothing is lost if it was only a pause: the history is read again.
            let Ok(part) = timeout(SILENCE, self.reply.chunk()).await else {
                return Ok(None);
            };
            let Some(part) = part? else {
                return Ok(None);
            };
            let read = self.reader.read(&part);
            self.read = read.map_err(|error| unreadable(&error))?.into_iter();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ApiError, Credential, base_url};

    #[test]
    fn a_key_goes_over_https_or_stays_here() {
        for good in [
            "https://api.anthropic.com",
            "http://127.0.0.1:80/x",
            "http://[::1]:1",
            "http://localhost:9",
        ] {
            assert!(base_url(good).is_ok(), "{good}");
        }
        for bad in [
            "http://api.anthropic.com",
            "http://localhost.evil.example",
            "ftp://localhost",
            "here",
        ] {
            assert!(base_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_key_is_one_word_and_in_no_error() {
        assert!(Credential::new(" sk-env-1\n").is_ok());
        for bad in ["", " \n", "two words", "line\nbreak", "schlüssel"] {
            let error = Credential::new(bad).err().unwrap().to_string();
            assert!(bad.trim().is_empty() || !error.contains(bad), "{error}");
        }
    }

    #[test]
    fn pauses_grow_and_heed_the_server() {
        let lost = ApiError::Network(String::new());
        let longest = Duration::from_secs(60);
        let bounds = |attempt| {
            let pauses = (0..50).map(|_| lost.pause(attempt, longest));
            (pauses.clone().min().unwrap(), pauses.max().unwrap())
        };
        let (least, most) = bounds(0);
        assert!(least >= Duration::from_millis(500) && most <= Duration::from_millis(750));
        let (least, most) = bounds(40);
        assert!(least >= longest && most <= longest * 3 / 2);
        let asked = |seconds| ApiError::Refused {
            status: 429,
            message: String::new(),
            retry_after: Some(Duration::from_secs(seconds)),
        };
        assert!(asked(7).pause(0, longest) >= Duration::from_secs(7));
        assert!(asked(100_000).pause(0, longest) <= longest * 3 / 2);
        assert!(!asked(1).is_final() && asked(1).did_nothing());
        assert!(!lost.is_final());
    }
}
