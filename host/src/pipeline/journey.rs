use std::sync::Arc;

use serde_json::{Value, json};

use crate::catalog::Tool;
use crate::executor::Check;
use crate::journal::{Held, History, Kept, Listener, Trail};
use crate::policy::{Limits, Opinion};
use crate::record::{
    EventType, Input, InputMutation, PermissionDecision, PermissionResult, Refusal, ResultMappings, ResultPersistence,
    Status, ToolEvent, ToolHook, ToolInvocation,
};

use super::approval::{Asked, Desk};
use super::aside::CheckTime;
use super::redaction::Redaction;
use super::{Request, Services};

/// State that one call gathers in its phases: records only, never a decision.
pub(super) struct Journey<'a> {
    pub(super) services: &'a Services,
    pub(super) request: Request,
    pub(super) invocation: ToolInvocation,
    pub(super) trail: Trail,
    pub(super) tool: Option<Arc<Tool>>,
    pub(super) decisions: Vec<PermissionDecision>,
    pub(super) mutations: Vec<InputMutation>,
    pub(super) persistence: Vec<ResultPersistence>,
    pub(super) hook_runs: Vec<ToolHook>,
    /// Combined opinion of the hooks so far.
    pub(super) opinion: Option<Opinion>,
    /// What must be kept out of these records.
    pub(super) redaction: Redaction,
    pub(super) check_time: CheckTime,
    /// Context from hooks for the model.
    pub(super) additional_context: Vec<Value>,
    pub(super) mappings: ResultMappings,
    /// Whether a guest ran that could make lasting changes, so that repeating the call is not safe.
    pub(super) changes: bool,
    /// `Some` after an approval was requested.
    pub(super) asked: Option<Box<Asked>>,
}

impl<'a> Journey<'a> {
    pub(super) fn begin(services: &'a Services, request: Request) -> Self {
        Self::heard_by(Arc::clone(&services.listeners), services, request)
    }

    /// A journey without the host's listeners, for a call that does not run.
    pub(super) fn unheard(services: &'a Services, request: Request) -> Self {
        Self::heard_by(Arc::default(), services, request)
    }

    fn heard_by(listeners: Arc<[Arc<dyn Listener>]>, services: &'a Services, request: Request) -> Self {
        let mut invocation = ToolInvocation::planned(&request.tool, &request.input);
        invocation.native_call_id.clone_from(&request.native_call_id);
        invocation.actor_ref.clone_from(&request.actor_ref);
        if let Some(mapping) = &request.mapping {
            invocation.extra.insert("external_mappings".to_owned(), json!([mapping]));
        }
        let listeners = match &request.listener {
            None => listeners,
            Some(own) => listeners.iter().chain([own]).cloned().collect(),
        };
        let trail = Trail::begin(invocation.invocation_id, Arc::clone(&services.source), listeners);
        trail.emit(EventType::Planned, json!({ "requested": request.tool, "native_call_id": request.native_call_id }));
        Self {
            services,
            request,
            invocation,
            trail,
            tool: None,
            decisions: Vec::new(),
            mutations: Vec::new(),
            persistence: Vec::new(),
            hook_runs: Vec::new(),
            opinion: None,
            redaction: Redaction::default(),
            check_time: CheckTime::default(),
            additional_context: Vec::new(),
            mappings: ResultMappings::default(),
            changes: false,
            asked: None,
        }
    }

    /// Resumes a call that another process began, and that this process owns from now on (`held`).
    pub(super) fn resume(services: &'a Services, request: Request, kept: &Kept, desk: &Desk, held: Held) -> Self {
        let id = kept.invocation.invocation_id;
        let listeners = Arc::clone(&services.listeners);
        let trail = Trail::resume(id, kept.history.events.clone(), Arc::clone(&services.source), listeners);
        trail.resolved(&kept.invocation.tool_id);
        Self {
            services,
            request,
            invocation: kept.invocation.clone(),
            trail,
            tool: None,
            decisions: kept.history.decisions.clone(),
            mutations: kept.history.mutations.clone(),
            persistence: Vec::new(),
            redaction: Redaction::default(),
            check_time: CheckTime::default(),
            hook_runs: kept.history.hook_runs.clone(),
            opinion: None,
            additional_context: Vec::new(),
            mappings: ResultMappings::default(),
            changes: false,
            asked: Some(Box::new(Asked { journal: desk.journal.clone(), approval: kept.approval.clone(), held })),
        }
    }

    /// The records so far, redacted, with `events`.
    pub(super) fn history(&mut self, events: Vec<ToolEvent>) -> History {
        self.redact_records();
        History {
            decisions: self.decisions.clone(),
            mutations: self.mutations.clone(),
            hook_runs: self.hook_runs.clone(),
            events,
        }
    }

    /// The arguments of the tool's own checks of `input`, which run with an empty capability.
    pub(super) fn check<'c>(&'c self, tool: &'c Tool, input: &'c Input, limits: &'c Limits) -> Check<'c> {
        Check {
            component: tool.component(),
            tool: tool.name(),
            input: input.text(),
            limits,
            cancellation: &self.request.cancellation,
        }
    }

    /// Advances the invocation to status `to`. A transition that the status graph lacks is a fault of the host.
    pub(super) fn advance(&mut self, to: Status) -> Result<(), Refusal> {
        self.invocation.advance(to, None).map_err(|error| Refusal::host_fault(error.to_string()))
    }

    /// Advances the invocation to an informational status, for example one that says where a call failed.
    pub(super) fn pass_through(&mut self, to: Status, reason: &str) {
        // The status is only informational, so one that cannot be reached is skipped.
        let _ = self.invocation.advance(to, Some(reason.to_owned()));
    }

    /// Fails if cancellation of the call was requested.
    pub(super) fn heed_cancellation(&self) -> Result<(), Refusal> {
        match self.request.cancellation.requested() {
            Some(reason) => Err(crate::executor::canceled(reason)),
            None => Ok(()),
        }
    }

    /// Adds the opinion of one hook; the strictest of all counts.
    pub(super) fn hear(&mut self, hook_id: &str, result: PermissionResult) {
        let PermissionResult { behavior, reason } = result;
        let opinion = Opinion { behavior, hook_id: hook_id.to_owned(), reason };
        self.opinion = Opinion::combine(self.opinion.take(), opinion);
    }

    pub(super) fn mutated(&mut self, mut mutation: InputMutation) {
        mutation.from_input_ref = self.concealed(&mutation.from_input_ref);
        mutation.to_input_ref = self.concealed(&mutation.to_input_ref);
        let changed = json!({
            "mutation_id": mutation.mutation_id,
            "source_type": mutation.source_type,
            "source_ref": mutation.source_ref,
            "changed_fields": mutation.changed_fields,
        });
        self.trail.emit(EventType::InputMutated, changed);
        self.mutations.push(mutation);
    }
}

/// A tool, and the input that it is called with so far.
pub(super) struct Prepared {
    pub(super) tool: Arc<Tool>,
    pub(super) input: Input,
}
