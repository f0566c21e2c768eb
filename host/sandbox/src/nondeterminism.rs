//! Random numbers and clocks of a guest, recorded for a replay, or from a record. One seed gives the random numbers of
//! a call, through streams of ChaCha20 that tell nothing of each other.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use toolcell_executor::Nondeterminism;
use toolcell_spec::{ClockReadings, RandomSeed, ReplayData};
use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::clocks::{HostMonotonicClock, HostWallClock, MonotonicClock, WallClock};

use super::component::HostImports;
use super::locked;

/// One stream of the generator for each interface of `wasi:random`.
const SECURE: u64 = 0;
const INSECURE: u64 = 1;
const INSECURE_SEED: u64 = 2;

/// Default: this machine, unrecorded.
#[derive(Default)]
pub(super) struct NondeterminismSources {
    how: Nondeterminism,
    random: bool,
    clocks: bool,
}

impl NondeterminismSources {
    pub(super) fn new(how: Nondeterminism, imported: HostImports) -> Self {
        Self {
            how,
            random: imported.random,
            clocks: imported.clocks,
        }
    }

    pub(super) fn install(
        &self,
        builder: &mut WasiCtxBuilder,
    ) -> wasmtime::Result<Option<ReplayRecorder>> {
        match &self.how {
            Nondeterminism::Fresh => Ok(None),
            Nondeterminism::Recorded => {
                let recorder = ReplayRecorder {
                    seed: None,
                    asked_for_random: false,
                    clocks: Arc::default(),
                };
                if self.clocks {
                    builder.wall_clock(RecordedClock::new(&recorder.clocks));
                    builder.monotonic_clock(RecordedClock::new(&recorder.clocks));
                }
                if !self.random {
                    return Ok(Some(recorder));
                }
                let seed = fresh_seed()?;
                give_random(builder, &seed);
                Ok(Some(ReplayRecorder {
                    seed: Some(seed),
                    ..recorder
                }))
            }
            Nondeterminism::Replayed(replay) => {
                // Values that the recorded call did not ask for come from here.
                if let Some(seed) = &replay.data.random_seed {
                    give_random(builder, seed);
                }
                if let Some(readings) = &replay.data.wall_clock {
                    builder.wall_clock(ReplayedClock::new(readings));
                }
                if let Some(readings) = &replay.data.monotonic_clock {
                    builder.monotonic_clock(ReplayedClock::new(readings));
                }
                Ok(None)
            }
        }
    }
}

pub(super) struct ReplayRecorder {
    /// `Some` if the component imports random numbers.
    seed: Option<RandomSeed>,
    asked_for_random: bool,
    clocks: Arc<Mutex<RecordedClocks>>,
}

#[derive(Default)]
struct RecordedClocks {
    wall: ClockReadings,
    monotonic: ClockReadings,
}

impl ReplayRecorder {
    /// Otherwise the seed is not kept.
    pub(super) fn asks_for_random(&mut self) {
        self.asked_for_random = true;
    }

    pub(super) fn into_data(self) -> ReplayData {
        let clocks = std::mem::take(&mut *locked(&self.clocks));
        let read = |readings: ClockReadings| (!readings.is_empty()).then_some(readings);
        ReplayData {
            random_seed: self.seed.filter(|_| self.asked_for_random),
            wall_clock: read(clocks.wall),
            monotonic_clock: read(clocks.monotonic),
            ..ReplayData::default()
        }
    }
}

fn fresh_seed() -> wasmtime::Result<RandomSeed> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes[..])?;
    Ok(RandomSeed::new(bytes))
}

fn give_random(builder: &mut WasiCtxBuilder, seed: &RandomSeed) {
    let mut insecure_seed = [0; 16];
    stream(seed, INSECURE_SEED).fill_bytes(&mut insecure_seed);
    builder
        .secure_random(stream(seed, SECURE))
        .insecure_random(stream(seed, INSECURE))
        .insecure_random_seed(u128::from_le_bytes(insecure_seed));
}

fn stream(seed: &RandomSeed, number: u64) -> ChaCha20Rng {
    let mut random = ChaCha20Rng::from_seed(*seed.bytes());
    random.set_stream(number);
    random
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

struct RecordedClock {
    wall: WallClock,
    monotonic: MonotonicClock,
    clocks: Arc<Mutex<RecordedClocks>>,
}

impl RecordedClock {
    fn new(clocks: &Arc<Mutex<RecordedClocks>>) -> Self {
        Self {
            wall: WallClock::new(),
            monotonic: MonotonicClock::new(),
            clocks: Arc::clone(clocks),
        }
    }
}

impl HostWallClock for RecordedClock {
    fn resolution(&self) -> Duration {
        self.wall.resolution()
    }

    fn now(&self) -> Duration {
        let now = self.wall.now();
        locked(&self.clocks).wall.push(nanoseconds(now));
        now
    }
}

impl HostMonotonicClock for RecordedClock {
    fn resolution(&self) -> u64 {
        self.monotonic.resolution()
    }

    fn now(&self) -> u64 {
        let now = self.monotonic.now();
        locked(&self.clocks).monotonic.push(now);
        now
    }
}

/// Goes on in real time after the last reading, because a guest may wait for the clock to move.
struct ReplayedClock(Mutex<ClockPlayback>);

struct ClockPlayback {
    left: std::vec::IntoIter<u64>,
    last: u64,
    ended: Option<Instant>,
}

impl ReplayedClock {
    fn new(readings: &ClockReadings) -> Self {
        let left = readings.iter().collect::<Vec<u64>>().into_iter();
        Self(Mutex::new(ClockPlayback {
            left,
            last: 0,
            ended: None,
        }))
    }

    fn read(&self) -> u64 {
        let mut playback = locked(&self.0);
        if let Some(reading) = playback.left.next() {
            playback.last = reading;
            return reading;
        }
        let since = playback.ended.get_or_insert_with(Instant::now).elapsed();
        playback.last.saturating_add(nanoseconds(since))
    }
}

impl HostWallClock for ReplayedClock {
    fn resolution(&self) -> Duration {
        WallClock::new().resolution()
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.read())
    }
}

impl HostMonotonicClock for ReplayedClock {
    fn resolution(&self) -> u64 {
        MonotonicClock::new().resolution()
    }

    fn now(&self) -> u64 {
        self.read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_goes_on_after_its_last_reading() {
        let mut readings = ClockReadings::default();
        [500, 300]
            .into_iter()
            .for_each(|reading| readings.push(reading));
        let clock = ReplayedClock::new(&readings);
        assert_eq!((clock.read(), clock.read()), (500, 300));
        let after = clock.read();
        assert!(after >= 300);
        std::thread::sleep(Duration::from_millis(2));
        assert!(clock.read() >= after + 1_000_000);
    }

    #[test]
    fn a_seed_gives_each_interface_numbers_of_its_own_and_always_the_same() {
        let seed = RandomSeed::new([7; 32]);
        let first = |number| stream(&seed, number).next_u64();
        let numbers = [first(SECURE), first(INSECURE), first(INSECURE_SEED)];
        assert_eq!(
            numbers,
            [first(SECURE), first(INSECURE), first(INSECURE_SEED)]
        );
        assert!(numbers[0] != numbers[1] && numbers[1] != numbers[2] && numbers[0] != numbers[2]);
        assert_ne!(
            first(SECURE),
            stream(&RandomSeed::new([8; 32]), SECURE).next_u64()
        );
    }

    #[test]
    fn only_what_the_guest_asked_for_is_kept() {
        let recorder = |asked_for_random| ReplayRecorder {
            seed: Some(RandomSeed::new([7; 32])),
            asked_for_random,
            clocks: Arc::default(),
        };
        assert_eq!(recorder(false).into_data(), ReplayData::default());
        let mut asking = recorder(false);
        asking.asks_for_random();
        locked(&asking.clocks).wall.push(3);
        let data = asking.into_data();
        assert!(
            data.random_seed.is_some()
                && data.wall_clock.is_some()
                && data.monotonic_clock.is_none()
        );
    }
}
