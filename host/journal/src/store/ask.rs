use std::sync::Arc;

use rusqlite::{Connection, Transaction, params};

use crate::database::change;
use toolcell_spec::{CallRecord, InvocationId, Timestamp, ToolInvocation};

use super::read::names;
use super::retention::{STORE_BYTES_MAX, forget_old, make_room};
use super::{ApprovalRequest, History, Store, StoreError, WAITING_MAX, entry};

impl Store {
    /// The number of questions that are open.
    pub fn waiting(&self) -> Result<u32, StoreError> {
        waiting(&self.connection, Timestamp::now())
    }

    /// The number of open questions about calls of `callers`.
    pub fn waiting_of(&self, callers: &[Arc<str>]) -> Result<u32, StoreError> {
        let sql = "SELECT count(*) FROM approvals WHERE state = 'pending' AND expires_at > ?1
                   AND actor IN (SELECT value FROM json_each(?2))";
        let parameters = params![Timestamp::now().unix_millis(), names(callers)];
        let count = self.connection.query_row(sql, parameters, |row| row.get(0));
        Ok(count?)
    }

    /// On disk when this returns.
    pub fn ask(&mut self, asking: &ApprovalRequest) -> Result<(), StoreError> {
        let transaction = change(&mut self.connection)?;
        forget_old(&transaction, asking.approval.asked_at, self.age_max)?;
        let now = asking.approval.asked_at.unix_millis();
        let waiting = waiting(&transaction, asking.approval.asked_at)?;
        if waiting >= WAITING_MAX {
            return Err(StoreError::Full(waiting));
        }
        put_call(&transaction, &asking.invocation, &asking.history)?;
        let approval = &asking.approval;
        let id = approval.invocation_id.to_string();
        let binding = approval.binding.digest();
        let record = entry::seal(
            &self.key,
            &entry::question_of(approval.invocation_id, &binding),
            approval,
        )?;
        transaction.execute(
            "INSERT INTO approvals (invocation, state, binding, actor, asked_at, expires_at, record)
             VALUES (?1, 'pending', ?2, ?3, ?4, ?5, ?6)",
            params![id, binding, approval.actor_ref, now, approval.expires_at.unix_millis(), record],
        )?;
        if !make_room(
            &transaction,
            (&id, asking.invocation.actor_ref.as_deref()),
            approval.asked_at,
            STORE_BYTES_MAX,
        )? {
            return Err(StoreError::NoRoom);
        }
        transaction.commit()?;
        Ok(())
    }

    /// Also withdraws a given approval, so that the call cannot run any more.
    pub fn withdraw(&mut self, id: InvocationId) -> Result<(), StoreError> {
        self.connection.execute(
            "UPDATE approvals SET state = 'canceled' WHERE invocation = ?1 AND state IN ('pending', 'approved')",
            [id.to_string()],
        )?;
        Ok(())
    }

    /// A claimed run becomes done; an unclaimed approval is withdrawn.
    pub fn conclude(&mut self, record: &CallRecord) -> Result<(), StoreError> {
        let transaction = change(&mut self.connection)?;
        let CallRecord {
            invocation,
            decisions,
            hooks,
            result,
            events,
            ..
        } = record;
        let id = invocation.invocation_id.to_string();
        let history = History {
            decisions: decisions.clone(),
            mutations: result.input_mutations.clone(),
            hook_runs: hooks.clone(),
            events: events.clone(),
        };
        put_call(&transaction, invocation, &history)?;
        transaction.execute(
            // The first result of a call is final: a recorded one is never overwritten.
            "UPDATE invocations SET result = coalesce(result, ?2) WHERE id = ?1",
            params![id, entry::write(result)?],
        )?;
        transaction.execute(
            "UPDATE approvals SET state = iif(state = 'running', 'finished', 'canceled')
             WHERE invocation = ?1 AND state IN ('running', 'pending', 'approved')",
            [&id],
        )?;
        transaction.commit()?;
        Ok(())
    }
}

/// Replaces a stored call, but not its result.
pub(super) fn put_call(
    transaction: &Transaction<'_>,
    invocation: &ToolInvocation,
    history: &History,
) -> Result<(), StoreError> {
    transaction.execute(
        "INSERT INTO invocations (id, tool_id, status, actor, created_at, record, history)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (id) DO UPDATE
         SET status = excluded.status, record = excluded.record, history = excluded.history",
        params![
            invocation.invocation_id.to_string(),
            invocation.tool_id,
            invocation.status().as_str(),
            invocation.actor_ref,
            invocation.created_at().unix_millis(),
            entry::write(&*invocation.for_disk())?,
            entry::write(history)?,
        ],
    )?;
    Ok(())
}

fn waiting(connection: &Connection, now: Timestamp) -> Result<u32, StoreError> {
    let sql = "SELECT count(*) FROM approvals WHERE state = 'pending' AND expires_at > ?1";
    Ok(connection.query_row(sql, [now.unix_millis()], |row| row.get(0))?)
}
