//! What `toolcell doctor` reports about building tools: asks what `find` asks, and changes nothing.

use super::find::{Search, installed, remedy};
use super::packages::{Apt, NAMES};
use super::{Preference, TARGET, sysroot};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Works as it is.
    Ready,
    /// Not set up: it is not needed, or the first build that needs it sets it up.
    Absent,
    /// Not available. As the verdict: tools cannot be built until this is fixed.
    Missing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub subject: &'static str,
    pub state: State,
    pub detail: String,
    /// The command that fixes it.
    pub fix: Option<String>,
}

/// Returns the verdict first, then each way to a toolchain.
pub fn survey(search: &Search) -> Vec<Finding> {
    let ways = [by_installed(search), by_rustup(search), by_packages(search)];
    let [installed, rustup, packages] = &ways;
    let allowed: &[&Finding] = match search.preference {
        Preference::Any => &[installed, packages, rustup],
        Preference::Installed => &[installed],
        Preference::Rustup => &[installed, rustup],
        Preference::Packages => &[packages],
    };
    let ready = allowed.iter().find(|finding| finding.state == State::Ready);
    let possible = allowed.iter().find(|finding| finding.state == State::Absent);
    let verdict = match (ready, possible) {
        (Some(way), _) => Finding {
            subject: "building tools",
            state: State::Ready,
            detail: format!("through {}", way.subject),
            fix: None,
        },
        (None, Some(way)) => Finding {
            subject: "building tools",
            state: State::Absent,
            detail: format!("the first build sets up {}", way.subject),
            fix: way.fix.clone(),
        },
        (None, None) => Finding {
            subject: "building tools",
            state: State::Missing,
            detail: format!("no Rust here builds for {TARGET}"),
            fix: Some(remedy(search)),
        },
    };
    std::iter::once(verdict).chain(ways).collect()
}

const INSTALLED: &str = "the installed Rust";
const RUSTUP: &str = "rustup's target";
const PACKAGES: &str = "the system's packages";

fn by_installed(search: &Search) -> Finding {
    match installed(search) {
        Ok(toolchain) => Finding {
            subject: INSTALLED,
            state: State::Ready,
            detail: toolchain.cargo.display().to_string(),
            fix: None,
        },
        Err(reason) => Finding { subject: INSTALLED, state: State::Missing, detail: format!("{reason:#}"), fix: None },
    }
}

/// Whether rustup is installed. Only a build tells whether its download works.
fn by_rustup(search: &Search) -> Finding {
    let (state, detail, fix) = match search.which("rustup") {
        Some(rustup) => (State::Absent, rustup.display().to_string(), Some(format!("rustup target add {TARGET}"))),
        None => (State::Missing, "no rustup on PATH".to_owned(), None),
    };
    Finding { subject: RUSTUP, state, detail, fix }
}

fn by_packages(search: &Search) -> Finding {
    let not_ready = match sysroot::ready(search) {
        Ok(toolchain) => {
            let detail = toolchain.rustc.unwrap_or_default().display().to_string();
            return Finding { subject: PACKAGES, state: State::Ready, detail, fix: None };
        }
        Err(reason) => reason,
    };
    match Apt::find(search).and_then(|apt| apt.missing(&NAMES)) {
        Ok(missing) => {
            let detail = match missing.as_slice() {
                [] => format!("{not_ready:#}; all packages are installed"),
                names => format!("{not_ready:#}; not installed: {}", names.join(", ")),
            };
            let fix = Some(format!("{}=packages toolcell build DIR", super::PREFERENCE_VARIABLE));
            Finding { subject: PACKAGES, state: State::Absent, detail, fix }
        }
        Err(reason) => Finding { subject: PACKAGES, state: State::Missing, detail: format!("{reason:#}"), fix: None },
    }
}

#[cfg(test)]
mod tests {
    use super::super::standin::Programs;
    use super::*;

    fn verdict(findings: &[Finding]) -> (State, &str, Option<&str>) {
        let first = findings.first().unwrap();
        (first.state, &first.detail, first.fix.as_deref())
    }

    #[test]
    fn nothing_at_all_is_missing_and_says_how_to_mend_it() {
        let programs = Programs::new();
        let findings = survey(&programs.search(Preference::Any));
        assert_eq!(
            verdict(&findings),
            (
                State::Missing,
                "no Rust here builds for wasm32-wasip2",
                Some("Install Rust with rustup, then run: rustup target add wasm32-wasip2")
            )
        );
        assert_eq!(findings.len(), 4);
    }

    #[test]
    fn what_a_build_would_set_up_is_named_and_not_done() {
        let programs = Programs::new().with("rustup", "exit 9");
        let findings = survey(&programs.search(Preference::Any));
        assert_eq!(
            verdict(&findings),
            (State::Absent, "the first build sets up rustup's target", Some("rustup target add wasm32-wasip2"))
        );

        let programs = Programs::new()
            .with("apt-get", "exit 9")
            .with("dpkg", "exit 9")
            .with("dpkg-deb", "exit 9")
            .with("dpkg-query", "echo 'cargo-web installed'");
        let findings = survey(&programs.search(Preference::Packages));
        assert_eq!(verdict(&findings).1, "the first build sets up the system's packages");
        let last = findings.last().unwrap();
        assert!(
            last.detail.ends_with("not installed: rustc-web, rust-web-src, rust-web-llvm, ca-certificates"),
            "{last:?}"
        );
    }

    #[test]
    fn an_installed_target_is_ready() {
        let programs = Programs::new().with("rustc", r#"echo "${0%/*}""#).with("cargo", "exit 0");
        std::fs::write(programs.dir().join("libstd-1.rlib"), "").unwrap();
        let findings = survey(&programs.search(Preference::Any));
        assert_eq!(verdict(&findings), (State::Ready, "through the installed Rust", None));
    }
}
