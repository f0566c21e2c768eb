//! The notices to clients while a server reloads components (AT-DEF-15).

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

use toolcell_engine::find::RESULTS_MAX;
use toolcell_server::{Provider, Providers, Server};
use toolcell_spec::{ErrorClass, Refusal, UnavailableProvider};

use super::serving::{Components, NamedTool};

/// The server offers what it had before until the reload has ended.
pub(crate) struct Reload<'s> {
    server: &'s Server,
    changed: HashSet<&'s PathBuf>,
    known: HashSet<PathBuf>,
}

impl<'s> Reload<'s> {
    pub(crate) fn new(server: &'s Server, changed: &'s [PathBuf], components: &Components) -> Self {
        Self {
            server,
            changed: changed.iter().collect(),
            known: components.values().cloned().collect(),
        }
    }

    /// Names the components that are loaded now: the changed and the new ones.
    pub(crate) fn begins(&self, named: &[NamedTool], components: &[PathBuf]) {
        let is_loaded = |component: &PathBuf| {
            self.changed.contains(component) || !self.known.contains(component)
        };
        let loaded = named
            .iter()
            .zip(components)
            .filter(|(_, component)| is_loaded(component));
        let providers: BTreeSet<Provider> = loaded.map(|(tool, _)| tool.provider()).collect();
        let pending = providers.into_iter().take(RESULTS_MAX).collect();
        // What could not be loaded before stays named until this has ended.
        self.server.tell_providers(Providers {
            pending,
            ..self.server.providers()
        });
    }

    /// Stays pending while the host is only too busy to load the component.
    pub(crate) fn failed(&self, tool: Option<&NamedTool>, refusal: &Refusal) {
        if refusal.class == ErrorClass::RateLimited {
            return;
        }
        let unavailable = tool.map(|tool| UnavailableProvider::new(tool.provider().name, refusal));
        self.server.tell_providers(Providers {
            pending: Vec::new(),
            unavailable: unavailable.into_iter().collect(),
        });
    }

    pub(crate) fn ends(&self) {
        let providers = Providers {
            pending: Vec::new(),
            ..self.server.providers()
        };
        self.server.tell_providers(providers);
    }
}
