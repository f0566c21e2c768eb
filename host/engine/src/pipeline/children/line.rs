//! The line between a guest and its call: wanted calls and their answers.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

use toolcell_executor::{CallableTool, ChildAnswer, ChildCall, ToolCaller};
use toolcell_spec::{AbortReason, ToolError, Usage};
use toolcell_system::BoxFuture;

use super::not_made;

pub(super) enum ChildRequest {
    List(oneshot::Sender<Vec<CallableTool>>),
    Call(ChildCall, oneshot::Sender<ChildReply>),
}

pub(super) struct ChildLine(pub(super) mpsc::Sender<ChildRequest>);

impl ToolCaller for ChildLine {
    fn list(&self) -> BoxFuture<'_, Vec<CallableTool>> {
        Box::pin(async {
            let (reply, answer) = oneshot::channel();
            let _ = self.0.send(ChildRequest::List(reply)).await;
            answer.await.unwrap_or_default()
        })
    }

    fn call(&self, call: ChildCall) -> BoxFuture<'_, ChildAnswer> {
        Box::pin(async {
            let (reply, answer) = oneshot::channel();
            let _ = self.0.send(ChildRequest::Call(call, reply)).await;
            answer
                .await
                .map_or_else(|_| not_made(gone()), ChildReply::read)
        })
    }
}

fn gone() -> ToolError {
    toolcell_executor::canceled(AbortReason::RuntimeShutdown).to_error()
}

/// Usage of calls with unread replies: a guest reads and is charged in one step, and can be stopped before.
#[derive(Clone, Default)]
pub(super) struct UnreadUsage(Arc<Mutex<Vec<Usage>>>);

impl UnreadUsage {
    fn add(&self, used: Usage) {
        if guard!("child_unread") {
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(used);
        }
    }

    pub(super) fn take(&self) -> Vec<Usage> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// If dropped unread, the usage is not lost.
pub(super) struct ChildReply {
    /// `None` once read.
    answer: Option<ChildAnswer>,
    unread: UnreadUsage,
}

impl ChildReply {
    pub(super) fn new(answer: ChildAnswer, unread: &UnreadUsage) -> Self {
        Self {
            answer: Some(answer),
            unread: unread.clone(),
        }
    }

    fn read(mut self) -> ChildAnswer {
        self.answer.take().unwrap_or_else(|| not_made(gone()))
    }
}

impl Drop for ChildReply {
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            self.unread.add(answer.used);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};
    use std::time::Instant;

    use toolcell_executor::LimitShare;

    use super::*;

    fn used(fuel: u64) -> ChildAnswer {
        let mut answer = not_made(gone());
        answer.used.fuel.used = fuel;
        answer
    }

    fn wanted() -> ChildCall {
        let share = LimitShare {
            left: Box::default(),
            deadline: Instant::now(),
        };
        ChildCall {
            tool: "probe.echo".to_owned(),
            input: "{}".to_owned(),
            share,
        }
    }

    fn begun<'l>(
        line: &'l ChildLine,
        asked: &mut mpsc::Receiver<ChildRequest>,
    ) -> (BoxFuture<'l, ChildAnswer>, oneshot::Sender<ChildReply>) {
        let mut guest = line.call(wanted());
        assert!(poll(&mut guest).is_pending());
        match asked.try_recv() {
            Ok(ChildRequest::Call(_, reply)) => (guest, reply),
            _ => panic!("the guest made no call"),
        }
    }

    fn poll(guest: &mut BoxFuture<'_, ChildAnswer>) -> Poll<ChildAnswer> {
        guest.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn what_a_call_used_is_charged_once_whether_its_reply_is_read_or_not() {
        let (wishes, mut asked) = mpsc::channel(1);
        let line = ChildLine(wishes);
        let unread = UnreadUsage::default();
        let fuel = || {
            unread
                .take()
                .iter()
                .map(|used| used.fuel.used)
                .collect::<Vec<u64>>()
        };

        let (mut guest, reply) = begun(&line, &mut asked);
        assert!(reply.send(ChildReply::new(used(1), &unread)).is_ok());
        let Poll::Ready(answer) = poll(&mut guest) else {
            panic!("the reply does not come")
        };
        assert_eq!(
            (answer.used.fuel.used, fuel()),
            (1, vec![]),
            "the guest charges what it reads"
        );

        let (guest, reply) = begun(&line, &mut asked);
        assert!(reply.send(ChildReply::new(used(2), &unread)).is_ok());
        drop(guest);
        assert_eq!(
            fuel(),
            [2],
            "the guest is stopped before it reads the reply"
        );

        let (guest, reply) = begun(&line, &mut asked);
        drop(guest);
        assert!(reply.send(ChildReply::new(used(3), &unread)).is_err());
        assert_eq!(fuel(), [3], "the guest is stopped before the reply is sent");
    }
}
