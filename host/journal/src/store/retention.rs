//! Removes calls whose approvals ended long ago.

use std::time::Duration;

use rusqlite::{Transaction, params};

use toolcell_spec::EXPIRE_MAX;
use toolcell_spec::{SessionRule, Timestamp};

use super::StoreError;

/// Each question adds one call, and must not wait long.
const REMOVED_MAX: u32 = 32;
/// Naming the states lets an index find the calls. A rule that still counts names its call.
const OVER: &str = "
    SELECT invocation FROM approvals
    WHERE state IN ('pending', 'approved', 'rejected', 'expired', 'canceled', 'running', 'finished') AND expires_at < ?1
    AND invocation NOT IN (SELECT made_by FROM session_rules)
    AND invocation NOT IN (SELECT invocation FROM suspended) LIMIT ?2";
/// A call's arguments alone may have 4 MiB, and a question can be open for a week.
pub(super) const STORE_BYTES_MAX: u64 = 256 << 20;
/// For waiting calls of one caller.
const CALLER_PART: u64 = 4;
/// Calls that cannot run any more; they go first.
const ENDED: &str = "
    SELECT invocation FROM approvals
    WHERE (state IN ('rejected', 'expired', 'canceled', 'finished') OR expires_at < ?1) AND invocation <> ?2
    AND invocation NOT IN (SELECT made_by FROM session_rules)
    AND invocation NOT IN (SELECT invocation FROM suspended) ORDER BY asked_at LIMIT ?3";
/// The arguments of [`WAITING`] select one caller's waiting calls.
const BYTES: &str = "
    SELECT sum(octet_length(invocations.record) + octet_length(history) + coalesce(octet_length(result), 0)
        + coalesce(octet_length(approvals.record), 0) + coalesce(octet_length(suspended.record), 0))
    FROM invocations LEFT JOIN approvals ON approvals.invocation = id LEFT JOIN suspended ON suspended.invocation = id";
const WAITING: &str = "
    WHERE (approvals.state IN ('pending', 'approved') AND approvals.expires_at > ?1 OR suspended.state = 'waiting')
    AND invocations.actor IS ?2";
/// Ordered so that nothing refers to a removed part.
const PARTS: [&str; 2] = [
    "DELETE FROM approvals WHERE invocation = ?1",
    "DELETE FROM invocations WHERE id = ?1",
];

/// Removes some calls that ended longer than `age_max` ago, and ended session rules. A call that may be waited for, or
/// run, is never that old.
pub(super) fn forget_old(
    transaction: &Transaction<'_>,
    now: Timestamp,
    age_max: Duration,
) -> Result<(), StoreError> {
    let before = |age: Duration| {
        now.unix_millis()
            .saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
    };
    transaction.execute(
        "DELETE FROM session_rules WHERE made_at <= ?1",
        [before(SessionRule::LASTS)],
    )?;
    let over: Vec<String> = {
        let mut over = transaction.prepare(OVER)?;
        let ids = over.query_map(
            params![before(age_max.max(EXPIRE_MAX)), REMOVED_MAX],
            |row| row.get(0),
        )?;
        ids.collect::<rusqlite::Result<_>>()?
    };
    for id in &over {
        remove(transaction, id)?;
    }
    Ok(())
}

/// Removes the oldest calls that cannot run any more. `false` if the stored call `id` has no room and must not stay,
/// because others wait for answers.
pub(super) fn make_room(
    transaction: &Transaction<'_>,
    (id, actor): (&str, Option<&str>),
    now: Timestamp,
    bytes_max: u64,
) -> Result<bool, StoreError> {
    let now = now.unix_millis();
    let waiting = format!("{BYTES}{WAITING}");
    let waiting: Option<u64> =
        transaction.query_row(&waiting, params![now, actor], |row| row.get(0))?;
    if waiting.unwrap_or_default() > bytes_max / CALLER_PART && guard!("questions_of_caller") {
        return Ok(false);
    }
    while used(transaction)? > bytes_max && guard!("questions_bytes") {
        let ended: Vec<String> = {
            let mut ended = transaction.prepare(ENDED)?;
            let ids = ended.query_map(params![now, id, REMOVED_MAX], |row| row.get(0))?;
            ids.collect::<rusqlite::Result<_>>()?
        };
        if ended.is_empty() {
            return Ok(false);
        }
        for id in &ended {
            remove(transaction, id)?;
        }
    }
    Ok(true)
}

fn used(transaction: &Transaction<'_>) -> Result<u64, StoreError> {
    let bytes: Option<u64> = transaction.query_row(BYTES, [], |row| row.get(0))?;
    Ok(bytes.unwrap_or_default())
}

pub(super) fn remove(transaction: &Transaction<'_>, id: &str) -> Result<(), StoreError> {
    for part in PARTS {
        transaction.execute(part, [id])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Journal;

    const KIB: usize = 1 << 10;
    const BYTES_MAX: u64 = 4 << 20;

    /// Has 200 KiB of arguments. Returns whether there is room.
    fn ask(journal: &Journal, (id, actor): (&str, &str), state: &str, asked_at: i64) -> bool {
        let text = "x".repeat(100 * KIB);
        journal
            .with(|store| {
                let transaction = store.connection.transaction()?;
                let invocation = "INSERT INTO invocations (id, tool_id, status, actor, created_at, record, history)
                                  VALUES (?1, 'a.b', 'planned', ?2, 0, ?3, '{}')";
                transaction.execute(invocation, [id, actor, &text])?;
                let approval = "INSERT INTO approvals
                                (invocation, state, binding, actor, asked_at, expires_at, record, answer)
                                VALUES (?1, ?2, 'b', ?3, ?4, 1000, ?5, x'00')";
                transaction.execute(approval, params![id, state, actor, asked_at, text.as_bytes()])?;
                let has_room = make_room(&transaction, (id, Some(actor)), Timestamp::of_unix_millis(500), BYTES_MAX)?;
                if has_room {
                    transaction.commit()?;
                }
                Ok(has_room)
            })
            .unwrap()
    }

    fn calls(journal: &Journal) -> Vec<String> {
        let listed = journal.with(|store| {
            let mut ids = store
                .connection
                .prepare("SELECT id FROM invocations ORDER BY id")?;
            Ok(ids
                .query_map([], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?)
        });
        listed.unwrap()
    }

    #[test]
    fn calls_that_cannot_run_any_more_make_room_and_each_caller_has_a_share() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::new(folder.path().join("journal"), folder.path().join("key"));
        for number in 0..5 {
            assert!(ask(
                &journal,
                (&format!("anna-{number}"), "anna"),
                "pending",
                0
            ));
        }
        assert!(
            !ask(&journal, ("anna-5", "anna"), "pending", 0),
            "a quarter is taken"
        );
        for number in 0..60 {
            assert!(ask(
                &journal,
                (&format!("bert-{number:02}"), "bert"),
                "canceled",
                100 - number
            ));
        }
        let kept = calls(&journal);
        assert!(
            kept.len() <= 20 && kept.iter().filter(|id| id.starts_with("anna")).count() == 5,
            "{kept:?}"
        );
        let size = std::fs::metadata(folder.path().join("journal/journal.db"))
            .unwrap()
            .len();
        assert!(size < 2 * BYTES_MAX, "{size} bytes");
        // All that is left waits.
        for (caller, number) in ["carl", "dora", "emil"]
            .into_iter()
            .flat_map(|caller| (0..5).map(move |number| (caller, number)))
        {
            ask(
                &journal,
                (&format!("{caller}-{number}"), caller),
                "pending",
                0,
            );
        }
        assert!(!ask(&journal, ("fred-0", "fred"), "pending", 0));
        let kept = calls(&journal);
        assert!(
            kept.iter()
                .all(|id| !id.starts_with("bert") && !id.starts_with("fred")),
            "{kept:?}"
        );
    }
}
