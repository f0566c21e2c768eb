//! Metrics of this process, in the names that Prometheus clients use.

use std::time::Duration;

use rustix::process::{Resource, getrlimit};

use super::metrics::{MetricKind, MetricText};

/// Writes what is known: on systems other than Linux, the CPU time and the limit of open files.
pub(super) fn write(text: &mut MetricText) {
    let cpu = cpu_time().as_secs_f64();
    text.one(
        MetricKind::Counter,
        "process_cpu_seconds",
        "CPU time of the server.",
        cpu,
    );
    if let Some(most) = getrlimit(Resource::Nofile).current {
        text.one(
            MetricKind::Gauge,
            "process_max_fds",
            "Files that the server may open.",
            most,
        );
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        // One of them lists them.
        text.one(
            MetricKind::Gauge,
            "process_open_fds",
            "Open files.",
            files.count().saturating_sub(1),
        );
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let families = [
        (
            "process_resident_memory_bytes",
            "Memory in use.",
            field("VmRSS:").map(|kib| kib << 10),
        ),
        (
            "process_resident_memory_max_bytes",
            "Most memory in use so far.",
            field("VmHWM:").map(|kib| kib << 10),
        ),
        ("process_threads", "Threads.", field("Threads:")),
    ];
    for (name, help, value) in families {
        if let Some(value) = value {
            text.one(MetricKind::Gauge, name, help, value);
        }
    }
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}
