//! Calls that a running guest makes. Each passes every phase, under a ceiling from its caller's permit, within its
//! remaining limits and its place.
//!
//! A lower call runs inside the future of the upper one, so it always ends with it.

mod line;
mod surface;

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{OnceCell, mpsc, oneshot};

use crate::catalog::Tool;
use crate::scheduler::{CHILD_DEPTH_MAX, SharedPlace};
use toolcell_executor::{
    CallableTool, Cancellation, ChildAnswer, ChildCall, ChildOutput, Execution, LimitShare,
    RunInput, WorkspaceRoom,
};
use toolcell_policy::secret::REDACTED;
use toolcell_policy::{CallCeiling, Limits, Permit, Policy};
use toolcell_spec::{
    AbortReason, CallRecord, ErrorCode, Input, InvocationId, OutputRetention, Refusal,
    ResultStatus, Strategy, ToolError, ToolInvocation, ToolSurface, Usage, WriteEffect,
};
use toolcell_system::BoxFuture;

use super::call_state::CallState;
use super::redaction::InheritedSecrets;
use super::{Callee, Request, Services, whole, workspace};
use line::{ChildLine, ChildReply, ChildRequest, UnreadUsage};

/// An extension of the specification.
pub(super) const PARENT: &str = "parent_invocation_id";
/// An extension of the specification.
const CHILDREN: &str = "child_invocation_ids";
/// An extension of the specification: the surface of the call's own calls.
const SURFACE: &str = "child_surface";

/// The rule by which no tool calls itself.
const CYCLES: &str = "tool_calls:cycles";

/// Calls below a client's call, at all depths and including refused ones, because each leaves a record.
const CALLS_MAX: u32 = 256;
const LISTED_MAX: usize = 256;
/// After this silence a call first says that it runs; doubles up to a maximum shorter than the patience of clients.
const SILENCE: Duration = Duration::from_secs(2);
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// In characters, because a guest wrote the name.
const NAME_CHARS_MAX: usize = 100;

#[derive(Clone)]
pub(super) struct CallFamily {
    pub(super) parent: InvocationId,
    /// The `tool_id`s, from the outermost to the caller.
    ancestors: Vec<String>,
    pub(super) ceiling: CallCeiling,
    /// Values that no record of a lower call may show.
    pub(super) hidden: Option<InheritedSecrets>,
    /// A lower call's arguments may repeat another call's output.
    pub(super) narrowed: OutputRetention,
    pub(super) session: Option<Arc<str>>,
    tree: Arc<CallTree>,
    /// The workspace is the caller's, and so is its room.
    pub(super) room: Option<Arc<WorkspaceRoom>>,
}

pub(super) struct Lineage {
    family: CallFamily,
    pub(super) share: LimitShare,
}

impl Deref for Lineage {
    type Target = CallFamily;

    fn deref(&self) -> &CallFamily {
        &self.family
    }
}

pub(super) struct CallTree {
    calls_left: AtomicU32,
    asked: AtomicUsize,
    chain: OnceCell<Option<SharedPlace>>,
}

impl CallTree {
    pub(super) fn restored(asked: usize, calls_left: u32) -> Self {
        Self {
            calls_left: AtomicU32::new(calls_left),
            asked: AtomicUsize::new(asked),
            chain: OnceCell::new(),
        }
    }

    pub(super) fn calls_left(&self) -> u32 {
        self.calls_left.load(Ordering::Relaxed)
    }

    pub(super) fn from_call(journey: &mut CallState<'_>) -> Arc<Self> {
        match &journey.request.lineage {
            Some(lineage) => Arc::clone(&lineage.tree),
            // The same one for each instance of a call that asked its user something, and for each attempt.
            None => Arc::clone(
                journey
                    .tree
                    .get_or_insert_with(|| Arc::new(Self::restored(0, CALLS_MAX))),
            ),
        }
    }

    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    pub(super) fn ask(&self) {
        self.asked.fetch_add(1, Ordering::Relaxed);
    }

    fn emptied(&self) -> Self {
        Self::restored(self.asked(), self.calls_left())
    }

    fn count(&self) -> Result<(), Refusal> {
        let less = |left: u32| left.checked_sub(1);
        match self
            .calls_left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
        {
            Ok(_) => Ok(()),
            Err(_) => {
                let message = format!(
                    "this call has made {CALLS_MAX} calls of other tools, those of the tools that it called included, \
                     which is all it may; make fewer calls"
                );
                Err(Refusal::new(ErrorCode::ChildCallsLimit, message))
            }
        }
    }
}

impl CallFamily {
    /// Judges by the names. Either call's `request` will do: both have the same policy and tools.
    fn may_call(&self, tool: &Tool, request: &Request) -> bool {
        let offered = request.offered.as_deref();
        offered.is_none_or(|offered| offered.contains_key(&tool.declaration().tool_id))
            && is_named(tool, &request.policy, |name| self.ceiling.may_call(name))
    }

    fn is_recursive(&self, tool: &Tool) -> bool {
        self.ancestors.contains(&tool.declaration().tool_id)
    }

    fn is_too_deep(&self) -> bool {
        self.ancestors.len() > usize::try_from(CHILD_DEPTH_MAX).unwrap_or(usize::MAX)
    }
}

/// Fails if the guest may not call `tool`; applies the limits for its calls.
pub(super) fn admit(request: &mut Request, tool: &Tool) -> Result<(), Refusal> {
    let Some(lineage) = &request.lineage else {
        return Ok(());
    };
    if !lineage.may_call(tool, request) {
        return Err(not_callable(request.tool.name()));
    }
    let id = &tool.declaration().tool_id;
    if lineage.is_recursive(tool) {
        let message = format!(
            "{id} is already running in this call chain ({}); a tool cannot call itself, even through others",
            lineage.ancestors.join(", which calls ")
        );
        let refusal = Refusal::new(ErrorCode::RecursiveToolForbidden, message);
        return Err(refusal.by_policy(CYCLES.to_owned()));
    }
    if lineage.is_too_deep() {
        let message = format!(
            "{id} would be call number {} below the first one; {CHILD_DEPTH_MAX} may be nested",
            lineage.ancestors.len()
        );
        let refusal = Refusal::new(ErrorCode::ChildDepthLimit, message);
        return Err(refusal.by_policy("tool_calls:depth".to_owned()));
    }
    if let Some(wall) = request
        .offered
        .as_deref()
        .and_then(|offered| *offered.get(id)?)
    {
        request.limits.wall = request.limits.wall.min(wall);
    }
    Ok(())
}

/// The same for a missing tool, so that a guest cannot find out which tools there are.
pub(super) fn not_callable(name: &str) -> Refusal {
    let name: String = name.chars().take(NAME_CHARS_MAX).collect();
    let message = format!(
        "`{name}` is no tool that this call may call; it has to be loaded, callable through the surface of this call, \
         granted with --allow-tool, and in the tool_calls of the profile of the tool that calls it. The name of an \
         installed tool means that one alone"
    );
    Refusal::new(ErrorCode::ToolNotCallable, message).by_policy("tool_calls".to_owned())
}

/// Returns whether a call that no process runs was made by one that has ended and no longer limits it.
pub(super) fn is_orphan(invocation: &ToolInvocation) -> bool {
    invocation.extra.contains_key(PARENT) && guard!("child_resume")
}

pub(super) fn outlived() -> Refusal {
    let message = "the call that made this one has ended, and so this one cannot run any more";
    Refusal::new(ErrorCode::CallerEnded, message)
}

/// The permit's limits, but at most the caller's rest.
pub(super) fn limits<'p>(journey: &CallState<'_>, permit: &'p Permit) -> Cow<'p, Limits> {
    match &journey.request.lineage {
        None => Cow::Borrowed(permit.limits()),
        Some(lineage) => Cow::Owned(lineage.share.lower(permit.limits(), None)),
    }
}

/// Returns whether a callable tool could disturb calls that this one would not.
pub(super) fn disturb(journey: &CallState<'_>, permit: &Permit) -> bool {
    is_any_callable(journey, permit, |tool| {
        let profile = tool.permission_profile();
        let effects = [WriteEffect::RemoteMutation, WriteEffect::Irreversible];
        tool.facts().is_concurrency_safe != Some(true)
            || tool.classifies()
            || effects.iter().any(|effect| profile.has_effect(effect))
    })
}

/// Returns whether a callable tool's requests could change something elsewhere, if the call may.
pub(super) fn change_elsewhere(journey: &CallState<'_>, permit: &Permit) -> bool {
    !permit.changes_nothing()
        && guard!("child_network")
        && is_any_callable(journey, permit, |tool| {
            tool.permission_profile()
                .has_effect(&WriteEffect::RemoteMutation)
        })
}

fn is_any_callable(journey: &CallState<'_>, permit: &Permit, is: impl Fn(&Tool) -> bool) -> bool {
    callable(journey, permit).iter().any(|tool| is(tool))
}

pub(super) fn callable(journey: &CallState<'_>, permit: &Permit) -> Vec<Arc<Tool>> {
    let calls = &permit.capability().tools;
    if calls.is_empty() {
        return Vec::new();
    }
    let mut known = journey.services.catalog.tools();
    known.retain(|tool| is_named(tool, &journey.request.policy, |name| calls.allow(name)));
    known
}

/// The accepted name must be the tool's own: a grant by name is for installed tools, not for one that claims the name.
fn is_named(tool: &Tool, policy: &Policy, names: impl Fn(&str) -> bool) -> bool {
    let declaration = tool.declaration();
    names(&declaration.qualified_name())
        && !policy.is_impostor(declaration, tool.component(), |_| true)
}

pub(super) async fn invoke(
    journey: &mut CallState<'_>,
    permit: &Permit,
    mut run: RunInput,
) -> Box<Execution> {
    let mut in_workspace = None;
    if journey.request.workspace.is_some() {
        // Boxed, to keep the future of a call without a workspace small.
        match Box::pin(workspace::begin(journey, permit)).await {
            Ok(begun) => in_workspace = begun,
            Err(refusal) => return Execution::failed(refusal, spent(&run)),
        }
    }
    run.room.clone_from(&journey.room);
    let mut execution = heard(journey, permit, run).await;
    if in_workspace.is_some() {
        Box::pin(workspace::end(journey, in_workspace, &mut execution)).await;
    }
    execution
}

/// Of earlier instances.
fn spent(run: &RunInput) -> Usage {
    let resumed = run.resumed.as_ref();
    resumed.map_or_else(Usage::default, |resumed| resumed.spent.clone())
}

async fn heard(journey: &mut CallState<'_>, permit: &Permit, run: RunInput) -> Box<Execution> {
    let trail = journey.trail.clone();
    let mut tool = started(journey, permit, run);
    let mut silence = SILENCE;
    loop {
        tokio::select! {
            biased;
            execution = &mut tool => return execution,
            () = tokio::time::sleep(silence) => if trail.beat(silence) {
                silence = silence.saturating_mul(2).min(SILENCE_MAX);
            },
        }
    }
}

fn started<'a>(
    journey: &'a mut CallState<'_>,
    permit: &'a Permit,
    run: RunInput,
) -> BoxFuture<'a, Box<Execution>> {
    let calls = journey.tool.as_ref().is_some_and(|tool| tool.calls_tools());
    if !calls || permit.capability().tools.is_empty() {
        return journey.services.executor.invoke(permit, run);
    }
    Box::pin(serve(journey, permit, run))
}

async fn serve(journey: &mut CallState<'_>, permit: &Permit, mut run: RunInput) -> Box<Execution> {
    let services = journey.services;
    let mut family = CallFamily::from_call(journey, permit);
    // Made for the first call: most guests that may call a tool call none.
    let mut surface = None;
    let cancellation = journey.request.cancellation.clone();
    let (wishes, mut asked) = mpsc::channel(1);
    run.tools = Some(Arc::new(ChildLine(wishes)));
    let mut guest = services.executor.invoke(permit, run);
    let mut ids = Vec::new();
    let mut child: Option<RunningChild<'_>> = None;
    let unread = UnreadUsage::default();
    let mut canceled = false;
    let mut execution = loop {
        tokio::select! {
            biased;
            () = cancellation.cancelled(), if !canceled => {
                canceled = true;
                if let Some(child) = &child {
                    child.cancellation.cancel(cancellation.reason());
                }
            }
            execution = &mut guest => break execution,
            record = ended(&mut child), if child.is_some() => {
                // Before the guest has the answer: it can repeat what may be on no disk in all that it says from then on.
                if record.is_never_persisted() && guard!("child_persistence") {
                    journey.keep_off_disks();
                    family.narrowed = journey.narrowed;
                }
                if let Some(RunningChild { reply, .. }) = child.take() {
                    // A guest that was stopped meanwhile does not read it.
                    let _ = reply.send(ChildReply::new(answer(record), &unread));
                }
            }
            Some(wish) = asked.recv(), if child.is_none() => match wish {
                ChildRequest::List(reply) => _ = reply.send(family.list(services, &journey.request)),
                ChildRequest::Call(call, reply) => match family.tree.count() {
                    Ok(()) => {
                        let surface = surface.get_or_insert_with(|| family.surface(journey));
                        let begun = family.begin(services, &journey.request, call, reply, surface);
                        ids.push(json!(begun.id));
                        if canceled {
                            begun.cancellation.cancel(cancellation.reason());
                        }
                        child = Some(begun);
                    }
                    Err(refusal) => _ = reply.send(ChildReply::new(not_made(refusal.to_error()), &unread)),
                },
            },
        }
    };
    drop(guest);
    // The guest was stopped while it waited. The call that it waited for ends before it, with a record.
    if let Some(RunningChild {
        call,
        cancellation: of_child,
        ..
    }) = child
    {
        of_child.cancel(cancellation.requested().unwrap_or(AbortReason::Timeout));
        drop(ChildReply::new(answer(call.await), &unread));
    }
    // Nothing is left that could read a reply.
    for used in unread.take() {
        execution.usage.charge(&used);
        if let (Some(own), Some(below)) = (&journey.artifacts, &used.artifacts) {
            own.charge(below);
        }
    }
    if let Some(surface) = surface {
        journey.invocation.note(SURFACE, json!(surface));
    }
    for id in ids {
        journey.invocation.note_item(CHILDREN, id);
    }
    if let (None, Some(tree)) = (&journey.request.lineage, journey.tree.take()) {
        // Gives the room back: the call may wait for its user, or for a place, before its next instance.
        journey.tree = Some(Arc::new(tree.emptied()));
    }
    execution
}

async fn ended(child: &mut Option<RunningChild<'_>>) -> Box<CallRecord> {
    match child {
        Some(child) => child.call.as_mut().await,
        None => std::future::pending().await,
    }
}

fn answer(record: Box<CallRecord>) -> ChildAnswer {
    let CallRecord {
        invocation, result, ..
    } = *record;
    let used = result.usage.unwrap_or_default();
    let result = match result.error {
        Some(error) if result.status != ResultStatus::PartialSucceeded => {
            Err(match invocation.started_at() {
                // A tool that passes the error on would seem to be the one that failed. An earlier refusal names the tool itself.
                Some(_) => ToolError {
                    message: format!("{}: {}", invocation.tool_id, error.message),
                    ..error
                },
                None => error,
            })
        }
        missing => Ok(ChildOutput {
            invocation_id: result.invocation_id,
            content: json!(result.model_facing_content).to_string(),
            structured: result
                .structured_content
                .map(|value: Value| value.to_string()),
            missing,
        }),
    };
    ChildAnswer { result, used }
}

fn not_made(error: ToolError) -> ChildAnswer {
    ChildAnswer {
        result: Err(error),
        used: Usage::default(),
    }
}

struct RunningChild<'s> {
    id: InvocationId,
    call: BoxFuture<'s, Box<CallRecord>>,
    cancellation: Cancellation,
    reply: oneshot::Sender<ChildReply>,
}

impl CallFamily {
    fn from_call(journey: &mut CallState<'_>, permit: &Permit) -> Self {
        let tree = CallTree::from_call(journey);
        let above = journey
            .request
            .lineage
            .as_ref()
            .map_or_else(Vec::new, |lineage| lineage.ancestors.clone());
        let tool_id = journey.invocation.tool_id.clone();
        Self {
            parent: journey.invocation.invocation_id,
            ceiling: CallCeiling::from_permit(permit, &tool_id),
            hidden: journey.redaction.inherited(),
            narrowed: if journey.keeping().journal {
                journey.narrowed
            } else {
                // What may be on no disk itself can repeat itself in the arguments of its calls.
                journey
                    .narrowed
                    .and(OutputRetention::by(Strategy::NeverPersist))
            },
            session: journey.invocation.session_ref.clone(),
            ancestors: above.into_iter().chain([tool_id]).collect(),
            tree,
            room: journey.room.clone(),
        }
    }

    /// Excludes the tools that call it (AT-REASON-05).
    fn callable(&self, services: &Services, request: &Request) -> Vec<Arc<Tool>> {
        if self.is_too_deep() {
            return Vec::new();
        }
        let callee = callee(request, String::new());
        let is_listed = |tool: &Arc<Tool>| {
            tool.declaration().lifecycle.is_offered()
                && tool.gap().is_none()
                && callee.withheld(tool).is_none()
                && self.may_call(tool, request)
                && !self.is_recursive(tool)
        };
        let callable = services.catalog.tools().into_iter().filter(is_listed);
        callable.take(LISTED_MAX).collect()
    }

    fn list(&self, services: &Services, request: &Request) -> Vec<CallableTool> {
        let callable = self.callable(services, request).into_iter();
        let listed = callable.map(|tool| CallableTool {
            name: tool.declaration().qualified_name(),
            description: tool
                .contract()
                .shown(&tool.declaration().description)
                .into_owned(),
        });
        listed.collect()
    }

    /// The call makes progress only while polled.
    fn begin<'s>(
        &self,
        services: &'s Services,
        of_parent: &Request,
        call: ChildCall,
        reply: oneshot::Sender<ChildReply>,
        surface: &ToolSurface,
    ) -> RunningChild<'s> {
        let ChildCall {
            mut tool,
            mut input,
            share,
        } = call;
        // What the caller hides is found and removed by the rules of the tool that is called. A name that means no tool has
        // none, and may itself be such a value.
        let is_discreet = self.hidden.is_some() || !self.narrowed.journal;
        if is_discreet && services.catalog.resolve(&tool).is_err() && guard!("child_names") {
            (tool, input) = (REDACTED.to_owned(), "{}".to_owned());
        }
        let cancellation = Cancellation::new();
        let callee = callee(of_parent, tool);
        let lineage = Lineage {
            family: self.clone(),
            share,
        };
        let request = of_parent
            .below(callee, Input::from_text(input), self.parent, lineage)
            .cancellation(cancellation.clone());
        let mut journey = CallState::begin(services, request);
        journey.invocation.surface_id = Some(surface.surface_id.as_str().into());
        let id = journey.invocation.invocation_id;
        RunningChild {
            id,
            call: on_chain(journey, Arc::clone(&self.tree)),
            cancellation,
            reply,
        }
    }
}

/// Resolved through the caller's surface if that bounds what it may call.
fn callee(of_parent: &Request, name: String) -> Callee {
    let callee = Callee::from(name).loaded(true);
    match (of_parent.tool.surface_id(), &of_parent.offered) {
        (Some(id), Some(_)) => callee.on_surface(Arc::clone(id), None),
        _ => callee,
    }
}

/// Waits for room. A named type, because the call can contain others of the same kind.
fn on_chain(journey: Box<CallState<'_>>, tree: Arc<CallTree>) -> BoxFuture<'_, Box<CallRecord>> {
    Box::pin(async move {
        let cancellation = journey.request.cancellation.clone();
        let chains = &journey.services.chains;
        let caller = journey.request.actor_ref.as_deref();
        tokio::select! {
            biased;
            // The first phase ends a call that was canceled.
            () = cancellation.cancelled() => {}
            _ = tree.chain.get_or_init(|| chains.take(caller)) => {}
        }
        let keeper = journey.request.keeper.clone();
        let record = whole(journey).await;
        if let Some(keeper) = keeper {
            keeper.ended(&record).await;
        }
        record
    })
}
