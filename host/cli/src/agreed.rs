//! The agreement when a server started: the most that each component could ever ask for. The grants are for all
//! components, so one that could ask for more is not served before a restart.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use toolcell::{ComponentTools, Tool};
use toolcell_engine::approval::legible;
use toolcell_install::ceiling::AccessCeiling;
use toolcell_spec::{ErrorCode, Refusal, ToolKind};

use super::serving::NamedTool;

const DIFFERENCES_MAX: usize = 8;
/// The policy that refuses, by name (AT-ERR-07).
const AGREED: &str = "agreement:start";

#[derive(Debug, Default)]
pub(super) struct AgreedComponents(Mutex<AgreedAccess>);

#[derive(Debug, Default)]
struct AgreedAccess {
    components: HashMap<PathBuf, AccessCeiling>,
    /// The operator did not see what appears in one later.
    folders: HashSet<PathBuf>,
    /// The ids by which clients know the tools (AT-N-32).
    tools: HashMap<String, (ToolKind, String)>,
}

impl AgreedComponents {
    /// Fails with the index of a tool that could ask for more than what was served under its path, or that was of
    /// another kind or namespace. A path that nothing was served under is new in the changed settings.
    pub(super) fn check<'a>(
        &self,
        tools: impl Iterator<Item = (&'a NamedTool, &'a ComponentTools)>,
    ) -> Result<(), (usize, Refusal)> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let nothing = AccessCeiling::default();
        for (at, (named, loaded)) in tools.enumerate() {
            let is_added = || {
                named
                    .folder()
                    .is_some_and(|(folder, _)| known.folders.contains(folder))
            };
            let before = known
                .components
                .get(&named.target.path)
                .or_else(|| is_added().then_some(&nothing));
            let grown = before
                .map(|before| {
                    before
                        .difference(&AccessCeiling::from_tools(&loaded.tools))
                        .grown
                })
                .unwrap_or_default();
            if !grown.is_empty() && guard!("grown_ceilings") {
                return Err((at, refusal(&grown)));
            }
            if let Some(changed) = loaded.tools.iter().find_map(|tool| known.changed(tool)) {
                return Err((at, changed));
            }
        }
        Ok(())
    }

    /// The access that a component could ask for before still counts.
    pub(super) fn note<'a>(
        &self,
        tools: impl Iterator<Item = (&'a NamedTool, &'a ComponentTools)>,
    ) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (named, loaded) in tools {
            let path = named.target.path.clone();
            known
                .components
                .entry(path)
                .or_insert_with(|| AccessCeiling::from_tools(&loaded.tools));
            known
                .folders
                .extend(named.folder().map(|(folder, _)| folder.clone()));
            let tools = loaded.tools.iter().map(|tool| tool.declaration());
            let told = tools.map(|tool| {
                (
                    tool.tool_id.clone(),
                    (tool.tool_kind.clone(), tool.namespace.clone()),
                )
            });
            known.tools.extend(told);
        }
    }
}

impl AgreedAccess {
    /// Returns a refusal if a tool with the same id was of another kind, or of another namespace.
    fn changed(&self, tool: &Tool) -> Option<Refusal> {
        let declaration = tool.declaration();
        let (kind, namespace) = self.tools.get(&declaration.tool_id)?;
        let (what, before, now) = if *kind != declaration.tool_kind {
            ("kind", &kind.0, &declaration.tool_kind.0)
        } else if *namespace != declaration.namespace {
            ("namespace", namespace, &declaration.namespace)
        } else {
            return None;
        };
        let message = format!(
            "{} was of the {what} {} when it was first served, and is of the {what} {} now: a tool keeps its meaning under \
             its id; give the new tool another tool_id, or restart the server",
            legible(&declaration.tool_id),
            legible(before),
            legible(now),
        );
        let refusal = Refusal::new(ErrorCode::ToolKindChanged, message);
        Some(refusal.by_policy(AGREED.to_owned()))
    }
}

fn refusal(grown: &[String]) -> Refusal {
    // The lines have names and hosts that the component chose.
    let lines: Vec<String> = grown
        .iter()
        .take(DIFFERENCES_MAX)
        .map(|line| legible(line))
        .collect();
    let more = match grown.len().saturating_sub(DIFFERENCES_MAX) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let message = format!(
        "the component changed, and could ask for more than when this server started ({}{more}); restart the server to agree",
        lines.join("; ")
    );
    Refusal::new(ErrorCode::CeilingGrew, message).by_policy(AGREED.to_owned())
}
