//! Measurements of this process, mostly by the kernel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .unwrap();
    line.trim_start_matches(':')
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

/// Resident memory now, in KiB.
pub(super) fn resident_kib() -> u64 {
    status("VmRSS")
}

/// Peak resident memory since [`forget_peak`], in KiB.
pub(super) fn peak_kib() -> u64 {
    status("VmHWM")
}

pub(super) fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

/// CPU time of this process, in seconds.
pub(super) fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The fields after the program's name, which ends with the last parenthesis; times are in hundredths of a second.
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

pub(super) fn threads() -> u64 {
    status("Threads")
}

/// The names of the threads.
pub(super) fn thread_names() -> String {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default()
    };
    let mut names: Vec<String> = tasks.map(name).map(|name| name.trim().to_owned()).collect();
    names.sort_unstable();
    names.join(", ")
}

/// Open files, without the one of this listing, those of loaded components, which are their compiled code and memory images,
/// the list of mounts, which a process opens once, and that of the owners of payloads, which a host opens with its first one.
pub(super) fn descriptors() -> u64 {
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    let is_kept = |link: &std::path::Path| {
        let kept = ["/cache/", "/memfd:", "/mountinfo", "/payloads.owners"];
        link.read_link()
            .is_ok_and(|to| kept.iter().any(|kept| to.to_string_lossy().contains(kept)))
    };
    files
        .filter(|file| file.as_ref().is_ok_and(|file| !is_kept(&file.path())))
        .count() as u64
        - 1
}

/// Samples the open files every 2 ms, and keeps the maximum.
pub(super) struct DescriptorPeak {
    stop: Arc<AtomicBool>,
    peak: Arc<AtomicU64>,
}

impl DescriptorPeak {
    pub(super) fn watch() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let peak = Arc::new(AtomicU64::new(0));
        let stopped = Arc::clone(&stop);
        let seen = Arc::clone(&peak);
        std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                seen.fetch_max(descriptors(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        Self { stop, peak }
    }

    pub(super) fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.peak.load(Ordering::Relaxed)
    }
}

pub(super) fn random() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

/// Random numbers with a fixed seed, so that failures can be reproduced (splitmix64).
pub(super) struct Seeded(pub(super) u64);

impl Seeded {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }
}

/// Wall-clock time, which all processes share, in microseconds.
pub(super) fn now_us() -> u64 {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    u64::try_from(since.as_micros()).unwrap()
}

pub(super) fn p99(all: &[u64]) -> u64 {
    let mut sorted = all.to_vec();
    sorted.sort_unstable();
    let place = (sorted.len() * 99).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied().unwrap_or(0)
}

/// A thread independent of the host that works a little every 10 ms, and notes the time and the delay from the due
/// time. An attack can delay it only through the load of the machine, because processors are limited.
pub(super) struct Bystander {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Vec<(u64, u64)>>,
}

impl Bystander {
    const BEAT: Duration = Duration::from_millis(10);
    /// CPU time of one round, about that of an echo.
    const WORK: Duration = Duration::from_micros(500);

    pub(super) fn watch() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut noted = Vec::new();
            let mut due = Instant::now();
            while !stopped.load(Ordering::Relaxed) {
                due += Self::BEAT;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                let begun = Instant::now();
                while begun.elapsed() < Self::WORK {
                    std::hint::spin_loop();
                }
                noted.push((now_us(), u64::try_from(due.elapsed().as_micros()).unwrap()));
                due = due.max(Instant::now() - Self::BEAT);
            }
            noted
        });
        Self { stop, thread }
    }

    /// Pairs of time and delay, both in microseconds.
    pub(super) fn end(self) -> Vec<(u64, u64)> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}
