use std::sync::Arc;

use toolcell_spec::{LockMode, ToolInterface};

/// Locks that only the tool can declare: named resources (AT-SCHED-10), and an exclusive context.
#[derive(Debug, Default)]
pub(crate) struct DeclaredLocks {
    /// `true` for exclusive use.
    named: Vec<(Arc<str>, bool)>,
    needs_context: bool,
    /// The tool itself.
    own: String,
}

impl DeclaredLocks {
    /// With `has_context`, one tool of `component` wants its context for itself, and the others keep away from it.
    pub(super) fn from_interface(
        interface: Option<&ToolInterface>,
        component: &str,
        (name, has_context): (&str, bool),
    ) -> Self {
        let needs_context =
            interface.is_some_and(|interface| interface.requires_exclusive_context == Some(true));
        let declared = interface.map_or(&[][..], |interface| &interface.resource_locks);
        let mut named: Vec<(Arc<str>, bool)> = declared
            .iter()
            .map(|lock| {
                (
                    format!("resource {}", lock.resource).into(),
                    lock.mode == LockMode::Exclusive,
                )
            })
            .collect();
        if has_context {
            named.push((format!("context {component}").into(), needs_context));
        }
        Self {
            named,
            needs_context,
            own: format!("tool {component} {name}"),
        }
    }

    /// Returns whether a call must run alone in a batch.
    pub(crate) fn needs_context(&self) -> bool {
        self.needs_context
    }

    /// `true` for exclusive use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Arc<str>, bool)> {
        let named = self.named.iter();
        named.map(|(name, is_exclusive)| (Arc::clone(name), *is_exclusive))
    }

    /// The tool itself, for the calls of one session or caller (AT-N-03), who must not stop other callers.
    pub(crate) fn own(&self, caller: &str) -> (Arc<str>, bool) {
        (format!("{} of {caller}", self.own).into(), true)
    }
}
