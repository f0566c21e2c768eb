//! The settings of single callers of a server, which only narrow the server's.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use toolcell::{Grants, Tool};
use toolcell_config::{self as config, ConfigLayers, Principal, WorkspaceConfig};
use toolcell_engine::catalog::ToolSelection;
use toolcell_engine::scheduler::Quota;
use toolcell_server::{PrincipalTools, Principals, ServerTools, ToolOffer, WorkspaceService};
use toolcell_spec::{ErrorCode, Refusal};

use super::options::Settings;
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

/// The quota of each, which may have no bound.
pub(crate) fn quotas(layers: &ConfigLayers) -> HashMap<String, Quota> {
    let of = |one: &Principal| (one.caller(), one.quota.clone());
    layers.principals.iter().map(of).collect()
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

/// The loaded tools of a server, of which each of its callers gets some.
pub(crate) struct OfferedTools {
    pub(crate) offered: Vec<ToolOffer>,
    pub(crate) selection: ToolSelection,
    /// Secrets of the server that are not set.
    pub(crate) missing: BTreeSet<String>,
}

impl OfferedTools {
    /// Each of `principals`, with tools made from `all` once it calls, and its workspaces if they are others.
    pub(crate) fn of_principals(
        self,
        principals: Vec<Principal>,
        all: &ServerTools,
        workspace: &WorkspaceConfig,
        workspaces: impl Fn(WorkspaceConfig) -> Result<Option<Arc<WorkspaceService>>, Refusal>,
    ) -> Result<Principals, Refusal> {
        let offered = Arc::new(self);
        let one = |mut principal: Principal| {
            let own = principal.workspace(workspace);
            let workspaces = if own == *workspace {
                all.workspaces.clone()
            } else {
                workspaces(own)?
            };
            let grants = principal.grants(&all.tools.grants).map_err(beyond)?;
            let offered = Arc::clone(&offered);
            let name = principal.name.clone();
            let tokens = std::mem::take(&mut principal.tokens);
            let approves = std::mem::take(&mut principal.approves);
            let sees_page = principal.page;
            let own = OwnRules {
                principal,
                grants,
                workspaces,
            };
            let narrow = Box::new(move |all: &ServerTools| offered.narrow(&own, all));
            let mut tools = PrincipalTools::new(name, tokens, narrow);
            tools.approves = approves;
            tools.sees_page = sees_page;
            Ok(tools)
        };
        principals.into_iter().map(one).collect()
    }

    fn narrow(&self, own: &OwnRules, all: &ServerTools) -> ServerTools {
        let OwnRules { principal, .. } = own;
        let policy = principal.policy(&all.tools.policy);
        let is_own = |offer: &&ToolOffer| {
            let tool = &offer.tool;
            principal.has_tool(tool.declaration(), tool.component(), &policy)
        };
        let offered = self.offered.iter().filter(is_own).cloned().collect();
        let is_granted = |name: &&String| {
            let mut secrets = own.grants.secrets.iter();
            secrets.any(|secret| secret.name == **name)
        };
        let missing = self.missing.iter().filter(is_granted).cloned().collect();
        let rules = (&*policy, &*own.grants);
        let offers = surface::expose(offered, self.selection.clone(), rules, &missing);
        let tools = (*all.tools)
            .clone()
            .grants(Arc::clone(&own.grants))
            .policy(policy)
            .limits(principal.limits(&all.tools.limits));
        let elsewhere = all.tools.elsewhere.as_ref();
        let elsewhere = elsewhere.map(|workers| workers.of_principal(&principal.name));
        let tools = tools.with_elsewhere(elsewhere);
        let mut tools = all.for_principal(tools, offers);
        tools.workspaces.clone_from(&own.workspaces);
        tools
    }
}

struct OwnRules {
    principal: Principal,
    grants: Arc<Grants>,
    workspaces: Option<Arc<WorkspaceService>>,
}

fn beyond(error: anyhow::Error) -> Refusal {
    config::policy_unreadable(format!("the configuration cannot be used: {error:#}"))
}
