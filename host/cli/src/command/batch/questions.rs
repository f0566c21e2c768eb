//! Asks one question at a time, because a batch has one user.

use std::sync::Arc;

use tokio::sync::{Mutex, MutexGuard};
use toolcell::{Approver, Inquiry, Prompt, Reply, Respondent};
use toolcell_spec::InputResponses;
use toolcell_system::BoxFuture;

use super::output::{Output, Pause};

/// The user's attention, for which the calls wait in turn.
#[derive(Clone)]
pub(super) struct Questions {
    turn: Arc<Mutex<()>>,
    output: Arc<Output>,
}

impl Questions {
    pub(super) fn new(output: &Arc<Output>) -> Self {
        Self {
            turn: Arc::default(),
            output: Arc::clone(output),
        }
    }

    // They are dropped in this order: what waited is printed before the next question.
    async fn begin(&self) -> (Pause, MutexGuard<'_, ()>) {
        let turn = self.turn.lock().await;
        (self.output.pause(), turn)
    }

    /// Lets `asked` ask one question at a time.
    pub(super) fn in_turn<T: ?Sized>(&self, asked: Arc<T>) -> Arc<InTurn<T>> {
        Arc::new(InTurn {
            questions: self.clone(),
            asked,
        })
    }
}

pub(super) struct InTurn<T: ?Sized> {
    questions: Questions,
    asked: Arc<T>,
}

impl Approver for InTurn<dyn Approver> {
    fn principal(&self) -> &str {
        self.asked.principal()
    }

    fn channel(&self) -> &str {
        self.asked.channel()
    }

    fn ask<'a>(&'a self, prompt: &'a Prompt) -> BoxFuture<'a, Option<Reply>> {
        Box::pin(async move {
            let _asking = self.questions.begin().await;
            self.asked.ask(prompt).await
        })
    }

    fn announce<'a>(&'a self, prompt: &'a Prompt) -> BoxFuture<'a, Option<Reply>> {
        self.asked.announce(prompt)
    }
}

impl Respondent for InTurn<dyn Respondent> {
    fn respond<'a>(&'a self, inquiry: &'a Inquiry) -> BoxFuture<'a, Option<InputResponses>> {
        Box::pin(async move {
            let _asking = self.questions.begin().await;
            self.asked.respond(inquiry).await
        })
    }
}
