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

/// Maximum number of tool names in an `unknown_tool` error.
const CANDIDATES_MAX: usize = 20;

/// The names of the host's own tools. They are reserved also where those are not listed: the name of a tool must not depend
/// on settings, nor on how many others there are.
const RESERVED: [&str; 3] = [mcp::SEARCH_TOOLS, mcp::LOAD_TOOL, mcp::READ_RESULT];

/// The tools that a server offers, each under one name. Other tools of the same components cannot be called through the
/// server. Those that are deferred can be called only by a caller that has loaded them (AT-SURF-06, AT-SURF-07).
pub struct ExposedTools {
    offers: Vec<Arc<ExposedTool>>,
    /// Besides the listed names also qualified names, and bare names and aliases that only one tool has.
    by_name: HashMap<String, Arc<ExposedTool>>,
    /// `true` if a client repeats arguments of some tool in headers (`x-mcp-header`).
    mirrors: bool,
    surface: Arc<Surface>,
    /// By the qualified names of the tools.
    terms: HashMap<String, ToolTerms>,
    /// Made by the first search.
    finder: OnceLock<Result<ToolFinder, Refusal>>,
}

/// One offered tool.
pub(super) struct ExposedTool {
    /// The name that the server exports it under.
    pub(super) name: String,
    pub(super) tool: Arc<Tool>,
    pub(super) qualified_name: String,
    /// `true` if the tool can report progress or write logs.
    pub(super) speaks: bool,
    /// `true` if only clients with tasks can call the tool.
    pub(super) needs_task: bool,
    /// The description of the tool for clients, made when it is first listed or loaded.
    described: OnceLock<LoadedToolkit>,
    /// The tool's availability to a caller without loads.
    pub(super) standing: ToolAvailability,
    /// The component of the tool.
    pub(super) provider: Option<Arc<Provider>>,
    /// `true` if the API may enforce the schema.
    strict_schemas: bool,
}

/// A tool to offer.
#[derive(Clone)]
pub struct ToolOffer {
    pub tool: Arc<Tool>,
    pub terms: ToolTerms,
    /// The component of the tool, where it can change while the tool is offered.
    pub provider: Option<Arc<Provider>>,
}

impl ExposedTools {
    /// Offers `tools`; a duplicate is offered once. At most `budget` of them are listed before a caller loads others. If
    /// that defers some, the host's own tools to search and load them are listed too, and keep their names.
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

    /// The tools as a caller finds them that has loaded none.
    pub fn surface(&self) -> &Arc<Surface> {
        &self.surface
    }

    /// Describes each tool with `describe`, in the terms of a dialect, in the order in which they are offered.
    pub fn describe<T>(
        &self,
        mut describe: impl FnMut(ListedTool<'_>, ToolAvailability) -> T,
    ) -> Vec<T> {
        let one =
            |offer: &Arc<ExposedTool>| offer.listed(|listed| describe(listed, offer.standing));
        self.offers.iter().map(one).collect()
    }

    /// Describes the tool at the place `at`.
    pub fn describe_one<T>(
        &self,
        at: usize,
        describe: impl FnOnce(ListedTool<'_>, ToolAvailability) -> T,
    ) -> Option<T> {
        let offer = self.offers.get(at)?;
        Some(offer.listed(|listed| describe(listed, offer.standing)))
    }

    /// Returns whether some tool must be loaded before a call.
    pub(super) fn defers(&self) -> bool {
        self.surface.defers()
    }

    /// Returns whether a callable tool's result can become a payload.
    pub(super) fn can_persist(&self) -> bool {
        let can = |offer: &Arc<ExposedTool>| {
            offer.standing.state != LoadingState::Unavailable && offer.tool.keeping().can_persist()
        };
        self.offers.iter().any(can)
    }

    /// Returns whether it has a tool of this qualified name.
    pub(super) fn has(&self, name: &str) -> bool {
        let found = self.by_name.get(name);
        found.is_some_and(|offer| offer.qualified_name == name)
    }

    /// The settings for the calls of each tool, by its qualified name.
    pub(super) fn terms(&self) -> &HashMap<String, ToolTerms> {
        &self.terms
    }

    /// Returns whether some tool needs arguments in headers.
    pub(super) fn mirrors(&self) -> bool {
        self.mirrors
    }

    /// Returns the tool that `name` refers to. Fails with `unknown_tool`.
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
                    format!("{} finds the tools that there are", mcp::SEARCH_TOOLS)
                }
                [] => "no tools are available".to_owned(),
                names => format!("available: {}", names.join(", ")),
            };
            let message = format!("no tool named `{name}`; {known}");
            Refusal::new(ErrorCode::UnknownTool, message)
        })
    }

    /// The index of the tool that `name` refers to.
    pub fn position(&self, name: &str) -> Option<usize> {
        let found = self.find(name).ok()?;
        self.offers
            .iter()
            .position(|offer| Arc::ptr_eq(offer, found))
    }

    /// All tools, in their order.
    pub(super) fn offered(&self) -> impl Iterator<Item = &Arc<ExposedTool>> {
        self.offers.iter()
    }

    /// Returns the MCP description of the tool with the exported name `name`.
    pub(super) fn described(&self, name: &str) -> Option<LoadedToolkit> {
        let found = self.by_name.get(name);
        let listed = found.filter(|offer| offer.name == name);
        listed.map(|offer| offer.described().clone())
    }

    /// The result of `tools/list` for a caller with these `loads`, in an order that does not depend on when it loaded them.
    pub(super) fn listed(&self, loads: &LoadedTools) -> Vec<LoadedToolkit> {
        let listed = self
            .offers
            .iter()
            .filter(|offer| offer.is_listed(loads))
            .map(|offer| offer.described().clone());
        let own = mcp::discovery().into_iter().filter(|_| self.defers());
        listed.chain(own).collect()
    }

    /// Searches the tools for a caller that has loaded those with the qualified names `loaded`. Blocks the thread.
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

    /// Returns whether `other` lists the same to each caller, for any loads.
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
    /// Returns whether a caller with these `loads` has the tool's schema. Callers of a deprecated tool know it already
    /// (AT-LIFE-06).
    pub(super) fn is_loaded(&self, loads: &LoadedTools) -> bool {
        self.standing.state != LoadingState::Deferred || loads.has(&self.qualified_name)
    }

    /// Returns whether a caller with these `loads` need not search for it.
    pub(super) fn is_listed(&self, loads: &LoadedTools) -> bool {
        match self.standing.state {
            LoadingState::Loaded => true,
            LoadingState::Unavailable => false,
            _ => loads.has(&self.qualified_name),
        }
    }

    /// Returns whether clients expect structured output.
    pub(super) fn promises_output(&self) -> bool {
        self.described().output_schema.is_some()
    }

    /// The description of the tool for clients.
    pub(super) fn described(&self) -> &LoadedToolkit {
        self.described.get_or_init(|| self.listed(mcp::tool))
    }

    /// Describes the tool with `describe`, in the terms of a dialect.
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

/// Returns whether a schema has an `x-mcp-header`.
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
