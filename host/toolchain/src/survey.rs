//! Reports for `toolcell doctor` about building tools: makes the checks of `find`, and changes nothing.

use std::path::Path;

use serde::Serialize;

use super::find::{PREFERENCE_VARIABLE, PROBE, TARGET_SIZE, ToolchainSearch, installed, remedy};
use super::packages::{self, NAMES, PART};
use super::{Preference, TARGET, process};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PartState {
    Ready,
    /// Not needed, or set up by the first build that needs it.
    Absent,
    /// Tools cannot be built until this is fixed.
    Missing,
    /// Worth knowing, and nothing that has to be fixed.
    Warning,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SurveyFinding {
    pub subject: String,
    pub state: PartState,
    pub detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl SurveyFinding {
    pub fn new(subject: impl Into<String>, state: PartState, detail: impl Into<String>) -> Self {
        SurveyFinding {
            subject: subject.into(),
            state,
            detail: detail.into(),
            fix: None,
        }
    }

    pub fn ready(subject: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(subject, PartState::Ready, detail)
    }

    pub fn missing(
        subject: impl Into<String>,
        detail: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(subject, PartState::Missing, detail).fixed_by(fix)
    }

    #[must_use]
    pub fn fixed_by(self, fix: impl Into<String>) -> Self {
        let fix = Some(fix.into());
        SurveyFinding { fix, ..self }
    }
}

fn ways(search: &ToolchainSearch) -> ([SurveyFinding; 3], std::ops::Range<usize>) {
    let installed = match installed(search) {
        Ok(toolchain) => SurveyFinding::ready(INSTALLED, toolchain.cargo.display().to_string()),
        Err(reason) => missing(INSTALLED, format!("{reason:#}")),
    };
    let rustup = by_rustup(search, installed.state);
    let allowed = match search.preference {
        Preference::Any => 0..3,
        Preference::Installed => 0..1,
        Preference::Rustup => 0..2,
        Preference::Packages => 2..3,
    };
    ([installed, rustup, by_packages(search)], allowed)
}

/// `None` if a way is ready, or if there is none.
pub(super) fn fetches(search: &ToolchainSearch) -> Option<String> {
    let (ways, allowed) = ways(search);
    let allowed = ways.get(allowed).unwrap_or_default();
    if allowed.iter().any(|way| way.state == PartState::Ready) {
        return None;
    }
    let possible = allowed.iter().filter(|way| way.state == PartState::Absent);
    let parts: Vec<String> = possible
        .map(|way| {
            if way.subject == RUSTUP {
                format!("Rust's target {TARGET} from rustup: {TARGET_SIZE}")
            } else {
                PART.sentence()
            }
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join(", or else "))
}

/// The verdict comes first, then each way to a toolchain.
pub(super) fn survey(search: &ToolchainSearch) -> Vec<SurveyFinding> {
    const SUBJECT: &str = "building tools";
    let (ways, allowed) = ways(search);
    let allowed = ways.get(allowed).unwrap_or_default();
    let first = |state| allowed.iter().find(|way| way.state == state);
    let verdict = if let Some(way) = first(PartState::Ready) {
        SurveyFinding::ready(SUBJECT, format!("through {}", way.subject))
    } else if let Some(way) = first(PartState::Absent) {
        let detail = format!("the first build sets up {}", way.subject);
        SurveyFinding {
            fix: way.fix.clone(),
            ..SurveyFinding::new(SUBJECT, PartState::Absent, detail)
        }
    } else {
        let detail = format!("no Rust here builds for {TARGET}");
        SurveyFinding::missing(SUBJECT, detail, remedy(search))
    };
    std::iter::once(verdict).chain(ways).collect()
}

fn missing(subject: &str, detail: String) -> SurveyFinding {
    SurveyFinding::new(subject, PartState::Missing, detail)
}

/// A Rust without the target is not a missing Rust.
const INSTALLED: &str = "the installed Rust's target";
const RUSTUP: &str = "the target from rustup";
const PACKAGES: &str = "the target from the system's packages";

/// Only a build tells whether rustup's download works. `installed`: the rustc on PATH builds with a target; it is not
/// rustup's if it does not see what rustup has.
fn by_rustup(search: &ToolchainSearch, installed: PartState) -> SurveyFinding {
    let Some(rustup) = search.which("rustup") else {
        return missing(RUSTUP, "no rustup on PATH".to_owned());
    };
    let program = rustup.display();
    match (rustup_has_target(search, &rustup), installed) {
        (true, PartState::Ready) => SurveyFinding::ready(RUSTUP, program.to_string()),
        (true, _) => missing(
            RUSTUP,
            format!(
                "{program} has it, and the rustc on PATH is another: put rustup's folder first in PATH"
            ),
        ),
        (false, _) => {
            let detail = format!("{program} has not installed it");
            SurveyFinding::new(RUSTUP, PartState::Absent, detail)
                .fixed_by(format!("rustup target add {TARGET}"))
        }
    }
}

/// Rustup answers without a network, and is kept from installing a toolchain that a file names.
fn rustup_has_target(search: &ToolchainSearch, rustup: &Path) -> bool {
    let mut question = search.command(rustup);
    question
        .args(["target", "list", "--installed"])
        .env("RUSTUP_AUTO_INSTALL", "0");
    let answer = process::output(question, Some(PROBE)).and_then(process::ProgramOutput::text);
    answer.is_ok_and(|answer| answer.lines().any(|line| line.trim() == TARGET))
}

fn by_packages(search: &ToolchainSearch) -> SurveyFinding {
    let not_ready = match packages::ready(search) {
        Ok(toolchain) => {
            let rustc = toolchain.rustc.unwrap_or_default();
            return SurveyFinding::ready(PACKAGES, rustc.display().to_string());
        }
        Err(reason) => reason,
    };
    if let Some((program, why)) = PART.lacks(search) {
        return missing(PACKAGES, format!("no {program} on PATH: {why}"));
    }
    let packages = match packages::missing(search, &NAMES)
        .unwrap_or_default()
        .join(", ")
    {
        none if none.is_empty() => {
            "its packages are installed, so a build compiles it from them".to_owned()
        }
        missing => format!("packages that are not installed: {missing}"),
    };
    let detail = format!("{not_ready:#}; {packages}");
    SurveyFinding::new(PACKAGES, PartState::Absent, detail)
        .fixed_by(format!("{PREFERENCE_VARIABLE}=packages toolcell build DIR"))
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
            PART.sentence()
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
            format!(
                "Rust's target wasm32-wasip2 from rustup: some 30 MB, or else {}",
                PART.sentence()
            )
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
