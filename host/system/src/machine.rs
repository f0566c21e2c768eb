//! The memory of this machine or of the process's control group.

use std::fs;
use std::path::Path;

const MEMORY_UNKNOWN: u64 = 4 << 30;
/// Reported, or exceeded, by a version 1 group without a limit.
const NO_LIMIT: u64 = 1 << 60;

/// Default memory of all calls, in bytes: half of [`memory_bytes`].
pub fn share_bytes() -> u64 {
    memory_bytes() / 2
}

/// In bytes: the machine's, or the control group's limit if lower.
pub fn memory_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| of_machine(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = of_groups(&groups, Path::new("/sys/fs/cgroup"), |file| {
        fs::read_to_string(file).ok()
    });
    machine
        .into_iter()
        .chain(group)
        .min()
        .unwrap_or(MEMORY_UNKNOWN)
}

/// Parses `MemTotal: 123 kB`; returns bytes.
fn of_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1 << 10)
}

/// The lowest limit of the process's groups and their parents, in bytes. `groups` is /proc/self/cgroup, with
/// `0::/system.slice/x` (version 2) or `5:memory:/docker/x` (version 1).
fn of_groups(groups: &str, mounted: &Path, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let limit = |file: &Path| {
        read(file)?
            .trim()
            .parse::<u64>()
            .ok()
            .filter(|bytes| *bytes < NO_LIMIT)
    };
    groups
        .lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let controllers = fields.next()?;
            let group = fields.next()?.trim_start_matches('/');
            let (root, name) = match controllers {
                "" => (mounted.to_owned(), "memory.max"),
                _ if controllers.split(',').any(|one| one == "memory") => {
                    (mounted.join("memory"), "memory.limit_in_bytes")
                }
                _ => return None,
            };
            let at = root.join(group);
            // Inside a container the path may not be mounted; the process's own group is then the root.
            at.ancestors()
                .take_while(|at| at.starts_with(&root))
                .filter_map(|at| limit(&at.join(name)))
                .min()
        })
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_limit_around_the_process_counts() {
        assert_eq!(
            of_machine("MemTotal:       24576 kB\nMemFree: 1 kB\n"),
            Some(24 << 20)
        );
        assert_eq!(of_machine("nothing"), None);
        let files = [
            ("a/b/memory.max", "max\n"),
            ("a/memory.max", "4096\n"),
            ("memory.max", "8192\n"),
            (
                "memory/docker/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            ("memory/memory.limit_in_bytes", "2048\n"),
        ];
        let read = |file: &Path| {
            let found = files
                .iter()
                .find(|(name, _)| Path::new("/groups").join(name) == file);
            found.map(|(_, text)| (*text).to_owned())
        };
        let of = |groups| of_groups(groups, Path::new("/groups"), read);
        assert_eq!(of("0::/a/b\n"), Some(4096));
        assert_eq!(of("0::/not/mounted/here\n"), Some(8192));
        assert_eq!(of("5:cpu,memory:/docker\n4:pids:/x\n"), Some(2048));
        assert_eq!(of("4:pids:/x\n"), None);
    }
}
