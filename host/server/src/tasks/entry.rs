use std::collections::BTreeMap;
use std::sync::Arc;

use rmcp::model::{ElicitRequestParams, InputResponses, MetaObject};
use tokio::sync::mpsc;
use toolcell::{Background, Cancellation};
use toolcell_core::record::{AbortReason, InvocationId, Timestamp};

use crate::asking::{CallQuestion, wire};

use super::ended::CallEnd;

/// Maximum size of the answers to one round of questions, in bytes of JSON: forms hold words and numbers.
const ANSWERS_BYTES_MAX: usize = 256 << 10;

/// One task of this process.
pub(super) struct TaskEntry {
    pub(super) owner: Arc<str>,
    updated: Timestamp,
    cancellation: Cancellation,
    questions: Option<mpsc::Receiver<CallQuestion>>,
    open: Option<QuestionRound>,
    /// Numbers the rounds of questions.
    background: Background,
    ended: Option<Arc<CallEnd>>,
    /// `true` if the client got the result.
    is_read: bool,
}

/// Questions that were asked together.
struct QuestionRound {
    ask: CallQuestion,
    /// From 1 on.
    number: usize,
    /// The answers so far. The call gets all of them at once, because it asks again for what is missing.
    given: InputResponses,
}

/// The order in which results leave the memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResultWeight {
    pub(super) bytes: usize,
    pub(super) is_read: bool,
    pub(super) is_recorded: bool,
}

/// The state of a task.
pub(super) enum TaskState {
    Working(Timestamp),
    Asks {
        questions: BTreeMap<String, ElicitRequestParams>,
        meta: MetaObject,
        /// The call to approve: the task's call, or one that its tool makes.
        approval: Option<InvocationId>,
        updated: Timestamp,
    },
    Ended(Arc<CallEnd>, Timestamp),
}

/// The answers of a client take more than [`ANSWERS_BYTES_MAX`].
#[derive(Debug, thiserror::Error)]
#[error("the answers take more than {ANSWERS_BYTES_MAX} bytes: send shorter ones")]
pub(super) struct TooLarge;

impl TaskEntry {
    pub(super) fn new(
        owner: Arc<str>,
        cancellation: Cancellation,
        questions: Option<mpsc::Receiver<CallQuestion>>,
        background: Background,
        ask: Option<CallQuestion>,
    ) -> Self {
        let updated = Timestamp::now();
        let mut entry = Self {
            owner,
            updated,
            cancellation,
            questions,
            open: None,
            background,
            ended: None,
            is_read: false,
        };
        if let Some(ask) = ask {
            entry.begin_round(ask);
        }
        entry
    }

    pub(super) fn is_open(&self) -> bool {
        self.ended.is_none()
    }

    /// The result's size, and the harm of its loss; `None` before there is one.
    pub(super) fn weight(&self) -> Option<ResultWeight> {
        let ended = self.ended.as_ref()?;
        Some(ResultWeight {
            bytes: ended.bytes,
            is_read: self.is_read,
            is_recorded: ended.is_recorded,
        })
    }

    /// Returns whether the end of the call could not be written.
    pub(super) fn is_unwritten(&self) -> bool {
        self.ended.as_ref().is_some_and(|ended| ended.is_unwritten)
    }

    pub(super) fn end(&mut self, ended: CallEnd) {
        (self.open, self.questions) = (None, None);
        self.updated = Timestamp::now();
        self.ended = Some(Arc::new(ended));
    }

    pub(super) fn cancel(&self) {
        self.cancellation.cancel(AbortReason::UserInterruption);
    }

    /// Returns whether a cancel was requested.
    pub(super) fn is_canceled(&self) -> bool {
        self.cancellation.requested().is_some()
    }

    pub(super) fn look(&mut self) -> TaskState {
        self.refresh();
        self.is_read = self.ended.is_some();
        match (&self.ended, &self.open) {
            (Some(ended), _) => TaskState::Ended(Arc::clone(ended), self.updated),
            (None, Some(round)) => TaskState::Asks {
                questions: round.questions(),
                meta: round.ask.meta(),
                approval: round.ask.approval_of(),
                updated: self.updated,
            },
            (None, None) => TaskState::Working(self.updated),
        }
    }

    /// Takes the answers to open questions; others are ignored. The call goes on once all questions are answered.
    pub(super) fn give(&mut self, responses: &InputResponses) -> Result<(), TooLarge> {
        self.refresh();
        let Some(round) = &mut self.open else {
            return Ok(());
        };
        let mut given = round.given.clone();
        let mut keys = round.ask.questions().into_keys().peekable();
        let mut complete = keys.peek().is_some();
        for key in keys {
            match responses
                .get(&round.wire(&key))
                .cloned()
                .or_else(|| round.given.get(&key).cloned())
            {
                Some(response) => _ = given.insert(key, response),
                None => complete = false,
            }
        }
        let bytes: usize = given
            .iter()
            .map(|(key, response)| key.len() + response.to_string().len())
            .sum();
        if bytes > ANSWERS_BYTES_MAX {
            return Err(TooLarge);
        }
        round.given = given;
        if complete && let Some(QuestionRound { ask, number, given }) = self.open.take() {
            self.updated = Timestamp::now();
            // Answers that cannot be read leave the question open.
            self.open = ask.answer(Some(&given)).err().map(|ask| QuestionRound {
                ask,
                number,
                given: InputResponses::new(),
            });
        }
        Ok(())
    }

    /// Drops a question that was answered elsewhere, and takes the next one.
    fn refresh(&mut self) {
        if self
            .open
            .as_ref()
            .is_some_and(|round| round.ask.is_closed())
        {
            self.open = None;
            self.updated = Timestamp::now();
        }
        while self.open.is_none()
            && let Some(ask) = self
                .questions
                .as_mut()
                .and_then(|questions| questions.try_recv().ok())
        {
            if !ask.is_closed() {
                self.begin_round(ask);
                self.updated = Timestamp::now();
            }
        }
    }

    fn begin_round(&mut self, ask: CallQuestion) {
        self.open = Some(QuestionRound {
            ask,
            number: self.background.begin_round(),
            given: InputResponses::new(),
        });
    }
}

impl QuestionRound {
    /// The name of a key for the client.
    fn wire(&self, key: &str) -> String {
        wire(key, self.number)
    }

    /// The questions without an answer.
    fn questions(&self) -> BTreeMap<String, ElicitRequestParams> {
        let open = self
            .ask
            .questions()
            .into_iter()
            .filter(|(key, _)| !self.given.contains_key(key));
        open.map(|(key, question)| (self.wire(&key), question))
            .collect()
    }
}
