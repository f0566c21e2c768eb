use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::watch;

/// Qualified names (AT-DEF-12): of a session, or, in a revision without sessions, of one principal.
#[derive(Debug)]
pub(super) struct LoadedTools {
    owner: Arc<str>,
    names: watch::Sender<HashSet<String>>,
}

impl LoadedTools {
    pub(super) fn new(owner: Arc<str>) -> Self {
        let names = watch::Sender::default();
        Self { owner, names }
    }

    /// `shared`, the id of all callers' surface, and the number of loads.
    pub(super) fn surface_id(&self, shared: &Arc<str>) -> Arc<str> {
        match self.names.borrow().len() {
            0 => Arc::clone(shared),
            count => format!("{shared}/{}/{count}", self.owner).into(),
        }
    }

    pub(super) fn names(&self) -> HashSet<String> {
        self.names.borrow().clone()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.borrow().contains(name)
    }

    /// Forgets tools that are no longer offered, so that changes of the configuration cannot grow the set forever.
    pub(super) fn add(&self, name: &str, is_offered: impl Fn(&str) -> bool) -> bool {
        self.names.send_if_modified(|names| {
            names.retain(|known| is_offered(known));
            names.insert(name.to_owned())
        })
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<HashSet<String>> {
        self.names.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::LoadedTools;

    #[test]
    fn a_tool_is_loaded_once_and_forgotten_when_it_is_gone() {
        let loads = LoadedTools::new("anna".into());
        let mut changes = loads.subscribe();
        assert!(loads.add("a.one", |_| true) && changes.has_changed().unwrap());
        changes.mark_unchanged();
        assert!(!loads.add("a.one", |_| true) && !changes.has_changed().unwrap());
        assert!(loads.add("a.two", |name| name != "a.one") && changes.has_changed().unwrap());
        assert!(loads.has("a.two") && !loads.has("a.one") && loads.names().len() == 1);
    }
}
