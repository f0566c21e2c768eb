//! The tools that `--with` offers by name, and those whose component a line names.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use toolcell::{Cancellation, ComponentTools, Grants, Home, Host, Policy, Tool, ToolTerms};
use toolcell_config::InstalledNames;
use toolcell_dialect::Dialect;
use toolcell_engine::catalog::ToolSelection;
use toolcell_engine::pipeline::Callee;
use toolcell_executor::canceled;
use toolcell_server as server;
use toolcell_spec::{AbortReason, ErrorClass, ErrorCode, Refusal};

use super::super::ask::Origin;
use super::super::exported::DialectTools;
use super::super::options::CallOptions;
use super::super::protected_sources::CommandFiles;
use super::super::show;
use super::super::target::{BuildPermission, Target};
use super::super::tool_configs::ToolConfigs;

const NAMES_MAX: usize = 20;

/// The state that loading tools takes, and the policy, which learns which files name them.
pub(super) struct Tools<'a> {
    pub(super) host: &'a Host,
    pub(super) home: &'a Home,
    pub(super) configs: ToolConfigs,
    pub(super) names: &'a InstalledNames,
    pub(super) policy: &'a mut Policy,
    pub(super) named: &'a CommandFiles,
    pub(super) options: &'a CallOptions,
    pub(super) interrupt: &'a Cancellation,
    pub(super) role: Option<&'a str>,
    pub(super) offered: Vec<server::ToolOffer>,
    /// The key is the path as typed.
    pub(super) components: HashMap<PathBuf, Result<Component, Refusal>>,
}

#[derive(Clone)]
pub(super) struct Component {
    loaded: Arc<ComponentTools>,
    origin: Option<Arc<Value>>,
}

pub(super) struct ChosenTool {
    pub(super) tool: Callee,
    terms: ToolTerms,
    /// `None` if no model calls the tool.
    pub(super) described: Option<Value>,
}

impl ChosenTool {
    pub(super) fn named_terms(&self) -> Option<(String, ToolTerms)> {
        let name = self.tool.tool()?.declaration().qualified_name();
        Some((name, self.terms.clone()))
    }
}

impl Tools<'_> {
    /// The time `wall` bounds each call.
    pub(super) async fn offer(
        &mut self,
        target: &Target,
        wall: Option<Duration>,
    ) -> Result<(), Refusal> {
        let Component { loaded, origin } = self.component(target).await?;
        let tools = target.tools(&loaded)?;
        self.offered
            .extend(tools.into_iter().map(|tool| server::ToolOffer {
                tool,
                terms: ToolTerms {
                    wall,
                    origin: origin.clone(),
                },
                provider: None,
            }));
        Ok(())
    }

    pub(super) async fn export(
        &self,
        selection: ToolSelection,
        grants: &Grants,
        dialect: Dialect,
    ) -> DialectTools {
        DialectTools::build(
            self.host,
            self.offered.clone(),
            selection,
            (&*self.policy, grants),
            dialect,
        )
        .await
    }

    /// A path means nothing here: a model reaches no component that it was not offered.
    pub(super) async fn find_exported(
        &mut self,
        exported: &DialectTools,
        name: &str,
    ) -> Result<ChosenTool, Refusal> {
        let Some((tool, is_loaded)) = exported.find(name) else {
            return if guard!("exported_names") {
                Err(exported.unknown(name))
            } else {
                self.find(name).await
            };
        };
        let offered = self
            .offered
            .iter()
            .find(|offered| Arc::ptr_eq(&offered.tool, tool));
        let terms = offered.map(|offered| offered.terms.clone());
        let described = exported.description(name);
        Ok(ChosenTool {
            tool: Callee::from(Arc::clone(tool)).loaded(is_loaded),
            terms: terms.unwrap_or_default(),
            described,
        })
    }

    /// An offered tool of that name, or else one of the component at that path.
    pub(super) async fn find(&mut self, typed: &str) -> Result<ChosenTool, Refusal> {
        let target = Target::named(typed, self.names);
        // An installed name means its bytes, whatever a tool of the command calls itself.
        let is_meant = |callee: &Callee| match (target.found(), callee.tool()) {
            (Some(found), Some(tool)) => **tool.component() == *found.component.to_string(),
            _ => !target.is_installed(),
        };
        match self.named(typed) {
            Ok(Some(chosen)) if is_meant(&chosen.tool) => return Ok(chosen),
            Err(refusal) if !target.is_installed() => return Err(refusal),
            _ => {}
        }
        let Component { loaded, origin } = self
            .component(&target)
            .await
            .map_err(|refusal| self.or_offered(refusal))?;
        Ok(ChosenTool {
            tool: target.choose(&loaded)?,
            terms: ToolTerms { wall: None, origin },
            described: None,
        })
    }

    /// Qualified names come before names, and these before aliases.
    fn named(&self, word: &str) -> Result<Option<ChosenTool>, Refusal> {
        let is_alias = |tool: &Tool| tool.declaration().aliases.iter().any(|alias| alias == word);
        let kinds: [&dyn Fn(&Tool) -> bool; 3] = [
            &|tool| tool.declaration().qualified_name() == word,
            &|tool| tool.declaration().name == word,
            &is_alias,
        ];
        for (kind, is_meant) in kinds.into_iter().enumerate() {
            let mut found: Vec<&server::ToolOffer> = self
                .offered
                .iter()
                .filter(|offered| is_meant(&offered.tool))
                .collect();
            // A component may be named twice.
            found.dedup_by(|one, other| Arc::ptr_eq(&one.tool, &other.tool));
            match found.as_slice() {
                [] => {}
                [one] => {
                    // The record says by which alias a tool was called.
                    let tool = Callee::from(Arc::clone(&one.tool));
                    let by_alias = kind == 2;
                    let tool = if by_alias { tool.called(word) } else { tool };
                    return Ok(Some(ChosenTool {
                        tool,
                        terms: one.terms.clone(),
                        described: None,
                    }));
                }
                several => {
                    let message = format!(
                        "`{word}` is ambiguous; say which: {}",
                        names(several.iter().copied())
                    );
                    return Err(Refusal::new(ErrorCode::AmbiguousTool, message));
                }
            }
        }
        Ok(None)
    }

    fn or_offered(&self, refusal: Refusal) -> Refusal {
        if refusal.class != ErrorClass::UnknownTool || self.offered.is_empty() {
            return refusal;
        }
        let offered = self
            .offered
            .iter()
            .filter(|offered| offered.tool.is_offered());
        Refusal {
            message: format!(
                "{}; the tools of --with are: {}",
                refusal.message,
                names(offered)
            ),
            ..refusal
        }
    }

    async fn component(&mut self, target: &Target) -> Result<Component, Refusal> {
        if let Some(known) = self.components.get(&target.path) {
            return known.clone();
        }
        let component = tokio::select! {
            biased;
            () = self.interrupt.cancelled() => {
                Err(canceled(self.interrupt.requested().unwrap_or(AbortReason::UserInterruption)))
            }
            component = self.load(target) => component,
        };
        match &component {
            Ok(component) => {
                let loaded = &component.loaded;
                self.configs.name(&target.path, self.policy, loaded);
            }
            Err(refusal) => show::detail(refusal),
        }
        self.components
            .insert(target.path.clone(), component.clone());
        component
    }

    /// A source folder has to be built before: a batch may come from a program, and building runs code as the user.
    async fn load(&self, target: &Target) -> Result<Component, Refusal> {
        let file = target.locate(self.home, BuildPermission::No)?;
        let loaded = Arc::new(self.host.load_file(&file).await?);
        self.configs.give(&target.path, &loaded)?;
        Ok(Component {
            loaded,
            origin: self.origin(&file),
        })
    }

    fn origin(&self, file: &Path) -> Option<Arc<Value>> {
        Origin {
            role: self.role.map(str::to_owned),
            ..Origin::new(file, self.named, self.options)
        }
        .words()
    }
}

fn names<'a>(offered: impl Iterator<Item = &'a server::ToolOffer>) -> String {
    let names: Vec<String> = offered
        .take(NAMES_MAX)
        .map(|one| one.tool.declaration().qualified_name())
        .collect();
    names.join(", ")
}
