//! The callable tools: records, compiled contracts, and name resolution.

mod configuration;
mod contract;
mod export;
mod fields;
mod form;
mod listed;
mod listing;
mod load;
mod locks;
mod marking;
mod nulls;
mod records;
mod references;
mod schema;
mod selection;
mod sensitive;
mod surface;
mod tool;
mod tool_ref;
mod unions;
mod words;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use toolcell_spec::{ErrorCode, Refusal, ToolDeclaration};

pub use contract::ToolContract;
pub use form::InputForm;
pub use listed::{ArgumentForm, ArgumentForms, ListedSchema};
pub use schema::{BoundedSchema, CheckFailure, RecordSchema, SCHEMA_STACK_BYTES, Violations};
pub use selection::{SurfaceConditions, ToolSelection};
pub use surface::{Surface, TOOL_BUDGET, ToolAvailability};
pub use tool::{ComponentFacts, Tool};
pub use tool_ref::SELECT;
pub(crate) use tool_ref::cut;

const CANDIDATES_MAX: usize = 20;

/// The tools that one host can call.
///
/// ```
/// use toolcell_engine::catalog::Catalog;
/// use toolcell_spec::ErrorCode;
///
/// let catalog = Catalog::default();
/// let refusal = catalog.resolve("files.read").err();
/// assert_eq!(refusal.map(|refusal| refusal.code), Some(ErrorCode::UnknownTool));
/// ```
#[derive(Debug, Default)]
pub struct Catalog(RwLock<CatalogContents>);

#[derive(Debug, Default)]
struct CatalogContents {
    tools: ToolIndex,
    /// By digest, in declared order, with the origin.
    components: BTreeMap<Arc<str>, (Vec<Arc<Tool>>, String)>,
}

/// Indexed by both names, so that adding a tool does not compare it with thousands.
#[derive(Debug, Default)]
struct ToolIndex {
    by_name: BTreeMap<String, Arc<Tool>>,
    by_id: HashMap<String, Arc<Tool>>,
}

enum NameClash<'a> {
    Name(String),
    Id(&'a str),
}

impl ToolIndex {
    fn clash<'a>(&self, new: &'a Tool) -> Option<(&Arc<Tool>, NameClash<'a>)> {
        let name = new.declaration().qualified_name();
        let id = &new.declaration().tool_id;
        let foreign = |tool: &&Arc<Tool>| tool.component() != new.component();
        if let Some(known) = self.by_name.get(&name).filter(foreign) {
            return Some((known, NameClash::Name(name)));
        }
        // Rules and hooks would mistake a tool whose name is the id of another for that one.
        let mut same = [
            self.by_id.get(id),
            self.by_name.get(id),
            self.by_id.get(&name),
        ]
        .into_iter()
        .flatten();
        let known = same.find(foreign).filter(|_| guard!("tool_ids"))?;
        Some((known, NameClash::Id(id)))
    }

    fn add(&mut self, tool: Arc<Tool>) {
        let declaration = Arc::clone(tool.declaration());
        self.by_id
            .insert(declaration.tool_id.clone(), Arc::clone(&tool));
        self.by_name.insert(declaration.qualified_name(), tool);
    }
}

impl Catalog {
    /// Adds all `tools` of one component or none; `from` is their origin. Names and ids of other components are
    /// refused: rules, hooks and records tell tools apart by both (AT-DECL-02).
    pub fn add(&self, tools: Vec<Arc<Tool>>, from: &str) -> Result<(), Refusal> {
        let mut contents = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for tool in &tools {
            let Some((other, what)) = contents.tools.clash(tool) else {
                continue;
            };
            let first = contents
                .components
                .get(other.component())
                .map_or(other.component().as_ref(), |(_, origin)| origin.as_str());
            let (what, code, change) = match what {
                NameClash::Name(name) => {
                    let change = "namespace; `toolcell wrap --name` writes one into a component that was not made for toolcell";
                    (format!("a tool {name}"), ErrorCode::ToolNameTaken, change)
                }
                NameClash::Id(id) => (
                    format!("a tool with the id {id:?}"),
                    ErrorCode::ToolIdTaken,
                    "tool_id",
                ),
            };
            let message = format!(
                "two components offer {what}: {first} and {from}; load one of them, or give the tool of one another {change}"
            );
            return Err(Refusal::new(code, message));
        }
        if let Some(first) = tools.first() {
            let loaded = (tools.clone(), from.to_owned());
            contents
                .components
                .insert(Arc::clone(first.component()), loaded);
        }
        for tool in tools {
            contents.tools.add(tool);
        }
        Ok(())
    }

    fn contents(&self) -> RwLockReadGuard<'_, CatalogContents> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The origin given to [`Self::add`].
    pub fn origin(&self, component: &str) -> Option<String> {
        let contents = self.contents();
        contents
            .components
            .get(component)
            .map(|(_, origin)| origin.clone())
    }

    pub fn of_component(&self, digest: &str) -> Option<Vec<Arc<Tool>>> {
        let contents = self.contents();
        contents
            .components
            .get(digest)
            .map(|(tools, _)| tools.clone())
    }

    pub(crate) fn has_only(&self, digest: &str) -> bool {
        let contents = self.contents();
        contents.components.len() == 1 && contents.components.contains_key(digest)
    }

    /// Resolves a qualified name, a name, or an alias, in this order. Fails if it is unknown or ambiguous.
    pub fn resolve(&self, name: &str) -> Result<Arc<Tool>, Refusal> {
        let contents = self.contents();
        let known = &contents.tools.by_name;
        if let Some(tool) = known.get(name) {
            return Ok(Arc::clone(tool));
        }
        if let Some(found) = pick(known.values(), name)? {
            return Ok(found);
        }
        let offered = known.iter().filter(|(_, tool)| tool.is_offered());
        let names: Vec<&str> = offered
            .map(|(name, _)| name.as_str())
            .take(CANDIDATES_MAX)
            .collect();
        let message = match names.as_slice() {
            [] => format!("no tool named `{name}`; no tools are available"),
            names => format!("no tool named `{name}`; available: {}", names.join(", ")),
        };
        Err(Refusal::new(ErrorCode::UnknownTool, message))
    }

    /// In the order of qualified names.
    pub fn tools(&self) -> Vec<Arc<Tool>> {
        self.contents().tools.by_name.values().cloned().collect()
    }
}

/// Finds a tool by qualified name, name or alias, in this order.
///
/// # Errors
///
/// `ambiguous_tool`: several tools have the name or the alias.
pub fn pick<'t>(
    tools: impl IntoIterator<Item = &'t Arc<Tool>> + Clone,
    name: &str,
) -> Result<Option<Arc<Tool>>, Refusal> {
    let kinds: [&dyn Fn(&ToolDeclaration) -> bool; 3] = [
        &|tool| {
            let rest = name.strip_prefix(tool.namespace.as_str());
            rest.and_then(|rest| rest.strip_prefix('.')) == Some(tool.name.as_str())
        },
        &|tool| tool.name == name,
        &|tool| tool.aliases.iter().any(|alias| alias == name),
    ];
    for is_meant in kinds {
        let meant = tools.clone().into_iter();
        let meant: Vec<&Arc<Tool>> = meant.filter(|tool| is_meant(tool.declaration())).collect();
        match meant.as_slice() {
            [] => {}
            [tool] => return Ok(Some(Arc::clone(tool))),
            several => {
                let names = several
                    .iter()
                    .map(|tool| tool.declaration().qualified_name());
                let names: Vec<String> = names.collect();
                let message = format!("`{name}` is ambiguous; use one of: {}", names.join(", "));
                return Err(Refusal::new(ErrorCode::AmbiguousTool, message));
            }
        }
    }
    Ok(None)
}
