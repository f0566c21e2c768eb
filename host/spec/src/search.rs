use serde::{Deserialize, Serialize};

use super::{ErrorClass, Extra, Refusal, SchemaVersion, SchemaVisibility, SurfaceReason};

/// `loading_state` (AT-DEF-07, AT-DEF-12): what a caller can do with a tool. The tools of a component are known once it was
/// loaded: of a new one, only [`ToolSearchResult::pending_providers`] says that they are to come.
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
    /// Listed with its schema.
    Loaded,
    /// Found by a search; a call is refused until the tool is loaded.
    Deferred,
    /// Not listed, but can be called by its name: a deprecated tool (AT-LIFE-06).
    Discoverable,
    /// Deferred, and its component is being loaded anew: a schema that is loaded now is about to be replaced.
    PendingProvider,
    /// Cannot be called, see [`SurfaceReason`].
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
    /// `select:NAME,NAME`: exactly these tools.
    Select,
    /// Words, ranked by relevance.
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
    /// Call a match; none of them has to be loaded.
    Call,
    /// Load a match that is deferred, then call it.
    Load,
    /// Nothing was found: search with other words. Or what was found is being loaded: search later.
    SearchAgain,
    /// No match can be called.
    None,
}

impl NextAction {
    /// Next step of a caller with `matches`.
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

/// `deferred_tool_ref` (AT-DEF-01..10): a tool without its schemas, as a search finds it.
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
    /// The name by which the caller loads and calls the tool.
    pub name: String,
    pub namespace: String,
    pub title: Option<String>,
    /// The beginning of the description.
    pub description: String,
    pub search_hint: Option<String>,
    /// `sha256:<hex>` of the component.
    pub source: String,
    pub schema_visibility: SchemaVisibility,
    pub loading_state: LoadingState,
    pub reason: Option<SurfaceReason>,
    /// The component of the tool, while a server loads it anew. What it had before can still be called.
    pub pending_provider_or_server: Option<String>,
    /// The query that finds exactly this tool.
    pub selection_ref: String,
    /// The tool's equivalents, by the name of each protocol.
    #[serde(default, skip_serializing_if = "Extra::is_empty")]
    pub native_ref: Extra,
    /// Relevance of a match of words, by BM25; higher is better.
    pub score: Option<f64>,
}

/// A component that could not be loaded, so that no search finds its tools. An extension of the specification.
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
    /// The component.
    pub provider: String,
    pub error_class: ErrorClass,
    pub error_code: String,
}

impl UnavailableProvider {
    /// The component `provider`, which was refused.
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
    /// The query as it was given.
    pub query: String,
    pub query_type: QueryType,
    /// The best match first.
    pub matches: Vec<ToolRef>,
    /// Number of tools that the caller would have to load first.
    pub total_deferred_tools: usize,
    /// The components that are being loaded: a later search can find their tools (AT-DEF-15).
    pub pending_providers: Vec<String>,
    /// The components that could not be loaded.
    #[serde(default)]
    pub unavailable_providers: Vec<UnavailableProvider>,
    /// The selected names that no tool has.
    pub missing_names: Vec<String>,
    pub next_action: NextAction,
}
