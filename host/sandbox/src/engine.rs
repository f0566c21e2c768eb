//! The wasmtime engines, all interrupted by epochs. Two count fuel: one is pooled, the other runs components that need the
//! component model's concurrency or exceptions, which makes each call slower. The third counts none.

use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};
use tokio::sync::Semaphore;
use wasmtime::{
    Config, Enabled, EngineWeak, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig,
    WasmBacktraceDetails,
};

use super::stack::StackAllocator;
use super::world::TRANSLATION_VERSION;

pub const ENGINE_VERSION: &str = "wasmtime 48.0.8";

/// Each proposal is attack surface that no tool here needs.
pub const FEATURES_OFF: [&str; 8] = [
    "gc",
    "function-references",
    "threads",
    "memory64",
    "relaxed-simd",
    "custom-page-sizes",
    "wide-arithmetic",
    "stack-switching",
];

/// Interpreters need much: QuickJS takes 1 KiB for a call of a script's function.
pub(super) const WASM_STACK_BYTES: usize = 2 << 20;
/// The host's own frames need up to 1.5 MiB beside wasm's.
const FIBER_STACK_BYTES: usize = WASM_STACK_BYTES + (3 << 19);

const TICK: Duration = Duration::from_millis(1);
/// Ticks that a guest computes freely; then it waits for a turn, of which there is one fewer than processors, so that
/// short calls find one. With more guests than processors, only the first tick is free.
const TICKS_WITHOUT_TURN: u64 = 4;
const IDLE_TICKS: u32 = 200;

/// Kept zeroed between calls, so that the next call does not fault the pages in again.
const KEEP_RESIDENT_BYTES: usize = 2 << 20;

/// CPython needs 14 core instances, QuickJS 9, a tool in Rust 4.
const CORE_INSTANCES_MAX: u32 = 64;
const MEMORIES_MAX: u32 = 8;
const TABLES_MAX: u32 = 16;
/// Each slot takes 4 GiB of address space, all together half of what a process has. A pool for more than 2,048 calls
/// has fewer than [`MEMORIES_MAX`] for each.
const MEMORY_SLOTS_MAX: u32 = 16_384;

/// Measures how much a guest computes. Its text is an argument of a compiler's process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Meter {
    /// Counted in the guest's code; the same call uses the same.
    #[default]
    Fuel,
    /// CPU time, read from a clock of the host.
    Time,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum EngineKind {
    #[default]
    Pooled,
    /// Has functions that are `async`, streams and futures, and exceptions.
    Extended,
    /// Has these too, and counts no fuel.
    Timed,
}

impl EngineKind {
    /// The kinds for components with `meter`, the one that is tried first before the others.
    pub(super) fn metered_by(meter: Meter) -> &'static [Self] {
        match meter {
            Meter::Fuel => &[Self::Pooled, Self::Extended],
            Meter::Time => &[Self::Timed],
        }
    }

    pub(super) fn meter(self) -> Meter {
        match self {
            Self::Pooled | Self::Extended => Meter::Fuel,
            Self::Timed => Meter::Time,
        }
    }
}

#[derive(Clone)]
pub(super) struct GuestEngine {
    engine: wasmtime::Engine,
    kind: EngineKind,
    ticker: Arc<Ticker>,
    scratch_dir: Arc<Path>,
}

/// Guests of each leave room for guests of the others.
pub(super) struct Engines {
    pooled: GuestEngine,
    extended: GuestEngine,
    timed: GuestEngine,
}

impl Engines {
    /// Only one engine has a pool: a second one would reserve as much address space again.
    pub(super) fn new(
        pool: Option<u32>,
        memory_bytes_max: u64,
        scratch_dir: PathBuf,
    ) -> anyhow::Result<Self> {
        let make = |kind, strategy| {
            let mut config = config(kind);
            config.allocation_strategy(strategy);
            if kind != EngineKind::Pooled {
                config.with_host_stack(Arc::new(StackAllocator));
            }
            wasmtime::Engine::new(&config)
                .map_err(anyhow::Error::from)
                .context("cannot set up the engine")
        };
        let strategy = pool.map_or(InstanceAllocationStrategy::OnDemand, |calls| {
            pooling(calls, memory_bytes_max)
        });
        let pooled = make(EngineKind::Pooled, strategy)?;
        let extended = make(EngineKind::Extended, InstanceAllocationStrategy::OnDemand)?;
        let timed = make(EngineKind::Timed, InstanceAllocationStrategy::OnDemand)?;
        let ticker = Ticker::start([&pooled, &extended, &timed])?;
        let scratch_dir: Arc<Path> = scratch_dir.into();
        let engine = |engine, kind| GuestEngine {
            engine,
            kind,
            ticker: Arc::clone(&ticker),
            scratch_dir: Arc::clone(&scratch_dir),
        };
        Ok(Self {
            pooled: engine(pooled, EngineKind::Pooled),
            extended: engine(extended, EngineKind::Extended),
            timed: engine(timed, EngineKind::Timed),
        })
    }

    pub(super) fn get(&self, kind: EngineKind) -> &GuestEngine {
        match kind {
            EngineKind::Pooled => &self.pooled,
            EngineKind::Extended => &self.extended,
            EngineKind::Timed => &self.timed,
        }
    }
}

impl GuestEngine {
    pub(super) fn kind(&self) -> EngineKind {
        self.kind
    }

    pub(super) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.engine
    }

    pub(super) fn scratch_dir(&self) -> &Path {
        &self.scratch_dir
    }

    pub(super) fn turns(&self) -> GuestTurns {
        GuestTurns(Arc::clone(&self.ticker))
    }

    /// Keeps the ticker awake while a guest runs.
    pub(super) fn running(&self) -> RunningGuest {
        // Sequentially consistent, as the two accesses of the ticker before it parks: otherwise each could miss the
        // other, and no tick would come for a second.
        self.ticker.active.fetch_add(1, Ordering::SeqCst);
        if self.ticker.asleep.load(Ordering::SeqCst) == 1 {
            self.ticker.thread.unpark();
        }
        RunningGuest(Arc::clone(&self.ticker))
    }

    /// Hashes the settings and the processor that compiled code depends on, and the version of what is kept beside it.
    pub(super) fn compatibility(&self) -> blake3::Hash {
        self.compatibility_with(TRANSLATION_VERSION)
    }

    fn compatibility_with(&self, translation: &str) -> blake3::Hash {
        struct StableHasher(blake3::Hasher);
        impl Hasher for StableHasher {
            fn finish(&self) -> u64 {
                0
            }
            fn write(&mut self, bytes: &[u8]) {
                self.0.update(bytes);
            }
        }
        let mut hasher = StableHasher(blake3::Hasher::new());
        std::hash::Hash::hash(&self.engine.precompile_compatibility_hash(), &mut hasher);
        hasher.0.update(ENGINE_VERSION.as_bytes());
        hasher.0.update(translation.as_bytes());
        hasher.0.finalize()
    }
}

pub(super) fn config(kind: EngineKind) -> Config {
    let is_extended = kind != EngineKind::Pooled;
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .consume_fuel(kind.meter() == Meter::Fuel)
        .cranelift_opt_level(OptLevel::Speed)
        .max_wasm_stack(WASM_STACK_BYTES)
        .async_stack_size(FIBER_STACK_BYTES)
        .memory_init_cow(true)
        // Errors do not name the instruction of a trap, and the map takes a tenth of the code's size.
        .generate_address_map(false)
        // Only native debuggers need this frame table, which costs size, and a lock at each load.
        .native_unwind_info(false)
        // Otherwise an environment variable decides, and the guest's debug information could be parsed.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        // A backtrace would put names of guest functions into errors, unescaped.
        .wasm_backtrace_max_frames(None)
        // The cargo features `gc` and `threads` are compiled in and switched off here, because builds without them
        // abort on some inputs.
        // An exception is an object of the collector, whose heap counts as memory of the call.
        .gc_support(is_extended)
        .wasm_gc(false)
        .wasm_function_references(false)
        .wasm_exceptions(is_extended)
        .wasm_threads(false)
        .shared_memory(false)
        // Implies the feature component-model-async, which without it is off.
        .concurrency_support(is_extended)
        .wasm_stack_switching(false)
        // QuickJS guests need tail calls, and composed components need several memories: both stay on.
        .wasm_memory64(false)
        .wasm_relaxed_simd(false)
        .wasm_custom_page_sizes(false)
        .wasm_wide_arithmetic(false);
    config
}

fn pooling(calls: u32, memory_bytes_max: u64) -> InstanceAllocationStrategy {
    let mut pool = PoolingAllocationConfig::new();
    // Each call gets as much as one component may have, so that an instance of any component fits beside any others,
    // and a call that has its place never fails for want of a slot. Core instances are only a count; slots take address
    // space.
    pool.total_component_instances(calls)
        .total_core_instances(calls.saturating_mul(CORE_INSTANCES_MAX))
        .total_memories(
            calls
                .saturating_mul(MEMORIES_MAX)
                .min(MEMORY_SLOTS_MAX.max(calls)),
        )
        .total_tables(calls.saturating_mul(TABLES_MAX))
        .total_stacks(calls)
        .max_core_instances_per_component(CORE_INSTANCES_MAX)
        .max_memories_per_component(MEMORIES_MAX)
        .max_memories_per_module(MEMORIES_MAX)
        .max_tables_per_component(TABLES_MAX)
        .max_tables_per_module(TABLES_MAX)
        .table_elements(20_000)
        .max_memory_size(usize::try_from(memory_bytes_max).unwrap_or(usize::MAX))
        .max_unused_warm_slots(calls.min(100))
        .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
        .table_keep_resident(64 << 10)
        .pagemap_scan(Enabled::Auto);
    InstanceAllocationStrategy::Pooling(pool)
}

struct Ticker {
    active: AtomicUsize,
    asleep: AtomicU64,
    thread: thread::Thread,
    turns: Semaphore,
    turns_max: OnceLock<usize>,
}

pub(super) struct RunningGuest(Arc<Ticker>);

/// A computing guest waits for them, so that it leaves room for others.
pub(super) struct GuestTurns(Arc<Ticker>);

impl GuestTurns {
    pub(super) fn next(&self, ticks: u64) -> impl Future<Output = ()> + Send + 'static {
        let crowded = self.0.active.load(Ordering::Relaxed) > self.0.turns_max() + 1;
        let free = if crowded { 1 } else { TICKS_WITHOUT_TURN };
        let ticker = (ticks > free).then(|| Arc::clone(&self.0));
        async move {
            // Yields even if a turn is free, so that the deadline and a cancellation are polled first.
            tokio::task::yield_now().await;
            if let Some(ticker) = ticker {
                // The turn is used up, because the next tick brings new ones. The semaphore is never closed.
                if let Ok(turn) = ticker.turns.acquire().await {
                    turn.forget();
                }
            }
        }
    }
}

impl Drop for RunningGuest {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Ticker {
    fn start(engines: [&wasmtime::Engine; 3]) -> anyhow::Result<Arc<Self>> {
        let weak = engines.map(wasmtime::Engine::weak);
        let (send, receive) = std::sync::mpsc::sync_channel::<Arc<Self>>(1);
        let handle = thread::Builder::new()
            .name("toolcell-epoch".to_owned())
            .spawn(move || {
                // Only weakly, so that the thread ends with the last engine.
                let Ok(ticker) = receive
                    .recv()
                    .map(|ticker: Arc<Self>| Arc::downgrade(&ticker))
                else {
                    return;
                };
                let mut idle = 0;
                while let Some(ticker) = ticker.upgrade() {
                    // The turns come before the tick, because guests ask for one at the tick.
                    if let Some(turns) = ticker.turns_max.get() {
                        ticker
                            .turns
                            .add_permits(turns.saturating_sub(ticker.turns.available_permits()));
                    }
                    weak.iter()
                        .filter_map(EngineWeak::upgrade)
                        .for_each(|engine| engine.increment_epoch());
                    idle = if ticker.active.load(Ordering::Relaxed) == 0 {
                        idle + 1
                    } else {
                        0
                    };
                    if idle < IDLE_TICKS {
                        drop(ticker);
                        thread::sleep(TICK);
                        continue;
                    }
                    ticker.asleep.store(1, Ordering::SeqCst);
                    // A guest that starts from here on sees the flag; one that started just before is seen below.
                    if ticker.active.load(Ordering::SeqCst) == 0 {
                        thread::park_timeout(Duration::from_secs(1));
                    }
                    ticker.asleep.store(0, Ordering::Release);
                    idle = 0;
                }
            })
            .context("cannot start the epoch thread")?;
        let ticker = Arc::new(Self {
            active: AtomicUsize::new(0),
            asleep: AtomicU64::new(0),
            thread: handle.thread().clone(),
            turns: Semaphore::new(0),
            turns_max: OnceLock::new(),
        });
        let _ = send.send(Arc::clone(&ticker));
        Ok(ticker)
    }

    /// Counted late, because that reads several files, and most calls are short.
    fn turns_max(&self) -> usize {
        *self.turns_max.get_or_init(|| {
            let processors = thread::available_parallelism().map_or(1, usize::from);
            processors.saturating_sub(1).max(1)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::{EngineKind, Engines, TICK, TRANSLATION_VERSION};

    #[tokio::test]
    async fn what_is_kept_of_a_component_is_for_one_version_of_the_translation_of_other_worlds() {
        let engines = Engines::new(None, 1 << 20, std::env::temp_dir()).unwrap();
        for kind in [EngineKind::Pooled, EngineKind::Extended, EngineKind::Timed] {
            let engine = engines.get(kind);
            assert_eq!(
                engine.compatibility(),
                engine.compatibility_with(TRANSLATION_VERSION)
            );
            assert_ne!(engine.compatibility(), engine.compatibility_with("another"));
        }
    }

    #[tokio::test]
    async fn the_thread_of_the_ticker_ends_with_its_engines() {
        let engines = Engines::new(None, 1 << 20, std::env::temp_dir()).unwrap();
        let ticker = Arc::downgrade(&engines.get(EngineKind::Pooled).ticker);
        drop(engines);
        let begun = Instant::now();
        while ticker.strong_count() > 0 {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "the thread keeps its ticker"
            );
            tokio::time::sleep(TICK).await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn guests_that_spin_leave_a_processor_to_the_others() {
        let engines = Engines::new(None, 1 << 20, std::env::temp_dir()).unwrap();
        let engine = engines.get(EngineKind::Pooled).clone();
        let other = engines.get(EngineKind::Extended).clone();
        let alone = engine.running();
        let free = tokio::time::timeout(TICK / 2, async {
            for _ in 0..100 {
                engine.turns().next(2).await
            }
        })
        .await;
        assert!(
            free.is_ok(),
            "a guest that is alone waited for a turn after two ticks"
        );
        // Guests of both engines share the turns.
        let both = [&engine, &other];
        let running: Vec<_> = (0..8).map(|guest| both[guest % 2].running()).collect();
        let turns = Arc::new(AtomicU64::new(0));
        let begun = Instant::now();
        let guests = (0..8).map(|guest| {
            let engine = both[guest % 2].clone();
            let turns = Arc::clone(&turns);
            tokio::spawn(async move {
                loop {
                    engine.turns().next(2).await;
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        let guests: Vec<_> = guests.collect();
        tokio::time::sleep(Duration::from_millis(100)).await;
        guests.iter().for_each(tokio::task::JoinHandle::abort);
        drop((alone, running));
        let turns = u128::from(turns.load(Ordering::Relaxed));
        let ticks = begun.elapsed().as_millis() / TICK.as_millis() + 2;
        let at_once = thread::available_parallelism()
            .map_or(1, usize::from)
            .saturating_sub(1)
            .max(1) as u128;
        assert!(
            turns > 5 && turns <= ticks * at_once,
            "{turns} turns in {ticks} ticks of {at_once}"
        );
    }
}
