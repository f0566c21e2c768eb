//! The calls that wait for an approver of this process. Each state changes once, as in the store on disk; a call is
//! forgotten when it ends or is dropped, because no other process could go on with it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolcell_spec::{
    Answer, Approval, ApprovalState, CallRecord, InvocationId, SessionRule, Timestamp,
    ToolInvocation,
};

use crate::waiting::{
    Allowance, AnswerOutcome, ApprovalRequest, ApprovalStanding, Claim, History, Role, StoreError,
    StoredApproval, SuspendRequest, SuspendedCall, WAITING_MAX,
};

/// The store of this process. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Journal(Arc<Mutex<Store>>);

/// Marks a call as one that lives. Nothing is stored of it any more when this is dropped.
#[derive(Debug)]
pub struct RoleLock {
    journal: Journal,
    id: InvocationId,
}

/// The calls that wait, and what was approved for sessions.
#[derive(Debug, Default)]
pub struct Store {
    calls: HashMap<InvocationId, WaitingCall>,
    /// By their references, with the time at which they were made.
    rules: HashMap<String, (Allowance, Timestamp)>,
}

#[derive(Debug)]
struct WaitingCall {
    approval: Approval,
    state: ApprovalState,
    answer: Option<Answer>,
    invocation: ToolInvocation,
    history: History,
}

impl Journal {
    /// `true` if other processes see it, and can answer.
    pub fn is_shared(&self) -> bool {
        false
    }

    /// Returns whether an approval may have been requested.
    pub fn exists(&self) -> bool {
        !self.lock().calls.is_empty()
    }

    /// Runs `work` on the store.
    pub async fn run<T>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        work(&mut self.lock())
    }

    /// Takes the role for the call `id`, which no other process can have.
    pub async fn hold_async(
        &self,
        id: InvocationId,
        _role: Role,
    ) -> Result<Option<RoleLock>, StoreError> {
        let journal = self.clone();
        Ok(Some(RoleLock { journal, id }))
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RoleLock {
    /// Gives the role back, because the call has ended.
    pub async fn retire_async(self) {}
}

impl Drop for RoleLock {
    fn drop(&mut self) {
        self.journal.lock().calls.remove(&self.id);
    }
}

impl Store {
    /// Takes a call that waits for an approval.
    pub fn ask(&mut self, asking: &ApprovalRequest) -> Result<(), StoreError> {
        let ApprovalRequest {
            approval,
            invocation,
            history,
        } = asking.clone();
        let is_open = |call: &&WaitingCall| {
            call.state == ApprovalState::Pending && call.approval.expires_at > approval.asked_at
        };
        let waiting = self.calls.values().filter(is_open).count();
        if let Ok(waiting) = u32::try_from(waiting)
            && waiting >= WAITING_MAX
        {
            return Err(StoreError::Full(waiting));
        }
        let call = WaitingCall {
            approval,
            state: ApprovalState::Pending,
            answer: None,
            invocation,
            history,
        };
        self.calls.insert(call.approval.invocation_id, call);
        Ok(())
    }

    /// Gives `answer` to the call `id`. Of concurrent answers, one is accepted.
    pub fn answer(
        &mut self,
        id: InvocationId,
        answer: &Answer,
    ) -> Result<AnswerOutcome, StoreError> {
        let Some(call) = self.calls.get_mut(&id) else {
            return Ok(AnswerOutcome::Unknown);
        };
        if answer.approved && call.approval.actor_ref.as_deref() == Some(answer.approver.as_str()) {
            return Ok(AnswerOutcome::OwnCall);
        }
        let is_late = call.approval.expires_at <= Timestamp::now();
        Ok(match call.state {
            ApprovalState::Pending if is_late => AnswerOutcome::TooLate(ApprovalState::Expired),
            ApprovalState::Pending => {
                call.state = if answer.approved {
                    ApprovalState::Approved
                } else {
                    ApprovalState::Rejected
                };
                call.answer = Some(answer.clone());
                AnswerOutcome::Taken
            }
            other => AnswerOutcome::TooLate(other),
        })
    }

    /// Claims the single run that an approval allows. Returns `false` if there is none to claim.
    pub fn claim(&mut self, claim: &Claim) -> Result<bool, StoreError> {
        let now = Timestamp::now();
        let id = claim.invocation.invocation_id;
        let claimed = self.calls.get_mut(&id).filter(|call| {
            call.state == ApprovalState::Approved
                && call.approval.binding.digest() == claim.binding
                && call.approval.expires_at > now
        });
        let Some(call) = claimed else {
            return Ok(false);
        };
        call.state = ApprovalState::Running;
        call.invocation = claim.invocation.clone();
        call.history = claim.history.clone();
        if let Some(always) = &claim.always {
            self.forget_old_rules();
            self.rules
                .insert(always.rule.reference(), (always.clone(), now));
        }
        Ok(true)
    }

    /// Expires a pending question. Returns `false` if it was answered or already closed.
    pub fn expire(&mut self, id: InvocationId) -> Result<bool, StoreError> {
        Ok(self.close(id, &[ApprovalState::Pending], ApprovalState::Expired))
    }

    /// Withdraws the approval of the call `id`, pending or given, so that it cannot run any more.
    pub fn withdraw(&mut self, id: InvocationId) -> Result<(), StoreError> {
        let open = [ApprovalState::Pending, ApprovalState::Approved];
        self.close(id, &open, ApprovalState::Canceled);
        Ok(())
    }

    /// Forgets a call that has ended.
    pub fn conclude(&mut self, record: &CallRecord) -> Result<(), StoreError> {
        self.calls.remove(&record.invocation.invocation_id);
        Ok(())
    }

    /// Returns the approval of the call `id`; `None` if there is none.
    pub fn standing(&mut self, id: InvocationId) -> Result<Option<ApprovalStanding>, StoreError> {
        Ok(self.calls.get(&id).map(|call| ApprovalStanding {
            approval: call.approval.clone(),
            state: call.state,
            answer: call.answer.clone(),
        }))
    }

    /// Returns everything that is known about the call `id`; `None` if it does not wait for an approval, and has none.
    pub fn kept(&mut self, id: InvocationId) -> Result<Option<StoredApproval>, StoreError> {
        Ok(self.calls.get(&id).map(|call| StoredApproval {
            approval: call.approval.clone(),
            state: call.state,
            answer: call.answer.clone(),
            invocation: call.invocation.clone(),
            history: call.history.clone(),
            is_suspended: false,
            result: None,
        }))
    }

    /// The reference of a rule that was made in the same session, at most [`SessionRule::LASTS`] ago, and covers
    /// `asked`; `None` if there is none.
    pub fn remembers(&mut self, asked: &Allowance) -> Result<Option<String>, StoreError> {
        self.forget_old_rules();
        let covers =
            |allowance: &Allowance| allowance.rule.is_about(&asked.rule) && allowance.covers(asked);
        let mut rules = self.rules.iter();
        let found = rules.find(|(_, (allowance, _))| covers(allowance));
        Ok(found.map(|(reference, _)| reference.clone()))
    }

    /// A call that waits for an answer to its tool's question waits in its process alone.
    pub fn suspend(&mut self, _suspending: &SuspendRequest) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// No call is suspended.
    pub fn claim_suspended(&mut self, _id: InvocationId) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// No call is suspended.
    pub fn withdraw_suspended(&mut self, _id: InvocationId) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// No call is suspended.
    pub fn forget_suspended(&mut self, _id: InvocationId) -> Result<(), StoreError> {
        Ok(())
    }

    /// No call is suspended.
    pub fn suspended(&mut self, _id: InvocationId) -> Result<Option<SuspendedCall>, StoreError> {
        Ok(None)
    }

    /// Changes the state of the call `id` to `to`, if it is one of `from`.
    fn close(&mut self, id: InvocationId, from: &[ApprovalState], to: ApprovalState) -> bool {
        match self.calls.get_mut(&id) {
            Some(call) if from.contains(&call.state) => {
                call.state = to;
                true
            }
            _ => false,
        }
    }

    fn forget_old_rules(&mut self) {
        let since = Timestamp::now().minus(SessionRule::LASTS);
        self.rules.retain(|_, (_, made_at)| *made_at > since);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use toolcell_spec::{Binding, Input, Plan};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn asking(lasts: Duration) -> ApprovalRequest {
        let invocation = ToolInvocation::planned("a.b", &Input::from_text("{}"));
        let [component, declaration, capability, arguments, actor] = [const { String::new() }; 5];
        let approval = Approval {
            invocation_id: invocation.invocation_id,
            tool_id: "a.b".to_owned(),
            binding: Binding {
                component,
                declaration,
                capability,
                arguments,
                actor,
            },
            actor_ref: Some("anna".to_owned()),
            session: None,
            question: String::new(),
            asked_at: Timestamp::now(),
            expires_at: Timestamp::now().plus(lasts),
            prompt: Vec::new(),
            cut: false,
            plan: Plan {
                tool: "a.b".to_owned(),
                model_input: "{}".to_owned(),
                permission_input: "{}".to_owned(),
                shown_input: None,
                reference_key: None,
                origin: None,
            },
        };
        ApprovalRequest {
            approval,
            invocation,
            history: History::default(),
        }
    }

    fn answer(approver: &str, approved: bool) -> Answer {
        Answer {
            approved,
            approver: approver.to_owned(),
            channel: "terminal".to_owned(),
            edit: None,
            feedback: None,
            always: false,
            answered_at: Timestamp::now(),
        }
    }

    fn claim(asking: &ApprovalRequest, always: Option<Allowance>) -> Claim {
        Claim {
            binding: asking.approval.binding.digest(),
            invocation: asking.invocation.clone(),
            history: History::default(),
            always,
        }
    }

    #[test]
    fn an_answer_counts_once_and_runs_what_was_asked_about_once() {
        let mut store = Store::default();
        let call = asking(HOUR);
        let id = call.approval.invocation_id;
        assert_eq!(
            store.answer(id, &answer("bert", true)).unwrap(),
            AnswerOutcome::Unknown
        );
        store.ask(&call).unwrap();
        assert!(!store.claim(&claim(&call, None)).unwrap(), "not answered");
        assert_eq!(
            store.answer(id, &answer("anna", true)).unwrap(),
            AnswerOutcome::OwnCall
        );
        assert_eq!(
            store.answer(id, &answer("bert", true)).unwrap(),
            AnswerOutcome::Taken
        );
        assert_eq!(
            store.answer(id, &answer("carl", false)).unwrap(),
            AnswerOutcome::TooLate(ApprovalState::Approved)
        );
        let other = Claim {
            binding: "another".to_owned(),
            ..claim(&call, None)
        };
        assert!(!store.claim(&other).unwrap(), "of something else");
        assert!(store.claim(&claim(&call, None)).unwrap());
        assert!(!store.claim(&claim(&call, None)).unwrap(), "claimed");
    }

    #[test]
    fn a_call_that_is_withdrawn_or_whose_time_is_up_does_not_run() {
        let mut store = Store::default();
        let withdrawn = asking(HOUR);
        let id = withdrawn.approval.invocation_id;
        store.ask(&withdrawn).unwrap();
        store.answer(id, &answer("bert", true)).unwrap();
        store.withdraw(id).unwrap();
        assert!(!store.claim(&claim(&withdrawn, None)).unwrap());
        let late = asking(Duration::ZERO);
        let id = late.approval.invocation_id;
        store.ask(&late).unwrap();
        assert_eq!(
            store.answer(id, &answer("bert", true)).unwrap(),
            AnswerOutcome::TooLate(ApprovalState::Expired)
        );
        assert!(store.expire(id).unwrap() && !store.expire(id).unwrap());
        let standing = store.standing(id).unwrap().unwrap();
        assert_eq!(standing.state, ApprovalState::Expired);
    }

    #[test]
    fn one_call_too_many_is_not_asked_about() {
        let mut store = Store::default();
        for _ in 0..WAITING_MAX {
            store.ask(&asking(HOUR)).unwrap();
        }
        assert!(matches!(
            store.ask(&asking(HOUR)),
            Err(StoreError::Full(WAITING_MAX))
        ));
    }

    #[test]
    fn what_was_approved_for_a_session_is_known_after_the_call() {
        let mut store = Store::default();
        let call = asking(HOUR);
        let rule = SessionRule::new("named:work", "a.b", &call.approval.binding, "why");
        let always = Allowance { rule, scope: None };
        store.ask(&call).unwrap();
        let id = call.approval.invocation_id;
        store.answer(id, &answer("bert", true)).unwrap();
        assert_eq!(store.remembers(&always).unwrap(), None);
        assert!(store.claim(&claim(&call, Some(always.clone()))).unwrap());
        let reference = always.rule.reference();
        assert_eq!(store.remembers(&always).unwrap(), Some(reference.clone()));
        let mut other = always.clone();
        other.rule.session = "named:play".to_owned();
        assert_eq!(store.remembers(&other).unwrap(), None);
        let made_at = Timestamp::now().minus(SessionRule::LASTS);
        store.rules.insert(reference, (always.clone(), made_at));
        assert_eq!(store.remembers(&always).unwrap(), None, "it has ended");
    }

    #[tokio::test]
    async fn a_call_that_is_dropped_is_forgotten() {
        let journal = Journal::default();
        let call = asking(HOUR);
        let id = call.approval.invocation_id;
        let held = journal.hold_async(id, Role::Runner).await.unwrap();
        journal.run(|store| store.ask(&call)).await.unwrap();
        assert!(journal.exists());
        drop(held);
        assert!(!journal.exists());
    }
}
