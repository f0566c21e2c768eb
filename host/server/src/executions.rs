//! Requests that a client may send again: each runs once, and its answer is kept.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use blake3::Hash;
use parking_lot::Mutex;
use tokio::sync::watch;

const ENTRIES_MAX: usize = 20_000;
/// Limit of one principal: running executions, and requests with an id.
pub(crate) const RUNNING_MAX: usize = 1_024;
const ENTRY_BYTES: usize = 512;
/// Of an idempotency key.
pub(crate) const KEY_BYTES_MAX: usize = 256;

/// An execution id is unique in its run, and belongs to one principal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ExecutionKey {
    pub(crate) run_id: String,
    pub(crate) execution_id: String,
}

/// One digest is without credentials, because a request that waits for an authorization is repeated with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestDigests {
    pub(crate) whole: Hash,
    pub(crate) without_credentials: Hash,
}

impl From<Hash> for RequestDigests {
    fn from(whole: Hash) -> Self {
        Self {
            whole,
            without_credentials: whole,
        }
    }
}

pub(crate) trait ExecutionAnswer: Clone {
    /// The memory that it takes; a clone takes none of its own.
    fn bytes(&self) -> usize;
}

/// Known executions, so that none runs twice. No number of them displaces another principal's.
pub(crate) struct Executions<A> {
    ledgers: Mutex<HashMap<Arc<str>, Ledger<A>>>,
    /// Each principal has an equal share.
    bytes_max: usize,
}

struct Ledger<A> {
    entries: HashMap<ExecutionKey, ExecutionEntry<A>>,
    /// Oldest first; an entry with another serial number is outdated.
    ended: VecDeque<(ExecutionKey, u64)>,
    bytes: usize,
    running: usize,
    serial: u64,
}

impl<A> Default for Ledger<A> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            ended: VecDeque::new(),
            bytes: 0,
            running: 0,
            serial: 0,
        }
    }
}

struct ExecutionEntry<A> {
    body: RequestDigests,
    serial: u64,
    bytes: usize,
    state: ExecutionState<A>,
}

enum ExecutionState<A> {
    /// The receiver ends when the execution does.
    Running(watch::Receiver<()>),
    Answered(A),
    /// The answer is too large to be kept.
    TooLarge,
    /// Nothing ran, or what ran waits for its client: the same request may come again, with a token if it has to.
    Waiting,
    /// The connection closed during the execution, which may have had effects, so it does not run again.
    Lost,
}

pub(crate) enum ExecutionClaim<A: ExecutionAnswer> {
    First(ExecutionTicket<A>),
    Answered(A),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimRefusal {
    OtherRequest,
    /// The answer was too large.
    NotKept,
    Lost,
    TooMany,
}

enum ExecutionLookup<A: ExecutionAnswer> {
    Running(watch::Receiver<()>),
    Ended(Result<ExecutionClaim<A>, ClaimRefusal>),
}

impl<A: ExecutionAnswer> Executions<A> {
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            ledgers: Mutex::default(),
            bytes_max,
        })
    }

    /// Waits if the same request runs.
    pub(crate) async fn claim(
        self: &Arc<Self>,
        principal: &Arc<str>,
        key: &ExecutionKey,
        body: RequestDigests,
    ) -> Result<ExecutionClaim<A>, ClaimRefusal> {
        let all = Arc::from("");
        let principal = if guard!("key_owner") { principal } else { &all };
        loop {
            match self.find(principal, key, body) {
                ExecutionLookup::Ended(ended) => return ended,
                // An error is the end that is waited for.
                ExecutionLookup::Running(mut running) => _ = running.changed().await,
            }
        }
    }

    fn find(
        self: &Arc<Self>,
        principal: &Arc<str>,
        key: &ExecutionKey,
        body: RequestDigests,
    ) -> ExecutionLookup<A> {
        let mut ledgers = self.ledgers.lock();
        if !ledgers.contains_key(principal) {
            // Now, because a principal that sends nothing more would never give up its earlier share.
            let shares = ledgers.len() + 1;
            ledgers
                .values_mut()
                .for_each(|ledger| ledger.forget(self.bytes_max / shares, ENTRIES_MAX / shares));
        }
        let ledger = ledgers.entry(Arc::clone(principal)).or_default();
        if let Some(entry) = ledger.entries.get(key) {
            if !entry.is_of(body) {
                return ExecutionLookup::Ended(Err(ClaimRefusal::OtherRequest));
            }
            match &entry.state {
                ExecutionState::Running(running) => {
                    return ExecutionLookup::Running(running.clone());
                }
                ExecutionState::Answered(answer) => {
                    return ExecutionLookup::Ended(Ok(ExecutionClaim::Answered(answer.clone())));
                }
                ExecutionState::TooLarge => {
                    return ExecutionLookup::Ended(Err(ClaimRefusal::NotKept));
                }
                ExecutionState::Lost => {
                    return ExecutionLookup::Ended(Err(ClaimRefusal::Lost));
                }
                ExecutionState::Waiting => {}
            }
        }
        if ledger.running >= RUNNING_MAX {
            return ExecutionLookup::Ended(Err(ClaimRefusal::TooMany));
        }
        let (sender, receiver) = watch::channel(());
        let serial = ledger.begin(key, body, receiver);
        let principal = Arc::clone(principal);
        let key = key.clone();
        ExecutionLookup::Ended(Ok(ExecutionClaim::First(ExecutionTicket {
            executions: Arc::clone(self),
            principal,
            key,
            serial,
            has_ended: false,
            _running: sender,
        })))
    }

    fn release(&self, principal: &Arc<str>, key: &ExecutionKey, serial: u64) {
        let mut ledgers = self.ledgers.lock();
        if let Some(ledger) = ledgers.get_mut(principal) {
            ledger.running = ledger.running.saturating_sub(1);
            if ledger
                .entries
                .get(key)
                .is_some_and(|entry| entry.serial == serial)
            {
                ledger.entries.remove(key);
            }
        }
    }

    fn end(&self, principal: &Arc<str>, key: &ExecutionKey, serial: u64, state: ExecutionState<A>) {
        // Without the lock, because it may read all of the answer.
        let of_answer = match &state {
            ExecutionState::Answered(answer) => answer.bytes(),
            _ => 0,
        };
        let mut ledgers = self.ledgers.lock();
        let shares = ledgers.len().max(1);
        let Some(ledger) = ledgers.get_mut(principal) else {
            return;
        };
        ledger.end((key, serial), (state, of_answer), self.bytes_max / shares);
        ledger.forget(self.bytes_max / shares, ENTRIES_MAX / shares);
    }
}

impl<A: ExecutionAnswer> Ledger<A> {
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

    fn end(
        &mut self,
        (key, serial): (&ExecutionKey, u64),
        (state, of_answer): (ExecutionState<A>, usize),
        bytes_max: usize,
    ) {
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
            ExecutionState::Answered(answer) if bytes + of_answer <= bytes_max / 8 => {
                (bytes + of_answer, ExecutionState::Answered(answer))
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

impl<A> ExecutionEntry<A> {
    fn is_of(&self, body: RequestDigests) -> bool {
        match self.state {
            ExecutionState::Waiting => self.body.without_credentials == body.without_credentials,
            _ => self.body.whole == body.whole,
        }
    }
}

pub(crate) struct ExecutionTicket<A: ExecutionAnswer> {
    executions: Arc<Executions<A>>,
    principal: Arc<str>,
    key: ExecutionKey,
    serial: u64,
    has_ended: bool,
    /// Dropped after the end is written, which wakes those that wait for it.
    _running: watch::Sender<()>,
}

impl<A: ExecutionAnswer> ExecutionTicket<A> {
    /// `None` if the same request may come again.
    pub(crate) fn end(mut self, answer: Option<A>) {
        let state = answer.map_or(ExecutionState::Waiting, ExecutionState::Answered);
        self.has_ended = true;
        self.executions
            .end(&self.principal, &self.key, self.serial, state);
    }

    /// The answer is too large to be kept.
    pub(crate) fn end_unkept(mut self) {
        self.has_ended = true;
        let state = ExecutionState::TooLarge;
        self.executions
            .end(&self.principal, &self.key, self.serial, state);
    }

    /// Nothing ran: the key is free for any request.
    pub(crate) fn release(mut self) {
        self.has_ended = true;
        self.executions
            .release(&self.principal, &self.key, self.serial);
    }
}

impl<A: ExecutionAnswer> Drop for ExecutionTicket<A> {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{
        ClaimRefusal, ENTRIES_MAX, ExecutionAnswer, ExecutionClaim, ExecutionKey, ExecutionTicket,
        Executions, RUNNING_MAX, RequestDigests,
    };

    const BYTES_MAX: usize = 64 << 20;

    impl ExecutionAnswer for Arc<str> {
        fn bytes(&self) -> usize {
            self.len()
        }
    }

    fn executions() -> Arc<Executions<Arc<str>>> {
        Executions::new(BYTES_MAX)
    }

    fn key(at: usize) -> ExecutionKey {
        ExecutionKey {
            run_id: "run".to_owned(),
            execution_id: at.to_string(),
        }
    }

    fn body(of: &str) -> RequestDigests {
        blake3::hash(of.as_bytes()).into()
    }

    fn answer(bytes: usize) -> Arc<str> {
        "x".repeat(bytes).into()
    }

    async fn first(
        executions: &Arc<Executions<Arc<str>>>,
        principal: &Arc<str>,
        key: &ExecutionKey,
        body: RequestDigests,
    ) -> ExecutionTicket<Arc<str>> {
        match executions.claim(principal, key, body).await {
            Ok(ExecutionClaim::First(ticket)) => ticket,
            _ => panic!("it ran before"),
        }
    }

    async fn code(
        executions: &Arc<Executions<Arc<str>>>,
        principal: &Arc<str>,
        at: usize,
        of: &str,
    ) -> &'static str {
        match executions.claim(principal, &key(at), body(of)).await {
            Ok(ExecutionClaim::First(_)) => "free",
            Ok(ExecutionClaim::Answered(_)) => "answered",
            Err(ClaimRefusal::OtherRequest) => "other request",
            Err(ClaimRefusal::NotKept) => "not kept",
            Err(ClaimRefusal::Lost) => "lost",
            Err(ClaimRefusal::TooMany) => "too many",
        }
    }

    #[tokio::test]
    async fn an_execution_is_answered_once_and_for_the_same_request_only() {
        let executions = executions();
        let anna = Arc::from("anna");
        first(&executions, &anna, &key(1), body("a"))
            .await
            .end(Some(answer(1)));
        assert_eq!(code(&executions, &anna, 1, "a").await, "answered");
        assert_eq!(code(&executions, &anna, 1, "b").await, "other request");
        assert_eq!(code(&executions, &Arc::from("bert"), 1, "b").await, "free");
    }

    #[tokio::test]
    async fn an_execution_that_was_dropped_does_not_run_again() {
        let executions = executions();
        let anna = Arc::from("anna");
        drop(executions.claim(&anna, &key(1), body("a")).await);
        assert_eq!(code(&executions, &anna, 1, "a").await, "lost");
    }

    #[tokio::test]
    async fn what_is_remembered_is_bounded_and_not_forgotten_for_another_principal() {
        let executions = executions();
        let anna = Arc::from("anna");
        let bert = Arc::from("bert");
        first(&executions, &bert, &key(0), body("a"))
            .await
            .end(Some(answer(1)));
        for at in 0..ENTRIES_MAX {
            first(&executions, &anna, &key(at), body("a"))
                .await
                .end(Some(answer(1)));
        }
        assert!(executions.ledgers.lock()[&anna].entries.len() <= ENTRIES_MAX / 2);
        assert_eq!(code(&executions, &bert, 0, "a").await, "answered");
        for at in 0..40 {
            first(&executions, &anna, &key(ENTRIES_MAX + at), body("a"))
                .await
                .end(Some(answer(3 << 20)));
        }
        assert!(executions.ledgers.lock()[&anna].bytes <= BYTES_MAX / 2);
        first(&executions, &anna, &key(0), body("a"))
            .await
            .end(Some(answer(5 << 20)));
        assert_eq!(code(&executions, &anna, 0, "a").await, "not kept");
    }

    #[tokio::test]
    async fn all_answers_together_are_bounded_however_many_principals_come() {
        let executions = executions();
        for principal in ["anna", "bert", "cleo"].map(Arc::<str>::from) {
            for at in 0..40 {
                let ticket = first(&executions, &principal, &key(at), body("a")).await;
                ticket.end(Some(answer(2 << 20)));
            }
        }
        let kept: usize = executions
            .ledgers
            .lock()
            .values()
            .map(|ledger| ledger.bytes)
            .sum();
        assert!((BYTES_MAX / 2..=BYTES_MAX).contains(&kept), "{kept}");
    }

    #[tokio::test]
    async fn ids_take_room_without_an_answer_too() {
        let executions = executions();
        let anna = Arc::<str>::from("anna");
        for state in [None, Some(answer(BYTES_MAX))] {
            let long = ExecutionKey {
                run_id: "r".repeat(1_024),
                execution_id: "e".repeat(1_024),
            };
            let before = executions
                .ledgers
                .lock()
                .get(&anna)
                .map_or(0, |ledger| ledger.bytes);
            let key = ExecutionKey {
                run_id: format!("{before}-{}", long.run_id),
                ..long
            };
            first(&executions, &anna, &key, body("a")).await.end(state);
            assert!(executions.ledgers.lock()[&anna].bytes >= before + 2 * 2_048);
        }
    }

    #[tokio::test]
    async fn so_many_run_at_once() {
        let executions = executions();
        let anna = Arc::from("anna");
        let mut running = Vec::new();
        for at in 0..RUNNING_MAX {
            running.push(first(&executions, &anna, &key(at), body("a")).await);
        }
        assert_eq!(code(&executions, &anna, RUNNING_MAX, "a").await, "too many");
        running.pop().unwrap().end(None);
        assert_eq!(code(&executions, &anna, RUNNING_MAX, "a").await, "free");
    }
}
