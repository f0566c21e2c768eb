//! Reports for `toolcell doctor` about building tools: makes the checks of `find`, and changes nothing.

use std::path::Path;

use super::find::{PREFERENCE_VARIABLE, PROBE, TARGET_SIZE, ToolchainSearch, installed, remedy};
use super::packages::{Apt, NAMES, PACKAGES_SIZE};
use super::{Preference, TARGET, process, sysroot};

/// Readiness of a part of a toolchain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartState {
    /// Works as it is.
    Ready,
    /// Not set up: it is not needed, or the first build that needs it sets it up.
    Absent,
    /// Not available. As the verdict: tools cannot be built until this is fixed.
    Missing,
}

/// A row of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurveyFinding {
    pub subject: String,
    pub state: PartState,
    pub detail: String,
    /// The command that fixes it.
    pub fix: Option<String>,
}

/// All ways to a toolchain, in the order in which a build tries them.
fn ways(search: &ToolchainSearch) -> [SurveyFinding; 3] {
    let installed = by_installed(search);
    let rustup = by_rustup(search, installed.state);
    [installed, rustup, by_packages(search)]
}

/// The ways that the user allows.
fn allowed(
    preference: Preference,
    [installed, rustup, packages]: &[SurveyFinding; 3],
) -> Vec<&SurveyFinding> {
    match preference {
        Preference::Any => vec![installed, rustup, packages],
        Preference::Installed => vec![installed],
        Preference::Rustup => vec![installed, rustup],
        Preference::Packages => vec![packages],
    }
}

/// The download of a build, with the size, if no way is ready yet; `None` if one is, or if there is none.
pub(super) fn fetches(search: &ToolchainSearch) -> Option<String> {
    let ways = ways(search);
    let allowed = allowed(search.preference, &ways);
    if allowed.iter().any(|way| way.state == PartState::Ready) {
        return None;
    }
    let possible = allowed.iter().filter(|way| way.state == PartState::Absent);
    let parts: Vec<String> = possible
        .filter_map(|way| match way.subject.as_str() {
            RUSTUP => Some(format!("Rust's target {TARGET} from rustup: {TARGET_SIZE}")),
            PACKAGES => Some(format!(
                "packages of the system, which root installs: {PACKAGES_SIZE}"
            )),
            _ => None,
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join(", or else "))
}

/// Returns the verdict first, then each way to a toolchain.
pub(super) fn survey(search: &ToolchainSearch) -> Vec<SurveyFinding> {
    let ways = ways(search);
    let allowed = allowed(search.preference, &ways);
    let ready = allowed
        .iter()
        .find(|finding| finding.state == PartState::Ready);
    let possible = allowed
        .iter()
        .find(|finding| finding.state == PartState::Absent);
    let verdict = match (ready, possible) {
        (Some(way), _) => SurveyFinding {
            subject: "building tools".to_owned(),
            state: PartState::Ready,
            detail: format!("through {}", way.subject),
            fix: None,
        },
        (None, Some(way)) => SurveyFinding {
            subject: "building tools".to_owned(),
            state: PartState::Absent,
            detail: format!("the first build sets up {}", way.subject),
            fix: way.fix.clone(),
        },
        (None, None) => SurveyFinding {
            subject: "building tools".to_owned(),
            state: PartState::Missing,
            detail: format!("no Rust here builds for {TARGET}"),
            fix: Some(remedy(search)),
        },
    };
    std::iter::once(verdict).chain(ways).collect()
}

/// The part that each way needs beyond installed programs: a Rust without the target is not a missing Rust.
const INSTALLED: &str = "the installed Rust's target";
const RUSTUP: &str = "the target from rustup";
const PACKAGES: &str = "the target from the system's packages";

fn by_installed(search: &ToolchainSearch) -> SurveyFinding {
    match installed(search) {
        Ok(toolchain) => SurveyFinding {
            subject: INSTALLED.to_owned(),
            state: PartState::Ready,
            detail: toolchain.cargo.display().to_string(),
            fix: None,
        },
        Err(reason) => SurveyFinding {
            subject: INSTALLED.to_owned(),
            state: PartState::Missing,
            detail: format!("{reason:#}"),
            fix: None,
        },
    }
}

/// Reports if rustup has the target. If it has not, only a build tells whether its download works. `installed`: whether
/// the rustc on PATH builds with a target; it is not rustup's if it does not see what rustup has.
fn by_rustup(search: &ToolchainSearch, installed: PartState) -> SurveyFinding {
    let finding = |state, detail, fix| SurveyFinding {
        subject: RUSTUP.to_owned(),
        state,
        detail,
        fix,
    };
    let Some(rustup) = search.which("rustup") else {
        return finding(PartState::Missing, "no rustup on PATH".to_owned(), None);
    };
    let program = rustup.display();
    match (rustup_has_target(search, &rustup), installed) {
        (true, PartState::Ready) => finding(PartState::Ready, program.to_string(), None),
        (true, _) => {
            let detail = format!(
                "{program} has it, and the rustc on PATH is another: put rustup's folder first in PATH"
            );
            finding(PartState::Missing, detail, None)
        }
        (false, _) => {
            let fix = format!("rustup target add {TARGET}");
            finding(
                PartState::Absent,
                format!("{program} has not installed it"),
                Some(fix),
            )
        }
    }
}

/// Asks rustup, which answers without a network. It is kept from installing a toolchain that a file names.
fn rustup_has_target(search: &ToolchainSearch, rustup: &Path) -> bool {
    let mut question = search.command(rustup);
    question
        .args(["target", "list", "--installed"])
        .env("RUSTUP_AUTO_INSTALL", "0");
    let answer = process::output(question, PROBE);
    answer.is_ok_and(|answer| {
        answer.status.success() && answer.out.lines().any(|line| line.trim() == TARGET)
    })
}

fn by_packages(search: &ToolchainSearch) -> SurveyFinding {
    let not_ready = match sysroot::ready(search) {
        Ok(toolchain) => {
            let detail = toolchain.rustc.unwrap_or_default().display().to_string();
            return SurveyFinding {
                subject: PACKAGES.to_owned(),
                state: PartState::Ready,
                detail,
                fix: None,
            };
        }
        Err(reason) => reason,
    };
    match Apt::find(search).and_then(|apt| apt.missing(&NAMES)) {
        Ok(missing) => {
            let detail = match missing.as_slice() {
                [] => format!(
                    "{not_ready:#}; its packages are installed, so a build compiles it from them"
                ),
                names => format!(
                    "{not_ready:#}; packages that are not installed: {}",
                    names.join(", ")
                ),
            };
            let fix = Some(format!(
                "{}=packages toolcell build DIR",
                PREFERENCE_VARIABLE
            ));
            SurveyFinding {
                subject: PACKAGES.to_owned(),
                state: PartState::Absent,
                detail,
                fix,
            }
        }
        Err(reason) => SurveyFinding {
            subject: PACKAGES.to_owned(),
            state: PartState::Missing,
            detail: format!("{reason:#}"),
            fix: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::shim::ShimPrograms;
    use super::*;

    fn verdict(findings: &[SurveyFinding]) -> (PartState, &str, Option<&str>) {
        let first = findings.first().unwrap();
        (first.state, &first.detail, first.fix.as_deref())
    }

    #[test]
    fn nothing_at_all_is_missing_and_says_how_to_mend_it() {
        let programs = ShimPrograms::new();
        let findings = survey(&programs.search(Preference::Any));
        assert_eq!(
            verdict(&findings),
            (
                PartState::Missing,
                "no Rust here builds for wasm32-wasip2",
                Some("Install Rust with rustup, then run: rustup target add wasm32-wasip2")
            )
        );
        assert_eq!(findings.len(), 4);
    }

    #[test]
    fn what_a_build_would_set_up_is_named_and_not_done() {
        let programs = ShimPrograms::new().with("rustup", "exit 9");
        let findings = survey(&programs.search(Preference::Any));
        assert_eq!(
            verdict(&findings),
            (
                PartState::Absent,
                "the first build sets up the target from rustup",
                Some("rustup target add wasm32-wasip2")
            )
        );

        let programs = ShimPrograms::new()
            .with("apt-get", "exit 9")
            .with("dpkg", "exit 9")
            .with("dpkg-deb", "exit 9")
            .with("dpkg-query", "echo 'cargo-web installed'");
        let findings = survey(&programs.search(Preference::Packages));
        assert_eq!(
            verdict(&findings).1,
            "the first build sets up the target from the system's packages"
        );
        assert_eq!(
            fetches(&programs.search(Preference::Any)).unwrap(),
            "packages of the system, which root installs: some 240 MB"
        );
        // A build tries rustup before the packages.
        let programs = programs.with("rustup", "exit 9");
        let findings = survey(&programs.search(Preference::Any));
        assert_eq!(
            verdict(&findings).1,
            "the first build sets up the target from rustup"
        );
        assert_eq!(
            fetches(&programs.search(Preference::Any)).unwrap(),
            "Rust's target wasm32-wasip2 from rustup: some 30 MB, or else packages of the system, which root installs: \
             some 240 MB"
        );
        assert_eq!(fetches(&programs.search(Preference::Installed)), None);
        let last = findings.last().unwrap();
        assert!(
            last.detail
                .ends_with("packages that are not installed: rustc-web, rust-web-src, rust-web-llvm, ca-certificates"),
            "{last:?}"
        );
    }

    #[test]
    fn an_installed_target_is_ready() {
        let programs = ShimPrograms::new()
            .with("rustc", r#"echo "${0%/*}""#)
            .with("cargo", "exit 0");
        std::fs::write(programs.dir().join("libstd-1.rlib"), "").unwrap();
        let findings = survey(&programs.search(Preference::Any));
        assert_eq!(
            verdict(&findings),
            (
                PartState::Ready,
                "through the installed Rust's target",
                None
            )
        );
        assert_eq!(fetches(&programs.search(Preference::Any)), None);
        assert_eq!(findings[2].detail, "no rustup on PATH");
    }

    #[test]
    fn what_rustup_and_the_packages_have_is_not_called_absent() {
        let rustc = r#"echo "${0%/*}""#;
        let programs = ShimPrograms::new().with(
            "rustup",
            "[ \"$*\" = 'target list --installed' ] && echo wasm32-wasip2",
        );
        let found = |programs: &ShimPrograms| survey(&programs.search(Preference::Any))[2].clone();
        // Another rustc comes first in PATH, and has no target.
        let programs = programs.with("rustc", rustc).with("cargo", "exit 0");
        let other = found(&programs);
        assert!(
            other.state == PartState::Missing && other.detail.contains("is another"),
            "{other:?}"
        );
        std::fs::write(programs.dir().join("libstd-1.rlib"), "").unwrap();
        let own = found(&programs);
        assert_eq!((own.state, own.fix), (PartState::Ready, None));

        let names = NAMES
            .map(|name| format!("echo '{name} installed'"))
            .join("; ");
        let mut programs = ShimPrograms::new().with("dpkg-query", &names);
        for name in ["apt-get", "dpkg", "dpkg-deb"] {
            programs = programs.with(name, "exit 9");
        }
        let last = survey(&programs.search(Preference::Any)).pop().unwrap();
        assert!(
            last.state == PartState::Absent && last.detail.contains("its packages are installed"),
            "{last:?}"
        );
    }
}
