use std::sync::Arc;

use serde_json::{Value, json};

use crate::catalog::Tool;
use toolcell_executor::{InputCheck, PreflightAccess, WorkspaceRoom};
use toolcell_journal::{
    Artifacts, History, Listener, Outlet, PayloadStore, RoleLock, Start, StoredApproval,
    SuspendedCall, Trail,
};
use toolcell_policy::{Limits, Opinion};
use toolcell_spec::{
    Approval, Behavior, EventType, Input, InputMutation, InputResponses, MutationSource,
    OutputRetention, PermissionDecision, PermissionResult, Plan, Refusal, ResultMappings,
    ResultPersistence, Status, Strategy, Suspension, ToolEvent, ToolHook, ToolInvocation,
    TraceContext, TypedFields, Usage,
};

use crate::scheduler::{QuotaPlace, ResourceClaim};

use super::approval::{ApprovalService, StoredCall};
use super::aside::LongChecks;
use super::batch::BatchSeat;
use super::children::{self, CallTree};
use super::execute::CheckRelay;
use super::phase_clock::PhaseClock;
use super::redaction::{Redaction, records};
use super::running::RunningCall;
use super::suspend::SuspensionStage;
use super::workspace::WorkspaceNote;
use super::{Request, Services, modifiers, refs};

/// In bytes: writing larger records here would delay other calls. These are in the log once.
const LARGE_BYTES: usize = 16 << 10;

/// A named session, such as an MCP client's, or this run of the process. A tool's call has its caller's, whose
/// approvals are not for it.
fn session(request: &Request) -> Arc<str> {
    let lineage = request.lineage.as_ref();
    let of_caller = lineage.and_then(|lineage| lineage.session.clone());
    of_caller.unwrap_or_else(|| request.approval.session.reference())
}

/// A stored call that another process began.
///
/// ```
/// use toolcell_journal::StoredApproval;
/// use toolcell_engine::pipeline::StoredCallRef;
///
/// fn tool(stored: &StoredApproval) -> &str {
///     &StoredCallRef::from(stored).plan().tool
/// }
/// ```
#[derive(Clone, Copy)]
pub enum StoredCallRef<'k> {
    Approval(&'k StoredApproval),
    Suspended(&'k SuspendedCall),
}

impl<'k> StoredCallRef<'k> {
    pub fn plan(self) -> &'k Plan {
        match self {
            Self::Approval(stored) => &stored.approval.plan,
            Self::Suspended(stored) => &stored.suspension.plan,
        }
    }

    /// The caller.
    pub fn actor_ref(self) -> Option<&'k String> {
        match self {
            Self::Approval(stored) => stored.approval.actor_ref.as_ref(),
            Self::Suspended(stored) => stored.suspension.actor_ref.as_ref(),
        }
    }

    pub fn invocation(self) -> &'k ToolInvocation {
        match self {
            Self::Approval(stored) => &stored.invocation,
            Self::Suspended(stored) => &stored.invocation,
        }
    }

    pub(super) fn history(self) -> &'k History {
        match self {
            Self::Approval(stored) => &stored.history,
            Self::Suspended(stored) => &stored.history,
        }
    }

    pub(super) fn approval(self) -> Option<&'k Approval> {
        match self {
            Self::Approval(stored) => Some(&stored.approval),
            Self::Suspended(stored) => stored.approval.as_ref(),
        }
    }

    pub(super) fn suspension(self) -> Option<&'k Suspension> {
        match self {
            Self::Approval(_) => None,
            Self::Suspended(stored) => Some(&stored.suspension),
        }
    }
}

impl<'k> From<&'k StoredApproval> for StoredCallRef<'k> {
    fn from(stored: &'k StoredApproval) -> Self {
        Self::Approval(stored)
    }
}

impl<'k> From<&'k SuspendedCall> for StoredCallRef<'k> {
    fn from(stored: &'k SuspendedCall) -> Self {
        Self::Suspended(stored)
    }
}

/// State that one call gathers: records only, never a decision. Only the pipeline begins one. Boxed, because its future
/// is moved several times.
pub struct CallState<'a> {
    pub(super) services: &'a Services,
    /// Set if another process began the call; phases with a recorded outcome are passed through.
    pub(super) resumed: Option<StoredCallRef<'a>>,
    pub(super) request: Request,
    pub(super) invocation: ToolInvocation,
    pub(super) trail: Trail,
    pub(super) tool: Option<Arc<Tool>>,
    pub(super) decisions: Vec<PermissionDecision>,
    pub(super) mutations: Vec<InputMutation>,
    pub(super) persistence: Vec<ResultPersistence>,
    pub(super) hook_runs: Vec<ToolHook>,
    pub(super) opinion: Option<Opinion>,
    pub(super) redaction: Redaction,
    pub(super) checks: Arc<LongChecks>,
    pub(super) additional_context: Vec<Value>,
    pub(super) mappings: ResultMappings,
    /// `true` if a guest could make lasting changes, so that repeating the call is unsafe.
    pub(super) changes: bool,
    pub(super) artifacts: Option<Artifacts>,
    pub(super) asked: Option<Box<StoredCall>>,
    /// `Some` in a batch, and for a single noticeable call. Held until the end, so that records of mutually exclusive
    /// calls do not overlap.
    pub(super) seat: Option<BatchSeat>,
    /// Kept for a call that stepped aside, because it may fail before it steps back, and be repeated.
    pub(super) aside: Option<ResourceClaim>,
    /// Limits from calls by or above the guest, whose output this one may repeat.
    pub(super) narrowed: OutputRetention,
    /// `Some` after the guest called a tool or asked its user, unless a guest made the call.
    pub(super) tree: Option<Arc<CallTree>>,
    /// The user's answers by key. Every later instance gets them: all attempts are one invocation (AT-EXEC-07), and an
    /// answered question stays answered.
    pub(super) responses: InputResponses,
    /// In earlier processes; `None` if it did not run there.
    pub(super) spent: Option<Box<Usage>>,
    /// `true` if preflight waits for the permission, because hooks or an approver are asked first.
    pub(super) preflight_left: bool,
    /// `None` for a call that does not run.
    pub(super) registered: Option<RunningCall>,
    /// Its caller has a quota.
    pub(super) quota: Option<QuotaPlace>,
    pub(super) clock: PhaseClock,
    /// What the running instance, or its caller's, may add to its workspace.
    pub(super) room: Option<Arc<WorkspaceRoom>>,
    /// `None` for a call that reached no workspace.
    pub(super) workspace: Option<WorkspaceNote>,
}

impl<'a> CallState<'a> {
    pub(super) fn enter(&mut self, phase: &'static str) {
        self.clock.enter(self.invocation.invocation_id, phase);
    }

    pub(super) fn payloads(&self) -> PayloadStore {
        let lasts = self
            .tool
            .as_deref()
            .and_then(|tool| tool.permission_profile().retention());
        self.services
            .payloads
            .for_owner(self.request.actor_ref.as_deref())
            .lasting(lasts)
    }

    pub(super) fn begin(services: &'a Services, request: Request) -> Box<Self> {
        let outlet = services.outlet(Some(session(&request)));
        let mut journey = Self::heard_by(
            Arc::clone(&services.listeners),
            Some(outlet),
            services,
            request,
        );
        journey.registered = Some(journey.register());
        journey
    }

    pub(super) fn unheard(services: &'a Services, request: Request) -> Box<Self> {
        Self::heard_by(Arc::default(), None, services, request)
    }

    /// A call that a tool makes is part of its caller's, which has used what it used.
    pub(super) fn counts(&self) -> bool {
        self.request.lineage.is_none()
    }

    fn register(&self) -> RunningCall {
        self.services.running.enter(
            self.invocation.invocation_id,
            &self.request.cancellation,
            &self.trail,
        )
    }

    fn heard_by(
        listeners: Arc<[Arc<dyn Listener>]>,
        outlet: Option<Outlet>,
        services: &'a Services,
        request: Request,
    ) -> Box<Self> {
        let session_ref = outlet.as_ref().and_then(|outlet| outlet.session.clone());
        let mut invocation = ToolInvocation::planned(request.tool.name(), &request.input);
        invocation
            .native_call_id
            .clone_from(&request.native_call_id);
        invocation.actor_ref.clone_from(&request.actor_ref);
        invocation.session_ref = session_ref;
        let mut narrowed = OutputRetention::default();
        if let Some(lineage) = &request.lineage {
            invocation.note(children::PARENT, json!(lineage.parent));
            narrowed = lineage.narrowed;
            invocation.keeps_no_input = !narrowed.journal;
        }
        invocation.surface_id = request.tool.surface_id().cloned();
        if let Some(mapping) = &request.mapping {
            invocation.add_mapping(mapping);
            // The client's own word (U-08): nothing decides on it.
            if let Some(user) = mapping.fields.text("user_id") {
                let claimed = json!([{ "actor_ref": user, "relation": "claimed_user" }]);
                invocation.note("actor_refs", claimed);
            }
        }
        if let Some(trace) = &request.trace {
            trace.put_into(&mut invocation);
        }
        if let Some(replay) = &request.replay {
            invocation.note("replay_of", json!(replay.of));
        }
        let listeners = match &request.listener {
            None => listeners,
            Some(own) => listeners.iter().chain([own]).cloned().collect(),
        };
        let trail = Trail::begin(&invocation, Arc::clone(&services.source), listeners, outlet);
        if let Some(background) = &request.background {
            background.begin(&trail);
        }
        let requested =
            json!({ "requested": request.tool.name(), "native_call_id": request.native_call_id });
        trail.emit(EventType::Planned, requested);
        Box::new(Self {
            narrowed,
            ..Self::new(services, request, invocation, trail)
        })
    }

    fn new(
        services: &'a Services,
        request: Request,
        invocation: ToolInvocation,
        trail: Trail,
    ) -> Self {
        let checks = Arc::new(LongChecks::from_request(&request));
        let lineage = request.lineage.as_ref();
        let room = lineage.and_then(|lineage| lineage.room.clone());
        Self {
            services,
            resumed: None,
            request,
            redaction: Redaction::new(trail.clone(), Arc::clone(&checks)),
            checks,
            invocation,
            trail,
            tool: None,
            decisions: Vec::new(),
            mutations: Vec::new(),
            persistence: Vec::new(),
            hook_runs: Vec::new(),
            opinion: None,
            additional_context: Vec::new(),
            mappings: ResultMappings::default(),
            changes: false,
            artifacts: None,
            asked: None,
            seat: None,
            aside: None,
            narrowed: OutputRetention::default(),
            tree: None,
            responses: InputResponses::new(),
            spent: None,
            preflight_left: false,
            registered: None,
            quota: None,
            clock: PhaseClock::start(),
            room,
            workspace: None,
        }
    }

    /// Resumes another process's call; this process owns it from now on (`held`).
    pub(super) fn resume(
        services: &'a Services,
        mut request: Request,
        stored: StoredCallRef<'a>,
        desk: &ApprovalService,
        held: RoleLock,
        events: Vec<ToolEvent>,
    ) -> Box<Self> {
        let invocation = stored.invocation();
        let history = stored.history();
        let suspension = stored.suspension();
        let id = invocation.invocation_id;
        let listeners = Arc::clone(&services.listeners);
        let outlet = services.outlet(invocation.session_ref.clone());
        let trail = Trail::resume(
            invocation,
            events,
            Arc::clone(&services.source),
            listeners,
            outlet,
        );
        trail.resolved(&invocation.tool_id);
        request.context_modifier_policy = modifiers::noted(invocation);
        request.trace = TraceContext::recorded(invocation);
        let registered = services.running.enter(id, &request.cancellation, &trail);
        let approval = stored.approval().cloned();
        let mut asked = StoredCall::new(&desk.journal, &trail, approval, held);
        if suspension.is_some() {
            asked.stage = SuspensionStage::Waiting;
        }
        let tree = suspension.map(|left| Arc::new(CallTree::restored(left.asked, left.calls_left)));
        Box::new(Self {
            resumed: Some(stored),
            decisions: history.decisions.clone(),
            mutations: history.mutations.clone(),
            hook_runs: history.hook_runs.clone(),
            changes: suspension.is_some_and(|left| left.changes),
            asked: Some(Box::new(asked)),
            tree,
            responses: suspension
                .map(|left| left.responses.clone())
                .unwrap_or_default(),
            spent: suspension.map(|left| Box::new(left.spent.clone())),
            // A tool that asked has passed it.
            preflight_left: suspension.is_none(),
            registered: Some(registered),
            quota: None,
            ..Self::new(services, request, invocation.clone(), trail)
        })
    }

    pub(super) fn redact_records(&mut self) {
        let Some(redactor) = self.redaction.active() else {
            return;
        };
        for decision in &mut self.decisions {
            records::decision(redactor, decision);
        }
        records::values(redactor, &mut self.additional_context);
        for run in &mut self.hook_runs {
            records::hook(redactor, run);
        }
        for mutation in &mut self.mutations {
            records::mutation(redactor, mutation);
        }
    }

    /// Combines the operator's, the tool's, and those of calls whose output it may repeat.
    pub(super) fn keeping(&self) -> OutputRetention {
        let by_tool = self.tool.as_deref().map(Tool::keeping).unwrap_or_default();
        by_tool.and(self.services.keeping).and(self.narrowed)
    }

    /// Keeps later records off all disks, because a call below has said what may be on none.
    pub(super) fn keep_off_disks(&mut self) {
        self.narrowed = self
            .narrowed
            .and(OutputRetention::by(Strategy::NeverPersist));
        self.trail.keep_unnoted();
    }

    /// Returns whether the records are too large for a worker to write.
    pub(super) fn is_large(&self) -> bool {
        self.request.input.text().len() > LARGE_BYTES
    }

    pub(super) async fn write_start(&mut self) -> Result<(), Refusal> {
        self.redact_records();
        let events = self.trail.events();
        let noted = events.len();
        let mut start = Start::new(self.invocation.clone(), self.changes);
        start.decisions.clone_from(&self.decisions);
        start.hooks.clone_from(&self.hook_runs);
        start.events = events;
        // Boxed, to keep the future of the call small.
        Box::pin(self.services.calls.started(start, self.is_large())).await?;
        self.trail.is_noted(noted);
        Ok(())
    }

    /// Redacted, as a disk may have it.
    pub(super) fn history(&mut self, events: Vec<ToolEvent>) -> History {
        self.redact_records();
        let mut history = History {
            decisions: self.decisions.clone(),
            mutations: self.mutations.clone(),
            hook_runs: self.hook_runs.clone(),
            events,
        };
        if self.invocation.keeps_no_input {
            history.hide_input();
        }
        history
    }

    /// Checks run with an empty capability.
    pub(super) fn check<'c>(
        &'c self,
        tool: &'c Tool,
        input: &'c Input,
        limits: &'c Limits,
    ) -> InputCheck<'c> {
        InputCheck {
            component: tool.component(),
            tool: tool.name(),
            input: input.text(),
            limits,
            wall: self.request.limits.wall,
            cancellation: &self.request.cancellation,
            preflight: PreflightAccess::Offline,
            observer: Arc::new(CheckRelay(self.trail.clone())),
        }
    }

    pub(super) fn set_can_be_left(&self, can: bool) {
        if let Some(background) = &self.request.background {
            background.set_can_be_left(can);
        }
    }

    /// A transition that the status graph lacks is a host fault.
    pub(super) fn advance(&mut self, to: Status) -> Result<(), Refusal> {
        self.invocation
            .advance(to, None)
            .map_err(|error| Refusal::host_fault(error.to_string()))
    }

    /// Such as a status that says where a call failed.
    pub(super) fn pass_through(&mut self, to: Status, reason: &str) {
        // The status is only informational, so one that cannot be reached is skipped.
        let _ = self.invocation.advance(to, Some(reason.to_owned()));
    }

    pub(super) fn heed_cancellation(&self) -> Result<(), Refusal> {
        match self.request.cancellation.requested() {
            Some(reason) => Err(toolcell_executor::canceled(reason)),
            None => Ok(()),
        }
    }

    /// The strictest opinion counts.
    pub(super) fn hear(&mut self, hook_id: &str, result: PermissionResult) {
        let PermissionResult { behavior, reason } = result;
        if behavior == Behavior::Passthrough {
            self.passed_through(hook_id, &reason);
        }
        let opinion = Opinion {
            behavior,
            hook_id: hook_id.to_owned(),
            reason,
        };
        self.opinion = Opinion::combine(self.opinion.take(), opinion);
    }

    /// Records once that a hook leaves the decision to others (AT-BEH-04).
    fn passed_through(&mut self, hook_id: &str, reason: &str) {
        let by = format!("hook:{hook_id}");
        let is_known = |decision: &PermissionDecision| {
            decision.behavior == Behavior::Passthrough && decision.policy_refs.contains(&by)
        };
        if !self.decisions.iter().any(is_known) {
            let id = self.invocation.invocation_id;
            let decision = PermissionDecision::passthrough(
                id,
                self.request.policy.mode,
                by,
                reason.to_owned(),
            );
            self.record_decision(Box::new(decision));
        }
    }

    pub(super) fn record_decision(&mut self, decision: Box<PermissionDecision>) {
        let decision = self.redaction.shown_decision(decision);
        let summary = json!({
            "decision_id": decision.decision_id,
            "behavior": decision.behavior,
            "source": decision.source,
            "rule_refs": decision.rule_refs,
        });
        self.trail.emit(EventType::PermissionDecided, summary);
        modifiers::decided(self, &decision);
        self.invocation
            .permission_decision_refs
            .push(decision.decision_id);
        self.decisions.push(*decision);
        refs::of_policies(self);
    }

    /// As [`Self::mutated`], with an input `from` that the record then lacks (AT-MUT-06).
    pub(super) async fn replaced(
        &mut self,
        source: (MutationSource, &str),
        [from, to]: [&Input; 2],
        reason: &str,
    ) -> Result<(), Refusal> {
        // A concealed reference proves no text.
        if !self.redaction.conceals() && !self.has_input(from) {
            let kept = self.redaction.recorded(from).await?;
            self.invocation.replaced_inputs.push(kept);
        }
        self.mutated(source, [from, to], reason);
        Ok(())
    }

    /// The record has `input`, and no later change takes its place.
    fn has_input(&self, input: &Input) -> bool {
        let invocation = &self.invocation;
        let reference = Some(input.reference());
        let value = input.value().ok();
        reference == Some(&*invocation.model_input_ref)
            || reference == invocation.observable_input_ref.as_deref()
            || self
                .decisions
                .iter()
                .any(|decision| reference == decision.updated_input_ref.as_deref())
            || self
                .hook_runs
                .iter()
                .any(|run| run.updated_input.is_some() && run.updated_input.as_ref() == value)
    }

    pub(super) fn mutated(
        &mut self,
        source: (MutationSource, &str),
        [from, to]: [&Input; 2],
        reason: &str,
    ) {
        let id = self.invocation.invocation_id;
        let mut mutation = InputMutation::new(id, source.0, source.1, from, to, reason);
        mutation.from_input_ref = self.redaction.concealed(&mutation.from_input_ref);
        mutation.to_input_ref = self.redaction.concealed(&mutation.to_input_ref);
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

/// Declares what a phase returns. Only its module can make one, so a missing or misplaced phase does not compile (see
/// `phase.rs`).
macro_rules! phase_token {
    ($(#[$doc:meta])* $visible:vis $name:ident($content:ty)) => {
        $(#[$doc])*
        $visible struct $name($content);

        impl $name {
            pub(super) fn open(self) -> $content {
                self.0
            }
        }
    };
}

pub(super) use phase_token;

pub(super) struct PreparedCall {
    pub(super) tool: Arc<Tool>,
    pub(super) input: Input,
}
