//! Calls that wait for answers, while their callers can come back in another process.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use crate::database::change;
use toolcell_spec::{InvocationId, Suspension, SuspensionState, Timestamp};

use super::ask::put_call;
use super::{Store, StoreError, SuspendRequest, SuspendedCall, entry, read, retention};

const SUSPENDED_MAX: u32 = 200;
/// JSON; a tool saves, asks and logs at most 400 kB.
const SUSPENDED_BYTES_MAX: usize = 1 << 20;

impl Store {
    /// Replaces earlier questions; on disk when this returns `true`. `false` if it is too large, or too many calls
    /// wait: then the call can only wait in its process.
    pub fn suspend(&mut self, suspending: &SuspendRequest) -> Result<bool, StoreError> {
        let SuspendRequest {
            suspension,
            invocation,
            history,
        } = suspending;
        let id = suspension.invocation_id;
        let expires_at = suspension.expires_at;
        let record = entry::seal(&self.key, &entry::suspension_of(id, expires_at), suspension)?;
        if record.len() > SUSPENDED_BYTES_MAX && guard!("suspended_bytes") {
            return Ok(false);
        }
        let transaction = change(&mut self.connection)?;
        let others = "SELECT count(*) FROM suspended WHERE invocation <> ?1";
        let others: u32 = transaction.query_row(others, [id.to_string()], |row| row.get(0))?;
        if others >= SUSPENDED_MAX {
            return Ok(false);
        }
        put_call(&transaction, invocation, history)?;
        let sql = "INSERT INTO suspended (invocation, state, expires_at, record) VALUES (?1, 'waiting', ?2, ?3)
                   ON CONFLICT (invocation) DO UPDATE
                   SET state = excluded.state, expires_at = excluded.expires_at, record = excluded.record
                   WHERE suspended.state <> 'canceled'";
        let stored = transaction.execute(
            sql,
            params![id.to_string(), expires_at.unix_millis(), record],
        )?;
        let key = id.to_string();
        let actor = invocation.actor_ref.as_deref();
        if !retention::make_room(
            &transaction,
            (&key, actor),
            Timestamp::now(),
            retention::STORE_BYTES_MAX,
        )? {
            return Ok(false);
        }
        transaction.commit()?;
        Ok(stored == 1)
    }

    /// Only one run can claim the answers. `false` if claimed or withdrawn, or out of time.
    pub fn claim_suspended(&mut self, id: InvocationId) -> Result<bool, StoreError> {
        let now = Timestamp::now().unix_millis();
        let claimed = self.connection.execute(
            "UPDATE suspended SET state = 'running' WHERE invocation = ?1 AND state = 'waiting' AND expires_at > ?2",
            params![id.to_string(), now],
        )?;
        Ok(claimed == 1 || !guard!("suspended_once"))
    }

    /// The call cannot run any more. `false` if none waits.
    pub fn withdraw_suspended(&mut self, id: InvocationId) -> Result<bool, StoreError> {
        let withdrawn = self.connection.execute(
            "UPDATE suspended SET state = 'canceled' WHERE invocation = ?1 AND state = 'waiting'",
            [id.to_string()],
        )?;
        Ok(withdrawn == 1)
    }

    /// Records of a call that needed an approval stay.
    pub fn forget_suspended(&mut self, id: InvocationId) -> Result<(), StoreError> {
        let transaction = change(&mut self.connection)?;
        let key = id.to_string();
        let removed = transaction.execute("DELETE FROM suspended WHERE invocation = ?1", [&key])?;
        if removed == 1 && !has_approval(&transaction, &key)? {
            retention::remove(&transaction, &key)?;
        }
        transaction.commit()?;
        Ok(())
    }

    pub fn suspended(&mut self, id: InvocationId) -> Result<Option<SuspendedCall>, StoreError> {
        let transaction = self.connection.transaction()?;
        let key = id.to_string();
        let row: Option<(String, i64, Vec<u8>)> = transaction
            .query_row(
                "SELECT state, expires_at, record FROM suspended WHERE invocation = ?1",
                [&key],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .optional()?;
        let Some((state, expires_at, record)) = row else {
            return Ok(None);
        };
        let damaged = |what: &str| StoreError::Damaged(what.to_owned());
        let place = entry::suspension_of(id, Timestamp::of_unix_millis(expires_at));
        let suspension: Suspension = entry::open(&self.key, &place, &record)?;
        if suspension.invocation_id != id || suspension.expires_at.unix_millis() != expires_at {
            return Err(damaged("a suspended call is not what was stored"));
        }
        let state = SuspensionState::parse(&state)
            .ok_or_else(|| damaged("a suspended call has an unknown state"))?;
        let (invocation, history, _) = read::call(&transaction, &key)?
            .ok_or_else(|| damaged("a suspended call has no invocation"))?;
        let approval =
            read::standing(&transaction, &self.key, id)?.map(|standing| standing.approval);
        Ok(Some(SuspendedCall {
            suspension,
            state,
            invocation,
            history,
            approval,
        }))
    }

    /// Suspended calls that were claimed, withdrawn or out of time. A living process may still handle them.
    pub fn unfinished_suspended(&mut self) -> Result<Vec<InvocationId>, StoreError> {
        let now = Timestamp::now().unix_millis();
        self.ids(
            "SELECT invocation FROM suspended WHERE state <> 'waiting' OR expires_at <= ?1",
            [now],
        )
    }
}

pub(super) fn is_suspended(connection: &Connection, key: &str) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM suspended WHERE invocation = ?1)";
    Ok(connection.query_row(sql, [key], |row| row.get(0))?)
}

fn has_approval(transaction: &Transaction<'_>, key: &str) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM approvals WHERE invocation = ?1)";
    Ok(transaction.query_row(sql, [key], |row| row.get(0))?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::History;
    use crate::Journal;
    use toolcell_spec::{Binding, Input, Plan, ToolInvocation, Usage};

    const HOUR: Duration = Duration::from_secs(3_600);

    fn suspending(resume_state: String, lasts: Duration) -> SuspendRequest {
        let invocation = ToolInvocation::planned("a.b", &Input::from_text("{}"));
        let [component, declaration, capability, arguments, actor] = [const { String::new() }; 5];
        let suspension = Suspension {
            invocation_id: invocation.invocation_id,
            tool_id: "a.b".to_owned(),
            actor_ref: None,
            binding: Binding {
                component,
                declaration,
                capability,
                arguments,
                actor,
            },
            is_approved: false,
            changes: true,
            plan: Plan {
                tool: "a.b".to_owned(),
                model_input: "{}".to_owned(),
                permission_input: "{}".to_owned(),
                shown_input: None,
                reference_key: None,
                origin: None,
            },
            questions: Vec::new(),
            expires_at: Timestamp::now().plus(lasts),
            rounds: 0,
            unfit: 0,
            asked: 0,
            calls_left: 1,
            responses: serde_json::from_value(json!({ "a": { "action": "decline" } })).unwrap(),
            resume_state,
            spent: Usage::default(),
            partial_bytes: 0,
            logs: Vec::new(),
            redacted: false,
        };
        SuspendRequest {
            suspension,
            invocation,
            history: History::default(),
        }
    }

    fn journal(folder: &tempfile::TempDir) -> Journal {
        Journal::new(folder.path().join("journal"), folder.path().join("key"))
    }

    #[test]
    fn the_answers_of_one_round_are_used_once_and_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let journal = journal(&folder);
        let first = suspending("x".to_owned(), HOUR);
        let id = first.suspension.invocation_id;
        assert!(journal.with(|store| store.suspend(&first)).unwrap());
        let kept = journal.with(|store| store.suspended(id)).unwrap().unwrap();
        assert_eq!(
            (&kept.suspension, kept.state),
            (&first.suspension, SuspensionState::Waiting)
        );
        assert!(journal.with(|store| store.claim_suspended(id)).unwrap());
        assert!(
            !journal.with(|store| store.claim_suspended(id)).unwrap(),
            "it is claimed"
        );
        assert!(
            !journal.with(|store| store.withdraw_suspended(id)).unwrap(),
            "it runs"
        );
        // The next round can be answered, until it is withdrawn.
        assert!(journal.with(|store| store.suspend(&first)).unwrap());
        assert!(journal.with(|store| store.withdraw_suspended(id)).unwrap());
        assert!(
            !journal.with(|store| store.claim_suspended(id)).unwrap(),
            "it is canceled"
        );
        assert!(
            !journal.with(|store| store.suspend(&first)).unwrap(),
            "it stays so"
        );
        assert_eq!(journal.with(Store::unfinished_suspended).unwrap(), [id]);
        journal.with(|store| store.forget_suspended(id)).unwrap();
        assert!(journal.with(|store| store.suspended(id)).unwrap().is_none());
        let late = suspending("x".to_owned(), Duration::ZERO);
        let id = late.suspension.invocation_id;
        assert!(journal.with(|store| store.suspend(&late)).unwrap());
        assert!(
            !journal.with(|store| store.claim_suspended(id)).unwrap(),
            "its time is up"
        );
    }

    #[test]
    fn a_call_that_is_too_large_and_one_too_many_are_not_stored() {
        let folder = tempfile::tempdir().unwrap();
        let journal = journal(&folder);
        let large = suspending("x".repeat(SUSPENDED_BYTES_MAX), HOUR);
        assert!(!journal.with(|store| store.suspend(&large)).unwrap());
        assert!(
            journal
                .with(|store| store.suspended(large.suspension.invocation_id))
                .unwrap()
                .is_none()
        );
        let calls: Vec<SuspendRequest> = (0..=SUSPENDED_MAX)
            .map(|_| suspending("x".to_owned(), HOUR))
            .collect();
        let stored = |store: &mut Store| {
            calls
                .iter()
                .map(|call| store.suspend(call))
                .collect::<Result<Vec<_>, _>>()
        };
        let stored = journal.with(stored).unwrap();
        let (last, others) = stored.split_last().unwrap();
        assert!(others.iter().all(|stored| *stored) && !last);
        assert!(
            journal.with(|store| store.suspend(&calls[0])).unwrap(),
            "one of them asks again"
        );
    }

    #[test]
    fn a_row_that_was_changed_behind_the_journals_back_is_damaged() {
        let [one, other] = [HOUR, HOUR * 2].map(|lasts| suspending("x".to_owned(), lasts));
        let id = one.suspension.invocation_id;
        let expires_at = other.suspension.expires_at.unix_millis();
        for sql in [
            format!("UPDATE suspended SET expires_at = {expires_at}"),
            format!(
                "UPDATE suspended SET record = (SELECT record FROM suspended WHERE invocation <> '{id}')"
            ),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let journal = journal(&folder);
            journal
                .with(|store| Ok((store.suspend(&one)?, store.suspend(&other)?)))
                .unwrap();
            let found = journal.with(|store| {
                store.connection.execute(&sql, [])?;
                store.suspended(id)
            });
            assert!(
                matches!(found, Err(StoreError::Damaged(_))),
                "{sql}: {found:?}"
            );
        }
    }
}
