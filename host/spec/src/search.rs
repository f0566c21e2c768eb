use serde::{Deserialize, Serialize};

use super::{ErrorClass, Extra, Refusal, SchemaVersion, SchemaVisibility, SurfaceReason};

/// Use of a tool by a caller (AT-DEF-07, AT-DEF-12). Of a new component, only [`ToolSearchResult::pending_providers`]
/// says that its tools are to come.
///
/// ```
/// use toolcell_spec::LoadingState;
///
/// assert_eq!(serde_json::to_value(LoadingState::Deferred)?, "deferred");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadingState {
    Loaded,
    /// Refused until loaded.
    Deferred,
    /// A deprecated tool, which can be called by name (AT-LIFE-06).
    Discoverable,
    /// Not loaded, with a component that is being loaded anew: its schema is about to be replaced.
    PendingProvider,
    /// See [`SurfaceReason`].
    Unavailable,
}

/// `query_type` of a search (AT-DEF-13, AT-DEF-14).
///
/// ```
/// use toolcell_spec::QueryType;
///
/// assert_eq!(serde_json::to_value(QueryType::Select)?, "select");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueryType {
    Select,
    Keyword,
}

/// `next_action` of a search (AT-DEF-16).
///
/// ```
/// use toolcell_spec::NextAction;
///
/// assert_eq!(serde_json::to_value(NextAction::SearchAgain)?, "search_again");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NextAction {
    /// No match has to be loaded.
    Call,
    /// A deferred match has to be loaded first.
    Load,
    /// Search with other words; or later, for what is being loaded.
    SearchAgain,
    None,
}

impl NextAction {
    pub fn after(matches: &[ToolRef]) -> Self {
        let any = |state| {
            matches
                .iter()
                .any(|found: &ToolRef| found.loading_state == state)
        };
        match matches {
            [] => Self::SearchAgain,
            _ if any(LoadingState::Deferred) => Self::Load,
            _ if any(LoadingState::Loaded) || any(LoadingState::Discoverable) => Self::Call,
            _ if any(LoadingState::PendingProvider) => Self::SearchAgain,
            _ => Self::None,
        }
    }
}

/// A tool without its schemas (AT-DEF-01..10).
///
/// ```
/// use toolcell_spec::{LoadingState, ToolRef};
///
/// /// The tools that have to be loaded before they are called.
/// fn deferred(found: &[ToolRef]) -> Vec<&str> {
///     let deferred = found.iter().filter(|tool| tool.loading_state == LoadingState::Deferred);
///     deferred.map(|tool| tool.name.as_str()).collect()
/// }
/// ```
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolRef {
    pub schema_version: SchemaVersion,
    pub tool_id: String,
    pub name: String,
    pub namespace: String,
    pub title: Option<String>,
    /// Its beginning.
    pub description: String,
    pub search_hint: Option<String>,
    /// `sha256:<hex>` of the component.
    pub source: String,
    pub schema_visibility: SchemaVisibility,
    pub loading_state: LoadingState,
    pub reason: Option<SurfaceReason>,
    /// A component that is being loaded anew; its earlier tools can still be called.
    pub pending_provider_or_server: Option<String>,
    pub selection_ref: String,
    /// Equivalents by protocol.
    #[serde(default, skip_serializing_if = "Extra::is_empty")]
    pub native_ref: Extra,
    /// BM25; higher is better.
    pub score: Option<f64>,
    /// Names of the texts in which words of the query are; in results of a search for words only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_reasons: Vec<String>,
}

/// An extension.
///
/// ```
/// use toolcell_spec::{ErrorCode, Refusal, UnavailableProvider};
///
/// let refusal = Refusal::new(ErrorCode::ComponentInvalid, "the component is not valid");
/// let provider = UnavailableProvider::new("files.wasm".to_owned(), &refusal);
/// assert_eq!(provider.error_code, "component_invalid");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnavailableProvider {
    pub provider: String,
    pub error_class: ErrorClass,
    pub error_code: String,
}

impl UnavailableProvider {
    pub fn new(provider: String, refusal: &Refusal) -> Self {
        Self {
            provider,
            error_class: refusal.class,
            error_code: refusal.to_error().error_code,
        }
    }
}

/// `tool_search_result` (AT-DEF-18).
///
/// ```
/// use toolcell_spec::{NextAction, ToolSearchResult};
///
/// fn is_empty(found: &ToolSearchResult) -> bool {
///     found.matches.is_empty() && found.next_action == NextAction::SearchAgain
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSearchResult {
    pub schema_version: SchemaVersion,
    pub query: String,
    pub query_type: QueryType,
    /// Best first.
    pub matches: Vec<ToolRef>,
    /// Counts tools to load before a call.
    pub total_deferred_tools: usize,
    /// A later search can find their tools (AT-DEF-15).
    pub pending_providers: Vec<String>,
    #[serde(default)]
    pub unavailable_providers: Vec<UnavailableProvider>,
    /// Selected names that no tool has.
    pub missing_names: Vec<String>,
    pub next_action: NextAction,
}
