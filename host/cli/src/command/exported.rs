//! The tools of a command under their names in a dialect.

use std::collections::HashSet;
use std::sync::Arc;

use crate::surface;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::Value;
use toolcell::{Grants, Host, Policy, Tool};
use toolcell_config::{self as config, ConfigLayers};
use toolcell_dialect::{Dialect, DialectNames, ListedTool, model_request};
use toolcell_engine::catalog::{Surface, ToolAvailability, ToolSelection};
use toolcell_server::{ExposedTools, ToolOffer};
use toolcell_spec::{ErrorCode, LoadingState, Refusal};

const NAMES_MAX: usize = 20;

/// Which of the tools a model gets. Both commands need the same options, because they decide on the names.
#[derive(Debug, Args)]
pub(super) struct SurfaceOptions {
    /// How many tools are listed from the start [default: 125]; a model finds the others, if its API can search tools
    #[arg(long, value_name = "N")]
    max_listed: Option<usize>,
    /// The role of the callers; [surface.roles] of toolcell.toml says which tools it has
    #[arg(long, value_name = "NAME")]
    role: Option<String>,
}

impl SurfaceOptions {
    pub(super) fn role(&self) -> Option<&str> {
        self.role.as_deref()
    }

    pub(super) fn selection(&self, layers: &ConfigLayers) -> Result<ToolSelection, Refusal> {
        config::selection(layers, self.max_listed, self.role.as_deref())
    }
}

pub(super) fn dialect(is_meant: fn(Dialect) -> bool) -> impl TypedValueParser<Value = Dialect> {
    let names = Dialect::ALL
        .iter()
        .filter(|dialect| is_meant(**dialect))
        .map(|dialect| dialect.as_str());
    PossibleValuesParser::new(names)
        .try_map(|name| Dialect::named(&name).ok_or("there is no dialect of this name"))
}

pub(super) struct DialectTools {
    tools: Vec<Arc<Tool>>,
    offers: ExposedTools,
    names: DialectNames,
    dialect: Dialect,
}

impl DialectTools {
    pub(super) async fn build(
        host: &Host,
        offered: Vec<ToolOffer>,
        selection: ToolSelection,
        (policy, grants): (&Policy, &Grants),
        dialect: Dialect,
    ) -> Self {
        let mut known = HashSet::new();
        let is_new =
            |offered: &ToolOffer| known.insert(offered.tool.declaration().qualified_name());
        let offered: Vec<ToolOffer> = offered.into_iter().filter(is_new).collect();
        let tools = offered
            .iter()
            .map(|offered| Arc::clone(&offered.tool))
            .collect();
        let missing = host.missing_secrets(grants).await;
        let offers = surface::expose(offered, selection, (policy, grants), &missing);
        let entries: Vec<(String, String)> = offers
            .describe(|listed, _| (listed.name.to_owned(), listed.declaration.tool_id.clone()));
        let names = DialectNames::new(
            dialect.rule(),
            entries
                .iter()
                .map(|(name, id)| (name.as_str(), id.as_str())),
        );
        Self {
            tools,
            offers,
            names,
            dialect,
        }
    }

    pub(super) fn surface(&self) -> &Surface {
        self.offers.surface()
    }

    /// In the order of the surface.
    pub(super) fn names(&self) -> Vec<String> {
        let count = self.surface().tools().len();
        let name = |at| self.names.name(at).unwrap_or_default().to_owned();
        (0..count).map(name).collect()
    }

    /// The fields of a request to a model; `None` for a dialect that has none.
    pub(super) fn request(&self, tools: &[Value]) -> Option<Value> {
        let surface = self.surface();
        let places = surface.tools().enumerate();
        let listed = places.filter(|(_, (_, standing))| self.lists(standing.state));
        let choice = surface.choice(listed.map(|(at, _)| at), |at| self.names.name(at));
        let parallel_calls = surface.selection().model.parallel_calls;
        model_request(self.dialect, tools, &choice, parallel_calls)
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.names.find(name).or_else(|| self.offers.position(name))
    }

    pub(super) fn description(&self, name: &str) -> Option<Value> {
        let describe = |listed: ListedTool<'_>, standing: ToolAvailability| {
            self.dialect.tool(
                &ListedTool { name, ..listed },
                standing.state == LoadingState::Deferred,
            )
        };
        self.offers.describe_one(self.position(name)?, describe)
    }

    /// The flag says whether a model that calls the tool has its schema. Where the API can search, it has.
    pub(super) fn find(&self, name: &str) -> Option<(&Arc<Tool>, bool)> {
        let at = self.position(name)?;
        let (_, standing) = self.surface().tools().nth(at)?;
        let is_loaded = self.dialect.defers() || standing.state != LoadingState::Deferred;
        Some((self.tools.get(at)?, is_loaded))
    }

    pub(super) fn unknown(&self, name: &str) -> Refusal {
        let listed = self
            .surface()
            .tools()
            .enumerate()
            .filter(|(_, (_, standing))| self.lists(standing.state));
        let names = listed
            .filter_map(|(at, _)| self.names.name(at))
            .take(NAMES_MAX);
        let message = match names.collect::<Vec<_>>().as_slice() {
            [] => format!("no tool named `{name}`; no tools are available"),
            names => format!("no tool named `{name}`; available: {}", names.join(", ")),
        };
        Refusal::new(ErrorCode::UnknownTool, message)
    }

    /// The descriptions of the tools that a model can select, and the number of deferred ones where the API has no
    /// search.
    pub(super) fn described(&self) -> (Vec<Value>, usize) {
        let mut described = Vec::new();
        let mut at = 0;
        let mut left_out = 0;
        self.offers.describe(|listed, standing| {
            let name = self.names.name(at).unwrap_or_default();
            at += 1;
            if self.lists(standing.state) {
                let is_deferred = standing.state == LoadingState::Deferred;
                described.push(
                    self.dialect
                        .tool(&ListedTool { name, ..listed }, is_deferred),
                );
            } else if standing.state == LoadingState::Deferred {
                left_out += 1;
            }
        });
        (described, left_out)
    }

    fn lists(&self, state: LoadingState) -> bool {
        match state {
            LoadingState::Loaded => true,
            LoadingState::Deferred => self.dialect.defers(),
            _ => false,
        }
    }
}
