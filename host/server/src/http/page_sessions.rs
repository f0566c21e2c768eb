//! Browsers that are signed in to the page. Each request is checked by the token that was given, so that it ends with it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use toolcell_page::{LiveChanges, cookies, secret, session_cookie};

use super::PublicUrl;

const LIFE: Duration = Duration::from_secs(12 * 60 * 60);
/// Of one principal; a further one ends the oldest.
const SESSIONS_MAX: usize = 8;

pub(super) struct PageSessions {
    /// A cookie belongs to all ports of a host, so its name has the port. Its prefix keeps other hosts and plain HTTP from
    /// setting it, where a browser allows that.
    cookie: String,
    /// Where a browser sends the cookie, and whether over TLS alone.
    path: String,
    is_secure: bool,
    /// By the digest of the cookie, whose comparison takes the same time for each guess.
    sessions: Mutex<HashMap<blake3::Hash, PageSession>>,
}

#[derive(Clone)]
pub(super) struct PageSession {
    pub(super) token: Arc<str>,
    principal: Arc<str>,
    pub(super) changes: Arc<LiveChanges>,
    begun: Instant,
}

impl PageSessions {
    pub(super) fn new(port: u16, public: Option<&PublicUrl>) -> Self {
        let path = public.map(PublicUrl::path).filter(|path| !path.is_empty());
        let is_secure = public.is_some_and(|url| url.origin().starts_with("https:"));
        let prefix = match (is_secure, path) {
            (true, None) => "__Host-",
            (true, Some(_)) => "__Secure-",
            (false, _) => "",
        };
        Self {
            cookie: format!("{prefix}toolcell-page-{port}"),
            path: path.unwrap_or("/").to_owned(),
            is_secure,
            sessions: Mutex::default(),
        }
    }

    /// The cookie of a new session; `None` if the system gives no random numbers.
    pub(super) fn begin(&self, token: &str, principal: &Arc<str>) -> Option<HeaderValue> {
        let value = secret().ok()?;
        let mut sessions = self.sessions.lock();
        sessions.retain(|_, known| known.begun.elapsed() < LIFE);
        // All browsers of a principal hear the same.
        let mut all = sessions.values();
        let first = all.find(|known| known.principal == *principal);
        let session = PageSession {
            token: token.into(),
            principal: Arc::clone(principal),
            changes: first.map_or_else(Arc::default, |known| Arc::clone(&known.changes)),
            begun: Instant::now(),
        };
        let own = sessions
            .iter()
            .filter(|(_, known)| known.principal == *principal);
        let mut own: Vec<_> = own.map(|(digest, known)| (known.begun, *digest)).collect();
        own.sort_by_key(|(begun, _)| *begun);
        let extra = (own.len() + 1).saturating_sub(SESSIONS_MAX);
        for (_, digest) in own.iter().take(extra) {
            sessions.remove(digest);
        }
        sessions.insert(blake3::hash(value.as_bytes()), session);
        session_cookie(&self.cookie, &value, &self.path, self.is_secure)
    }

    /// The session of a request. A second cookie of the name is by somebody else.
    pub(super) fn find(&self, headers: &HeaderMap) -> Option<PageSession> {
        let mut values = cookies(headers, &self.cookie);
        let only = values.next().filter(|_| values.next().is_none())?;
        let sessions = self.sessions.lock();
        let found = sessions.get(&blake3::hash(only.as_bytes()));
        found
            .filter(|session| session.begun.elapsed() < LIFE)
            .cloned()
    }

    pub(super) fn end(&self, headers: &HeaderMap) {
        let mut sessions = self.sessions.lock();
        for value in cookies(headers, &self.cookie) {
            sessions.remove(&blake3::hash(value.as_bytes()));
        }
    }
}
