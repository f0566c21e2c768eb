//! The page of a caller or an approver. What it does is what a request of the API would do, with the same checks.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde_json::value::RawValue;
use toolcell::CallSpec;
use toolcell_dialect::http::ApprovalAnswer;
use toolcell_page::{
    DescribedTool, LiveChanges, PageActions, PageAnswer, PageCommands, PageFuture, PagePrincipal,
    PageProblem, PageState, PageUser, ToolRow, UserWorkspaces,
};
use toolcell_spec::{Input, InvocationId, LoadingState, Refusal};
use toolcell_workspace::{Workspace, WorkspaceName, WorkspaceOwner};

use crate::call::name_too_long;
use crate::http::problem::Problem;
use crate::http::route::BODY_BYTES_MAX;
use crate::workspaces::WorkspaceService;

use super::answer::RequestApprover;
use super::calls::too_many_open;
use super::start::ApiCall;
use super::{Api, ApiCaller, ApiState, TokenRole};

/// A call that takes longer is found in the list.
const PATIENCE: Duration = Duration::from_secs(3);

impl Api {
    /// The page of `role`; `None` if it may see none.
    pub(in crate::http) fn page(
        &self,
        role: &TokenRole,
        changes: Arc<LiveChanges>,
    ) -> Option<PageState> {
        let shared = &self.shared;
        let store = &shared.server.tasks.as_ref()?.store;
        let (name, caller) = match role {
            TokenRole::Caller(caller) => {
                let offering = shared.server.offering();
                let may_see = |name: &str| Some(offering.principals.get(name)?.sees_page);
                if may_see(caller.name()) != Some(true) && guard!("page_role") {
                    return None;
                }
                (caller.name(), Some(caller))
            }
            TokenRole::Approver(name) => (name, None),
            TokenRole::Engine(_) => return None,
        };
        let approver = RequestApprover::new(shared, role);
        let user = PagePrincipal {
            name: Arc::clone(name),
            is_caller: caller.is_some(),
            approves: approver.map_or_else(|_| Arc::default(), |approver| approver.callers),
        };
        let workspaces = caller.and_then(|caller| shared.workspaces(caller).ok());
        let workspaces = workspaces.map(|(service, owner)| -> Arc<dyn UserWorkspaces> {
            Arc::new(CallerWorkspaces { service, owner })
        });
        Some(PageState {
            user: PageUser::Principal(user),
            log: store.calls.clone(),
            journal: store.approvals.clone(),
            payloads: store.payloads.clone(),
            workspaces,
            upload_bytes_max: BODY_BYTES_MAX,
            actions: Arc::new(ApiActions {
                shared: Arc::clone(shared),
                role: role.clone(),
            }),
            changes,
        })
    }
}

struct CallerWorkspaces {
    service: Arc<WorkspaceService>,
    owner: WorkspaceOwner,
}

impl UserWorkspaces for CallerWorkspaces {
    fn list(&self) -> Result<Vec<Workspace>, Refusal> {
        self.service.list(&self.owner)
    }

    fn open(&self, name: &WorkspaceName) -> Result<Workspace, Refusal> {
        self.service.open(&self.owner, Some(name.as_str()))
    }
}

struct ApiActions {
    shared: Arc<ApiState>,
    role: TokenRole,
}

impl ApiActions {
    fn caller(&self) -> Result<&Arc<ApiCaller>, PageProblem> {
        match &self.role {
            TokenRole::Caller(caller) => Ok(caller),
            _ => Err(PageProblem::unknown("an approver has no tools")),
        }
    }

    /// A caller's tools, grants, limits and quotas.
    fn of_caller(&self, caller: &ApiCaller) -> Vec<(&'static str, String)> {
        let offering = caller.offering(&self.shared.server);
        let limits = &offering.tools.limits;
        let grants: Vec<&str> = offering.tools.grants.rules().collect();
        let granted = if grants.is_empty() {
            "nothing".to_owned()
        } else {
            grants.join(", ")
        };
        let used = offering.tools.host.quotas_of(caller.name());
        let timeout = limits.wall.as_secs_f64();
        let memory = limits.memory_bytes >> 20;
        let mut facts = vec![
            ("Tools", offering.offers.offered().count().to_string()),
            ("Grants", granted),
            (
                "Limits of a call",
                format!("{timeout} s, {memory} MiB of memory"),
            ),
        ];
        facts.extend(used.iter().flat_map(|used| &used.quotas).map(|quota| {
            let name = quota.name.replace('_', " ");
            let used = (quota.used * 10.0).round() / 10.0;
            ("Quota", format!("{name}: {used} of {}", quota.limit))
        }));
        facts
    }

    fn listed(&self) -> Result<Vec<ToolRow>, PageProblem> {
        let offering = self.caller()?.offering(&self.shared.server);
        let row = |offer: &Arc<crate::exposed_tools::ExposedTool>| ToolRow {
            name: offer.name.clone(),
            state: state(offer.standing.state).to_owned(),
            ..ToolRow::default()
        };
        Ok(offering.offers.offered().map(row).collect())
    }

    fn described(&self, name: &str) -> Result<DescribedTool, PageProblem> {
        let offering = self.caller()?.offering(&self.shared.server);
        let offer = offering.offers.find(name).map_err(Problem::from)?;
        let tool = &offer.tool;
        let value = |record| serde_json::to_value(record).unwrap_or_default();
        Ok(DescribedTool {
            facts: vec![("Component", tool.component().to_string())],
            declarations: vec![serde_json::to_value(tool.declaration()).unwrap_or_default()],
            permission_profiles: vec![value(tool.permission_profile())],
        })
    }

    async fn called(&self, name: &str, input: String) -> Result<Option<String>, PageProblem> {
        let caller = self.caller()?;
        if let Some(why) = name_too_long(name) {
            return Err(PageProblem::unknown(why));
        }
        let server = &self.shared.server;
        let spec = CallSpec::new(name.to_owned(), Input::from_text(&input));
        let mut wish = ApiCall::from_route("POST /tools/{name}", spec);
        wish.workspace = self.shared.workspace(caller, &HeaderMap::new()).await;
        let lease = caller.reserve(&input).await?;
        let room = caller.room().ok_or_else(too_many_open)?;
        let offering = caller.offering(server);
        if let Ok(offer) = offering.offers.find(name) {
            // Its definition is on the page that the form is on.
            let session = offering.approvals.session.clone();
            offering.load(offer, &caller.identity.loads, session).await;
        }
        let call = caller.start((server, &offering), wish, lease, Some(room), true);
        let _ = tokio::time::timeout(PATIENCE, call.step(true)).await;
        let id = call.identified().await;
        Ok(id.map(|id| id.to_string()))
    }

    async fn answered(&self, id: InvocationId, answer: PageAnswer) -> Result<(), PageProblem> {
        let approver = RequestApprover::new(&self.shared, &self.role)?;
        let edit = answer.edit.map(RawValue::from_string).transpose();
        let edit = edit.map_err(|error| {
            let why = format!("the arguments are not valid JSON: {error}; nothing was answered");
            PageProblem::new(StatusCode::BAD_REQUEST, why)
        })?;
        let answer = ApprovalAnswer {
            approved: answer.approves,
            accept_partial_view: answer.accept_partial_view,
            edit,
            feedback: answer.feedback,
        };
        approver.answer(&self.shared, id, answer, "page").await?;
        Ok(())
    }
}

impl PageActions for ApiActions {
    fn tools(&self) -> PageFuture<'_, Vec<ToolRow>> {
        Box::pin(async { self.listed() })
    }

    fn describe<'a>(&'a self, name: &'a str) -> PageFuture<'a, DescribedTool> {
        Box::pin(async { self.described(name) })
    }

    fn call<'a>(
        &'a self,
        name: &'a str,
        _tool: &'a str,
        input: String,
    ) -> PageFuture<'a, Option<String>> {
        Box::pin(self.called(name, input))
    }

    fn answer(&self, id: InvocationId, answer: PageAnswer) -> PageFuture<'_, ()> {
        Box::pin(self.answered(id, answer))
    }

    fn grants(&self) -> Option<&[String]> {
        None
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        if let TokenRole::Caller(caller) = &self.role {
            facts = self.of_caller(caller);
        }
        if let Ok(approver) = RequestApprover::new(&self.shared, &self.role) {
            facts.push(("Answers questions of", approver.callers.join(", ")));
        }
        facts
    }

    fn commands(&self) -> Option<&dyn PageCommands> {
        None
    }
}

fn state(state: LoadingState) -> &'static str {
    match state {
        LoadingState::Unavailable => "unavailable",
        _ => "ready",
    }
}

impl From<Problem> for PageProblem {
    fn from(problem: Problem) -> Self {
        let status = StatusCode::from_u16(problem.status);
        let message = format!("{} [{}]", problem.detail, problem.code);
        Self::new(status.unwrap_or(StatusCode::CONFLICT), message)
    }
}
