//! What leaves the store: calls whose approvals ended long ago, with everything that is stored of them.

use std::time::Duration;

use rusqlite::{Transaction, params};

use crate::approval::EXPIRE_MAX;
use crate::record::{SessionRule, Timestamp};

use super::StoreError;

/// Maximum number of calls that one new question removes, so that none waits long. Each question adds one call.
const REMOVED_MAX: u32 = 32;
/// The calls that go. The states are named so that an index finds them. A rule that still counts names the call that made it.
const OVER: &str = "
    SELECT invocation FROM approvals
    WHERE state IN ('pending', 'approved', 'rejected', 'expired', 'withdrawn', 'claimed', 'done') AND expires_at < ?1
    AND invocation NOT IN (SELECT made_by FROM session_rules)
    AND invocation NOT IN (SELECT invocation FROM suspended) LIMIT ?2";
/// What is stored of a call, in an order in which nothing refers to what is gone.
const PARTS: [&str; 7] = [
    "DELETE FROM decisions WHERE invocation = ?1",
    "DELETE FROM mutations WHERE invocation = ?1",
    "DELETE FROM hook_runs WHERE invocation = ?1",
    "DELETE FROM events WHERE invocation = ?1",
    "DELETE FROM results WHERE invocation = ?1",
    "DELETE FROM approvals WHERE invocation = ?1",
    "DELETE FROM invocations WHERE id = ?1",
];

/// Removes some of the calls whose approvals ended longer than `age_max` ago, and the session rules that have ended. A call
/// that may still be waited for, or run, is never that old.
pub(super) fn forget_old(transaction: &Transaction<'_>, now: Timestamp, age_max: Duration) -> Result<(), StoreError> {
    let before = |age: Duration| now.unix_millis().saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
    transaction.execute("DELETE FROM session_rules WHERE made_at <= ?1", [before(SessionRule::LASTS)])?;
    let over: Vec<String> = {
        let mut over = transaction.prepare(OVER)?;
        let ids = over.query_map(params![before(age_max.max(EXPIRE_MAX)), REMOVED_MAX], |row| row.get(0))?;
        ids.collect::<rusqlite::Result<_>>()?
    };
    for id in &over {
        remove(transaction, id)?;
    }
    Ok(())
}

/// Removes everything that is stored of the call `id`.
pub(super) fn remove(transaction: &Transaction<'_>, id: &str) -> Result<(), StoreError> {
    for part in PARTS {
        transaction.execute(part, [id])?;
    }
    Ok(())
}
