//! The settings of single callers of a server, below those of the server.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use toolcell::{Home, Tool};
use toolcell_config::{self as config, ConfigLayers, Principal};
use toolcell_engine::catalog::ToolSelection;
use toolcell_engine::scheduler::Quota;
use toolcell_server::{PrincipalTools, ServerTools, ToolOffer};
use toolcell_spec::{ErrorCode, Refusal};

use super::options::{Settings, WorkspaceOptions};
use super::surface;

/// The principal that the configuration has as `name`.
pub(crate) fn named<'a>(layers: &'a ConfigLayers, name: &str) -> Result<&'a Principal, Refusal> {
    let found = layers.principals.iter().find(|one| one.name == name);
    found.ok_or_else(|| {
        let known: Vec<&str> = layers
            .principals
            .iter()
            .map(|one| one.name.as_str())
            .collect();
        let known = match known.as_slice() {
            [] => "the configuration has no [[principal]]".to_owned(),
            known => format!("there are: {}", known.join(", ")),
        };
        let message = format!("there is no principal {name:?}; {known}");
        Refusal::new(ErrorCode::UnknownPrincipal, message)
    })
}

/// The quota of each caller that has one.
pub(crate) fn quotas(layers: &ConfigLayers) -> HashMap<String, Quota> {
    let of = |one: &Principal| (one.caller(), one.quota.clone());
    let all = layers.principals.iter().map(of);
    all.filter(|(_, quota)| *quota != Quota::default())
        .collect()
}

impl Settings {
    /// Narrows these to what `principal` gets.
    pub(crate) fn narrow(&mut self, principal: &Principal) -> Result<(), Refusal> {
        let grants = Arc::new(std::mem::take(&mut self.grants));
        self.grants = Arc::unwrap_or_clone(principal.grants(&grants).map_err(beyond)?);
        let policy = Arc::new(std::mem::take(&mut self.policy));
        self.policy = Arc::unwrap_or_clone(principal.policy(&policy));
        self.limits = principal.limits(&self.limits);
        Ok(())
    }

    /// `true` if `principal` may see and call `tool`.
    pub(crate) fn has(&self, principal: &Principal, tool: &Tool) -> bool {
        principal.has_tool(tool.declaration(), tool.component(), &self.policy)
    }
}

/// The tools of a server, and how each of its callers sees them.
pub(crate) struct OfferedTools<'a> {
    pub(crate) offered: Vec<ToolOffer>,
    pub(crate) selection: ToolSelection,
    pub(crate) layers: &'a ConfigLayers,
    pub(crate) workspace: &'a WorkspaceOptions,
    pub(crate) home: &'a Home,
    /// Secrets of the server that are not set.
    pub(crate) missing: &'a BTreeSet<String>,
}

impl OfferedTools<'_> {
    /// The tools of each principal, made of the loaded ones of `all`.
    pub(crate) fn of_principals(&self, all: &ServerTools) -> Result<Vec<PrincipalTools>, Refusal> {
        let mut principals = Vec::with_capacity(self.layers.principals.len());
        for principal in &self.layers.principals {
            principals.push(self.of(principal, all)?);
        }
        Ok(principals)
    }

    fn of(&self, principal: &Principal, all: &ServerTools) -> Result<PrincipalTools, Refusal> {
        let tools = &all.tools;
        let grants = principal.grants(&tools.grants).map_err(beyond)?;
        let policy = principal.policy(&tools.policy);
        let is_own = |offer: &&ToolOffer| {
            let tool = &offer.tool;
            principal.has_tool(tool.declaration(), tool.component(), &policy)
        };
        let offered = self.offered.iter().filter(is_own).cloned().collect();
        let granted = |name: &&String| grants.secrets.iter().any(|own| own.name == **name);
        let missing = self.missing.iter().filter(granted).cloned().collect();
        let rules = (&*policy, &*grants);
        let offers = surface::expose(offered, self.selection.clone(), rules, &missing);
        let limits = principal.limits(&tools.limits);
        let own = (**tools)
            .clone()
            .grants(grants)
            .policy(policy)
            .limits(limits);
        let mut own = all.for_principal(own, offers);
        own.workspaces = if principal.workspace == self.layers.workspace {
            all.workspaces.clone()
        } else {
            self.workspace.service(self.home, principal.workspace)?
        };
        Ok(PrincipalTools {
            name: principal.name.clone(),
            tokens: principal.tokens.clone(),
            approves: principal.approves.clone(),
            tools: Arc::new(own),
        })
    }
}

fn beyond(error: anyhow::Error) -> Refusal {
    config::policy_unreadable(format!("the configuration cannot be used: {error:#}"))
}
