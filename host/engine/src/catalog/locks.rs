use std::sync::Arc;

use toolcell_spec::{LockMode, ToolInterface};

/// Locks that only the tool can declare: named resources (AT-SCHED-10), and an exclusive context.
#[derive(Debug, Default)]
pub(crate) struct DeclaredLocks {
    /// `true` for exclusive use.
    named: Vec<(Arc<str>, bool)>,
    needs_context: bool,
}

impl DeclaredLocks {
    /// With `has_context`, one tool of `component` wants its context for itself, and the others keep away from it.
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

    /// Returns whether a call must run alone in a batch.
    pub(crate) fn needs_context(&self) -> bool {
        self.needs_context
    }

    /// `true` for exclusive use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, bool)> {
        self.named
            .iter()
            .map(|(name, is_exclusive)| (name, *is_exclusive))
    }
}
