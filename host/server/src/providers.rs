use std::path::PathBuf;

use toolcell_spec::{
    ErrorCode, LoadingState, NextAction, Refusal, SurfaceReason, ToolRef, ToolSearchResult,
    UnavailableProvider,
};

use super::ExposedTools;
use super::exposed_tools::ExposedTool;

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
    /// Those that `offers` has tools of.
    pub(super) fn of(mut self, offers: &ExposedTools) -> Self {
        let has = |name: &str| {
            let mut known = offers
                .offered()
                .filter_map(|offer| offer.provider.as_deref());
            known.any(|provider| provider.name == name)
        };
        self.pending.retain(|provider| has(&provider.name));
        self.unavailable.retain(|known| has(&known.provider));
        self
    }

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

    /// Marks a tool of `offers` whose component is being reloaded, or could not be (AT-DEF-09, AT-DEF-12).
    pub(super) fn mark(&self, tool: &mut ToolRef, offers: &ExposedTools) {
        if self.pending.is_empty() && self.unavailable.is_empty() {
            return;
        }
        let Ok(offer) = offers.find(&tool.name) else {
            return;
        };
        // What a caller has loaded stays as it is.
        let is_to_load = matches!(
            tool.loading_state,
            LoadingState::Deferred | LoadingState::Discoverable
        );
        match offer.provider.as_deref() {
            Some(provider) if self.pending.contains(provider) => {
                tool.pending_provider_or_server = Some(provider.name.clone());
                if is_to_load {
                    tool.loading_state = LoadingState::PendingProvider;
                }
            }
            _ if is_to_load && self.check(offer).is_err() => {
                tool.loading_state = LoadingState::Unavailable;
                tool.reason = Some(SurfaceReason::SetupRequired);
            }
            _ => {}
        }
    }

    /// Fails for a tool whose component changed into one that cannot be loaded: its schema is not what the file has.
    pub(super) fn check(&self, offer: &ExposedTool) -> Result<(), Refusal> {
        let provider = offer.provider.as_deref();
        let of_offer = |known: &&UnavailableProvider| {
            provider.is_some_and(|provider| provider.name == known.provider)
        };
        let Some(known) = self.unavailable.iter().find(of_offer) else {
            return Ok(());
        };
        let message = format!(
            "{} cannot be loaded: its component {} changed and cannot be loaded anew ({}); load another tool",
            offer.name, known.provider, known.error_code
        );
        Err(Refusal::new(ErrorCode::ToolRequiresSetup, message))
    }
}
