//! What the kernel says of this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_start_matches(':').split_whitespace().next().unwrap().parse().unwrap()
}

/// Resident memory now.
pub(super) fn resident_kib() -> u64 {
    status("VmRSS")
}

/// The most resident memory since [`forget_peak`].
pub(super) fn peak_kib() -> u64 {
    status("VmHWM")
}

pub(super) fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

/// Processor time that this process has used.
pub(super) fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // After the name of the program, which ends with the last parenthesis: in hundredths of a second.
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

pub(super) fn threads() -> u64 {
    status("Threads")
}

/// Open files, without the one that looks, and without what belongs to components that stay loaded: their compiled code,
/// and the image of their memory.
pub(super) fn descriptors() -> u64 {
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    let is_code = |link: &std::path::Path| {
        link.read_link().is_ok_and(|to| ["/cache/", "/memfd:"].iter().any(|kept| to.to_string_lossy().contains(kept)))
    };
    files.filter(|file| file.as_ref().is_ok_and(|file| !is_code(&file.path()))).count() as u64 - 1
}

/// Looks at the open files every other millisecond: what matters is the most that there ever were.
pub(super) struct DescriptorPeak {
    stop: Arc<AtomicBool>,
    peak: Arc<AtomicU64>,
}

impl DescriptorPeak {
    pub(super) fn watch() -> Self {
        let (stop, peak) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, seen) = (Arc::clone(&stop), Arc::clone(&peak));
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
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).unwrap();
    u64::from_le_bytes(bytes)
}

/// The same numbers each time: a failure can be looked at again. (splitmix64)
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
