//! The settings of single callers of a server, which only narrow the server's.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use toolcell::{Grants, Limits, Policy, Tool};
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

/// The loaded tools of a server, of which each of its callers gets some.
pub(crate) struct OfferedTools {
    pub(crate) offered: Vec<ToolOffer>,
    pub(crate) selection: ToolSelection,
    /// Secrets of the server that are not set.
    pub(crate) missing: BTreeSet<String>,
}

impl OfferedTools {
    /// Each principal, with tools made from `all`, and its workspaces if they are others.
    pub(crate) fn of_principals(
        self,
        layers: &ConfigLayers,
        all: &ServerTools,
        workspaces: impl Fn(WorkspaceConfig) -> Result<Option<Arc<WorkspaceService>>, Refusal>,
    ) -> Result<Principals, Refusal> {
        let offered = Arc::new(self);
        let one = |principal: &Principal| {
            let workspace = principal.workspace(&layers.workspace);
            let workspaces = if workspace == layers.workspace {
                all.workspaces.clone()
            } else {
                workspaces(workspace)?
            };
            let rules = OwnRules {
                grants: principal.grants(&all.tools.grants).map_err(beyond)?,
                policy: principal.policy(&all.tools.policy),
                limits: principal.limits(&all.tools.limits),
                workspaces,
            };
            let offered = Arc::clone(&offered);
            let own = principal.clone();
            let narrow = Box::new(move |all: &ServerTools| offered.narrow(&own, &rules, all));
            let tokens = principal.tokens.clone();
            let mut tools = PrincipalTools::new(principal.name.clone(), tokens, narrow);
            tools.approves.clone_from(&principal.approves);
            Ok(tools)
        };
        layers.principals.iter().map(one).collect()
    }

    fn narrow(&self, principal: &Principal, own: &OwnRules, all: &ServerTools) -> ServerTools {
        let is_own = |offer: &&ToolOffer| {
            let tool = &offer.tool;
            principal.has_tool(tool.declaration(), tool.component(), &own.policy)
        };
        let offered = self.offered.iter().filter(is_own).cloned().collect();
        let is_granted = |name: &&String| {
            let mut secrets = own.grants.secrets.iter();
            secrets.any(|secret| secret.name == **name)
        };
        let missing = self.missing.iter().filter(is_granted).cloned().collect();
        let rules = (&*own.policy, &*own.grants);
        let offers = surface::expose(offered, self.selection.clone(), rules, &missing);
        let tools = (*all.tools)
            .clone()
            .grants(Arc::clone(&own.grants))
            .policy(Arc::clone(&own.policy))
            .limits(own.limits.clone());
        let mut tools = all.for_principal(tools, offers);
        tools.workspaces.clone_from(&own.workspaces);
        tools
    }
}

struct OwnRules {
    grants: Arc<Grants>,
    policy: Arc<Policy>,
    limits: Limits,
    workspaces: Option<Arc<WorkspaceService>>,
}

fn beyond(error: anyhow::Error) -> Refusal {
    config::policy_unreadable(format!("the configuration cannot be used: {error:#}"))
}
