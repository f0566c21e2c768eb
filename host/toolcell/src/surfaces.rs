//! Notices to the followers of a host's surfaces (AT-EV-02..05).

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, PoisonError};

use serde_json::{Value, json};
use toolcell_engine::catalog::Surface;
use toolcell_engine::pipeline::CancelOutcome;
use toolcell_engine::scheduler::CallerQuotas;
use toolcell_policy::Grants;
use toolcell_spec::{AbortReason, EventType, LoadingState, ToolEvent, ToolSearchResult};
use toolcell_system::pool::STORE;

use crate::{ComponentTools, Host};

/// A client may send an id of 16 MiB.
const NATIVE_ID_CHARS_MAX: usize = 128;

impl Host {
    /// `producer` of surfaces, and `source` of events: `toolcell/<version>`.
    pub fn producer(&self) -> &Arc<str> {
        &self.services.source
    }

    /// The present use of each caller that is counted.
    pub fn quotas(&self) -> Vec<CallerQuotas> {
        self.services().quotas.usage()
    }

    /// The present use of one caller; `None` if it is not counted.
    pub fn quotas_of(&self, caller: &str) -> Option<CallerQuotas> {
        self.services().quotas.usage_of(caller)
    }

    /// Writes down what callers have used of their quotas, before the process ends.
    pub fn close_quotas(&self) {
        self.services().quotas.close();
    }

    /// Secrets that `grants` give to tools, and that are not set. None, if the store cannot be read: then each call
    /// that needs one says so.
    pub async fn missing_secrets(&self, grants: &Grants) -> BTreeSet<String> {
        let granted: BTreeSet<String> = grants
            .secrets
            .iter()
            .map(|secret| secret.name.clone())
            .collect();
        self.unset_secrets(granted).await
    }

    /// Those of `names` that are not set. None, if the store cannot be read.
    pub async fn unset_secrets(&self, names: BTreeSet<String>) -> BTreeSet<String> {
        if names.is_empty() {
            return names;
        }
        let store = self.services.secrets.clone();
        let Ok(Ok(set)) = STORE.run(move || store.list()).await else {
            return BTreeSet::new();
        };
        names
            .into_iter()
            .filter(|name| set.iter().all(|entry| entry.name != *name))
            .collect()
    }

    /// Announces that `surface` was created, or updated from `before`. Returns the reason, such as `updated: policy,
    /// tools`; `None` if nothing differs.
    pub async fn announce_surface(
        &self,
        surface: &Surface,
        before: Option<&Surface>,
    ) -> Option<String> {
        self.log_declared(before).await;
        let Some(before) = before else {
            let reason = Surface::CREATED.to_owned();
            let data = json!({ "surface_id": surface.id(), "surface_reason": reason });
            self.announce(EventType::SurfaceCreated, None, data, None)
                .await;
            return Some(reason);
        };
        let reason = surface.update(before)?;
        let ids = |surface: &Surface| -> BTreeSet<String> {
            let offered = [
                LoadingState::Loaded,
                LoadingState::Deferred,
                LoadingState::Discoverable,
            ];
            let ids = offered.into_iter().flat_map(|state| surface.ids(state));
            ids.map(str::to_owned).collect()
        };
        let now = ids(surface);
        let then = ids(before);
        let data = json!({
            "surface_id": surface.id(),
            "before": before.id(),
            "surface_reason": reason,
            "added": now.difference(&then).collect::<Vec<_>>(),
            "removed": then.difference(&now).collect::<Vec<_>>(),
            "blocked": surface.ids(LoadingState::Unavailable),
        });
        self.announce(EventType::SurfaceUpdated, None, data, None)
            .await;
        Some(reason)
    }

    /// Logs the tools of a component that is new to this home (AT-EV-01), such as one that is installed.
    pub async fn log_loaded(&self, loaded: &ComponentTools) {
        let digest = loaded.component.digest();
        let declared = self.take_declared(|event| component_of(event) == Some(digest));
        // As in `announce`.
        let _ = self.services.calls.announced(declared, None).await;
    }

    /// All but those that the surface `before` has from the same component (AT-EV-01). A command that makes single
    /// calls writes only of components that are new to this home: the log would hold more about tools than about calls.
    async fn log_declared(&self, before: Option<&Surface>) {
        let mut declared = self.take_declared(|_| true);
        if let Some(before) = before {
            let known: HashSet<(&str, &str)> = before
                .tools()
                .map(|(tool, _)| (tool.declaration().tool_id.as_str(), &**tool.component()))
                .collect();
            let place = |event: &ToolEvent| {
                Some(known.contains(&(event.tool_id.as_deref()?, component_of(event)?)))
            };
            declared.retain(|event| place(event) != Some(true));
        }
        // As in `announce`.
        let _ = self.services.calls.announced(declared, None).await;
    }

    fn take_declared(&self, is_wanted: impl Fn(&ToolEvent) -> bool) -> Vec<ToolEvent> {
        let mut declared = self.declared.lock().unwrap_or_else(PoisonError::into_inner);
        declared.extract_if(.., |event| is_wanted(event)).collect()
    }

    /// Only if a search through the surface `surface_id` found deferred tools.
    pub async fn announce_discovered(
        &self,
        surface_id: &str,
        found: &ToolSearchResult,
        session: Option<String>,
    ) {
        let deferred = found
            .matches
            .iter()
            .filter(|tool| tool.loading_state == LoadingState::Deferred);
        let matches: Vec<Value> = deferred
            .map(|tool| json!({ "tool_id": tool.tool_id, "score": tool.score }))
            .collect();
        if !matches.is_empty() {
            let data =
                json!({ "surface_id": surface_id, "query": found.query, "matches": matches });
            self.announce(EventType::DeferredDiscovered, None, data, session)
                .await;
        }
    }

    /// The schema of a deferred tool was loaded into the surface `surface_id`.
    pub async fn announce_loaded(
        &self,
        surface_id: &str,
        tool_id: &str,
        selection_ref: &str,
        session: Option<String>,
    ) {
        let data = json!({ "surface_id": surface_id, "selection_ref": selection_ref });
        self.announce(EventType::DeferredLoaded, Some(tool_id), data, session)
            .await;
    }

    /// A client wanted to cancel a request of which there is no call: it was never sent, or it is answered (AT-CAN-01).
    /// `native_call_id` is the client's id of the request, of which 128 characters are kept.
    pub async fn announce_unknown_cancel(&self, native_call_id: &str, session: Option<String>) {
        let id: String = native_call_id.chars().take(NATIVE_ID_CHARS_MAX).collect();
        let reason = AbortReason::UserInterruption;
        let requested = json!({ "abort_reason": reason, "native_call_id": id });
        self.announce(EventType::CancelRequested, None, requested, session.clone())
            .await;
        let why = CancelOutcome::Unknown.reason();
        let failed = json!({ "abort_reason": reason, "native_call_id": id, "reason": why });
        self.announce(EventType::CancelFailed, None, failed, session)
            .await;
    }
}

fn component_of(declared: &ToolEvent) -> Option<&str> {
    declared.data.get("component").and_then(Value::as_str)
}
