use std::sync::Arc;

use toolcell_spec::{LockMode, ToolInterface};

/// Locks that a tool declares because the host cannot know them: named resources (AT-SCHED-10), and an exclusive
/// context.
#[derive(Debug, Default)]
pub(crate) struct DeclaredLocks {
    /// Each name, and whether a call uses it alone.
    named: Vec<(Arc<str>, bool)>,
    needs_context: bool,
}

impl DeclaredLocks {
    /// The locks of a tool of `component`, one of whose tools wants its context for itself if `has_context`: the others keep
    /// away from that one.
    pub(super) fn from_interface(
        interface: Option<&ToolInterface>,
        component: &str,
        has_context: bool,
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
        }
    }

    /// Returns whether a call of a batch must run alone.
    pub(crate) fn needs_context(&self) -> bool {
        self.needs_context
    }

    /// Each resource by its name, and whether a call uses it alone.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, bool)> {
        self.named
            .iter()
            .map(|(name, is_exclusive)| (name, *is_exclusive))
    }
}
