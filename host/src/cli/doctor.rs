use std::io::Write;

use clap::Args;
use serde::Serialize;

use crate::config::Home;
use crate::host::{ENGINE_VERSION, FEATURES_OFF};
use crate::toolchain::{self, Preference, Search, State};

use super::exit::Exit;
use super::show;

/// Looks at what this machine has for running and building tools, and changes nothing.
#[derive(Debug, Args)]
pub(super) struct Doctor {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    subject: String,
    /// `ready`, `absent` (not needed, or made when needed), or `missing`.
    state: &'static str,
    detail: String,
    /// The command that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<String>,
}

impl Doctor {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let mut checks = vec![
            ready("hotcell", format!("{} on {ENGINE_VERSION}", env!("CARGO_PKG_VERSION"))),
            ready("features off", FEATURES_OFF.join(", ")),
            writable(&home),
        ];
        checks.extend(kernel());
        let search = Search::new(Preference::from_env()?, home.cache());
        checks.extend(toolchain::survey(&search).into_iter().map(|finding| Check {
            subject: finding.subject.to_owned(),
            state: match finding.state {
                State::Ready => "ready",
                State::Absent => "absent",
                State::Missing => "missing",
            },
            detail: finding.detail,
            mend: finding.mend,
        }));
        let sound = checks.iter().all(|check| check.state != "missing" || check.subject.starts_with("the "));
        self.print(&checks).or_else(show::closed)?;
        Ok(if sound { Exit::Succeeded } else { Exit::ToolFailed })
    }

    fn print(&self, checks: &[Check]) -> std::io::Result<Exit> {
        let mut out = std::io::stdout().lock();
        if self.json {
            serde_json::to_writer_pretty(&mut out, &serde_json::json!({ "checks": checks }))?;
            writeln!(out)?;
            return Ok(Exit::Succeeded);
        }
        for check in checks {
            writeln!(out, "{:<8} {}: {}", check.state, check.subject, check.detail)?;
            if let Some(mend) = &check.mend {
                writeln!(out, "         mend it: {mend}")?;
            }
        }
        Ok(Exit::Succeeded)
    }
}

fn ready(subject: &str, detail: String) -> Check {
    Check { subject: subject.to_owned(), state: "ready", detail, mend: None }
}

fn writable(home: &Home) -> Check {
    let folder = home.folder();
    // The folder is made when it is needed: here the question is whether it could be.
    let nearest = folder.ancestors().find(|folder| folder.exists()).unwrap_or(folder);
    match tempfile::tempfile_in(nearest) {
        Ok(_) => ready("state", folder.display().to_string()),
        Err(error) => Check {
            subject: "state".to_owned(),
            state: "missing",
            detail: format!("{} cannot be written: {error}", folder.display()),
            mend: Some(format!("export {}=DIR", crate::config::HOME_VARIABLE)),
        },
    }
}

/// What the kernel offers: without these hotcell still works, but slower or with fewer calls at once.
fn kernel() -> Vec<Check> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.trim().parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let since = |subject: &str, needed: (u32, u32), why: &str| {
        let there = version >= needed;
        Check {
            subject: subject.to_owned(),
            state: if there { "ready" } else { "absent" },
            detail: format!("{why} (Linux {}.{}, since {}.{})", version.0, version.1, needed.0, needed.1),
            mend: None,
        }
    };
    let maps = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    let maps: u64 = maps.trim().parse().unwrap_or(0);
    vec![
        since("openat2", (5, 6), "opens paths inside a folder in one step"),
        since("PAGEMAP_SCAN", (6, 7), "resets the memory of a call faster"),
        Check {
            subject: "max_map_count".to_owned(),
            state: "ready",
            detail: format!("{maps}: room for about {} calls at once", maps / 6),
            mend: None,
        },
    ]
}
