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
    /// A cookie belongs to all ports of a host, so its name has the port.
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
        Self {
            cookie: format!("toolcell-page-{port}"),
            path: format!("{}/", public.map_or("", PublicUrl::path)),
            is_secure: public.is_some_and(|url| url.origin().starts_with("https:")),
            sessions: Mutex::default(),
        }
    }

    /// The cookie of a new session; `None` if the system gives no random numbers.
    pub(super) fn begin(&self, token: &str, principal: &Arc<str>) -> Option<HeaderValue> {
        let value = secret().ok()?;
        let session = PageSession {
            token: token.into(),
            principal: Arc::clone(principal),
            changes: Arc::default(),
            begun: Instant::now(),
        };
        let mut sessions = self.sessions.lock();
        sessions.retain(|_, known| known.begun.elapsed() < LIFE);
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

    /// The session of a request.
    pub(super) fn find(&self, headers: &HeaderMap) -> Option<PageSession> {
        let sessions = self.sessions.lock();
        let mut found = cookies(headers, &self.cookie)
            .filter_map(|value| sessions.get(&blake3::hash(value.as_bytes())));
        found
            .find(|session| session.begun.elapsed() < LIFE)
            .cloned()
    }

    pub(super) fn end(&self, headers: &HeaderMap) {
        let mut sessions = self.sessions.lock();
        for value in cookies(headers, &self.cookie) {
            sessions.remove(&blake3::hash(value.as_bytes()));
        }
    }
}
