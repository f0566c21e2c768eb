use std::path::PathBuf;

use toolcell_spec::{LoadingState, NextAction, ToolRef, ToolSearchResult, UnavailableProvider};

use super::ExposedTools;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Provider {
    /// Clients do not learn where the component lies.
    pub name: String,
    pub file: PathBuf,
}

/// The current offering lacks the tools of these components (AT-DEF-15).
#[derive(Clone, Debug, Default)]
pub struct Providers {
    pub pending: Vec<Provider>,
    pub unavailable: Vec<UnavailableProvider>,
}

impl Providers {
    pub(super) fn tell(self, found: &mut ToolSearchResult, offers: &ExposedTools) {
        found
            .matches
            .iter_mut()
            .for_each(|tool| self.mark(tool, offers));
        found.next_action = NextAction::after(&found.matches);
        let mut names: Vec<String> = self
            .pending
            .into_iter()
            .map(|provider| provider.name)
            .collect();
        names.dedup();
        found.pending_providers = names;
        found.unavailable_providers = self.unavailable;
    }

    /// Marks a tool of `offers` whose component is being reloaded (AT-DEF-09, AT-DEF-12).
    pub(super) fn mark(&self, tool: &mut ToolRef, offers: &ExposedTools) {
        if self.pending.is_empty() {
            return;
        }
        let offer = offers.find(&tool.name).ok();
        let Some(provider) = offer.and_then(|offer| offer.provider.as_deref()) else {
            return;
        };
        if self.pending.contains(provider) {
            tool.pending_provider_or_server = Some(provider.name.clone());
            if tool.loading_state == LoadingState::Deferred {
                tool.loading_state = LoadingState::PendingProvider;
            }
        }
    }
}
