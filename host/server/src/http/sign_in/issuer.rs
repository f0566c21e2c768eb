//! The keys of one issuer: fetched, kept, and fetched again when a token names an unknown one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Uri;
use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use toolcell_policy::TokenIssuer;
use toolcell_spec::read_unique_json;
use toolcell_system::BoxFuture;

use crate::log::{LogLevel, OperatorLog};

use super::keys::KeySet;
use super::token::AccessToken;

/// For metadata and keys together.
const FETCH_TIME: Duration = Duration::from_secs(10);
/// Tokens with unknown keys cause no more requests than one in this time.
const PAUSE: Duration = Duration::from_secs(5);
/// After that the keys are fetched again in the background: an issuer may have taken one back.
const FRESH: Duration = Duration::from_secs(300);
/// Requests that wait for new keys; more are refused, for a while.
const WAITERS_MAX: usize = 64;
const METADATA_VALUES_MAX: usize = 10_000;
/// Where metadata is, below the origin and before or after the path of the issuer (RFC 8414, OpenID Connect Discovery).
const METADATA: [(&str, bool); 3] = [
    ("/.well-known/oauth-authorization-server", true),
    ("/.well-known/openid-configuration", true),
    ("/.well-known/openid-configuration", false),
];

/// A document of an issuer.
#[derive(Clone, Debug)]
pub struct DocumentUrl {
    pub url: String,
    /// The URL of the settings that led to `url`. Only that may be at an address that is not public.
    pub first: String,
}

/// Fetches a document of bounded size; `None` if there is none.
pub type FetchFn =
    Arc<dyn Fn(DocumentUrl) -> BoxFuture<'static, Result<Option<Vec<u8>>, String>> + Send + Sync>;

pub(super) struct IssuerKeys {
    pub(super) settings: TokenIssuer,
    fetch: FetchFn,
    log: Option<Arc<OperatorLog>>,
    known: RwLock<KnownKeys>,
    /// Held by the one request that is under way.
    attempt: Arc<tokio::sync::Mutex<Attempt>>,
    /// Requests that wait for it.
    waiters: Semaphore,
}

#[derive(Clone, Default)]
struct KnownKeys {
    keys: Arc<KeySet>,
    /// `None` before the first keys.
    at: Option<Instant>,
}

#[derive(Default)]
struct Attempt {
    at: Option<Instant>,
    failed: Option<String>,
}

#[derive(Debug)]
pub(super) struct IssuerUnreachable(pub(super) String);

impl IssuerKeys {
    /// Fetches the keys in the background.
    pub(super) fn new(
        settings: TokenIssuer,
        fetch: FetchFn,
        log: Option<Arc<OperatorLog>>,
    ) -> Arc<Self> {
        let keys = Arc::new(Self::unknown(settings, fetch, log));
        keys.refresh();
        keys
    }

    fn unknown(settings: TokenIssuer, fetch: FetchFn, log: Option<Arc<OperatorLog>>) -> Self {
        Self {
            settings,
            fetch,
            log,
            known: RwLock::default(),
            attempt: Arc::default(),
            waiters: Semaphore::new(WAITERS_MAX),
        }
    }

    /// Fetches the keys once, and counts those that can verify a token.
    pub(super) async fn probe(settings: TokenIssuer, fetch: FetchFn) -> Result<usize, String> {
        let issuer = Self::unknown(settings, fetch, None);
        let keys = issuer.fetched_in_time().await?;
        Ok(keys.usable(&issuer.settings.algorithms))
    }

    /// Keys of which one may have signed the token; those known last if none may.
    pub(super) async fn keys_for(
        self: &Arc<Self>,
        token: &AccessToken<'_>,
    ) -> Result<Arc<KeySet>, IssuerUnreachable> {
        let known = self.current();
        if known.keys.suffice(token) {
            self.keep_fresh();
            return Ok(known.keys);
        }
        // Anybody can send a token with an unknown key.
        let Ok(_waiter) = self.waiters.try_acquire() else {
            let why = "too many tokens with unknown keys wait for it";
            return Err(IssuerUnreachable(why.to_owned()));
        };
        // The request of another token may just have brought the key.
        let attempt = Arc::clone(&self.attempt).lock_owned().await;
        let known = self.current();
        if known.keys.suffice(token) {
            return Ok(known.keys);
        }
        let failed = if attempt.is_recent() && guard!("token_key_pause") {
            attempt.failed.clone()
        } else {
            let keys = Arc::clone(self);
            // Goes on if the client leaves, so that no client causes more than one.
            let fetching = tokio::spawn(keys.attempt(attempt));
            fetching
                .await
                .unwrap_or_else(|error| Some(error.to_string()))
        };
        match failed {
            Some(why) => Err(IssuerUnreachable(why)),
            None => Ok(self.current().keys),
        }
    }

    /// A key that the issuer took back must not stay for the tokens that it has signed.
    pub(super) fn keep_fresh(self: &Arc<Self>) {
        if self.current().at.is_some_and(|at| at.elapsed() > FRESH) {
            self.refresh();
        }
    }

    /// Changes when keys are fetched.
    pub(super) fn keys(&self) -> Arc<KeySet> {
        self.current().keys
    }

    fn current(&self) -> KnownKeys {
        self.known.read().clone()
    }

    fn refresh(self: &Arc<Self>) {
        if let Ok(attempt) = Arc::clone(&self.attempt).try_lock_owned()
            && !attempt.is_recent()
        {
            tokio::spawn(Arc::clone(self).attempt(attempt));
        }
    }

    /// Returns why it failed. The keys known before stay.
    async fn attempt(
        self: Arc<Self>,
        mut attempt: tokio::sync::OwnedMutexGuard<Attempt>,
    ) -> Option<String> {
        attempt.at = Some(Instant::now());
        let failed = match self.fetched_in_time().await {
            Ok(keys) => {
                let (keys, at) = (Arc::new(keys), Some(Instant::now()));
                *self.known.write() = KnownKeys { keys, at };
                None
            }
            Err(why) => Some(why),
        };
        if failed.is_some() != attempt.failed.is_some() {
            self.tell(failed.as_deref());
        }
        attempt.at = Some(Instant::now());
        attempt.failed.clone_from(&failed);
        failed
    }

    async fn fetched_in_time(&self) -> Result<KeySet, String> {
        let fetched = tokio::time::timeout(FETCH_TIME, self.fetched()).await;
        let slow = |_| Err(format!("it does not answer in {} s", FETCH_TIME.as_secs()));
        fetched.unwrap_or_else(slow)
    }

    async fn fetched(&self) -> Result<KeySet, String> {
        let issuer = &self.settings.url;
        let (url, first) = match &self.settings.jwks {
            Some(jwks) => (jwks.clone(), jwks.clone()),
            None => (self.discovered().await?, issuer.clone()),
        };
        let document = (self.fetch)(DocumentUrl {
            url: url.clone(),
            first,
        });
        let document = document.await?;
        let document = document.ok_or_else(|| format!("there are no keys at {url}"))?;
        KeySet::parse(&document).map_err(|why| format!("{url} is no set of keys (JWKS): {why}"))
    }

    /// The URL of the keys, as the metadata of the issuer has it.
    async fn discovered(&self) -> Result<String, String> {
        let issuer = &self.settings.url;
        let mut failed = None;
        for (place, is_before) in METADATA {
            let url = metadata_url(issuer, place, is_before);
            let document = (self.fetch)(DocumentUrl {
                url: url.clone(),
                first: issuer.clone(),
            });
            match document.await {
                Ok(None) => {}
                Ok(Some(document)) => match keys_of(&document, issuer) {
                    Ok(keys) => return Ok(keys),
                    Err(why) => _ = failed.get_or_insert(format!("{url}: {why}")),
                },
                Err(why) => _ = failed.get_or_insert(why),
            }
        }
        let none = || "it has no metadata; set `jwks` to the URL of its keys".to_owned();
        Err(failed.unwrap_or_else(none))
    }

    fn tell(&self, failed: Option<&str>) {
        let Some(log) = &self.log else { return };
        let issuer = &self.settings.url;
        let (level, text) = match failed {
            Some(why) => {
                let text = format!("cannot fetch the keys of the issuer {issuer}: {why}");
                (LogLevel::Warning, text)
            }
            None => {
                let text = format!("the keys of the issuer {issuer} can be fetched again");
                (LogLevel::Info, text)
            }
        };
        let fields = json!({ "issuer": issuer, "why": failed });
        log.write(level, "issuer", &text, &fields);
    }
}

impl Attempt {
    fn is_recent(&self) -> bool {
        self.at.is_some_and(|at| at.elapsed() < PAUSE)
    }
}

fn metadata_url(issuer: &str, place: &str, is_before: bool) -> String {
    let issuer = issuer.trim_end_matches('/');
    let path = issuer.parse::<Uri>().ok();
    let path = path
        .as_ref()
        .map_or("", |uri| uri.path().trim_end_matches('/'));
    match issuer.strip_suffix(path) {
        Some(origin) if is_before => format!("{origin}{place}{path}"),
        _ => format!("{issuer}{place}"),
    }
}

fn keys_of(metadata: &[u8], issuer: &str) -> Result<String, String> {
    let text = str::from_utf8(metadata).map_err(|error| error.to_string())?;
    let metadata = read_unique_json(text, METADATA_VALUES_MAX)?;
    // Otherwise one tenant of a host would have the keys of another (RFC 8414, 3.3).
    if metadata.get("issuer").and_then(Value::as_str) != Some(issuer) && guard!("token_metadata") {
        return Err("the metadata is for another issuer".to_owned());
    }
    let keys = metadata.get("jwks_uri").and_then(Value::as_str);
    keys.map(str::to_owned)
        .ok_or_else(|| "the metadata names no keys (jwks_uri)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{METADATA, metadata_url};

    #[test]
    fn metadata_is_before_or_after_the_path_of_the_issuer() {
        let urls = |issuer| METADATA.map(|(place, before)| metadata_url(issuer, place, before));
        assert_eq!(
            urls("https://a.example/one/two"),
            [
                "https://a.example/.well-known/oauth-authorization-server/one/two",
                "https://a.example/.well-known/openid-configuration/one/two",
                "https://a.example/one/two/.well-known/openid-configuration",
            ]
        );
        for issuer in ["https://a.example:8443", "https://a.example:8443/"] {
            let host = "https://a.example:8443/.well-known";
            assert_eq!(
                urls(issuer)[..2],
                [
                    format!("{host}/oauth-authorization-server"),
                    format!("{host}/openid-configuration"),
                ]
            );
        }
    }
}
