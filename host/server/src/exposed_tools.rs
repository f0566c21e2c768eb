use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use rmcp::model::Tool as LoadedToolkit;
use serde_json::Value;
use toolcell::ToolTerms;
use toolcell_dialect::{self as dialect, ListedTool, mcp};
use toolcell_engine::catalog::{Surface, Tool, ToolAvailability};
use toolcell_engine::find::{ToolFinder, ToolQuery};
use toolcell_spec::{ErrorCode, LoadingState, Refusal, ToolSearchResult};

use super::Provider;
use super::loaded_tools::LoadedTools;

const CANDIDATES_MAX: usize = 20;

/// Reserved also where they are not listed: the name of a tool must not depend on settings, nor on how many others
/// there are.
const RESERVED: [&str; 3] = [mcp::SEARCH_TOOLS, mcp::LOAD_TOOL, mcp::READ_RESULT];

/// Each tool has one name; other tools of the components cannot be called, and deferred ones only by a caller that has
/// loaded them (AT-SURF-06, AT-SURF-07).
pub struct ExposedTools {
    offers: Vec<Arc<ExposedTool>>,
    /// Qualified names, too, and bare names and aliases that only one tool has.
    by_name: HashMap<String, Arc<ExposedTool>>,
    /// A client repeats arguments of some tool in headers (`x-mcp-header`).
    mirrors: bool,
    surface: Arc<Surface>,
    terms: HashMap<String, ToolTerms>,
    finder: OnceLock<Result<ToolFinder, Refusal>>,
}

pub(super) struct ExposedTool {
    pub(super) name: String,
    pub(super) tool: Arc<Tool>,
    pub(super) qualified_name: String,
    /// The tool can report progress or write logs.
    pub(super) speaks: bool,
    /// Only clients with tasks can call the tool.
    pub(super) needs_task: bool,
    /// Made when the tool is first listed or loaded.
    described: OnceLock<LoadedToolkit>,
    pub(super) standing: ToolAvailability,
    pub(super) provider: Option<Arc<Provider>>,
    /// The API may enforce the schema.
    strict_schemas: bool,
}

#[derive(Clone)]
pub struct ToolOffer {
    pub tool: Arc<Tool>,
    pub terms: ToolTerms,
    pub provider: Option<Arc<Provider>>,
}

impl ExposedTools {
    /// A duplicate is offered once. At most `budget` tools are listed before a caller loads others. If that defers
    /// some, the host's own tools to search and load them are listed too, and keep their names.
    pub fn new(tools: Vec<ToolOffer>, budget: usize) -> Self {
        Self::on(tools, |tools| Surface::new(tools, budget))
    }

    /// Offers `tools` through the surface that `build` makes of them.
    pub fn on(tools: Vec<ToolOffer>, build: impl FnOnce(Vec<Arc<Tool>>) -> Surface) -> Self {
        let mut known = HashSet::new();
        let is_new =
            |offered: &ToolOffer| known.insert(offered.tool.declaration().qualified_name());
        let chosen: Vec<ToolOffer> = tools.into_iter().filter(is_new).collect();
        let surface = build(
            chosen
                .iter()
                .map(|offered| Arc::clone(&offered.tool))
                .collect(),
        );
        let declarations: Vec<_> = chosen
            .iter()
            .map(|offered| offered.tool.declaration().as_ref())
            .collect();
        let names = dialect::exported(&declarations, &RESERVED);
        let standings = surface.tools().map(|(_, standing)| standing);
        let strict = surface.selection().model.strict_schemas;
        let offers: Vec<Arc<ExposedTool>> = names
            .into_iter()
            .zip(&chosen)
            .zip(standings)
            .map(|((name, offered), standing)| {
                Arc::new(ExposedTool::new(name, offered, standing, strict))
            })
            .collect();
        let mut by_name = other_names(&offers);
        let listed = offers.iter();
        by_name.extend(listed.map(|offer| (offer.name.clone(), Arc::clone(offer))));
        let mirrors = offers
            .iter()
            .any(|offer| mirrors(offer.tool.contract().model_schema()));
        let terms = offers
            .iter()
            .zip(chosen)
            .map(|(offer, offered)| (offer.qualified_name.clone(), offered.terms))
            .collect();
        Self {
            offers,
            by_name,
            mirrors,
            surface: Arc::new(surface),
            terms,
            finder: OnceLock::new(),
        }
    }

    /// The view of a caller that has loaded none.
    pub fn surface(&self) -> &Arc<Surface> {
        &self.surface
    }

    pub fn describe<T>(
        &self,
        mut describe: impl FnMut(ListedTool<'_>, ToolAvailability) -> T,
    ) -> Vec<T> {
        let one =
            |offer: &Arc<ExposedTool>| offer.listed(|listed| describe(listed, offer.standing));
        self.offers.iter().map(one).collect()
    }

    pub fn describe_one<T>(
        &self,
        at: usize,
        describe: impl FnOnce(ListedTool<'_>, ToolAvailability) -> T,
    ) -> Option<T> {
        let offer = self.offers.get(at)?;
        Some(offer.listed(|listed| describe(listed, offer.standing)))
    }

    /// Some tool must be loaded before a call.
    pub(super) fn defers(&self) -> bool {
        self.surface.defers()
    }

    /// A callable tool's result can become a payload.
    pub(super) fn can_persist(&self) -> bool {
        let can = |offer: &Arc<ExposedTool>| {
            offer.standing.state != LoadingState::Unavailable && offer.tool.keeping().can_persist()
        };
        self.offers.iter().any(can)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        let found = self.by_name.get(name);
        found.is_some_and(|offer| offer.qualified_name == name)
    }

    pub(super) fn terms(&self) -> &HashMap<String, ToolTerms> {
        &self.terms
    }

    pub(super) fn mirrors(&self) -> bool {
        self.mirrors
    }

    /// Fails with `unknown_tool`.
    pub(super) fn find(&self, name: &str) -> Result<&Arc<ExposedTool>, Refusal> {
        self.by_name.get(name).ok_or_else(|| {
            let listed = self
                .offers
                .iter()
                .filter(|offer| offer.standing.state == LoadingState::Loaded);
            let names: Vec<&str> = listed
                .map(|offer| offer.name.as_str())
                .take(CANDIDATES_MAX)
                .collect();
            let known = match names.as_slice() {
                _ if self.defers() => {
                    format!(
                        "{}, or GET /v1/search over HTTP, finds the tools that there are",
                        mcp::SEARCH_TOOLS
                    )
                }
                [] => "no tools are available".to_owned(),
                names => format!("available: {}", names.join(", ")),
            };
            let message = format!("no tool named `{name}`; {known}");
            Refusal::new(ErrorCode::UnknownTool, message)
        })
    }

    pub fn position(&self, name: &str) -> Option<usize> {
        let found = self.find(name).ok()?;
        self.offers
            .iter()
            .position(|offer| Arc::ptr_eq(offer, found))
    }

    pub(super) fn offered(&self) -> impl Iterator<Item = &Arc<ExposedTool>> {
        self.offers.iter()
    }

    pub(super) fn described(&self, name: &str) -> Option<LoadedToolkit> {
        let found = self.by_name.get(name);
        let listed = found.filter(|offer| offer.name == name);
        listed.map(|offer| offer.described().clone())
    }

    /// The result of `tools/list`; its order does not depend on when the caller loaded the tools.
    pub(super) fn listed(&self, loads: &LoadedTools) -> Vec<LoadedToolkit> {
        let listed = self
            .offers
            .iter()
            .filter(|offer| offer.is_listed(loads))
            .map(|offer| offer.described().clone());
        let own = mcp::discovery().into_iter().filter(|_| self.defers());
        listed.chain(own).collect()
    }

    /// `loaded` are qualified names. Blocks the thread.
    pub(super) fn search(
        &self,
        query: &ToolQuery,
        limit: usize,
        loaded: &HashSet<String>,
    ) -> Result<ToolSearchResult, Refusal> {
        let names = || self.offers.iter().map(|offer| offer.name.clone()).collect();
        let finder = self
            .finder
            .get_or_init(|| ToolFinder::new(&self.surface, names()));
        finder
            .as_ref()
            .map_err(Clone::clone)?
            .search(query, limit, |name| loaded.contains(name))
    }

    /// `other` lists the same to each caller, for any loads.
    pub(super) fn lists_as(&self, other: &Self) -> bool {
        self.listable().eq(other.listable())
    }

    fn listable(&self) -> impl Iterator<Item = (&LoadedToolkit, ToolAvailability)> {
        let listable = self
            .offers
            .iter()
            .filter(|offer| offer.standing.state != LoadingState::Unavailable);
        listable.map(|offer| (offer.described(), offer.standing))
    }
}

impl ExposedTool {
    /// Callers of a deprecated tool have its schema already (AT-LIFE-06).
    pub(super) fn is_loaded(&self, loads: &LoadedTools) -> bool {
        self.standing.state != LoadingState::Deferred || loads.has(&self.qualified_name)
    }

    /// The caller need not search for the tool.
    pub(super) fn is_listed(&self, loads: &LoadedTools) -> bool {
        match self.standing.state {
            LoadingState::Loaded => true,
            LoadingState::Unavailable => false,
            _ => loads.has(&self.qualified_name),
        }
    }

    pub(super) fn promises_output(&self) -> bool {
        self.described().output_schema.is_some()
    }

    pub(super) fn described(&self) -> &LoadedToolkit {
        self.described.get_or_init(|| self.listed(mcp::tool))
    }

    pub(super) fn listed<T>(&self, describe: impl FnOnce(ListedTool<'_>) -> T) -> T {
        let declaration = self.tool.declaration();
        let contract = self.tool.contract();
        let title = declaration
            .title
            .as_deref()
            .map(|title| contract.shown(title));
        describe(ListedTool {
            name: &self.name,
            title: title.as_deref(),
            description: &contract.shown(&declaration.description),
            declaration,
            interface: self.tool.interface(),
            permission: self.tool.permission_profile(),
            note: &contract.listed().note(),
            input_schema: contract.listed_schema(),
            // A result that is kept by reference has nothing that a client could validate against a schema.
            output_schema: contract
                .output_schema()
                .filter(|_| self.tool.keeping().inline),
            component: self.tool.component(),
            strict_schemas: self.strict_schemas,
        })
    }

    fn new(
        name: String,
        offered: &ToolOffer,
        standing: ToolAvailability,
        strict_schemas: bool,
    ) -> Self {
        let ToolOffer { tool, provider, .. } = offered;
        let profile = tool.execution_profile();
        let logs = profile
            .extra
            .get("imports")
            .and_then(|imports| imports.as_array());
        let logs = logs.into_iter().flatten().any(|import| {
            import
                .as_str()
                .is_some_and(|import| import.starts_with("toolcell:tool/log"))
        });
        Self {
            qualified_name: tool.declaration().qualified_name(),
            speaks: profile.supports_progress == Some(true) || logs,
            needs_task: profile.requires_background == Some(true),
            tool: Arc::clone(tool),
            name,
            described: OnceLock::new(),
            standing,
            provider: provider.clone(),
            strict_schemas,
        }
    }
}

fn mirrors(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            fields.contains_key("x-mcp-header") || fields.values().any(mirrors)
        }
        Value::Array(items) => items.iter().any(mirrors),
        _ => false,
    }
}

fn other_names(offers: &[Arc<ExposedTool>]) -> HashMap<String, Arc<ExposedTool>> {
    let mut names: HashMap<String, Option<Arc<ExposedTool>>> = HashMap::new();
    for offer in offers {
        let declaration = offer.tool.declaration();
        let mut own: HashSet<&String> = declaration.aliases.iter().collect();
        own.extend(Some(&declaration.name).filter(|name| !RESERVED.contains(&name.as_str())));
        for name in own {
            // A name of two tools is ambiguous and refers to neither.
            names
                .entry(name.clone())
                .and_modify(|known| *known = None)
                .or_insert(Some(Arc::clone(offer)));
        }
    }
    names.extend(
        offers
            .iter()
            .map(|offer| (offer.qualified_name.clone(), Some(Arc::clone(offer)))),
    );
    names
        .into_iter()
        .filter_map(|(name, offer)| Some((name, offer?)))
        .collect()
}
