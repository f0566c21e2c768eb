//! Calls that wait for an approval: they have not started, so the log has nothing of them yet.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcell_journal::{CallQuery, CallSummary, Journal, StoreError, Summary};
use toolcell_spec::{ApprovalState, InvocationId, Status, Timestamp};

use crate::words::is_below;

/// Adds those that match `query`, in order.
pub fn add(
    calls: &mut Vec<CallSummary>,
    query: &CallQuery,
    journal: &Journal,
) -> Result<(), StoreError> {
    // What waits has no session on record.
    if query.session.is_some()
        || query
            .status
            .is_some_and(|status| status != Status::AwaitingApproval)
        || !journal.exists()
    {
        return Ok(());
    }
    let now = Timestamp::now();
    let has_text = |call: &Summary, text: &String| {
        let caller = call.actor_ref.as_deref().unwrap_or_default();
        let words = format!("{} {} {caller}", call.invocation_id, call.tool_id);
        words.to_lowercase().contains(&text.to_lowercase())
    };
    let waits = |call: &Summary| {
        let is_since = query.since.is_none_or(|since| call.asked_at >= since);
        let is_callers = query.caller.is_none() || query.caller == call.actor_ref;
        is_open(call, now)
            && is_since
            && is_callers
            && query.text.as_ref().is_none_or(|text| has_text(call, text))
            && query
                .before
                .as_ref()
                .is_none_or(|(_, id)| call.invocation_id.to_string() < *id)
            && query
                .tool
                .as_deref()
                .is_none_or(|tool| is_below(tool, &call.tool_id))
    };
    let caller: Option<[Arc<str>; 1]> = query.caller.as_deref().map(|caller| [caller.into()]);
    let callers = caller.as_ref().map(|caller| &caller[..]);
    let found = journal.with(|store| store.list_of(false, callers))?;
    for call in found.into_iter().filter(waits) {
        let invocation_id = call.invocation_id.to_string();
        if calls
            .iter()
            .any(|known| known.invocation_id == invocation_id)
        {
            continue;
        }
        calls.push(CallSummary {
            invocation_id,
            tool_id: call.tool_id,
            status: Status::AwaitingApproval.as_str().to_owned(),
            error_class: None,
            error_code: None,
            caller: call.actor_ref,
            session: None,
            created_at: call.asked_at.to_string(),
            elapsed_ms: None,
        });
    }
    calls.sort_by(|one, other| other.invocation_id.cmp(&one.invocation_id));
    calls.truncate(usize::try_from(query.limit).unwrap_or(usize::MAX));
    Ok(())
}

fn is_open(call: &Summary, now: Timestamp) -> bool {
    call.state == ApprovalState::Pending && call.expires_at > now
}

/// The one call whose id is, or ends in, `id`, that `caller` made, if one is named, and that has not started.
pub fn record(
    journal: &Journal,
    id: &str,
    caller: Option<&str>,
) -> Result<Option<Value>, StoreError> {
    if !journal.exists() {
        return Ok(None);
    }
    let now = Timestamp::now();
    let kept = journal.with(|store| {
        let whole: Option<InvocationId> = id.parse().ok();
        if let (Some(whole), Some(caller)) = (whole, caller) {
            return store.kept_of(whole, &[caller.into()]);
        }
        let mut found = store.list(false)?;
        // One that was approved has no line in the log until it starts.
        let is_before_log = |call: &Summary| {
            is_open(call, now)
                || matches!(call.state, ApprovalState::Approved | ApprovalState::Running)
        };
        found.retain(|call| is_before_log(call) && call.invocation_id.to_string().ends_with(id));
        match found.as_slice() {
            [call] => store.kept(call.invocation_id),
            _ => Ok(None),
        }
    })?;
    Ok(kept.map(|kept| {
        json!({
            "invocation": kept.invocation,
            "decisions": kept.history.decisions,
            "hooks": kept.history.hook_runs,
            "events": kept.history.events,
        })
    }))
}
