use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;

use toolcell_spec::{Answer, Approval, ApprovalState, InvocationId, Timestamp, ToolInvocation};

use toolcell_policy::secret::SealingKey;

use super::{ApprovalStanding, History, Store, StoreError, StoredApproval, entry, suspend};

const LIST_MAX: u32 = 1_000;

#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub invocation_id: InvocationId,
    pub tool_id: String,
    pub state: ApprovalState,
    pub status: String,
    pub actor_ref: Option<String>,
    pub asked_at: Timestamp,
    pub expires_at: Timestamp,
}

impl Store {
    pub fn standing(&mut self, id: InvocationId) -> Result<Option<ApprovalStanding>, StoreError> {
        standing(&self.connection, &self.key, id)
    }

    pub fn kept(&mut self, id: InvocationId) -> Result<Option<StoredApproval>, StoreError> {
        let transaction = self.connection.transaction()?;
        let Some(ApprovalStanding {
            approval,
            state,
            answer,
        }) = standing(&transaction, &self.key, id)?
        else {
            return Ok(None);
        };
        let key = id.to_string();
        let (invocation, history, result) = call(&transaction, &key)?
            .ok_or_else(|| StoreError::Damaged("an approval has no invocation".to_owned()))?;
        Ok(Some(StoredApproval {
            approval,
            state,
            answer,
            invocation,
            history,
            is_suspended: suspend::is_suspended(&transaction, &key)?,
            result,
        }))
    }

    /// [`Self::kept`] if one of `callers` made the call; of another one, nothing is opened.
    pub fn kept_of(
        &mut self,
        id: InvocationId,
        callers: &[Arc<str>],
    ) -> Result<Option<StoredApproval>, StoreError> {
        let own = "SELECT count(*) FROM approvals
                   WHERE invocation = ?1 AND actor IN (SELECT value FROM json_each(?2))";
        let parameters = params![id.to_string(), names(callers)];
        let own: u32 = (self.connection).query_row(own, parameters, |row| row.get(0))?;
        if own == 0 { Ok(None) } else { self.kept(id) }
    }

    /// The newest first: pending, approved or claimed, or `all`.
    pub fn list(&mut self, all: bool) -> Result<Vec<Summary>, StoreError> {
        self.list_of(all, None)
    }

    /// [`Self::list`], of calls that `callers` made. Of many, those that wait come before others that have ended.
    pub fn list_of(
        &mut self,
        all: bool,
        callers: Option<&[Arc<str>]>,
    ) -> Result<Vec<Summary>, StoreError> {
        let mut ids = self.ids(
            "SELECT invocation FROM approvals
             WHERE (?1 OR state IN ('pending', 'approved', 'running'))
               AND (?2 IS NULL OR actor IN (SELECT value FROM json_each(?2)))
             ORDER BY state = 'pending' DESC, invocation DESC LIMIT ?3",
            params![all, callers.map(names), LIST_MAX],
        )?;
        ids.sort_unstable_by(|one, other| other.cmp(one));
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(ApprovalStanding {
                approval, state, ..
            }) = standing(&self.connection, &self.key, id)?
            else {
                continue;
            };
            let status = self.connection.query_row(
                "SELECT status FROM invocations WHERE id = ?1",
                [id.to_string()],
                |row| row.get(0),
            )?;
            found.push(Summary {
                invocation_id: id,
                tool_id: approval.tool_id,
                state,
                status,
                actor_ref: approval.actor_ref,
                asked_at: approval.asked_at,
                expires_at: approval.expires_at,
            });
        }
        Ok(found)
    }

    /// Calls without a result that ran, closed or timed out. A living process may still handle them.
    pub fn unfinished(&mut self) -> Result<Vec<InvocationId>, StoreError> {
        self.ids(
            "SELECT invocation FROM approvals
             WHERE (state IN ('running', 'rejected', 'expired', 'canceled') OR expires_at <= ?1)
               AND invocation IN (SELECT id FROM invocations WHERE result IS NULL)
               AND invocation NOT IN (SELECT invocation FROM suspended)
             LIMIT ?2",
            params![Timestamp::now().unix_millis(), LIST_MAX],
        )
    }

    pub(super) fn ids(
        &self,
        sql: &str,
        parameters: impl rusqlite::Params,
    ) -> Result<Vec<InvocationId>, StoreError> {
        let mut statement = self.connection.prepare(sql)?;
        let rows = statement.query_map(parameters, |row| row.get::<_, String>(0))?;
        rows.map(|row| {
            row?.parse()
                .map_err(|error| StoreError::Damaged(format!("an id cannot be read: {error}")))
        })
        .collect()
    }
}

/// As a JSON array.
pub(super) fn names(callers: &[Arc<str>]) -> String {
    let names: Vec<&str> = callers.iter().map(|caller| &**caller).collect();
    serde_json::json!(names).to_string()
}

pub(super) fn call(
    connection: &Connection,
    key: &str,
) -> Result<Option<(ToolInvocation, History, Option<String>)>, StoreError> {
    let sql = "SELECT record, history, result FROM invocations WHERE id = ?1";
    let row: Option<(String, String, Option<String>)> = connection
        .query_row(sql, [key], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?;
    row.map(|(record, history, result)| Ok((entry::read(&record)?, entry::read(&history)?, result)))
        .transpose()
}

pub(super) fn standing(
    connection: &Connection,
    key: &SealingKey,
    id: InvocationId,
) -> Result<Option<ApprovalStanding>, StoreError> {
    type Row = (String, String, i64, Vec<u8>, Option<Vec<u8>>);
    let row: Option<Row> = connection
        .query_row(
            "SELECT state, binding, expires_at, record, answer FROM approvals WHERE invocation = ?1",
            [id.to_string()],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)),
        )
        .optional()?;
    let Some((state, binding, expires_at, record, answer)) = row else {
        return Ok(None);
    };
    let damaged = |what: &str| StoreError::Damaged(what.to_owned());
    let approval: Approval = entry::open(key, &entry::question_of(id, &binding), &record)?;
    let same = approval.invocation_id == id
        && approval.binding.digest() == binding
        && approval.expires_at.unix_millis() == expires_at;
    if !same {
        return Err(damaged("an approval is not what was stored"));
    }
    let state =
        ApprovalState::parse(&state).ok_or_else(|| damaged("an approval has an unknown state"))?;
    let answer: Option<Answer> = answer
        .map(|sealed| entry::open(key, &entry::answer_to(id), &sealed))
        .transpose()?;
    let answered = answer.as_ref().map(|answer| answer.approved);
    let wanted = match state {
        ApprovalState::Approved | ApprovalState::Running | ApprovalState::Finished => Some(true),
        ApprovalState::Rejected => Some(false),
        ApprovalState::Pending => None,
        ApprovalState::Expired | ApprovalState::Canceled => answered,
    };
    if answered != wanted {
        return Err(damaged("an approval's state is not what was answered"));
    }
    Ok(Some(ApprovalStanding {
        approval,
        state,
        answer,
    }))
}
