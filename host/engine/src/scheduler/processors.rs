//! The processors, shared by callers: as long as several callers are at work, the work of one leaves a processor to the
//! others. A runtime takes its tasks in the order in which they are ready, and so a single call would wait behind all
//! calls of a flood, at each of its steps.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use toolcell_system::BoxFuture;

/// A caller is at work for so long after its latest step.
const AT_WORK: Duration = Duration::from_millis(100);

/// Of this process.
static PROCESSORS: LazyLock<Processors> =
    LazyLock::new(|| Processors::new(available_parallelism().map_or(1, usize::from)));

thread_local! {
    /// `true` in a step: what it polls is part of it.
    static IN_STEP: Cell<bool> = const { Cell::new(false) };
}

/// Polls `future` in the caller's turns. Without a name, at once.
pub async fn in_turn<T>(caller: Option<&str>, mut future: BoxFuture<'_, T>) -> T {
    let mut turns = CallerTurns::new(caller);
    std::future::poll_fn(|context| turns.step(context, |context| future.as_mut().poll(context)))
        .await
}

/// The turns of one task.
///
/// ```
/// use std::task::{Context, Poll, Waker};
///
/// use toolcell_engine::scheduler::CallerTurns;
///
/// let mut turns = CallerTurns::new(Some("anna"));
/// let step = turns.step(&mut Context::from_waker(Waker::noop()), |_| Poll::Ready(7));
/// assert_eq!(step, Poll::Ready(7), "she is alone");
/// ```
#[derive(Debug)]
pub struct CallerTurns {
    caller: Option<Arc<str>>,
    processors: &'static Processors,
    /// Of a task that waits, or that was woken and has not come yet.
    ticket: Option<u64>,
}

#[derive(Debug)]
struct Processors {
    all: usize,
    state: Mutex<ProcessorsState>,
}

#[derive(Debug)]
struct ProcessorsState {
    callers: HashMap<Arc<str>, CallerSteps>,
    tickets: u64,
    swept: Instant,
}

#[derive(Debug)]
struct CallerSteps {
    running: usize,
    waiting: VecDeque<(u64, Waker)>,
    latest: Instant,
}

/// A step that runs.
struct Step<'a> {
    processors: &'static Processors,
    caller: &'a str,
}

impl CallerTurns {
    pub fn new(caller: Option<&str>) -> Self {
        Self {
            caller: caller.map(Arc::from),
            processors: &PROCESSORS,
            ticket: None,
        }
    }

    /// Polls with `poll` if it is the caller's turn; otherwise the task is woken once it is.
    pub fn step<T>(
        &mut self,
        context: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let Some(caller) = self.caller.as_ref().filter(|_| !IN_STEP.get()) else {
            return poll(context);
        };
        if !(self.processors).begin(caller, &mut self.ticket, context.waker()) {
            return Poll::Pending;
        }
        let _step = Step {
            processors: self.processors,
            caller,
        };
        IN_STEP.set(true);
        poll(context)
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        IN_STEP.set(false);
        self.processors.end(self.caller);
    }
}

impl Drop for CallerTurns {
    fn drop(&mut self) {
        if let (Some(caller), Some(ticket)) = (&self.caller, self.ticket) {
            self.processors.leave(caller, ticket);
        }
    }
}

impl Processors {
    fn new(all: usize) -> Self {
        Self {
            all,
            state: Mutex::new(ProcessorsState {
                callers: HashMap::new(),
                tickets: 0,
                swept: Instant::now(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, ProcessorsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Steps of one caller at once.
    fn most(&self, callers: usize) -> usize {
        if callers > 1 {
            self.all.saturating_sub(1).max(1)
        } else {
            self.all
        }
    }

    fn begin(&self, caller: &Arc<str>, ticket: &mut Option<u64>, waker: &Waker) -> bool {
        let now = Instant::now();
        let mut state = self.state();
        state.sweep(now);
        if !state.callers.contains_key(caller) {
            let steps = CallerSteps {
                running: 0,
                waiting: VecDeque::new(),
                latest: now,
            };
            state.callers.insert(Arc::clone(caller), steps);
        }
        let most = self.most(state.callers.len());
        state.tickets += 1;
        let next = state.tickets;
        let Some(steps) = state.callers.get_mut(caller) else {
            return true;
        };
        steps.latest = now;
        let place = ticket.and_then(|ticket| steps.place(ticket));
        if steps.running < most {
            steps.running += 1;
            *ticket = None;
            let _ = place.and_then(|place| steps.waiting.remove(place));
            return true;
        }
        match place.and_then(|place| steps.waiting.get_mut(place)) {
            Some((_, before)) => before.clone_from(waker),
            None => {
                // One that was woken, and that another came before, keeps its turn.
                let own = *ticket.get_or_insert(next);
                let at = steps.waiting.partition_point(|(waiting, _)| *waiting < own);
                steps.waiting.insert(at, (own, waker.clone()));
            }
        }
        false
    }

    fn end(&self, caller: &str) {
        let mut state = self.state();
        if let Some(steps) = state.callers.get_mut(caller) {
            steps.running = steps.running.saturating_sub(1);
        }
        self.wake(state, caller);
    }

    /// Of a task that was woken and came to nothing, the next has the turn.
    fn leave(&self, caller: &str, ticket: u64) {
        let mut state = self.state();
        let Some(steps) = state.callers.get_mut(caller) else {
            return;
        };
        if let Some(place) = steps.place(ticket) {
            let _ = steps.waiting.remove(place);
        } else {
            self.wake(state, caller);
        }
    }

    fn wake(&self, mut state: MutexGuard<'_, ProcessorsState>, caller: &str) {
        let most = self.most(state.callers.len());
        let Some(steps) = state.callers.get_mut(caller) else {
            return;
        };
        let turns = most.saturating_sub(steps.running).min(steps.waiting.len());
        if turns == 0 {
            return;
        }
        let woken: Vec<Waker> = (steps.waiting.drain(..turns))
            .map(|(_, task)| task)
            .collect();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }
}

impl ProcessorsState {
    /// Now and then, because there may be many callers.
    fn sweep(&mut self, now: Instant) {
        if self.callers.len() > 1 && now.saturating_duration_since(self.swept) > AT_WORK / 8 {
            self.swept = now;
            self.callers.retain(|_, steps| {
                steps.running > 0
                    || !steps.waiting.is_empty()
                    || now.saturating_duration_since(steps.latest) < AT_WORK
            });
        }
    }
}

impl CallerSteps {
    fn place(&self, ticket: u64) -> Option<usize> {
        let at = |(waiting, _): &(u64, Waker)| *waiting;
        self.waiting.binary_search_by_key(&ticket, at).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use super::{CallerTurns, Processors};

    /// Leaked, because turns are of a table that lives as long as the process.
    fn processors(all: usize) -> &'static Processors {
        Box::leak(Box::new(Processors::new(all)))
    }

    fn turns(processors: &'static Processors, caller: &str) -> CallerTurns {
        CallerTurns {
            caller: Some(Arc::from(caller)),
            processors,
            ticket: None,
        }
    }

    fn begins(turns: &mut CallerTurns) -> bool {
        let caller = turns.caller.clone().unwrap();
        (turns.processors).begin(&caller, &mut turns.ticket, Waker::noop())
    }

    #[test]
    fn one_of_several_callers_leaves_a_processor_to_the_others() {
        let three = processors(3);
        let mut anna: Vec<_> = (0..4).map(|_| turns(three, "anna")).collect();
        let at_once = anna.iter_mut().map(begins).filter(|began| *began).count();
        assert_eq!(at_once, 3, "she is alone");
        three.end("anna");
        let mut bert = turns(three, "bert");
        assert!(begins(&mut bert));
        assert!(!begins(&mut anna[3]), "two of hers still run");
        three.end("anna");
        assert!(begins(&mut anna[3]));
        let alone = processors(1);
        assert!(begins(&mut turns(alone, "anna")) && begins(&mut turns(alone, "bert")));
    }

    #[test]
    fn who_waits_is_woken_in_order_and_a_woken_task_that_is_gone_passes_its_turn_on() {
        struct Woken(std::sync::mpsc::Sender<u8>, u8);
        impl std::task::Wake for Woken {
            fn wake(self: Arc<Self>) {
                let _ = self.0.send(self.1);
            }
        }
        let one = processors(1);
        let (send, woken) = std::sync::mpsc::channel();
        let mut waiting: Vec<_> = (0..3).map(|_| turns(one, "anna")).collect();
        let caller = waiting[0].caller.clone().unwrap();
        assert!(one.begin(&caller, &mut None, Waker::noop()));
        for (number, turns) in (0..).zip(&mut waiting) {
            let waker = Waker::from(Arc::new(Woken(send.clone(), number)));
            assert!(!one.begin(&caller, &mut turns.ticket, &waker));
            assert!(
                !one.begin(&caller, &mut turns.ticket, &waker),
                "it keeps its place"
            );
        }
        drop(waiting.remove(1));
        one.end("anna");
        assert_eq!(woken.try_recv(), Ok(0));
        assert!(woken.try_recv().is_err());
        drop(waiting.remove(0));
        assert_eq!(woken.try_recv(), Ok(2), "the second is gone");
    }

    #[test]
    fn what_a_step_polls_is_part_of_it() {
        let one = processors(1);
        let mut outer = turns(one, "anna");
        let mut inner = turns(one, "anna");
        let step = outer.step(&mut Context::from_waker(Waker::noop()), |context| {
            inner.step(context, |_| Poll::Ready(()))
        });
        assert!(step.is_ready());
        assert!(begins(&mut turns(one, "anna")), "both steps have ended");
    }
}
