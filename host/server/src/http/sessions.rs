use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{SessionId, SessionManager};
use tokio_util::sync::CancellationToken;

/// A session that waits for a long call or an approval is not idle.
pub(super) struct ClientSessions {
    manager: Arc<LocalSessionManager>,
    uses: Mutex<HashMap<SessionId, SessionUse>>,
}

struct SessionUse {
    open: usize,
    /// Ids of requests that are still being handled or answered; `true` if the client canceled the request.
    ids: HashMap<RequestId, bool>,
    since: Instant,
}

pub(super) struct InUse {
    sessions: Arc<ClientSessions>,
    id: SessionId,
}

/// Shared by response and handler, because a call may still be stopping after its client disconnected.
pub(super) struct RequestIdClaim {
    sessions: Arc<ClientSessions>,
    session: SessionId,
    id: RequestId,
}

impl ClientSessions {
    pub(super) fn new() -> Arc<Self> {
        let mut manager = LocalSessionManager::default();
        // rmcp's keep-alive counts a session that only waits as idle.
        manager.session_config.keep_alive = None;
        Arc::new(Self {
            manager: Arc::new(manager),
            uses: Mutex::default(),
        })
    }

    pub(super) fn manager(&self) -> Arc<LocalSessionManager> {
        Arc::clone(&self.manager)
    }

    pub(super) async fn count(&self) -> usize {
        self.manager.sessions.read().await.len()
    }

    /// `None` if there is no such session.
    pub(super) async fn begin(self: &Arc<Self>, id: &str) -> Option<InUse> {
        let sessions = self.manager.sessions.read().await;
        let (id, _) = sessions.get_key_value(id)?;
        self.uses
            .lock()
            .entry(Arc::clone(id))
            .or_insert_with(SessionUse::new)
            .open += 1;
        Some(InUse {
            sessions: Arc::clone(self),
            id: Arc::clone(id),
        })
    }

    /// `None` if a running request has the same id.
    pub(super) fn claim(self: &Arc<Self>, in_use: &InUse, id: RequestId) -> Option<RequestIdClaim> {
        let session = Arc::clone(&in_use.id);
        let is_free = {
            let mut uses = self.uses.lock();
            let ids = &mut uses.get_mut(&session)?.ids;
            let is_new = !ids.contains_key(&id);
            ids.entry(id.clone()).or_insert(false);
            is_new
        };
        is_free.then(|| RequestIdClaim {
            sessions: Arc::clone(self),
            session,
            id,
        })
    }

    /// `false` if there is no such request, or it was canceled before.
    pub(super) fn cancel(&self, in_use: &InUse, id: &RequestId) -> bool {
        let mut uses = self.uses.lock();
        let is_canceled = uses
            .get_mut(&in_use.id)
            .and_then(|used| used.ids.get_mut(id));
        is_canceled.is_some_and(|is_canceled| !std::mem::replace(is_canceled, true))
    }

    pub(super) async fn end_idle(self: Arc<Self>, idle: Duration, close: CancellationToken) {
        let mut next = idle;
        while close
            .run_until_cancelled(tokio::time::sleep(next))
            .await
            .is_some()
        {
            let (ended, left) = self.expired(idle).await;
            for id in ended {
                // Fails if the session has ended in the meantime.
                let _ = self.manager.close_session(&id).await;
            }
            next = left;
        }
    }

    async fn expired(&self, idle: Duration) -> (Vec<SessionId>, Duration) {
        let sessions = self.manager.sessions.read().await;
        let mut uses = self.uses.lock();
        uses.retain(|id, _| sessions.contains_key(id));
        let mut ended = Vec::new();
        let mut next = idle;
        for id in sessions.keys() {
            // A session without a use was made for a client that disconnected before it received the session id.
            let used = uses.entry(Arc::clone(id)).or_insert_with(SessionUse::new);
            match idle.checked_sub(used.since.elapsed()) {
                _ if used.open > 0 => {}
                Some(left) if !left.is_zero() => next = next.min(left),
                _ => ended.push(Arc::clone(id)),
            }
        }
        (ended, next)
    }
}

impl SessionUse {
    fn new() -> Self {
        Self {
            open: 0,
            ids: HashMap::new(),
            since: Instant::now(),
        }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        if let Some(used) = self.sessions.uses.lock().get_mut(&self.id) {
            used.open = used.open.saturating_sub(1);
            used.since = Instant::now();
        }
    }
}

impl Drop for RequestIdClaim {
    fn drop(&mut self) {
        if let Some(used) = self.sessions.uses.lock().get_mut(&self.session) {
            used.ids.remove(&self.id);
        }
    }
}
