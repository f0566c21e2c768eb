//! Phase 8: canceled, rate_limited, and what else stops a waiting call.

use serde_json::json;

use crate::approval::Session;
use crate::scheduler::{NetworkUse, NoPlace, QueueTurn, ResourceClaim, RunPlace};
use toolcell_executor::{canceled, unless_canceled};
use toolcell_policy::Limits;
use toolcell_spec::{
    AbortReason, ErrorCode, EventType, ProgressStatus, Refusal, Status, WriteEffect,
};

use super::batch::BatchSeat;
use super::call_state::{CallState, StoredCallRef, phase_token};
use super::permission::{CallPermission, Permitted};
use super::{children, modifiers};

phase_token! {
    pub Scheduled((CallPermission, Option<RunPlace>))
}

/// In seconds, for a call that got no memory or could not wait.
const RETRY_AFTER: f64 = 1.0;

/// A call canceled while it waits never starts.
pub async fn wait(journey: &mut CallState<'_>, permitted: Permitted) -> Result<Scheduled, Refusal> {
    let suspension = journey.resumed.and_then(StoredCallRef::suspension);
    if suspension.is_some() {
        // It takes its turn once its tool runs again.
        let permission = permitted.open();
        set_aside(journey, &permission);
        return Ok(Scheduled((permission, None)));
    }
    journey.heed_cancellation()?;
    let permission = permitted.open();
    if journey.request.lineage.is_some() {
        return Ok(Scheduled((permission, None)));
    }
    let limits = permission.permit.limits();
    let was_held = tell_held(journey)?;
    let services = journey.services;
    let caller = journey.request.actor_ref.clone();
    let caller = caller.as_deref();
    let free = services.scheduler.try_place(caller, limits.host_bytes());
    let runs = take_turn(journey, &permission, free.is_some());
    if let Some(place) = free.filter(|_| runs) {
        return Ok(Scheduled((permission, Some(place))));
    }
    let Some(ticket) = services.scheduler.line_up(caller) else {
        give_up(journey);
        return Err(too_many_wait());
    };
    if !was_held {
        journey.advance(Status::Queued)?;
        let position = services.scheduler.in_line();
        let queued = json!({ "position": position });
        journey.trail.emit(EventType::Queued, queued);
    }
    journey.trail.reached(ProgressStatus::Queued);
    let place = place(journey, limits).await?;
    drop(ticket);
    Ok(Scheduled((permission, place)))
}

/// Records a wait for a place in the batch (AT-SCHED-11).
fn tell_held(journey: &mut CallState<'_>) -> Result<bool, Refusal> {
    let Some(held) = journey.seat.as_mut().and_then(|seat| seat.held.take()) else {
        return Ok(false);
    };
    journey.advance(Status::Queued)?;
    let queued = json!({ "since": held.since, "position": held.position });
    journey.trail.emit(EventType::Queued, queued);
    Ok(true)
}

/// Claims everything in one step, so that calls never wait in a circle. Returns whether the call runs at once, which
/// needs a place. A call that no other can notice takes no turn.
fn take_turn(journey: &mut CallState<'_>, permission: &CallPermission, has_place: bool) -> bool {
    let claim = if journey.seat.is_some() {
        let claim = if children::disturb(journey, &permission.permit) {
            ResourceClaim::alone()
        } else {
            claim(journey, permission)
        };
        modifiers::claim(journey, &permission.tool, claim)
    } else {
        let claim = claim(journey, permission);
        if claim.is_empty() {
            return has_place;
        }
        journey.seat = Some(single_seat(journey));
        claim
    };
    journey
        .seat
        .as_ref()
        .is_some_and(|seat| seat.turn.claim(claim, has_place))
}

/// Claims what others can notice: exactly what the sandbox will apply. A tool without a concurrency claim is alone in a
/// batch; the calls of one
/// caller take turns (AT-N-03). More would stop all of a server. A tool's own calls reach no
/// more than it, but may change what it only reads.
fn claim(
    journey: &CallState<'_>,
    CallPermission { tool, permit }: &CallPermission,
) -> ResourceClaim {
    let capability = permit.capability();
    let profile = tool.permission_profile();
    let in_batch = journey.seat.is_some();
    // It is not known what an irreversible effect touches, nor what a context is that a tool wants for itself.
    let is_alone = !permit.is_concurrency_safe()
        || profile.has_effect(&WriteEffect::Irreversible)
        || tool.locks().needs_context();
    if in_batch && is_alone {
        return ResourceClaim::alone();
    }
    let network = if capability.network.is_empty() {
        NetworkUse::None
    } else if profile.has_effect(&WriteEffect::RemoteMutation)
        || children::change_elsewhere(journey, permit)
    {
        NetworkUse::Changes
    } else {
        NetworkUse::Reads
    };
    let folders = |writable: bool| {
        let mounts = capability
            .mounts
            .iter()
            .filter(move |mount| mount.writable == writable);
        mounts.map(|mount| mount.host.as_path())
    };
    let claim = ResourceClaim::new(folders(false), folders(true), network);
    let caller = match &journey.request.approval.session {
        Session::Named(session) => Some(session.as_str()),
        _ => journey.request.actor_ref.as_deref(),
    };
    let own = caller
        .filter(|_| !permit.is_concurrency_safe())
        .map(|caller| tool.locks().own(caller));
    // A call that another call makes takes no turn of its own: it runs in its caller's turn. That claims no tool which it
    // may call, because one that may call all would stop all of a server.
    let called = children::callable(journey, permit);
    let called = called.iter().flat_map(|called| called.locks().iter());
    claim.with_named(tool.locks().iter().chain(own).chain(called))
}

/// Gives up the turn while waiting for the user, and keeps the claim for [`step_back`]. A batch call keeps its turn,
/// because changes keep their order.
pub(super) fn step_aside(journey: &mut CallState<'_>) {
    if journey.request.order.is_none()
        && let Some(seat) = journey.seat.take()
    {
        journey.aside = seat.turn.leave();
    }
}

/// Lets others pass: failure hooks and the record can take long.
fn give_up(journey: &CallState<'_>) {
    if let Some(seat) = &journey.seat {
        seat.turn.give_up();
    }
}

/// Keeps a claim for [`step_back`]: the call waits since another process ran it.
pub(super) fn set_aside(journey: &mut CallState<'_>, permission: &CallPermission) {
    let claim = claim(journey, permission);
    journey.aside = (!claim.is_empty()).then_some(claim);
}

/// Lines up again; the turn comes with a [`place`].
pub(super) fn step_back(journey: &mut CallState<'_>) {
    let Some(claim) = journey.aside.take() else {
        return;
    };
    let seat = single_seat(journey);
    seat.turn.claim(claim, false);
    journey.seat = Some(seat);
}

fn single_seat(journey: &CallState<'_>) -> BatchSeat {
    let caller = journey.request.actor_ref.as_deref();
    BatchSeat {
        turn: journey.services.locks.turn(None, caller),
        held: None,
    }
}

/// A guest's call needs neither turn nor place: it runs in the place of its waiting caller.
pub(super) async fn place(
    journey: &CallState<'_>,
    limits: &Limits,
) -> Result<Option<RunPlace>, Refusal> {
    if journey.request.lineage.is_some() {
        return Ok(None);
    }
    let waited = turn_and_place(journey, limits);
    let refusal = match unless_canceled(&journey.request.cancellation, waited).await {
        Ok(Ok(place)) => return Ok(Some(place)),
        Ok(Err(NoPlace::Memory { total })) => no_memory(limits, total),
        Ok(Err(NoPlace::Gone)) => canceled(AbortReason::RuntimeShutdown),
        Err(refusal) => refusal,
    };
    give_up(journey);
    Err(refusal)
}

/// Waits for disturbed calls, then for a place: a slot, and memory for at most the wall time. A place
/// whose turn has passed is given up, because a waiting call must keep none.
async fn turn_and_place(journey: &CallState<'_>, limits: &Limits) -> Result<RunPlace, NoPlace> {
    let scheduler = &journey.services.scheduler;
    let caller = journey.request.actor_ref.as_deref();
    let turn = journey.seat.as_ref().map(|seat| &seat.turn);
    loop {
        if let Some(turn) = turn {
            turn.come().await;
        }
        let slot = match scheduler.try_slot(caller) {
            Some(slot) => slot,
            None => {
                // Calls of others pass one whose caller has its part already.
                if let Some(turn) = turn.filter(|_| !scheduler.is_owed(caller)) {
                    turn.lack_place();
                }
                scheduler.slot(caller).await?
            }
        };
        let place = scheduler
            .place(slot, limits.host_bytes(), limits.wall)
            .await?;
        if turn.is_none_or(QueueTurn::begin) {
            return Ok(place);
        }
    }
}

fn too_many_wait() -> Refusal {
    let message = "the queue of waiting calls is full; try again later";
    Refusal {
        retry_after: Some(RETRY_AFTER),
        ..Refusal::new(ErrorCode::QueueFull, message)
    }
}

fn no_memory(limits: &Limits, total: u64) -> Refusal {
    let message = format!(
        "other calls use the {total} bytes of memory that this host gives to all of them, and the {} bytes of this one \
         were not free within {} ms; try again later, or raise --memory-total",
        limits.host_bytes(),
        limits.wall.as_millis()
    );
    let mut refusal = Refusal::new(ErrorCode::HostMemory, message);
    refusal.retry_after = Some(RETRY_AFTER);
    refusal
}
