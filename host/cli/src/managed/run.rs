//! One session: its tool uses one after the other, until its agent has nothing more to do or the lease ends.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use toolcell::{AbortReason, Cancellation};
use toolcell_system::BoxFuture;
use tracing::info;

use super::api::{Api, ApiError, Credential};
use super::calls::{CallStart, SessionCalls};
use super::feed::{Feed, News};
use super::lease::{Lease, LeaseEnd};
use super::session::{SessionState, Step};
use super::wire::{Answer, Event, ToolUse};
use crate::show;

const PAUSE_MAX: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunEnd {
    /// The work is over.
    Done { is_settled: bool },
    /// Another worker has it, or may have it.
    Lost,
    /// This worker ends before the session does: another one may go on.
    Released,
}

pub(super) struct SessionRun {
    pub(super) api: Arc<Api>,
    pub(super) key: Credential,
    pub(super) calls: Arc<SessionCalls>,
    pub(super) idle: Duration,
    pub(super) drain: CancellationToken,
    /// Another machine had this work: what was open then may have begun there.
    pub(super) was_elsewhere: bool,
    pub(super) state: SessionState,
    /// Answers that are not sent yet.
    pub(super) computed: HashMap<String, Answer>,
    pub(super) suspects: Option<HashSet<String>>,
    pub(super) running: Option<CurrentWork>,
    /// To send the same answer.
    pub(super) attempts: u32,
}

pub(super) struct CurrentWork {
    tool_use: ToolUse,
    /// `None` for the sending of an answer.
    call: Option<(Cancellation, Arc<CallStart>)>,
    /// Its answer is not to be sent.
    is_void: bool,
    work: BoxFuture<'static, Outcome>,
}

enum Outcome {
    Computed(Answer),
    Sent(Result<(), ApiError>),
    NotSent,
    /// Whether an answer arrived was not clear: the history after it says so.
    Checked(Vec<Event>),
}

impl SessionRun {
    pub(super) async fn run(mut self, lease: &Lease) -> RunEnd {
        let mut feed = Feed::open(&self.api, &self.key, &self.calls.session);
        let drain = self.drain.clone();
        let mut idle_since = None;
        loop {
            let is_draining = drain.is_cancelled();
            self.begin(is_draining);
            if self.running.is_none() {
                if self.state.has_ended() {
                    return self.done();
                }
                if is_draining {
                    return self.released();
                }
            }
            let is_idle = self.running.is_none() && self.state.turn_has_ended();
            idle_since = is_idle.then(|| idle_since.unwrap_or_else(Instant::now));
            let idle_until = idle_since.map(|since| since + self.idle);
            tokio::select! {
                biased;
                end = lease.ended() => return self.end(end).await,
                outcome = finished(&mut self.running) => self.take(outcome),
                news = feed.next() => match news {
                    Some(News::Refused(error)) => return self.refused(&error).await,
                    Some(news) => self.learn(news),
                    None => return self.end(LeaseEnd::Lost).await,
                },
                () = drain.cancelled(), if !is_draining => self.stop_waiting(),
                () = sleep_until(idle_until.unwrap_or_else(Instant::now)), if is_idle => return self.done(),
            }
        }
    }

    fn done(&self) -> RunEnd {
        RunEnd::Done {
            is_settled: self.state.has_ended() || self.state.is_settled(),
        }
    }

    fn released(&self) -> RunEnd {
        if self.state.turn_has_ended() && self.state.is_settled() {
            self.done()
        } else {
            RunEnd::Released
        }
    }

    fn learn(&mut self, news: News) {
        match news {
            News::History(events) => self.read_again(events),
            News::Event(event) => self.state.apply(event),
            News::Refused(_) => {}
        }
        let Some(running) = &self.running else {
            return;
        };
        if let Some((cancellation, _)) = &running.call
            && (self.state.has_ended() || self.state.is_interrupted(&running.tool_use.id))
        {
            cancellation.cancel(AbortReason::UserInterruption);
        }
    }

    fn read_again(&mut self, events: Vec<Event>) {
        self.state.read_again(events);
        let open = self.state.open_ids().map(str::to_owned);
        let was_elsewhere = self.was_elsewhere;
        self.suspects
            .get_or_insert_with(|| open.filter(|_| was_elsewhere).collect());
    }

    /// Takes up the next tool use, or sends its answer. While the worker drains, no call begins.
    fn begin(&mut self, is_draining: bool) {
        // Without the history, an answered tool use could look open.
        let Some(suspects) = self.suspects.as_ref().filter(|_| self.running.is_none()) else {
            return;
        };
        let is_own = |tool_use: &ToolUse| {
            let is_computed = self.computed.contains_key(&tool_use.id);
            (is_computed || !is_draining) && self.calls.is_own(tool_use)
        };
        let (tool_use, is_interrupted) = match self.state.next(is_own) {
            None => return,
            Some(Step::Run(tool_use)) => (tool_use.clone(), false),
            Some(Step::Interrupted(tool_use)) => (tool_use.clone(), true),
        };
        if let Some(answer) = self.computed.get(&tool_use.id) {
            let events = answer.event(&tool_use);
            let (api, key) = (Arc::clone(&self.api), self.key.clone());
            let session = self.calls.session.clone();
            let attempt = self.attempts;
            let work = Box::pin(async move { send(&api, &key, &session, (events, attempt)).await });
            self.running = Some(CurrentWork::new(tool_use, None, work));
            return;
        }
        if is_interrupted && !self.calls.has_begun(&tool_use) {
            let answer = Answer::error("the user interrupted the agent before this call began");
            self.computed.insert(tool_use.id, answer);
            return self.begin(is_draining);
        }
        let start = Arc::new(CallStart::new(&self.calls.claims, &tool_use, suspects));
        let cancellation = Cancellation::new();
        let call = Some((cancellation.clone(), Arc::clone(&start)));
        let (calls, used) = (Arc::clone(&self.calls), tool_use.clone());
        let work =
            Box::pin(
                async move { Outcome::Computed(calls.answer(&used, start, cancellation).await) },
            );
        info!(
            tool_use = tool_use.id,
            tool = tool_use.name,
            "a tool use is taken up"
        );
        self.running = Some(CurrentWork::new(tool_use, call, work));
    }

    fn take(&mut self, outcome: Outcome) {
        let Some(CurrentWork {
            tool_use, is_void, ..
        }) = self.running.take()
        else {
            return;
        };
        let id = tool_use.id;
        match outcome {
            Outcome::Computed(_) if is_void => {}
            Outcome::Computed(answer) => drop(self.computed.insert(id, answer)),
            Outcome::NotSent => self.attempts += 1,
            Outcome::Checked(events) => {
                self.attempts += 1;
                self.read_again(events);
                if self.state.is_answered(&id) {
                    self.computed.remove(&id);
                }
            }
            Outcome::Sent(sent) => {
                self.attempts = 0;
                if let Err(error) = sent {
                    let session = &self.calls.session;
                    show::say(&format!(
                        "warning: session {session}: the result of {id} was not taken: {error}"
                    ));
                }
                self.computed.remove(&id);
                self.state.set_answered(&id);
            }
        }
    }

    /// The worker drains: a call that waits, for an approval for one, would wait here for ever. The next worker makes it.
    fn stop_waiting(&mut self) {
        let Some(running) = &mut self.running else {
            return;
        };
        if let Some((cancellation, start)) = &running.call
            && !start.has_started()
        {
            running.is_void = true;
            cancellation.cancel(AbortReason::RuntimeShutdown);
        }
    }

    async fn refused(mut self, error: &ApiError) -> RunEnd {
        let session = &self.calls.session;
        show::say(&format!("warning: session {session}: {error}"));
        self.stop_call().await;
        RunEnd::Done { is_settled: false }
    }

    async fn end(mut self, end: LeaseEnd) -> RunEnd {
        let answered = self.stop_call().await;
        match end {
            // The worker that has it now answers.
            LeaseEnd::Lost => RunEnd::Lost,
            LeaseEnd::Stopping => {
                if let Some((tool_use, answer)) = answered {
                    let events = answer.event(&tool_use);
                    let sent = self.api.send(&self.key, &self.calls.session, events);
                    if sent.await.is_ok() {
                        self.state.set_answered(&tool_use.id);
                    }
                }
                self.done()
            }
        }
    }

    /// Ends the call that runs, and waits until it has: nothing of it may go on under another worker.
    async fn stop_call(&mut self) -> Option<(ToolUse, Answer)> {
        let running = self.running.take()?;
        let (cancellation, _) = running.call?;
        cancellation.cancel(AbortReason::RuntimeShutdown);
        match running.work.await {
            Outcome::Computed(answer) => Some((running.tool_use, answer)),
            Outcome::Sent(_) | Outcome::NotSent | Outcome::Checked(_) => None,
        }
    }
}

impl CurrentWork {
    fn new(
        tool_use: ToolUse,
        call: Option<(Cancellation, Arc<CallStart>)>,
        work: BoxFuture<'static, Outcome>,
    ) -> Self {
        Self {
            tool_use,
            call,
            is_void: false,
            work,
        }
    }
}

/// Never, while nothing runs.
async fn finished(running: &mut Option<CurrentWork>) -> Outcome {
    match running {
        Some(running) => (&mut running.work).await,
        None => std::future::pending().await,
    }
}

/// Sends an answer. If it may have arrived although the request failed, the history has to say so: a second result would be
/// refused, or, worse, be taken.
async fn send(
    api: &Api,
    key: &Credential,
    session: &str,
    (events, attempt): (serde_json::Value, u32),
) -> Outcome {
    let error = match api.send(key, session, events).await {
        Err(error) if !error.is_final() => error,
        sent => return Outcome::Sent(sent),
    };
    sleep(error.pause(attempt, PAUSE_MAX)).await;
    if error.did_nothing() {
        return Outcome::NotSent;
    }
    for attempt in 0_u32.. {
        match api.history(key, session).await {
            Ok(events) => return Outcome::Checked(events),
            Err(error) if error.is_final() => return Outcome::Sent(Err(error)),
            Err(error) => sleep(error.pause(attempt, PAUSE_MAX)).await,
        }
    }
    Outcome::NotSent
}
