use std::time::Duration;

use toolcell_policy::Limits;

use super::file::{ConfigFile, LimitSection};
use super::{duration, size};

/// Limits that options or files set; `None` for each that they do not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenLimits {
    pub timeout: Option<Duration>,
    pub fuel: Option<u64>,
    pub cpu: Option<Duration>,
    /// Bytes, like all below.
    pub memory: Option<u64>,
    /// For all calls of a server together.
    pub memory_total: Option<u64>,
    pub max_output: Option<u64>,
    pub max_disk: Option<u64>,
    pub max_artifact_bytes: Option<u64>,
}

impl GivenLimits {
    /// Parses the `[limits]` of `file`.
    pub fn of_file(file: &ConfigFile) -> anyhow::Result<Self> {
        Self::of_section(file, &file.limits)
    }

    pub(super) fn of_section(file: &ConfigFile, section: &LimitSection) -> anyhow::Result<Self> {
        let mut limits = Self {
            fuel: section.fuel,
            ..Self::default()
        };
        let time = |text: &str| duration(text).map(Some);
        let timeout = &mut limits.timeout;
        file.set(timeout, "limits: timeout", &section.timeout, time)?;
        file.set(&mut limits.cpu, "limits: cpu", &section.cpu, time)?;
        let artifacts = &mut limits.max_artifact_bytes;
        for (limit, name, word) in [
            (&mut limits.memory, "limits: memory", &section.memory),
            (
                &mut limits.memory_total,
                "limits: memory_total",
                &section.memory_total,
            ),
            (
                &mut limits.max_output,
                "limits: max_output",
                &section.max_output,
            ),
            (&mut limits.max_disk, "limits: max_disk", &section.max_disk),
            (
                artifacts,
                "limits: max_artifact_bytes",
                &section.max_artifact_bytes,
            ),
        ] {
            file.set(limit, name, word, |text| size(text).map(Some))?;
        }
        Ok(limits)
    }

    /// Returns the lower one of each limit that either sets.
    pub(super) fn lower(self, other: Self) -> Self {
        fn lowest<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
            [one, other].into_iter().flatten().min()
        }
        Self {
            timeout: lowest(self.timeout, other.timeout),
            fuel: lowest(self.fuel, other.fuel),
            cpu: lowest(self.cpu, other.cpu),
            memory: lowest(self.memory, other.memory),
            memory_total: lowest(self.memory_total, other.memory_total),
            max_output: lowest(self.max_output, other.max_output),
            max_disk: lowest(self.max_disk, other.max_disk),
            max_artifact_bytes: lowest(self.max_artifact_bytes, other.max_artifact_bytes),
        }
    }

    /// The limits of one call: of each, the lower one of these and `most`.
    pub(super) fn below(&self, most: &Limits) -> Limits {
        let own = self.over(most.clone());
        Limits {
            wall: own.wall.min(most.wall),
            fuel: own.fuel.min(most.fuel),
            cpu: own.cpu.min(most.cpu),
            memory_bytes: own.memory_bytes.min(most.memory_bytes),
            output_bytes: own.output_bytes.min(most.output_bytes),
            disk_bytes: own.disk_bytes.min(most.disk_bytes),
            artifact_bytes: own.artifact_bytes.min(most.artifact_bytes),
            ..own
        }
    }

    /// Returns the limits of one call: these, and `defaults` for those that are not set.
    pub fn over(&self, defaults: Limits) -> Limits {
        Limits {
            wall: self.timeout.unwrap_or(defaults.wall),
            fuel: self.fuel.unwrap_or(defaults.fuel),
            cpu: self.cpu.unwrap_or(defaults.cpu),
            memory_bytes: self.memory.unwrap_or(defaults.memory_bytes),
            output_bytes: self.max_output.unwrap_or(defaults.output_bytes),
            disk_bytes: self.max_disk.unwrap_or(defaults.disk_bytes),
            artifact_bytes: self.max_artifact_bytes.unwrap_or(defaults.artifact_bytes),
            ..defaults
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_lowest_limit_of_all_files_counts() {
        let of = |text: &str| {
            GivenLimits::of_file(
                &ConfigFile::parse(&format!("[limits]\n{text}"), Path::new("/")).unwrap(),
            )
            .unwrap()
        };
        let both = of("timeout = \"5s\"\nfuel = 7\nmax_disk = \"2MiB\"")
            .lower(of("timeout = \"3s\"\nfuel = 9"));
        assert_eq!(both, of("timeout = \"3s\"\nfuel = 7\nmax_disk = \"2MiB\""));
        let limits = both.over(Limits::default());
        let defaults = Limits::default();
        assert_eq!(
            (limits.wall, limits.fuel, limits.disk_bytes),
            (Duration::from_secs(3), 7, 2 << 20)
        );
        assert_eq!(
            (limits.memory_bytes, limits.output_bytes),
            (defaults.memory_bytes, defaults.output_bytes)
        );
    }
}
