use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::Tool as Described;
use serde_json::Value;

use crate::catalog::Tool;
use crate::dialect::mcp;
use crate::record::{ErrorClass, Refusal};

/// Maximum number of tool names in an `unknown_tool` error.
const CANDIDATES_MAX: usize = 20;

/// The tools that a server offers, each under one name. Other tools of the same components cannot be called through the
/// server.
pub struct Offers {
    offers: Vec<Arc<Offer>>,
    by_name: HashMap<String, Arc<Offer>>,
    /// Qualified names and unambiguous aliases: accepted, but not listed.
    by_other_name: HashMap<String, Arc<Offer>>,
    /// Whether a client has to repeat arguments of some tool in headers (`x-mcp-header`).
    mirrors: bool,
}

/// One offered tool.
pub(super) struct Offer {
    /// The name that the server exports it under.
    pub(super) name: String,
    pub(super) tool: Arc<Tool>,
    pub(super) qualified_name: String,
    /// Whether the tool can report progress or write logs.
    pub(super) speaks: bool,
    pub(super) described: Described,
    /// Wall time limit of a call; the lower of this and the server's limit counts.
    pub(super) wall: Option<Duration>,
    /// The data with which another process can repeat a call of the tool.
    pub(super) origin: Option<Arc<Value>>,
}

/// A tool to offer.
pub struct Offered {
    pub tool: Arc<Tool>,
    /// Wall time limit of a call; `None` for the server's limit.
    pub wall: Option<Duration>,
    /// The data with which another process can repeat a call of the tool, see [`crate::host::Terms`].
    pub origin: Option<Arc<Value>>,
}

impl Offers {
    /// Offers `tools`; a duplicate is offered once.
    pub fn new(tools: Vec<Offered>) -> Self {
        let mut chosen: Vec<Offered> = Vec::with_capacity(tools.len());
        for tool in tools {
            let name = tool.tool.declaration().qualified_name();
            if !chosen.iter().any(|known| known.tool.declaration().qualified_name() == name) {
                chosen.push(tool);
            }
        }
        let declarations: Vec<_> = chosen.iter().map(|offered| offered.tool.declaration().as_ref()).collect();
        let names = mcp::exported(&declarations);
        let offers: Vec<Arc<Offer>> =
            names.into_iter().zip(&chosen).map(|(name, offered)| Arc::new(Offer::new(name, offered))).collect();
        let by_name = offers.iter().map(|offer| (offer.name.clone(), Arc::clone(offer))).collect();
        let by_other_name = other_names(&offers);
        let mirrors = offers.iter().any(|offer| offer.described.input_schema.values().any(mirrors));
        Self { offers, by_name, by_other_name, mirrors }
    }

    /// Whether a client has to repeat arguments of some tool in headers.
    pub(super) fn mirrors(&self) -> bool {
        self.mirrors
    }

    /// Returns the tool that `name` refers to. Fails with `unknown_tool`.
    pub(super) fn find(&self, name: &str) -> Result<&Arc<Offer>, Refusal> {
        self.by_name.get(name).or_else(|| self.by_other_name.get(name)).ok_or_else(|| {
            let names: Vec<&str> = self.offered().map(|offer| offer.name.as_str()).take(CANDIDATES_MAX).collect();
            let known = if names.is_empty() {
                "none is offered".to_owned()
            } else {
                format!("there are: {}", names.join(", "))
            };
            let message = format!("there is no tool `{name}` here; {known}");
            Refusal::new(ErrorClass::UnknownTool, "unknown_tool", message)
        })
    }

    /// Returns the MCP description of the tool with the exported name `name`.
    pub(super) fn described(&self, name: &str) -> Option<Described> {
        self.by_name.get(name).map(|offer| offer.described.clone())
    }

    /// The result of `tools/list`.
    pub(super) fn listed(&self) -> Vec<Described> {
        self.offered().map(|offer| offer.described.clone()).collect()
    }

    /// The tools that are listed. A tool that is not listed can be called by its name, or not at all.
    fn offered(&self) -> impl Iterator<Item = &Arc<Offer>> {
        self.offers.iter().filter(|offer| offer.tool.is_offered())
    }
}

impl Offer {
    fn new(name: String, offered: &Offered) -> Self {
        let Offered { tool, wall, origin } = offered;
        let (declaration, contract) = (tool.declaration(), tool.contract());
        let title = declaration.title.as_deref().map(|title| contract.shown(title));
        let described = mcp::tool(mcp::Listed {
            name: &name,
            title: title.as_deref(),
            description: &contract.shown(&declaration.description),
            declaration,
            interface: tool.interface(),
            permission: tool.permission_profile(),
            input_schema: contract.model_schema(),
            // A secret result is kept by reference, so a client cannot validate it against a schema.
            output_schema: contract.output_schema().filter(|_| !tool.permission_profile().is_secret()),
            component: tool.component(),
        });
        let profile = tool.execution_profile();
        let logs = profile.extra.get("imports").and_then(|imports| imports.as_array());
        let logs = logs
            .into_iter()
            .flatten()
            .any(|import| import.as_str().is_some_and(|import| import.starts_with("toolcell:tool/log")));
        Self {
            qualified_name: tool.declaration().qualified_name(),
            speaks: profile.supports_progress == Some(true) || logs,
            tool: Arc::clone(tool),
            name,
            described,
            wall: *wall,
            origin: origin.clone(),
        }
    }
}

/// Whether any part of a schema has an `x-mcp-header`.
fn mirrors(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.contains_key("x-mcp-header") || fields.values().any(mirrors),
        Value::Array(items) => items.iter().any(mirrors),
        _ => false,
    }
}

fn other_names(offers: &[Arc<Offer>]) -> HashMap<String, Arc<Offer>> {
    let mut names: HashMap<String, Option<Arc<Offer>>> = HashMap::new();
    for offer in offers {
        for alias in &offer.tool.declaration().aliases {
            // An alias of two tools is ambiguous and refers to neither.
            names.entry(alias.clone()).and_modify(|known| *known = None).or_insert(Some(Arc::clone(offer)));
        }
    }
    names.extend(offers.iter().map(|offer| (offer.qualified_name.clone(), Some(Arc::clone(offer)))));
    names.into_iter().filter_map(|(name, offer)| Some((name, offer?))).collect()
}
