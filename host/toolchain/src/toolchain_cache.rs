//! Parts of toolchains that toolcell keeps in its cache, each fetched from the registry of its language, in a pinned
//! version. A part is native code of others: only a build that the user agreed to sets one up.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use toolcell_system::private;

use super::ProgressSink;
use super::file_lock::FileLock;
use super::find::ToolchainSearch;
use super::process::{self, OutputPipe};
use super::survey::{PartState, SurveyFinding};

/// Written into a part's folder as its last file. It has the part's name as content.
const COMPLETE: &str = "toolcell-complete";

/// Time limit for one program that fetches: some 100 MB over a slow connection.
const FETCH: Duration = Duration::from_secs(15 * 60);

/// One part of a toolchain, which several languages may share.
pub(super) struct ToolchainPart {
    /// The name of its folder, which contains all versions, such as `ziglang-0.17.0`. Another content needs another
    /// name.
    pub(super) name: &'static str,
    /// Its contents, for people: `Zig 0.17.0`.
    pub(super) contents: &'static str,
    /// Where it comes from: `PyPI`.
    pub(super) registry: &'static str,
    pub(super) download_mb: u32,
    pub(super) disk_mb: u32,
    /// Programs that set it up, each with what to do if it is not on PATH: `("npm", "install Node.js 20 or later")`.
    pub(super) needs: &'static [(&'static str, &'static str)],
    /// Fills the folder of `SetUp`, which is empty.
    pub(super) set_up: fn(&SetUp, ProgressSink) -> Result<()>,
}

/// Inputs of the function that fills a part.
pub(super) struct SetUp<'a> {
    /// The part's final folder.
    pub(super) folder: &'a Path,
    pub(super) search: &'a ToolchainSearch,
}

impl ToolchainPart {
    pub(super) fn folder(&self, search: &ToolchainSearch) -> PathBuf {
        search.cache_dir.join("toolchain").join(self.name)
    }

    pub(super) fn is_ready(&self, search: &ToolchainSearch) -> bool {
        let stamp = self.folder(search).join(COMPLETE);
        std::fs::read_to_string(stamp).is_ok_and(|name| name == self.name)
    }

    /// A build's download: `Zig 0.17.0 from PyPI: 80 MB, 438 MB on disk`.
    pub(super) fn sentence(&self) -> String {
        format!(
            "{} from {}: {} MB, {} MB on disk",
            self.contents, self.registry, self.download_mb, self.disk_mb
        )
    }

    /// The first program that is missing, and what to do.
    fn lacks(&self, search: &ToolchainSearch) -> Option<(&'static str, &'static str)> {
        self.needs
            .iter()
            .copied()
            .find(|(program, _)| search.which(program).is_none())
    }

    /// Returns the part's folder; fetches its content first if it is not complete. Says what is fetched, and its size,
    /// before it begins.
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
        let parent = search.cache_dir.join("toolchain");
        std::fs::create_dir_all(&parent)
            .with_context(|| format!("cannot create {}", parent.display()))?;
        let lock = private::open_or_create(&parent.join("lock"))
            .context("cannot open the toolchain's lock")?;
        let _held = FileLock::take(
            lock,
            "waiting for another toolcell that sets up a toolchain",
            self.contents,
            say,
        )
        .context("cannot wait for the toolchain's lock")?;
        if self.is_ready(search) {
            return Ok(folder);
        }
        if search.offline {
            bail!(
                "{} would have to be fetched, and downloads are not allowed",
                self.sentence()
            );
        }
        say(&format!("fetching {}", self.sentence()));
        // Left by a run that was interrupted: the stamp is missing.
        if folder.exists() {
            std::fs::remove_dir_all(&folder)
                .with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        (self.set_up)(
            &SetUp {
                folder: &folder,
                search,
            },
            say,
        )
        .with_context(|| format!("set up {}", self.contents))?;
        std::fs::write(folder.join(COMPLETE), self.name)
            .context("cannot complete the toolchain")?;
        say(&format!("{} is in {}", self.contents, folder.display()));
        Ok(folder)
    }
}

impl SetUp<'_> {
    /// A command for the program `name` on PATH, in the part's folder.
    pub(super) fn command(&self, name: &str) -> Result<Command> {
        let program = self
            .search
            .which(name)
            .with_context(|| format!("no {name} on PATH"))?;
        let mut command = process::command(&program, &self.search.path);
        command.current_dir(self.folder);
        Ok(command)
    }

    /// Runs a program that fetches, and passes what it prints to `say`.
    pub(super) fn run(&self, command: Command, say: ProgressSink) -> Result<()> {
        checked(
            command,
            Some(FETCH),
            &[OutputPipe::Out, OutputPipe::Err],
            say,
        )
    }

    /// Installs pinned packages of PyPI into `python/` of the part: `requirements` has a line
    /// `NAME==VERSION --hash=sha256:HEX` for each package and each of its files. Wheels only, because a source package
    /// would run its own code here.
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

    /// Installs what a lock file of npm pins, with the hash of each package, into `node_modules/` of the part. Scripts
    /// of packages do not run.
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

/// Runs `command`, passes the lines of the streams `said` to `say`, and fails with its last lines if it does.
pub(super) fn checked(
    command: Command,
    limit: Option<Duration>,
    said: &[OutputPipe],
    say: ProgressSink,
) -> Result<()> {
    const LINES_MAX: usize = 60;
    let shown = process::shown(&command);
    let mut last: Vec<String> = Vec::new();
    let status = process::run(command, limit, &mut |stream, line| {
        if line.trim().is_empty() {
            return;
        }
        if said.contains(&stream) {
            say(line);
        }
        if last.len() == LINES_MAX {
            last.remove(0);
        }
        last.push(line.to_owned());
    })?;
    if !status.success() {
        bail!("`{shown}` failed ({status}):\n{}", last.join("\n"));
    }
    Ok(())
}

/// A sentence for each of `parts` that a build fetches.
pub(super) fn missing(parts: &[&ToolchainPart], search: &ToolchainSearch) -> Vec<String> {
    parts
        .iter()
        .filter(|part| !part.is_ready(search))
        .map(|part| part.sentence())
        .collect()
}

/// The report of `toolcell doctor` on a language whose toolchain is in `parts`.
pub(super) fn finding(
    title: &str,
    parts: &[&ToolchainPart],
    search: &ToolchainSearch,
) -> SurveyFinding {
    // Its subject begins with "the": the toolchain of a language that is not used here is no fault of the machine.
    let subject = format!("the toolchain for {title}");
    let missing: Vec<&&ToolchainPart> =
        parts.iter().filter(|part| !part.is_ready(search)).collect();
    let lacking = missing
        .iter()
        .find_map(|part| Some((part, part.lacks(search)?)));
    if let Some((part, (program, remedy))) = lacking {
        let detail = format!("{} needs {program}, which is not on PATH", part.contents);
        return SurveyFinding {
            subject,
            state: PartState::Missing,
            detail,
            fix: Some(remedy.to_owned()),
        };
    }
    let list = |of: &dyn Fn(&ToolchainPart) -> String, parts: &[&&ToolchainPart]| {
        parts
            .iter()
            .map(|part| of(part))
            .collect::<Vec<_>>()
            .join("; ")
    };
    if missing.is_empty() {
        let all: Vec<&&ToolchainPart> = parts.iter().collect();
        return SurveyFinding {
            subject,
            state: PartState::Ready,
            detail: list(&|part| part.contents.to_owned(), &all),
            fix: None,
        };
    }
    let detail = format!(
        "the first build fetches {}",
        list(&ToolchainPart::sentence, &missing)
    );
    SurveyFinding {
        subject,
        state: PartState::Absent,
        detail,
        fix: None,
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
