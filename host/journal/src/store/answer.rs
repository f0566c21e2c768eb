use rusqlite::{Transaction, params};

use crate::database::change;
use toolcell_policy::secret::SealingKey;
use toolcell_spec::{Answer, ApprovalState, InvocationId, Timestamp};

use super::ask::put_call;
use super::{Allowance, AnswerOutcome, Claim, Store, StoreError, entry};

impl Store {
    /// Only one of concurrent answers is accepted.
    pub fn answer(
        &mut self,
        id: InvocationId,
        answer: &Answer,
    ) -> Result<AnswerOutcome, StoreError> {
        let transaction = change(&mut self.connection)?;
        let Some(standing) = super::read::standing(&transaction, &self.key, id)? else {
            return Ok(AnswerOutcome::Unknown);
        };
        let now = Timestamp::now().unix_millis();
        let state = if answer.approved {
            ApprovalState::Approved
        } else {
            ApprovalState::Rejected
        };
        let own = standing.approval.actor_ref.as_deref() == Some(answer.approver.as_str());
        if answer.approved && own && guard!("self_approval") {
            return Ok(AnswerOutcome::OwnCall);
        }
        let sealed = entry::seal(&self.key, &entry::answer_to(id), answer)?;
        let taken = transaction.execute(
            "UPDATE approvals SET state = ?2, answer = ?3
             WHERE invocation = ?1 AND state = 'pending' AND expires_at > ?4",
            params![id.to_string(), state.as_str(), sealed, now],
        )?;
        if taken == 1 {
            transaction.commit()?;
            return Ok(AnswerOutcome::Taken);
        }
        Ok(AnswerOutcome::TooLate(match standing.state {
            ApprovalState::Pending => ApprovalState::Expired,
            other => other,
        }))
    }

    /// Only one run can claim an approval. `false` if there is none.
    pub fn claim(&mut self, claim: &Claim) -> Result<bool, StoreError> {
        let transaction = change(&mut self.connection)?;
        let id = claim.invocation.invocation_id;
        let now = Timestamp::now();
        let claimed = transaction.execute(
            "UPDATE approvals SET state = 'running'
             WHERE invocation = ?1 AND state = 'approved' AND binding = ?2 AND expires_at > ?3",
            params![id.to_string(), claim.binding, now.unix_millis()],
        )?;
        if claimed != 1 && guard!("approval_once") {
            return Ok(false);
        }
        put_call(&transaction, &claim.invocation, &claim.history)?;
        if let Some(always) = &claim.always {
            remember(&transaction, &self.key, id, always, now)?;
        }
        transaction.commit()?;
        Ok(true)
    }

    /// `false` if the question was answered or closed.
    pub fn expire(&mut self, id: InvocationId) -> Result<bool, StoreError> {
        let closed = self.connection.execute(
            "UPDATE approvals SET state = 'expired' WHERE invocation = ?1 AND state = 'pending'",
            [id.to_string()],
        )?;
        Ok(closed == 1)
    }
}

fn remember(
    transaction: &Transaction<'_>,
    key: &SealingKey,
    id: InvocationId,
    always: &Allowance,
    now: Timestamp,
) -> Result<(), StoreError> {
    let Allowance { rule, scope } = always;
    let reference = rule.reference();
    let scope = scope
        .as_ref()
        .map(|scope| entry::seal(key, &entry::scope_of(&reference), scope))
        .transpose()?;
    transaction.execute(
        "INSERT INTO session_rules (reference, session, made_by, made_at, record, scope)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (reference) DO UPDATE
         SET made_by = excluded.made_by, made_at = excluded.made_at, scope = excluded.scope",
        params![
            reference,
            rule.session,
            id.to_string(),
            now.unix_millis(),
            entry::write(rule)?,
            scope
        ],
    )?;
    Ok(())
}
