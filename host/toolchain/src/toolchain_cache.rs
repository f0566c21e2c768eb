//! Parts of toolchains, each fetched in a pinned version. A part is native code of others: only a build that the user
//! agreed to sets one up.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::ProgressSink;
use super::file_lock::FileLock;
use super::find::ToolchainSearch;
use super::process;
use super::survey::{PartState, SurveyFinding};

/// Written into a part's folder as its last file. Its content is the part's stamp.
const COMPLETE: &str = "toolcell-complete";

const FETCH: Duration = Duration::from_secs(15 * 60);

/// The folder of everything that `toolcell` sets up itself.
fn home(cache_dir: &Path) -> PathBuf {
    cache_dir.join("toolchain")
}

pub(super) struct ToolchainPart {
    /// The name contains all versions, such as `ziglang-0.17.0`. Another content needs another name.
    pub(super) name: &'static str,
    pub(super) contents: &'static str,
    pub(super) registry: &'static str,
    pub(super) download_mb: u32,
    pub(super) disk_mb: u32,
    /// Each with what to do if it is not on PATH: `("npm", "install Node.js 20 or later")`.
    pub(super) needs: &'static [(&'static str, &'static str)],
    /// The state of what else it is made of: it is set up again when that is another.
    pub(super) made_of: fn() -> String,
    pub(super) set_up: fn(&SetUp, ProgressSink) -> Result<()>,
}

pub(super) struct SetUp<'a> {
    pub(super) folder: &'a Path,
    pub(super) search: &'a ToolchainSearch,
}

impl ToolchainPart {
    pub(super) fn folder(&self, search: &ToolchainSearch) -> PathBuf {
        home(&search.cache_dir).join(self.name)
    }

    pub(super) fn is_ready(&self, search: &ToolchainSearch) -> bool {
        let stamp = self.folder(search).join(COMPLETE);
        std::fs::read_to_string(stamp).is_ok_and(|text| text == self.stamp())
    }

    fn stamp(&self) -> String {
        format!("{}{}", self.name, (self.made_of)())
    }

    pub(super) fn sentence(&self) -> String {
        format!(
            "{} from {}: {} MB, {} MB on disk",
            self.contents, self.registry, self.download_mb, self.disk_mb
        )
    }

    /// The first program that is missing, and what to do.
    pub(super) fn lacks(&self, search: &ToolchainSearch) -> Option<(&'static str, &'static str)> {
        self.needs
            .iter()
            .copied()
            .find(|(program, _)| search.which(program).is_none())
    }

    /// Says what is fetched, and its size, before it begins.
    pub(super) fn ready(&self, search: &ToolchainSearch, say: ProgressSink) -> Result<PathBuf> {
        let folder = self.folder(search);
        if self.is_ready(search) {
            return Ok(folder);
        }
        if let Some((program, remedy)) = self.lacks(search) {
            bail!(
                "{} needs {program}, which is not on PATH: {remedy}",
                self.contents
            );
        }
        let home = home(&search.cache_dir);
        std::fs::create_dir_all(&home)
            .with_context(|| format!("cannot create {}", home.display()))?;
        let occupied = "waiting for another toolcell that sets up a toolchain";
        let _held = FileLock::take(&home.join("lock"), occupied, self.contents, say)?;
        if self.is_ready(search) {
            return Ok(folder);
        }
        say(&format!("fetching {}", self.sentence()));
        // Left by a run that was interrupted, or made of something else: there is no such stamp.
        if folder.exists() {
            std::fs::remove_dir_all(&folder)
                .with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let empty = SetUp {
            folder: &folder,
            search,
        };
        (self.set_up)(&empty, say).with_context(|| format!("set up {}", self.contents))?;
        std::fs::write(folder.join(COMPLETE), self.stamp())
            .context("cannot complete the toolchain")?;
        say(&format!("{} is in {}", self.contents, folder.display()));
        Ok(folder)
    }
}

impl SetUp<'_> {
    pub(super) fn command(&self, name: &str) -> Result<Command> {
        let program = self.search.program(name)?;
        let mut command = process::command(&program, &self.search.path);
        command.current_dir(self.folder);
        Ok(command)
    }

    pub(super) fn run(&self, command: Command, say: ProgressSink) -> Result<()> {
        const LINES_MAX: usize = 60;
        let shown = process::shown(&command);
        let mut last: VecDeque<String> = VecDeque::new();
        let status = process::run(command, Some(FETCH), &mut |_, line| {
            if line.trim().is_empty() {
                return;
            }
            say(line);
            if last.len() == LINES_MAX {
                last.pop_front();
            }
            last.push_back(line.to_owned());
        })?;
        if !status.success() {
            let last = Vec::from(last).join("\n");
            bail!("`{shown}` failed ({status}):\n{last}");
        }
        Ok(())
    }

    /// `requirements` has a line `NAME==VERSION --hash=sha256:HEX` for each file of a package. Wheels only, because a
    /// source package would run its own code here.
    pub(super) fn pip(&self, requirements: &str, say: ProgressSink) -> Result<()> {
        let list = self.folder.join("requirements.txt");
        std::fs::write(&list, requirements).context("cannot write the list of packages")?;
        let mut pip = self.command("python3")?;
        pip.args([
            "-m",
            "pip",
            "install",
            "--require-hashes",
            "--no-deps",
            "--only-binary",
            ":all:",
        ]);
        pip.args([
            "--disable-pip-version-check",
            "--no-input",
            "--no-compile",
            "--progress-bar",
            "off",
        ]);
        pip.args(["--target", "python", "--requirement"]).arg(&list);
        // An own folder needs no advice on the system's packages.
        pip.env("PIP_ROOT_USER_ACTION", "ignore");
        self.run(pip, say).map_err(|error| {
            if error.to_string().contains("No module named pip") {
                error.context("python3 has no pip: install it, on Debian with `sudo apt-get install python3-pip`")
            } else {
                error
            }
        })
    }

    /// The lock file pins the hash of each package. Scripts of packages do not run.
    pub(super) fn npm(&self, package: &str, lock: &str, say: ProgressSink) -> Result<()> {
        for (name, text) in [("package.json", package), ("package-lock.json", lock)] {
            std::fs::write(self.folder.join(name), text)
                .with_context(|| format!("cannot write {name}"))?;
        }
        let mut npm = self.command("npm")?;
        npm.args([
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--no-update-notifier",
            "--loglevel=error",
        ]);
        self.run(npm, say)
    }
}

pub(super) fn program(part: &Path, path: &str) -> Result<PathBuf> {
    let program = part.join(path);
    if !program.is_file() {
        bail!(
            "{} is missing: remove the folder {}",
            program.display(),
            part.display()
        );
    }
    Ok(program)
}

pub(super) fn finding(
    title: &str,
    part: &ToolchainPart,
    search: &ToolchainSearch,
) -> SurveyFinding {
    // Its subject begins with "the": the toolchain of a language that is not used here is no fault of the machine.
    let subject = format!("the toolchain for {title}");
    if part.is_ready(search) {
        return SurveyFinding::ready(subject, part.contents);
    }
    match part.lacks(search) {
        Some((program, remedy)) => {
            let detail = format!("{} needs {program}, which is not on PATH", part.contents);
            SurveyFinding::missing(subject, detail, remedy)
        }
        None => {
            let detail = format!("the first build fetches {}", part.sentence());
            SurveyFinding::new(subject, PartState::Absent, detail)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Preference;
    use super::super::shim::ShimPrograms;
    use super::*;

    #[test]
    fn a_python_without_pip_is_told_how_to_get_it() {
        let part = ToolchainPart {
            name: "thing-1",
            contents: "Thing 1",
            registry: "PyPI",
            download_mb: 1,
            disk_mb: 1,
            needs: &[("python3", "install Python")],
            made_of: String::new,
            set_up: |set_up, say| set_up.pip("thing==1\n", say),
        };
        let ready = |script: &str| {
            let programs = ShimPrograms::new().with("python3", script);
            format!(
                "{:#}",
                part.ready(&programs.search(Preference::Any), &mut |_| ())
                    .unwrap_err()
            )
        };
        let error = ready("echo '/usr/bin/python3: No module named pip' >&2; exit 1");
        assert!(
            error.starts_with(
                "set up Thing 1: python3 has no pip: install it, on Debian with `sudo apt-get"
            ),
            "{error}"
        );
        assert!(!ready("echo 'no route' >&2; exit 1").contains("has no pip"));
    }
}
