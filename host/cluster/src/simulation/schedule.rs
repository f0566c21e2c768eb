//! One schedule: who there is, what they want, and what goes wrong.

use std::sync::{Arc, Mutex, MutexGuard};

use super::executor::Executor;
use super::node::{Guest, Node, canceler, client, sweeper, worker};
use super::world::{BEGIN, Disturbance, Event, Faults, Time, World, trace};
use crate::claim::Claim;

/// Long after the last fault and the last deadline.
const END: Time = 600_000;

/// Someone who asks; a gateway that starts again may ask again.
struct Wish {
    gateway: usize,
    call: usize,
    claim: Claim,
}

pub(super) struct Schedule {
    world: Arc<Mutex<World>>,
    executor: Executor,
    wishes: Vec<Wish>,
    /// By process: the worker lacks the components.
    lacks: Vec<bool>,
    /// By call.
    changes: Vec<bool>,
    deadly: Vec<bool>,
    long_guests: bool,
}

impl Schedule {
    pub(super) fn new(seed: u64, is_traced: bool) -> Self {
        let mut world = World::new(seed, is_traced);
        let calls = 1 + usize::from(world.chance(30));
        let gateways = 1 + usize::from(world.chance(40));
        let workers = [1, 1, 2, 3][world.rng.usize(..4)];
        world.calls.resize_with(calls, Default::default);
        let are_skewed = world.chance(30);
        let mut lacks = Vec::new();
        for process in 0..gateways + workers {
            let is_worker = process >= gateways;
            let skew = if are_skewed {
                world.rng.u64(..4_000)
            } else {
                0
            };
            world.add_process(is_worker, skew);
            let lack = is_worker && world.chance(10);
            world.is_complete &= !lack;
            lacks.push(lack);
        }
        let changes = (0..calls).map(|_| world.rng.bool()).collect();
        let deadly = (0..calls).map(|_| world.chance(3)).collect();
        let long_guests = world.chance(50);
        let mut schedule = Self {
            world: Arc::new(Mutex::new(world)),
            executor: Executor::default(),
            wishes: Vec::new(),
            lacks,
            changes,
            deadly,
            long_guests,
        };
        schedule.choose_faults();
        for process in 0..gateways + workers {
            schedule.sweep(process);
        }
        for call in 0..calls {
            schedule.want(call, gateways);
        }
        schedule
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// Each schedule has a few kinds of them: with all at once, hardly anything would work.
    fn choose_faults(&mut self) {
        let mut world = self.world();
        let mut share = |percents: &[u8]| {
            let some = world.chance(40);
            let nth = world.rng.usize(..percents.len());
            if some { percents[nth] } else { 0 }
        };
        let faults = Faults {
            until: 0,
            lost_requests: share(&[2, 10, 30]),
            lost_answers: share(&[2, 10, 30]),
            late_writes: share(&[2, 10, 30]),
            slow: share(&[5, 50]),
            doubled: share(&[10, 60]),
            full_queue: share(&[5, 50]),
            late_notices: share(&[5, 50]),
            stops: share(&[5, 20]),
            kinds: 0,
        };
        let until = world.rng.u64(1_000..60_000);
        world.faults = Faults { until, ..faults };
        let kinds = world.rng.u8(..8);
        world.faults.kinds = kinds;
        let count = world.rng.u64(..5);
        for _ in 0..count {
            let processes = world.processes.len();
            let process = world.rng.usize(..processes);
            // Most calls are young.
            let begin = [2_000, until][world.rng.usize(..2)];
            let at = world.rng.u64(..begin);
            world.stop_at(at, process, kinds);
        }
        if world.chance(10) {
            let at = world.rng.u64(..until);
            let until = at + world.rng.u64(1_000..30_000);
            world.at(at, Event::Disturb(Disturbance::Silence(until)));
        }
    }

    /// Somebody asks for the call; others may, or cancel it.
    fn want(&mut self, call: usize, gateways: usize) {
        let (mut wishes, mut cancels) = (Vec::new(), Vec::new());
        {
            let mut world = self.world();
            let time = [3_000, 60_000, 90_000, 90_000, 90_000][world.rng.usize(..5)];
            let deadline = BEGIN + world.rng.u64(1_000..time);
            let retry = world.chance(25);
            let others = [0, 0, 0, 1, 2][world.rng.usize(..5)];
            for nth in 0..=others {
                let request = ["ask", "other"][usize::from(nth > 0 && world.chance(30))];
                let claim = Claim::queued(request.into(), "t.t".into(), deadline, retry);
                let begin = if nth == 0 { 0..500 } else { 0..20_000 };
                let begin = world.rng.u64(begin);
                let gateway = world.rng.usize(..gateways);
                let wish = Wish {
                    gateway,
                    call,
                    claim,
                };
                wishes.push((wish, begin));
            }
            if world.chance(30) {
                let time = [1_000, 30_000][world.rng.usize(..2)];
                let gateway = world.rng.usize(..gateways);
                cancels.push((gateway, world.rng.u64(..time)));
            }
            // Whoever can publish can ask anything in the name of a call.
            if world.chance(5) {
                world.publish(call, "forged");
            }
        }
        for (wish, begin) in wishes {
            self.ask(&wish, begin);
            self.wishes.push(wish);
        }
        for (gateway, begin) in cancels {
            let canceler = canceler(self.node(gateway, false), call, begin);
            self.executor.spawn(gateway, false, canceler);
        }
    }

    fn node(&self, process: usize, is_sweeper: bool) -> Node {
        Node {
            world: Arc::clone(&self.world),
            process,
            is_sweeper,
        }
    }

    fn ask(&mut self, wish: &Wish, begin: Time) {
        let node = self.node(wish.gateway, false);
        let client = client(node, wish.call, wish.claim.clone(), begin);
        self.executor.spawn(wish.gateway, false, client);
    }

    fn sweep(&mut self, process: usize) {
        let sweeper = sweeper(self.node(process, true));
        self.executor.spawn(process, true, sweeper);
    }

    /// Until everything is over; how many events that took.
    pub(super) fn run(mut self) -> Result<u64, String> {
        loop {
            self.run_tasks();
            let event = {
                let mut world = self.world();
                if let Some(violation) = world.violation.take() {
                    trace!(world, "violated: {violation}");
                    return Err(violation);
                }
                let is_calm = self.executor.open() == 0 && world.travelling == 0;
                if is_calm && world.is_over() {
                    return Ok(world.events);
                }
                if world.now > END {
                    return Err("everything is over at some time".to_owned());
                }
                world.next()
            };
            // The sweepers always wait for something.
            self.handle(event.unwrap());
        }
    }

    fn run_tasks(&mut self) {
        // Moved out, for the tasks lock the world.
        let mut rng = self.world().rng.fork();
        let mut runs = 0u32;
        {
            let world = self.world();
            for (process, one) in world.processes.iter().enumerate() {
                runs |= u32::from(one.is_up && !one.is_paused) << process;
            }
        }
        while self
            .executor
            .step(&mut rng, |process| runs & (1 << process) != 0)
        {}
    }

    fn handle(&mut self, event: Event) {
        let mut world = self.world.lock().unwrap();
        match event {
            Event::Arrive(sent) => world.arrive(*sent),
            Event::Answer(slot, answer) => world.answer(slot, answer),
            Event::Reply(reply) => world.reply(*reply),
            Event::Notice(process, call, entry) => world.notice(process, call, entry),
            Event::Deliver(message, turn) => world.deliver(message, turn),
            Event::Disturb(disturbance) => {
                trace!(world, "{disturbance:?}");
                drop(world);
                self.disturb(disturbance);
            }
        }
    }

    fn disturb(&mut self, disturbance: Disturbance) {
        let mut world = self.world.lock().unwrap();
        let now = world.now;
        world.calm_since = world.calm_since.max(disturbance.ends(now));
        match disturbance {
            Disturbance::Delivery {
                worker: process,
                message,
            } => {
                if !world.processes[process].is_up || world.is_cut(process) {
                    return;
                }
                let guest = self.guest(&mut world, process, message);
                drop(world);
                let worker = worker(self.node(process, false), message, guest);
                self.executor.spawn(process, false, worker);
            }
            Disturbance::Crash(process, until) => {
                let one = &mut world.processes[process];
                if one.is_up {
                    (one.is_up, one.is_paused, one.trouble) = (false, false, Some(now));
                    world.at(until, Event::Disturb(Disturbance::Restart(process)));
                    drop(world);
                    self.executor.kill(process);
                }
            }
            Disturbance::Restart(process) => {
                world.processes[process].is_up = true;
                world.processes[process].trouble = Some(now);
                world.begin_to_watch(process);
                let mut again = Vec::new();
                for (nth, wish) in self.wishes.iter().enumerate() {
                    if wish.gateway == process && world.chance(50) {
                        again.push((nth, world.rng.u64(..2_000)));
                    }
                }
                drop(world);
                self.sweep(process);
                for (nth, begin) in again {
                    let wish = &self.wishes[nth];
                    let client = client(
                        self.node(process, false),
                        wish.call,
                        wish.claim.clone(),
                        begin,
                    );
                    self.executor.spawn(process, false, client);
                }
            }
            Disturbance::Pause(process, until) => {
                let one = &mut world.processes[process];
                if one.is_up && !one.is_paused {
                    (one.is_paused, one.trouble) = (true, Some(now));
                    world.at(until, Event::Disturb(Disturbance::Resume(process)));
                }
            }
            Disturbance::Resume(process) => {
                let one = &mut world.processes[process];
                (one.is_paused, one.trouble) = (false, Some(now));
            }
            Disturbance::Cut(process, until) => {
                let one = &mut world.processes[process];
                (one.cut_until, one.trouble) = (one.cut_until.max(until), Some(now));
            }
            Disturbance::Silence(until) => world.silent_until = until,
        }
    }

    fn guest(&self, world: &mut World, process: usize, message: usize) -> Guest {
        let call = world.messages[message].call;
        let is_odd = world.chance(5);
        let decides = if world.chance(10) { 15_000 } else { 200 };
        let runs = if self.long_guests { 25_000 } else { 500 };
        Guest {
            is_here: !self.lacks[process] && !world.chance(3),
            decides: world.rng.u64(..decides),
            runs: world.rng.u64(..runs),
            // Each worker has its own policy.
            changes: self.changes[call] != is_odd,
            is_deadly: self.deadly[call],
        }
    }
}
