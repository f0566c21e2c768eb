use std::sync::Arc;

use serde_json::{Value, json};

use crate::catalog::Tool;
use crate::journal::Trail;
use crate::record::{
    EventType, Input, InputMutation, PermissionDecision, Refusal, ResultPersistence, Status, ToolInvocation,
};

use super::{Request, Services};

/// What one call gathers on its way: records only, never a decision.
pub(super) struct Journey<'a> {
    pub(super) services: &'a Services,
    pub(super) request: Request,
    pub(super) invocation: ToolInvocation,
    pub(super) trail: Trail,
    pub(super) tool: Option<Arc<Tool>>,
    pub(super) decisions: Vec<PermissionDecision>,
    pub(super) mutations: Vec<InputMutation>,
    pub(super) persistence: Vec<ResultPersistence>,
    /// What hooks have to say to the model.
    pub(super) additional_context: Vec<Value>,
}

impl<'a> Journey<'a> {
    pub(super) fn begin(services: &'a Services, request: Request) -> Self {
        let mut invocation = ToolInvocation::planned(&request.tool, &request.input);
        invocation.native_call_id.clone_from(&request.native_call_id);
        invocation.actor_ref.clone_from(&request.actor_ref);
        if let Some(mapping) = &request.mapping {
            invocation.extra.insert("external_mappings".to_owned(), json!([mapping]));
        }
        let listeners = match &request.listener {
            None => Arc::clone(&services.listeners),
            Some(own) => services.listeners.iter().chain([own]).cloned().collect(),
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
            additional_context: Vec::new(),
        }
    }

    /// Moves the invocation on. A step that the graph lacks is a fault of this room.
    pub(super) fn advance(&mut self, to: Status) -> Result<(), Refusal> {
        self.invocation.advance(to, None).map_err(|error| Refusal::host_fault(error.to_string()))
    }

    /// Moves the invocation through a status that only says where a call failed.
    pub(super) fn pass_through(&mut self, to: Status, reason: &str) {
        // A status that cannot be reached from here has nothing to say here.
        let _ = self.invocation.advance(to, Some(reason.to_owned()));
    }

    /// Ends the call if somebody asked for that already.
    pub(super) fn heed_cancellation(&self) -> Result<(), Refusal> {
        match self.request.cancellation.requested() {
            Some(reason) => Err(crate::executor::canceled(reason)),
            None => Ok(()),
        }
    }

    pub(super) fn mutated(&mut self, mutation: InputMutation) {
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
