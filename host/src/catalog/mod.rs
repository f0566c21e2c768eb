//! The tools that can be called: their records, their compiled contracts, and how names find them.

mod contract;
mod fields;
mod form;
mod records;
mod schema;
mod tool;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::record::{ErrorClass, Refusal};

pub use contract::Contract;
pub use form::Form;
pub use schema::Unsatisfied;
pub use tool::{Facts, Tool};

/// Names that an unknown tool's error lists at the most.
const CANDIDATES_MAX: usize = 20;

/// The tools that one host can call.
#[derive(Debug, Default)]
pub struct Catalog {
    /// By qualified name.
    tools: RwLock<BTreeMap<String, Arc<Tool>>>,
    /// By the digest of their component, in the order in which it declares them.
    components: RwLock<BTreeMap<Arc<str>, Vec<Arc<Tool>>>>,
}

impl Catalog {
    /// Adds `tools`, or none of them: a tool never takes the place of another component's tool of the same name.
    pub fn add(&self, tools: Vec<Arc<Tool>>) -> Result<(), Refusal> {
        let mut known = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        for tool in &tools {
            let name = tool.declaration().qualified_name();
            if known.get(&name).is_some_and(|other| other.component() != tool.component()) {
                let message = format!("two components offer a tool {name}; load one of them, or change a namespace");
                return Err(Refusal::new(ErrorClass::SetupRequired, "tool_name_taken", message));
            }
        }
        if let Some(first) = tools.first() {
            let mut components = self.components.write().unwrap_or_else(PoisonError::into_inner);
            components.insert(Arc::clone(first.component()), tools.clone());
        }
        known.extend(tools.into_iter().map(|tool| (tool.declaration().qualified_name(), tool)));
        Ok(())
    }

    /// The tools of the component of this digest, if they were added.
    pub fn of_component(&self, digest: &str) -> Option<Vec<Arc<Tool>>> {
        self.components.read().unwrap_or_else(PoisonError::into_inner).get(digest).cloned()
    }

    /// The tool that `name` means: a qualified name, a name, or an alias, in this order.
    pub fn resolve(&self, name: &str) -> Result<Arc<Tool>, Refusal> {
        let known = self.tools.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(tool) = known.get(name) {
            return Ok(Arc::clone(tool));
        }
        let by_name: Vec<&Arc<Tool>> = known.values().filter(|tool| tool.declaration().name == name).collect();
        if let Some(found) = single(name, &by_name)? {
            return Ok(found);
        }
        let by_alias: Vec<&Arc<Tool>> =
            known.values().filter(|tool| tool.declaration().aliases.iter().any(|alias| alias == name)).collect();
        if let Some(found) = single(name, &by_alias)? {
            return Ok(found);
        }
        let names: Vec<&str> = known.keys().map(String::as_str).take(CANDIDATES_MAX).collect();
        let message = match names.as_slice() {
            [] => format!("there is no tool `{name}`: no tool is loaded"),
            names => format!("there is no tool `{name}`; there are: {}", names.join(", ")),
        };
        Err(Refusal::new(ErrorClass::UnknownTool, "unknown_tool", message))
    }

    /// All tools, in the order of their qualified names.
    pub fn tools(&self) -> Vec<Arc<Tool>> {
        self.tools.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

fn single(name: &str, found: &[&Arc<Tool>]) -> Result<Option<Arc<Tool>>, Refusal> {
    match found {
        [] => Ok(None),
        [tool] => Ok(Some(Arc::clone(tool))),
        several => {
            let names: Vec<String> = several.iter().map(|tool| tool.declaration().qualified_name()).collect();
            let message = format!("`{name}` is ambiguous; say which: {}", names.join(", "));
            Err(Refusal::new(ErrorClass::UnknownTool, "ambiguous_tool", message))
        }
    }
}
