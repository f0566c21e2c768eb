//! How much memory this machine has, or the control group that this process lives in.

use std::fs;
use std::path::Path;

/// Where nobody says how much there is.
const MEMORY_UNKNOWN: u64 = 4 << 30;
/// A control group without a limit says so with a number of this size, or larger (version 1).
const NO_LIMIT: u64 = 1 << 60;

/// The share of this machine's memory that all calls together get unless it is set: a half, in bytes. Where the process is
/// in a control group with less, a half of that.
pub fn share_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| of_machine(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = of_groups(&groups, Path::new("/sys/fs/cgroup"));
    machine.into_iter().chain(group).min().unwrap_or(MEMORY_UNKNOWN) / 2
}

/// `MemTotal:  123 kB`.
fn of_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1 << 10)
}

/// The lowest limit of the process's groups and of those around them; `groups` is /proc/self/cgroup, which has lines such
/// as `0::/system.slice/x` (version 2) and `5:memory:/docker/x` (version 1).
fn of_groups(groups: &str, mounted: &Path) -> Option<u64> {
    groups
        .lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, group) = (fields.next()?, fields.next()?.trim_start_matches('/'));
            let (root, name) = match controllers {
                "" => (mounted.to_owned(), "memory.max"),
                _ if controllers.split(',').any(|one| one == "memory") => {
                    (mounted.join("memory"), "memory.limit_in_bytes")
                }
                _ => return None,
            };
            let at = root.join(group);
            // Inside a container the path may name what is not mounted there: its own group is then the root.
            at.ancestors().take_while(|at| at.starts_with(&root)).filter_map(|at| limit(&at.join(name))).min()
        })
        .min()
}

fn limit(file: &Path) -> Option<u64> {
    let bytes: u64 = fs::read_to_string(file).ok()?.trim().parse().ok()?;
    (bytes < NO_LIMIT).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_limit_around_the_process_counts() {
        assert_eq!(of_machine("MemTotal:       24576 kB\nMemFree: 1 kB\n"), Some(24 << 20));
        assert_eq!(of_machine("nothing"), None);
        let dir = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let file = dir.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("a/b/memory.max", "max\n");
        write("a/memory.max", "4096\n");
        write("memory.max", "8192\n");
        write("memory/docker/memory.limit_in_bytes", "9223372036854771712\n");
        write("memory/memory.limit_in_bytes", "2048\n");
        assert_eq!(of_groups("0::/a/b\n", dir.path()), Some(4096));
        assert_eq!(of_groups("0::/not/mounted/here\n", dir.path()), Some(8192));
        assert_eq!(of_groups("5:cpu,memory:/docker\n4:pids:/x\n", dir.path()), Some(2048));
        assert_eq!(of_groups("4:pids:/x\n", dir.path()), None);
    }
}
