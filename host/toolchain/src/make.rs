//! Builds a project of a language other than Rust; the language adds the compilation.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, bail};

use super::build::{BuildOutcome, BuildSettings};
use super::find::{PROBE, ToolchainSearch, short_hash};
use super::language::{EmbeddedFile, FetchedToolchain, LanguageRow, write_local_files};
use super::record::{self, BuildRecord, BuildState};
use super::sources::SourceListing;
use super::toolchain_cache::ToolchainPart;
use super::{ProgressSink, build_cache, process, project};

pub(super) type CompileFn<'a> = &'a dyn Fn(&CompileJob, ProgressSink) -> Result<PathBuf>;

/// The first lines, because compilers name the cause there.
#[derive(Default)]
struct StepOutput {
    lines: Vec<String>,
    more: usize,
}

impl StepOutput {
    const LINES_MAX: usize = 400;

    fn add(&mut self, line: &str) {
        if self.lines.len() == Self::LINES_MAX {
            self.more += 1;
        } else if !line.trim().is_empty() {
            self.lines.push(line.to_owned());
        }
    }

    fn reason(&self, status: ExitStatus) -> String {
        let mut text = self.lines.join("\n");
        if self.more > 0 {
            let _ = write!(text, "\n.. and {} more lines", self.more);
        }
        // A compiler that is ended by a signal has no words for it.
        if text.is_empty() || status.code().is_none() {
            let end = if text.is_empty() { "" } else { "\n" };
            let _ = write!(text, "{end}the compiler ended without a reason ({status})");
        }
        text
    }
}

pub(super) struct CompileJob<'a> {
    pub(super) language: &'static str,
    /// Canonical.
    pub(super) dir: &'a Path,
    /// The name of the project's folder.
    pub(super) name: &'a str,
    /// Kept for the next build of this project.
    pub(super) work: PathBuf,
    /// Holds `guest-sdk/LANG` and `wit`.
    pub(super) sdk: &'a Path,
    pub(super) search: &'a ToolchainSearch,
}

impl CompileJob<'_> {
    pub(super) fn part_folder(&self, part: &ToolchainPart) -> PathBuf {
        part.folder(self.search)
    }

    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = process::command(program, &self.search.path);
        command.current_dir(self.dir);
        command
    }

    pub(super) fn on_path(&self, name: &str) -> Result<Command> {
        Ok(self.command(&self.search.program(name)?))
    }

    /// A failure has what the step printed, because that is the reason.
    pub(super) fn run(&self, command: Command, say: ProgressSink) -> Result<()> {
        let mut printed = StepOutput::default();
        let status = process::run(command, None, &mut |_, line| printed.add(line))?;
        if status.success() {
            printed.lines.iter().for_each(|line| say(line))
        } else {
            bail!("{} does not build:\n{}", self.name, printed.reason(status))
        }
        Ok(())
    }

    pub(super) fn output(&self, command: Command) -> Result<String> {
        let printed = process::output(command, Some(PROBE))?.text();
        printed.with_context(|| format!("{} does not build", self.name))
    }

    /// Runs the compiler in `part`, as [`Self::run`] does. Says what the `step` is, and what takes longer if it is the first
    /// build of this kind.
    pub(super) fn compile(
        &self,
        part: &ToolchainPart,
        (step, also): (&str, &str),
        command: Command,
        say: ProgressSink,
    ) -> Result<()> {
        let mark = self
            .part_folder(part)
            .join(format!("built-{}", self.language));
        if mark.exists() {
            say(step)
        } else {
            say(&format!("{step}; the first build also {also}"))
        }
        self.run(command, say)?;
        // Without the note, the next one is called the first again.
        let _ = std::fs::write(mark, "");
        Ok(())
    }

    /// Writes local files that are missing or of another version of toolcell, so that tests use the SDK of the build.
    pub(super) fn refresh(&self, files: Vec<(String, String)>) -> Result<()> {
        for (path, text) in files {
            let file = self.dir.join(path);
            if std::fs::read_to_string(&file).ok().as_deref() != Some(text.as_str()) {
                project::write(&file, &text)?;
            }
        }
        Ok(())
    }

    /// The core module uses WASI preview 1 or nothing. `world` is `None` if the compiler already wrote it into the
    /// module.
    pub(super) fn componentize(
        &self,
        module: &Path,
        world: Option<(&[EmbeddedFile], &str)>,
    ) -> Result<PathBuf> {
        let bytes =
            std::fs::read(module).with_context(|| format!("cannot read {}", module.display()))?;
        let component = toolcell_sandbox::component_of_library(&bytes, world)?;
        let file = self.work.join(format!("{}.component.wasm", self.name));
        record::replace(&file, &component)?;
        Ok(file)
    }
}

pub(super) fn build(
    (language, toolchain): (&LanguageRow, &FetchedToolchain),
    dir: &Path,
    settings: &BuildSettings,
    compile: CompileFn,
    say: ProgressSink,
) -> Result<BuildOutcome> {
    let search = settings.search_in(dir);
    toolchain.part.ready(&search, say)?;
    let sdk = settings
        .sdk
        .as_deref()
        .context("the build has no copy of the SDK")?;
    let sdk = std::path::absolute(sdk).context("cannot find the SDK")?;
    let name = dir
        .file_name()
        .and_then(OsStr::to_str)
        .context("the project's folder has no name in UTF-8")?;
    let compiling = settings
        .target_dir
        .clone()
        .unwrap_or_else(|| search.cache_dir.join("builds"));
    let compiling = std::path::absolute(compiling).context("cannot find the folder of builds")?;
    let _held = record::lock(&compiling, dir, say)?;
    let id = short_hash(&format!("{} {}", language.name, dir.display()));
    let work = compiling.join(format!("{}{id}", build_cache::BUILD));
    std::fs::create_dir_all(&work).with_context(|| format!("cannot create {}", work.display()))?;
    write_local_files(language, dir, &sdk)?;

    let earlier = record::read(&settings.records, dir);
    let around = toolchain.scope(dir);
    let listed = earlier.as_ref().map(|record| record.sources.clone());
    let before = SourceListing::read(&around, &listed.unwrap_or_default())?;
    let job = CompileJob {
        language: language.name,
        dir,
        name,
        work,
        sdk: &sdk,
        search: &search,
    };
    let key = if toolchain.skips {
        key(&job, &before)
    } else {
        String::new()
    };
    if let Some(record) = earlier.filter(|record| !key.is_empty() && record.key == key)
        && let BuildState::Built(component) = record::standing(dir, &settings.records)
    {
        let component = std::fs::read(&component)
            .with_context(|| format!("cannot read {}", component.display()))?;
        let built = BuildOutcome::keep(&record, &component)?;
        return Ok(BuildOutcome {
            fresh: true,
            ..built
        });
    }

    let made = compile(&job, say)?;
    let scope = toolchain.read(&job)?;
    let sources = SourceListing::read(&scope, &before)?;
    if let Some(path) = sources.edited(&before) {
        bail!(
            "{} has changed since the build began: build again",
            path.display()
        );
    }
    let result = BuildRecord {
        key,
        scope,
        sources,
        around,
        ..BuildRecord::new(dir, name)
    };
    settings.finish(&made, result, &job.work)
}

fn key(job: &CompileJob, before: &SourceListing) -> String {
    let parts = [
        before.digest(),
        job.sdk.display().to_string(),
        job.search.cache_dir.display().to_string(),
        job.language.to_owned(),
        env!("CARGO_PKG_VERSION").to_owned(),
    ];
    blake3::hash(parts.join("\n").as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::language::Language;
    use super::super::record::{BuildState, standing};
    use super::super::shim::ShimPrograms;
    use super::super::{Preference, survey};
    use super::*;

    static PART: ToolchainPart = ToolchainPart {
        name: "maker-1.2",
        contents: "Maker 1.2",
        registry: "the test",
        download_mb: 1,
        disk_mb: 2,
        needs: &[("fetch", "install fetch")],
        made_of: String::new,
        set_up: |set_up, say| set_up.run(set_up.command("fetch")?, say),
    };

    static COPIED: LanguageRow = LanguageRow {
        name: "copied",
        title: "Copied",
        marks: &["tool.txt"],
        tool: &[],
        hook: &[],
        local_files: |sdk| Ok(vec![("local/sdk".to_owned(), sdk.display().to_string())]),
        refuses_name: |_| None,
        sdk: &[],
        test_command: "true",
        fetched: Some(TOOLCHAIN),
    };

    const TOOLCHAIN: FetchedToolchain = FetchedToolchain {
        part: &PART,
        made_beside: &["__cache__", "./local"],
        steering: &["steering.json"],
        beside: |_| Ok(Vec::new()),
        read: |job| Ok(TOOLCHAIN.scope(job.dir)),
        skips: false,
        compile,
    };

    fn compile(job: &CompileJob, say: ProgressSink) -> Result<PathBuf> {
        let mut copy = job.command(&job.part_folder(&PART).join("copy"));
        copy.arg("tool.txt").arg(job.work.join("made.wasm"));
        job.run(copy, say)?;
        Ok(job.work.join("made.wasm"))
    }

    const FETCH: &str = r#"echo fetched >&2; [ -e "${0%/*}/broken" ] && exit 3
        printf '#!/bin/sh\nread -r all < "$1" && printf %%s "$all" > "$2"\n' > copy; /bin/chmod +x copy"#;

    struct Place {
        programs: ShimPrograms,
        project: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let place = Self {
                programs: ShimPrograms::new().with("fetch", FETCH),
                project: tempfile::tempdir().unwrap(),
            };
            place.write("tool.txt", "first\n");
            place
        }

        fn dir(&self) -> PathBuf {
            self.project.path().canonicalize().unwrap()
        }

        fn write(&self, name: &str, text: &str) {
            super::super::project::write(&self.dir().join(name), text).unwrap();
        }

        fn settings(&self) -> BuildSettings {
            let mut settings =
                BuildSettings::new(self.search(), self.programs.dir().join("records"));
            settings.sdk = Some(self.programs.dir().join("sdk"));
            settings.target_dir = Some(self.programs.dir().join("builds"));
            settings
        }

        fn search(&self) -> ToolchainSearch {
            self.programs.search(Preference::Any)
        }

        fn build(&self) -> (Result<BuildOutcome>, Vec<String>) {
            let mut said = Vec::new();
            let built = COPIED.build(&self.dir(), &self.settings(), &mut |line| {
                said.push(line.to_owned())
            });
            (built, said)
        }

        fn standing(&self) -> BuildState {
            standing(&self.dir(), &self.programs.dir().join("records"))
        }
    }

    #[test]
    fn what_is_fetched_is_said_before_and_fetched_once() {
        let place = Place::new();
        let found = Language(&COPIED).survey(&place.search());
        let [survey::SurveyFinding { state, detail, .. }] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(
            (*state, detail.as_str()),
            (
                survey::PartState::Absent,
                "the first build fetches Maker 1.2 from the test: 1 MB, 2 MB on disk"
            )
        );
        let (built, said) = place.build();
        let built = built.unwrap();
        assert_eq!(
            said.iter().take(2).map(String::as_str).collect::<Vec<_>>(),
            [
                "fetching Maker 1.2 from the test: 1 MB, 2 MB on disk",
                "fetched"
            ]
        );
        assert_eq!(std::fs::read(&built.wasm).unwrap(), b"first");
        assert!(!built.fresh && built.wasm.starts_with(place.dir().join("target/toolcell")));
        let (again, said) = place.build();
        assert!(again.unwrap().fresh && said.is_empty(), "{said:?}");
        assert_eq!(
            Language(&COPIED).survey(&place.search())[0].state,
            survey::PartState::Ready
        );
    }

    #[test]
    fn a_component_is_outdated_by_its_sources_and_by_nothing_that_a_build_or_a_test_writes() {
        let place = Place::new();
        place.build().0.unwrap();
        assert!(place.dir().join("local/sdk").is_file());
        place.write("target/toolcell/other", "other");
        place.write("deep/__cache__/made", "other");
        place.write("local/made", "other");
        assert!(
            matches!(place.standing(), BuildState::Built(_)),
            "{:?}",
            place.standing()
        );
        place.write("build.log", "other");
        place.write("README.md", "other");
        assert!(
            matches!(place.standing(), BuildState::Built(_)),
            "{:?}",
            place.standing()
        );
        for source in [
            "steering.json",
            "deep/local/source",
            "deep/source",
            "target/source",
        ] {
            place.write(source, "new");
            let BuildState::Outdated(_, why) = place.standing() else {
                panic!("{:?}", place.standing())
            };
            assert_eq!(why, format!("{source} is new since it was built"));
            place.build().0.unwrap();
        }
        // A link of this name can lead to sources.
        std::os::unix::fs::symlink(place.dir().join("deep"), place.dir().join("__cache__"))
            .unwrap();
        assert!(matches!(place.standing(), BuildState::Outdated(..)));
    }

    #[test]
    fn a_build_makes_a_project_use_the_sdk_of_this_version_and_keeps_what_the_user_wrote() {
        let place = Place::new();
        let sdks = place.programs.dir().join("sdk");
        let old = "0123456789abcdef";
        let new = "fedcba9876543210";
        let text = |hash: &str| {
            let sdks = sdks.display();
            format!(
                "mine -I{sdks}/{hash}/guest-sdk/c {sdks}/{hash}/guest-sdk {sdks}/short/guest-sdk /x/{old}/guest-sdk"
            )
        };
        place.write("local/sdk", &text(old));
        let settings = BuildSettings {
            sdk: Some(sdks.join(new)),
            ..place.settings()
        };
        COPIED.build(&place.dir(), &settings, &mut |_| ()).unwrap();
        assert_eq!(
            std::fs::read_to_string(place.dir().join("local/sdk")).unwrap(),
            text(new)
        );
    }

    #[test]
    fn a_toolchain_that_is_not_whole_is_set_up_again() {
        let place = Place::new();
        std::fs::write(place.programs.dir().join("broken"), "").unwrap();
        let (built, _) = place.build();
        let error = format!("{:#}", built.unwrap_err());
        assert!(
            error.starts_with("set up Maker 1.2: `fetch` failed") && error.ends_with("fetched"),
            "{error}"
        );
        std::fs::write(PART.folder(&place.search()).join("left"), "").unwrap();
        std::fs::remove_file(place.programs.dir().join("broken")).unwrap();
        place.build().0.unwrap();
        assert!(!PART.folder(&place.search()).join("left").exists());
    }

    #[test]
    fn what_cannot_be_fetched_is_refused_with_what_to_do() {
        let place = Place::new();
        std::fs::remove_file(place.programs.dir().join("fetch")).unwrap();
        let error = place.build().0.unwrap_err().to_string();
        assert_eq!(
            error,
            "Maker 1.2 needs fetch, which is not on PATH: install fetch"
        );
        let found = &Language(&COPIED).survey(&place.search())[0];
        assert_eq!(
            (found.state, found.fix.as_deref()),
            (survey::PartState::Missing, Some("install fetch"))
        );
    }

    #[test]
    fn a_failed_compilation_has_what_the_compiler_printed_and_a_change_meanwhile_is_refused() {
        let place = Place::new();
        place.build().0.unwrap();
        let failing = |job: &CompileJob, say: ProgressSink| -> Result<PathBuf> {
            job.run(job.command(&place.programs.dir().join("fetch")), say)?;
            Ok(job.work.join("none"))
        };
        std::fs::write(place.programs.dir().join("broken"), "").unwrap();
        let mut said = Vec::new();
        let mut say = |line: &str| said.push(line.to_owned());
        let error = build(
            (&COPIED, &TOOLCHAIN),
            &place.dir(),
            &place.settings(),
            &failing,
            &mut say,
        )
        .unwrap_err();
        let text = format!("{error:#}");
        assert!(
            text.ends_with(" does not build:\nfetched"),
            "without the command, and once: {text}"
        );
        assert!(said.is_empty(), "{said:?}");
        let editing = |job: &CompileJob, say: ProgressSink| -> Result<PathBuf> {
            place.write("tool.txt", "second\n");
            compile(job, say)
        };
        let error = build(
            (&COPIED, &TOOLCHAIN),
            &place.dir(),
            &place.settings(),
            &editing,
            &mut |_| (),
        )
        .unwrap_err()
        .to_string();
        assert!(
            error.ends_with("tool.txt has changed since the build began: build again"),
            "{error}"
        );
        let logging = |job: &CompileJob, say: ProgressSink| -> Result<PathBuf> {
            place.write("build.log", "what the build printed");
            compile(job, say)
        };
        build(
            (&COPIED, &TOOLCHAIN),
            &place.dir(),
            &place.settings(),
            &logging,
            &mut |_| (),
        )
        .unwrap();
    }
}
