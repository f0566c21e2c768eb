//! `[cache]` and `[compile]`: how components are compiled, and how much of their code is kept. All projects share the cache,
//! and a project must not decide how long a hostile component keeps the machine busy.

use toolcell::{Home, HostBuilder};
use toolcell_system::component_size::{COMPONENT_BYTES, set_component_bytes_max};

use super::{ConfigFile, duration};

/// The user's settings for compiled components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompilationSettings {
    /// Maximum size of the cache of compiled components, in bytes.
    pub cache_bytes_max: u64,
    /// CPU time limit of one compilation, in seconds.
    pub cpu_seconds: u64,
    /// Address space limit of one compilation, in bytes.
    pub memory_bytes: u64,
    /// Maximum size of a component, in bytes.
    pub component_bytes_max: u64,
}

impl Default for CompilationSettings {
    fn default() -> Self {
        Self {
            cache_bytes_max: HostBuilder::CACHE_BYTES,
            cpu_seconds: HostBuilder::COMPILE_CPU_SECONDS,
            memory_bytes: HostBuilder::COMPILE_MEMORY_BYTES,
            component_bytes_max: COMPONENT_BYTES,
        }
    }
}

impl CompilationSettings {
    /// Parses the sections of `file`.
    pub(super) fn of_file(file: &ConfigFile) -> anyhow::Result<Self> {
        let mut settings = Self::default();
        let ConfigFile { cache, compile, .. } = file;
        // The kernel counts whole seconds, and none would be no limit at all.
        let seconds = |text: &str| duration(text).map(|time| time.as_secs().max(1));
        let cpu_seconds = &mut settings.cpu_seconds;
        file.set(cpu_seconds, "[compile] time", &compile.time, seconds)?;
        let size = &mut settings.component_bytes_max;
        file.set_sizes([
            (&mut settings.cache_bytes_max, "[cache] max", &cache.max),
            (
                &mut settings.memory_bytes,
                "[compile] memory",
                &compile.memory,
            ),
            (size, "[compile] size", &compile.size),
        ])?;
        Ok(settings)
    }

    /// Lets this process read components of the size that the user allows.
    pub(super) fn heeded(self) -> Self {
        set_component_bytes_max(self.component_bytes_max);
        self
    }

    /// Applies the settings to a host.
    pub fn apply(self, host: HostBuilder) -> HostBuilder {
        host.cache_bytes_max(self.cache_bytes_max)
            .compile_cpu_seconds(self.cpu_seconds)
            .compile_memory_bytes(self.memory_bytes)
    }
}

/// Returns what the user's own file says of compiled components, for commands that read nothing else of it.
pub fn configured_compilation(home: &Home) -> anyhow::Result<CompilationSettings> {
    let file = ConfigFile::read(&home.user_file()?)?;
    let settings = file.as_ref().map_or_else(
        || Ok(CompilationSettings::default()),
        CompilationSettings::of_file,
    );
    settings.map(CompilationSettings::heeded)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn limits_are_read_and_a_wrong_one_is_an_error_with_its_place() {
        let of = |text: &str| {
            CompilationSettings::of_file(&ConfigFile::parse(text, Path::new("/")).unwrap())
        };
        assert_eq!(of("").unwrap(), CompilationSettings::default());
        let all = of(
            "[cache]\nmax = \"1KiB\"\n[compile]\ntime = \"5m\"\nmemory = \"8GiB\"\nsize = \"1GiB\"",
        )
        .unwrap();
        let expected = CompilationSettings {
            cache_bytes_max: 1 << 10,
            cpu_seconds: 300,
            memory_bytes: 8 << 30,
            component_bytes_max: 1 << 30,
        };
        assert_eq!(all, expected);
        assert_eq!(of("[compile]\ntime = \"20ms\"").unwrap().cpu_seconds, 1);
        for wrong in [
            "[compile]\ntime = \"soon\"",
            "[compile]\nmemory = \"0\"",
            "[cache]\nmax = \"much\"",
        ] {
            let error = format!("{:#}", of(wrong).unwrap_err());
            assert!(error.contains("line 2"), "{error}");
        }
    }
}
