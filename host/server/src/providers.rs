use toolcell_core::record::{ToolSearchResult, UnavailableProvider};

/// The components whose tools the current offering lacks (AT-DEF-15).
#[derive(Clone, Debug, Default)]
pub struct Providers {
    /// The names of those that are being loaded.
    pub pending: Vec<String>,
    /// Those that could not be loaded.
    pub unavailable: Vec<UnavailableProvider>,
}

impl Providers {
    /// Adds the providers to the result of a search.
    pub(super) fn tell(self, found: &mut ToolSearchResult) {
        found.pending_providers = self.pending;
        found.unavailable_providers = self.unavailable;
    }
}
