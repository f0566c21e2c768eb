use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use toolcell::{Home, Keep, Limits};
use toolcell_config::{configured_compilation, configured_journal};
use toolcell_journal::CallLog;
use toolcell_sandbox::{ENGINE_VERSION, FEATURES_OFF, cached_bytes};
use toolcell_spec::text::{Whitespace, visible};
use toolcell_toolchain::{
    Language, PartState, Preference, SurveyFinding as Check, ToolchainSearch,
};

use super::exit::Exit;
use super::options::PolicyOptions;
use super::{client_servers, configuration, show};

/// Looks at what this machine has for running and building tools, and whether the configuration can be used. Changes
/// nothing.
#[derive(Debug, Args)]
pub(super) struct Doctor {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also start each toolcell server in this MCP client configuration and check that it works
    #[arg(long, value_name = "FILE")]
    mcp_config: Option<PathBuf>,
    /// Also start this program if the client's configuration names it; otherwise only this toolcell is started
    #[arg(long, value_name = "PROGRAM", requires = "mcp_config")]
    allow_program: Option<PathBuf>,
    #[command(flatten)]
    policy: PolicyOptions,
}

impl Doctor {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let mut checks = vec![
            Check::ready(
                "toolcell",
                format!("{} on {ENGINE_VERSION}", env!("CARGO_PKG_VERSION")),
            ),
            Check::ready("engine", ENGINE_VERSION.to_owned()),
            Check::ready("features off", FEATURES_OFF.join(", ")),
            writable(&home),
            cache(&home),
            journal(&home),
        ];
        checks.extend(kernel());
        // Not in the current folder, because rustup's programs run the toolchain that a file there names.
        let search = ToolchainSearch {
            dir: "/".into(),
            ..ToolchainSearch::new(Preference::from_env()?, home.cache())
        };
        checks.extend(Language::all().flat_map(|lang| lang.survey(&search)));
        checks.extend(configuration::of_files(&home, &self.policy)?);
        if let Some(file) = &self.mcp_config {
            checks.extend(client_servers::look(
                file,
                self.allow_program.as_deref(),
                &home,
            )?);
        }
        report(&checks, self.json)
    }
}

/// Prints the checks; fails if one has a fault.
pub(super) fn report(checks: &[Check], as_json: bool) -> anyhow::Result<Exit> {
    let is_fault =
        |check: &Check| check.state == PartState::Missing && !check.subject.starts_with("the ");
    let exit = Exit::from_success(!checks.iter().any(is_fault));
    let text = if as_json {
        let text = serde_json::to_string_pretty(&json!({ "checks": checks }))?;
        format!("{}\n", show::json_for_terminals(&text))
    } else {
        checks.iter().map(line).collect()
    };
    show::print(text).map(|_| exit)
}

fn line(check: &Check) -> String {
    let state = show::word(&check.state);
    // Details may quote files with several lines; each further line is marked.
    let detail = show::printable(&check.detail, true).replace('\n', "\n         | ");
    let fix = check.fix.as_deref().map(|fix| {
        let fix = visible(fix, Whitespace::WrittenOut);
        format!("         fix: {fix}\n")
    });
    let fix = fix.unwrap_or_default();
    format!("{state:<8} {}: {detail}\n{fix}", check.subject)
}

pub(super) fn writable(home: &Home) -> Check {
    let folder = home.folder();
    // The folder is created when it is needed, so this checks whether it could be.
    let nearest = folder
        .ancestors()
        .find(|folder| folder.exists())
        .unwrap_or(folder);
    match tempfile::tempfile_in(nearest) {
        Ok(_) => Check::ready("state", folder.display().to_string()),
        Err(error) => Check::missing(
            "state",
            format!("{} cannot be written: {error}", folder.display()),
            format!("export {}=DIR", Home::VARIABLE),
        ),
    }
}

fn cache(home: &Home) -> Check {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    match configured_compilation(home) {
        Ok(settings) => {
            let max = settings.cache_bytes_max;
            let now = mib(cached_bytes(&home.components()));
            let dir = home.components();
            let detail = format!(
                "{now} MiB of at most {} MiB of compiled code and unpacked files in {}",
                mib(max),
                dir.display()
            );
            Check::ready("cache", detail)
        }
        Err(error) => Check::missing(
            "cache",
            format!("{error:#}"),
            "correct what the message names",
        ),
    }
}

pub(super) fn journal(home: &Home) -> Check {
    match configured_journal(home) {
        Ok(settings) => {
            let kept = match settings.keep {
                Keep::All => "all calls stay on record",
                Keep::Failures => "of calls that succeed, only their start stays on record",
                Keep::None => {
                    return Check::ready("journal", "turned off: no call stays on record");
                }
            };
            if let Err(error) = CallLog::new(home.journal(), home.calls_key(), settings).check() {
                let fix = format!(
                    "make {} writable, or free some space there",
                    home.calls().display()
                );
                return Check::missing("journal", format!("{error}; so no call runs"), fix);
            }
            let max = settings.bytes_max.div_ceil(1 << 20);
            let days = settings.age_max.as_secs() / (24 * 60 * 60);
            Check::ready(
                "journal",
                format!(
                    "{kept}, in at most {max} MiB for {days} days, in {}",
                    home.calls().display()
                ),
            )
        }
        Err(error) => Check::missing(
            "journal",
            format!("{error:#}"),
            "correct what the message names",
        ),
    }
}

/// Missing features make toolcell slower, let it run fewer calls at once, or cost a layer of defense.
#[cfg(target_os = "linux")]
fn kernel() -> Vec<Check> {
    vec![
        openat2(),
        pagemap_scan(),
        map_count(),
        open_files(),
        seccomp(),
    ]
}

#[cfg(not(target_os = "linux"))]
fn kernel() -> Vec<Check> {
    vec![open_files()]
}

fn check(subject: &str, there: bool, detail: impl Into<String>) -> Check {
    let state = if there {
        PartState::Ready
    } else {
        PartState::Absent
    };
    Check::new(subject, state, detail)
}

/// Makes the system call, because a seccomp filter may block it whatever the kernel version.
#[cfg(target_os = "linux")]
fn openat2() -> Check {
    use rustix::fs::{Mode, OFlags, ResolveFlags};
    let opened = rustix::fs::openat2(
        rustix::fs::CWD,
        "/",
        OFlags::PATH,
        Mode::empty(),
        ResolveFlags::BENEATH,
    );
    // `XDEV` is expected: the path leads out of the folder, which the call detects.
    match opened {
        Err(rustix::io::Errno::XDEV) | Ok(_) => {
            check("openat2", true, "opens paths inside a folder in one step")
        }
        Err(error) => check(
            "openat2",
            false,
            format!("paths inside a folder are opened step by step, which is slower: {error}"),
        ),
    }
}

#[cfg(target_os = "linux")]
fn pagemap_scan() -> Check {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|part| part.trim().parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let detail = format!(
        "resets the memory of a call faster (Linux {}.{}, since 6.7)",
        version.0, version.1
    );
    check("PAGEMAP_SCAN", version >= (6, 7), detail)
}

#[cfg(target_os = "linux")]
fn map_count() -> Check {
    let maps = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    let maps: u64 = maps.trim().parse().unwrap_or(0);
    check(
        "max_map_count",
        maps > 0,
        format!(
            "{maps}: room for about {} at once",
            show::counted(maps / 6, "call")
        ),
    )
}

/// All calls share the process's limit.
fn open_files() -> Check {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile)
        .current
        .unwrap_or(u64::MAX);
    let each = Limits::default().descriptors;
    let detail = format!(
        "{limit}: a call may keep {each} open, so {} can at once",
        show::counted(limit / each, "call")
    );
    check("open files", limit > each, detail)
}

/// A filter is the second layer of defense if the sandbox has a hole.
#[cfg(target_os = "linux")]
fn seccomp() -> Check {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mode = status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp:"))
        .map(str::trim);
    let filtered = matches!(mode, Some("1" | "2"));
    let detail = if filtered {
        "the system calls of this process are filtered"
    } else {
        "no filter of system calls around toolcell; fine on a desktop, and a second barrier on a server"
    };
    let found = check("seccomp", filtered, detail);
    if filtered {
        return found;
    }
    // Container runtimes set one by themselves, so only a service outside of a container has something to do.
    found.fixed_by("on a server, run toolcell in a container, or set SystemCallFilter= in its unit")
}
