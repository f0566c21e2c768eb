use std::collections::HashSet;

use tokio::sync::watch;

/// The tools that one caller has loaded, by their qualified names (AT-DEF-12): in a session, or, in a revision without
/// sessions, as one principal.
#[derive(Debug, Default)]
pub(super) struct LoadedTools(watch::Sender<HashSet<String>>);

impl LoadedTools {
    /// The names of all loaded tools.
    pub(super) fn names(&self) -> HashSet<String> {
        self.0.borrow().clone()
    }

    /// The number of loaded tools.
    pub(super) fn count(&self) -> usize {
        self.0.borrow().len()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.borrow().contains(name)
    }

    /// Adds a tool. Returns whether it was not loaded before. Tools that are no longer offered are forgotten, so that
    /// changes of the configuration cannot grow the set forever.
    pub(super) fn add(&self, name: &str, is_offered: impl Fn(&str) -> bool) -> bool {
        self.0.send_if_modified(|names| {
            names.retain(|known| is_offered(known));
            names.insert(name.to_owned())
        })
    }

    /// Notices each tool that is loaded from now on.
    pub(super) fn subscribe(&self) -> watch::Receiver<HashSet<String>> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::LoadedTools;

    #[test]
    fn a_tool_is_loaded_once_and_forgotten_when_it_is_gone() {
        let loads = LoadedTools::default();
        let mut changes = loads.subscribe();
        assert!(loads.add("a.one", |_| true) && changes.has_changed().unwrap());
        changes.mark_unchanged();
        assert!(!loads.add("a.one", |_| true) && !changes.has_changed().unwrap());
        assert!(loads.add("a.two", |name| name != "a.one") && changes.has_changed().unwrap());
        assert!(loads.has("a.two") && !loads.has("a.one") && loads.names().len() == 1);
    }
}
