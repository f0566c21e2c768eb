use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use toolcell_spec::{ErrorCode, Refusal};

use crate::http::told;

use super::OtcAnswer;
use super::digest::RequestDigests;

/// Each principal has an equal share.
const BYTES_MAX: usize = 64 << 20;
const ENTRIES_MAX: usize = 20_000;
/// Limit of one principal: running executions, and requests with an id.
const RUNNING_MAX: usize = 1_024;
const ENTRY_BYTES: usize = 512;

/// An execution id is unique in its run, and belongs to one principal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ExecutionKey {
    pub(super) run_id: String,
    pub(super) execution_id: String,
}

/// Known executions, so that none runs twice. No number of them displaces another principal's.
#[derive(Default)]
pub(super) struct Executions(Mutex<HashMap<Arc<str>, Ledger>>);

#[derive(Default)]
struct Ledger {
    entries: HashMap<ExecutionKey, ExecutionEntry>,
    /// Oldest first; an entry with another serial number is outdated.
    ended: VecDeque<(ExecutionKey, u64)>,
    bytes: usize,
    running: usize,
    serial: u64,
}

struct ExecutionEntry {
    body: RequestDigests,
    serial: u64,
    bytes: usize,
    state: ExecutionState,
}

enum ExecutionState {
    /// The receiver ends when the execution does.
    Running(watch::Receiver<()>),
    Answered(OtcAnswer),
    /// The answer is too large to be kept.
    TooLarge,
    /// The tool never ran, and the same request may come again with a token.
    Waiting,
    /// The connection closed during the execution, which may have had effects, so it does not run again.
    Lost,
}

pub(super) enum ClaimRefusal {
    Answered(OtcAnswer),
    Refused(u16, Refusal),
}

enum ExecutionLookup<'a> {
    Free(ExecutionTicket<'a>),
    Running(watch::Receiver<()>),
    Ended(ClaimRefusal),
}

impl Executions {
    /// Waits if the same request runs. Fails if it ran before.
    pub(super) async fn claim(
        &self,
        principal: &Arc<str>,
        key: &ExecutionKey,
        body: RequestDigests,
    ) -> Result<ExecutionTicket<'_>, ClaimRefusal> {
        loop {
            match self.find(principal, key, body) {
                ExecutionLookup::Free(ticket) => return Ok(ticket),
                ExecutionLookup::Ended(ended) => return Err(ended),
                // An error is the end that is waited for.
                ExecutionLookup::Running(mut running) => _ = running.changed().await,
            }
        }
    }

    fn find(
        &self,
        principal: &Arc<str>,
        key: &ExecutionKey,
        body: RequestDigests,
    ) -> ExecutionLookup<'_> {
        let mut ledgers = self.0.lock();
        if !ledgers.contains_key(principal) {
            // Now, because a principal that sends nothing more would never give up its earlier share.
            let shares = ledgers.len() + 1;
            ledgers
                .values_mut()
                .for_each(|ledger| ledger.forget(BYTES_MAX / shares, ENTRIES_MAX / shares));
        }
        let ledger = ledgers.entry(Arc::clone(principal)).or_default();
        if let Some(entry) = ledger.entries.get(key) {
            if !entry.is_of(body) {
                return ExecutionLookup::Ended(refused(ErrorCode::ExecutionIdReused));
            }
            match &entry.state {
                ExecutionState::Running(running) => {
                    return ExecutionLookup::Running(running.clone());
                }
                ExecutionState::Answered(answer) => {
                    return ExecutionLookup::Ended(ClaimRefusal::Answered(answer.clone()));
                }
                ExecutionState::TooLarge => {
                    return ExecutionLookup::Ended(refused(ErrorCode::ResponseNotKept));
                }
                ExecutionState::Lost => {
                    return ExecutionLookup::Ended(refused(ErrorCode::ExecutionLost));
                }
                ExecutionState::Waiting => {}
            }
        }
        if ledger.running >= RUNNING_MAX {
            return ExecutionLookup::Ended(too_many());
        }
        let (sender, receiver) = watch::channel(());
        let serial = ledger.begin(key, body, receiver);
        let principal = Arc::clone(principal);
        let key = key.clone();
        ExecutionLookup::Free(ExecutionTicket {
            executions: self,
            principal,
            key,
            serial,
            has_ended: false,
            _running: sender,
        })
    }

    fn end(&self, principal: &Arc<str>, key: &ExecutionKey, serial: u64, state: ExecutionState) {
        let mut ledgers = self.0.lock();
        let shares = ledgers.len().max(1);
        let Some(ledger) = ledgers.get_mut(principal) else {
            return;
        };
        ledger.end(key, serial, state, BYTES_MAX / shares);
        ledger.forget(BYTES_MAX / shares, ENTRIES_MAX / shares);
    }
}

impl Ledger {
    fn begin(
        &mut self,
        key: &ExecutionKey,
        body: RequestDigests,
        receiver: watch::Receiver<()>,
    ) -> u64 {
        self.serial += 1;
        self.running += 1;
        let entry = ExecutionEntry {
            body,
            serial: self.serial,
            bytes: 0,
            state: ExecutionState::Running(receiver),
        };
        if let Some(before) = self.entries.insert(key.clone(), entry) {
            self.bytes = self.bytes.saturating_sub(before.bytes);
        }
        self.serial
    }

    fn end(&mut self, key: &ExecutionKey, serial: u64, state: ExecutionState, bytes_max: usize) {
        self.running = self.running.saturating_sub(1);
        let Some(entry) = self
            .entries
            .get_mut(key)
            .filter(|entry| entry.serial == serial)
        else {
            return;
        };
        // The client chose the ids, and they are kept whatever becomes of the answer.
        let bytes = ENTRY_BYTES + 2 * (key.run_id.len() + key.execution_id.len());
        (entry.bytes, entry.state) = match state {
            ExecutionState::Answered(answer) if bytes + answer.body.len() <= bytes_max / 8 => {
                (bytes + answer.body.len(), ExecutionState::Answered(answer))
            }
            ExecutionState::Answered(_) => (bytes, ExecutionState::TooLarge),
            other => (bytes, other),
        };
        self.bytes += entry.bytes;
        self.ended.push_back((key.clone(), serial));
    }

    /// The first to end are the first to go.
    fn forget(&mut self, bytes_max: usize, entries_max: usize) {
        while self.bytes > bytes_max || self.ended.len() > entries_max {
            let Some((key, serial)) = self.ended.pop_front() else {
                return;
            };
            if self
                .entries
                .get(&key)
                .is_some_and(|entry| entry.serial == serial)
                && let Some(entry) = self.entries.remove(&key)
            {
                self.bytes = self.bytes.saturating_sub(entry.bytes);
            }
        }
    }
}

impl ExecutionEntry {
    fn is_of(&self, body: RequestDigests) -> bool {
        match self.state {
            ExecutionState::Waiting => self.body.without_credentials == body.without_credentials,
            _ => self.body.whole == body.whole,
        }
    }
}

pub(super) struct ExecutionTicket<'a> {
    executions: &'a Executions,
    principal: Arc<str>,
    key: ExecutionKey,
    serial: u64,
    has_ended: bool,
    /// Dropped after the end is written, which wakes those that wait for it.
    _running: watch::Sender<()>,
}

impl ExecutionTicket<'_> {
    /// `None` if the same request may come again.
    pub(super) fn end(mut self, answer: Option<OtcAnswer>) {
        let state = answer.map_or(ExecutionState::Waiting, ExecutionState::Answered);
        self.has_ended = true;
        self.executions
            .end(&self.principal, &self.key, self.serial, state);
    }
}

impl Drop for ExecutionTicket<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.executions.end(
                &self.principal,
                &self.key,
                self.serial,
                ExecutionState::Lost,
            );
        }
    }
}

fn refused(code: ErrorCode) -> ClaimRefusal {
    ClaimRefusal::Refused(409, Refusal::new(code, told(code)))
}

fn too_many() -> ClaimRefusal {
    let message = format!("{RUNNING_MAX} executions run already; try again");
    ClaimRefusal::Refused(503, Refusal::new(ErrorCode::TooManyCalls, message))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::OtcAnswer;
    use super::{
        BYTES_MAX, ClaimRefusal, ENTRIES_MAX, ExecutionKey, Executions, RUNNING_MAX, RequestDigests,
    };

    fn key(at: usize) -> ExecutionKey {
        ExecutionKey {
            run_id: "run".to_owned(),
            execution_id: at.to_string(),
        }
    }

    fn body(of: &str) -> RequestDigests {
        let digest = blake3::hash(of.as_bytes());
        RequestDigests {
            whole: digest,
            without_credentials: digest,
        }
    }

    fn answer(bytes: usize) -> OtcAnswer {
        OtcAnswer {
            status: 200,
            body: "x".repeat(bytes).into(),
        }
    }

    async fn code(
        executions: &Executions,
        principal: &Arc<str>,
        at: usize,
        of: &str,
    ) -> &'static str {
        match executions.claim(principal, &key(at), body(of)).await {
            Ok(_) => "free",
            Err(ClaimRefusal::Answered(_)) => "answered",
            Err(ClaimRefusal::Refused(_, refusal)) => refusal.code.as_str(),
        }
    }

    #[tokio::test]
    async fn an_execution_is_answered_once_and_for_the_same_request_only() {
        let executions = Executions::default();
        let anna = Arc::from("anna");
        executions
            .claim(&anna, &key(1), body("a"))
            .await
            .ok()
            .unwrap()
            .end(Some(answer(1)));
        assert_eq!(code(&executions, &anna, 1, "a").await, "answered");
        assert_eq!(
            code(&executions, &anna, 1, "b").await,
            "execution_id_reused"
        );
        assert_eq!(code(&executions, &Arc::from("bert"), 1, "b").await, "free");
    }

    #[tokio::test]
    async fn an_execution_that_was_dropped_does_not_run_again() {
        let executions = Executions::default();
        let anna = Arc::from("anna");
        drop(executions.claim(&anna, &key(1), body("a")).await);
        assert_eq!(code(&executions, &anna, 1, "a").await, "execution_lost");
    }

    #[tokio::test]
    async fn what_is_remembered_is_bounded_and_not_forgotten_for_another_principal() {
        let executions = Executions::default();
        let anna = Arc::from("anna");
        let bert = Arc::from("bert");
        executions
            .claim(&bert, &key(0), body("a"))
            .await
            .ok()
            .unwrap()
            .end(Some(answer(1)));
        for at in 0..ENTRIES_MAX {
            executions
                .claim(&anna, &key(at), body("a"))
                .await
                .ok()
                .unwrap()
                .end(Some(answer(1)));
        }
        assert!(executions.0.lock()[&anna].entries.len() <= ENTRIES_MAX / 2);
        assert_eq!(code(&executions, &bert, 0, "a").await, "answered");
        for at in 0..40 {
            executions
                .claim(&anna, &key(ENTRIES_MAX + at), body("a"))
                .await
                .ok()
                .unwrap()
                .end(Some(answer(3 << 20)));
        }
        assert!(executions.0.lock()[&anna].bytes <= BYTES_MAX / 2);
        executions
            .claim(&anna, &key(0), body("a"))
            .await
            .ok()
            .unwrap()
            .end(Some(answer(5 << 20)));
        assert_eq!(code(&executions, &anna, 0, "a").await, "response_not_kept");
    }

    #[tokio::test]
    async fn all_answers_together_are_bounded_however_many_principals_come() {
        let executions = Executions::default();
        for principal in ["anna", "bert", "cleo"].map(Arc::<str>::from) {
            for at in 0..40 {
                let ticket = executions
                    .claim(&principal, &key(at), body("a"))
                    .await
                    .ok()
                    .unwrap();
                ticket.end(Some(answer(2 << 20)));
            }
        }
        let kept: usize = executions
            .0
            .lock()
            .values()
            .map(|ledger| ledger.bytes)
            .sum();
        assert!((BYTES_MAX / 2..=BYTES_MAX).contains(&kept), "{kept}");
    }

    #[tokio::test]
    async fn ids_take_room_without_an_answer_too() {
        let executions = Executions::default();
        let anna = Arc::<str>::from("anna");
        for state in [None, Some(answer(BYTES_MAX))] {
            let long = ExecutionKey {
                run_id: "r".repeat(1_024),
                execution_id: "e".repeat(1_024),
            };
            let before = executions
                .0
                .lock()
                .get(&anna)
                .map_or(0, |ledger| ledger.bytes);
            let key = ExecutionKey {
                run_id: format!("{before}-{}", long.run_id),
                ..long
            };
            executions
                .claim(&anna, &key, body("a"))
                .await
                .ok()
                .unwrap()
                .end(state);
            assert!(executions.0.lock()[&anna].bytes >= before + 2 * 2_048);
        }
    }

    #[tokio::test]
    async fn so_many_run_at_once() {
        let executions = Executions::default();
        let anna = Arc::from("anna");
        let mut running = Vec::new();
        for at in 0..RUNNING_MAX {
            running.push(
                executions
                    .claim(&anna, &key(at), body("a"))
                    .await
                    .ok()
                    .unwrap(),
            );
        }
        assert_eq!(
            code(&executions, &anna, RUNNING_MAX, "a").await,
            "too_many_calls"
        );
        running.pop().unwrap().end(None);
        assert_eq!(code(&executions, &anna, RUNNING_MAX, "a").await, "free");
    }
}
