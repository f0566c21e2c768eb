use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::watch;

/// The tools that one caller has loaded, by their qualified names (AT-DEF-12): in a session, or, in a revision without
/// sessions, as one principal.
#[derive(Debug)]
pub(super) struct LoadedTools {
    /// The session or the principal, in the ids of its surfaces.
    owner: Arc<str>,
    names: watch::Sender<HashSet<String>>,
}

impl LoadedTools {
    pub(super) fn new(owner: Arc<str>) -> Self {
        let names = watch::Sender::default();
        Self { owner, names }
    }

    /// The id of the caller's own surface: `shared`, that of all callers, and the number of its loads.
    pub(super) fn surface_id(&self, shared: &Arc<str>) -> Arc<str> {
        match self.names.borrow().len() {
            0 => Arc::clone(shared),
            count => format!("{shared}/{}/{count}", self.owner).into(),
        }
    }

    /// The names of all loaded tools.
    pub(super) fn names(&self) -> HashSet<String> {
        self.names.borrow().clone()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.borrow().contains(name)
    }

    /// Adds a tool. Returns whether it was not loaded before. Tools that are no longer offered are forgotten, so that
    /// changes of the configuration cannot grow the set forever.
    pub(super) fn add(&self, name: &str, is_offered: impl Fn(&str) -> bool) -> bool {
        self.names.send_if_modified(|names| {
            names.retain(|known| is_offered(known));
            names.insert(name.to_owned())
        })
    }

    /// Notices each tool that is loaded from now on.
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
