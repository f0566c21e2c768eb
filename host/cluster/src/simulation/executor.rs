//! Tasks on one thread. Which one runs next, the seed decides; nothing here knows the time of this machine.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

/// Tasks that were woken.
type Ready = Arc<Mutex<Vec<usize>>>;

struct Bell {
    task: usize,
    has_rung: AtomicBool,
    ready: Ready,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.has_rung.swap(true, Ordering::Relaxed) {
            self.ready.lock().unwrap().push(self.task);
        }
    }
}

struct Task {
    process: usize,
    /// It runs as long as its process.
    is_daemon: bool,
    bell: Arc<Bell>,
    waker: Waker,
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

#[derive(Default)]
pub(super) struct Executor {
    tasks: Vec<Task>,
    ready: Ready,
    /// Tasks that are no daemons and have not ended.
    open: usize,
}

impl Executor {
    pub(super) fn spawn(
        &mut self,
        process: usize,
        is_daemon: bool,
        future: impl Future<Output = ()> + 'static,
    ) {
        let bell = Arc::new(Bell {
            task: self.tasks.len(),
            has_rung: AtomicBool::new(false),
            ready: Arc::clone(&self.ready),
        });
        let waker = Waker::from(Arc::clone(&bell));
        waker.wake_by_ref();
        self.open += usize::from(!is_daemon);
        self.tasks.push(Task {
            process,
            is_daemon,
            bell,
            waker,
            future: Some(Box::pin(future)),
        });
    }

    /// The process ends, as by SIGKILL.
    pub(super) fn kill(&mut self, process: usize) {
        for task in &mut self.tasks {
            if task.process == process && task.future.take().is_some() {
                self.open -= usize::from(!task.is_daemon);
            }
        }
    }

    /// Runs one task that was woken and whose process `runs`; `false`: there is none.
    pub(super) fn step(&mut self, rng: &mut fastrand::Rng, runs: impl Fn(usize) -> bool) -> bool {
        let task = {
            let mut ready = self.ready.lock().unwrap();
            ready.retain(|&task| self.tasks[task].future.is_some());
            let can_run = |task: &usize| runs(self.tasks[*task].process);
            let count = ready.iter().filter(|task| can_run(task)).count();
            if count == 0 {
                return false;
            }
            let chosen = if count == 1 { 0 } else { rng.usize(..count) };
            let mut places = ready.iter().enumerate().filter(|(_, task)| can_run(task));
            let place = places.nth(chosen).unwrap().0;
            ready.swap_remove(place)
        };
        let task = &mut self.tasks[task];
        task.bell.has_rung.store(false, Ordering::Relaxed);
        let mut context = Context::from_waker(&task.waker);
        let future = task.future.as_mut().unwrap();
        if let Poll::Ready(()) = future.as_mut().poll(&mut context) {
            task.future = None;
            self.open -= usize::from(!task.is_daemon);
        }
        true
    }

    pub(super) fn open(&self) -> usize {
        self.open
    }
}
