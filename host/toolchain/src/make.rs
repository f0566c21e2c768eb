//! Builds a project of a language other than Rust: the toolchain's rooms, the lock, the digest of the sources, the
//! component and its record. The language adds the compilation.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};

use super::build::{BuildSettings, Built, output_folder};
use super::find::{Search, ToolchainSource, short_hash};
use super::language::{File, Language, renew_local_files, write_local_files};
use super::process::Stream;
use super::record::{self, Made};
use super::room::{Room, checked};
use super::sources::Listing;
use super::{Say, build_cache, process, project};

/// Makes the component of a [`Job`], and returns its file.
pub(super) type Compile<'a> = &'a dyn Fn(&Job, Say) -> Result<PathBuf>;

/// One compilation.
pub(super) struct Job<'a> {
    /// The project's folder, canonical.
    pub(super) dir: &'a Path,
    /// The project's name: that of its folder.
    pub(super) name: &'a str,
    /// A folder for what the compilation makes, kept for the next build of this project.
    pub(super) work: PathBuf,
    /// The folder with `guest-sdk/LANG` and `wit`.
    pub(super) sdk: &'a Path,
    pub(super) search: &'a Search,
}

impl Job<'_> {
    /// The folder of a room that the language named.
    pub(super) fn room(&self, room: &Room) -> PathBuf {
        room.folder(self.search)
    }

    /// A command in the project's folder.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = process::command(program, &self.search.path);
        command.current_dir(self.dir);
        command
    }

    /// A command of the program `name` on PATH, in the project's folder.
    pub(super) fn on_path(&self, name: &str) -> Result<Command> {
        let program = self.search.which(name).ok_or_else(|| anyhow!("no {name} on PATH"))?;
        Ok(self.command(&program))
    }

    /// Runs a step; its failure has what it printed.
    pub(super) fn run(&self, command: Command, say: Say) -> Result<()> {
        checked(command, None, &[Stream::Err], say).with_context(|| format!("{} does not build", self.name))
    }

    /// Writes those of the project's local files that are missing or of another version of toolcell, so that its tests use
    /// the SDK of the build.
    pub(super) fn refresh(&self, files: Vec<(String, String)>) -> Result<()> {
        for (path, text) in files {
            let file = self.dir.join(path);
            if std::fs::read_to_string(&file).ok().as_deref() != Some(text.as_str()) {
                project::write(&file, &text)?;
            }
        }
        Ok(())
    }

    /// Writes the component of a core module, which uses WASI preview 1 or nothing, into `work`. `world`: the world of
    /// the WIT that the module implements, such as `Some((super::sdk::CONTRACT, "tool"))`; `None` if the compiler
    /// already wrote it into the module.
    pub(super) fn componentize(&self, module: &Path, world: Option<(&[File], &str)>) -> Result<PathBuf> {
        let bytes = std::fs::read(module).with_context(|| format!("cannot read {}", module.display()))?;
        let component = toolcell::component_of_library(&bytes, world)?;
        let file = self.work.join(format!("{}.component.wasm", self.name));
        record::replace(&file, &component)?;
        Ok(file)
    }
}

/// Builds the project in `dir`, and keeps the record of what was built from which sources.
pub(super) fn build(
    language: &dyn Language,
    dir: &Path,
    settings: &BuildSettings,
    compile: Compile,
    say: Say,
) -> Result<Built> {
    let search = Search { dir: dir.to_owned(), offline: settings.offline, ..settings.search.clone() };
    for room in language.rooms(&search) {
        room.ready(&search, say)?;
    }
    let sdk = settings.sdk.as_deref().context("the build has no copy of the SDK")?;
    let sdk = std::path::absolute(sdk).context("cannot find the SDK")?;
    let name = dir.file_name().and_then(OsStr::to_str).context("the project's folder has no name in UTF-8")?;
    let compiling = settings.target_dir.clone().unwrap_or_else(|| search.cache_dir.join("builds"));
    let compiling = std::path::absolute(compiling).context("cannot find the folder of builds")?;
    let _held = record::lock(&compiling, say)?;
    let id = short_hash(&format!("{} {}", language.name(), dir.display()));
    let work = compiling.join(format!("{}{id}", build_cache::BUILD));
    std::fs::create_dir_all(&work).with_context(|| format!("cannot create {}", work.display()))?;
    renew_local_files(language, dir, &sdk)?;
    write_local_files(language, dir, &sdk)?;

    let earlier = record::read(&settings.records, dir);
    let known = earlier.map_or(Listing::default(), |record| record.sources);
    let scope = language.scope(dir);
    let before = Listing::of(&scope, &known)?;
    let job = Job { dir, name, work, sdk: &sdk, search: &search };
    let made = compile(&job, say)?;
    let sources = Listing::of(&scope, &before)?;
    if let Some((path, what)) = sources.changes(&before).first() {
        bail!("{} {what} since the build began: build again", path.display());
    }

    let component = std::fs::read(&made).with_context(|| format!("cannot read {}", made.display()))?;
    let wasm = output_folder(dir)?.join(format!("{name}.wasm"));
    let fresh = std::fs::read(&wasm).is_ok_and(|found| found == component);
    record::replace(&wasm, &component)?;
    let digest = sources.digest();
    record::write(&settings.records, Made { dir, component: &component, name, initial_memory: 0, scope, sources })?;
    build_cache::touch(&job.work);
    if !fresh {
        build_cache::prune(&compiling, build_cache::BYTES_MAX);
    }
    Ok(Built { wasm, name: name.to_owned(), fresh, sources: digest, source: ToolchainSource::Room })
}

#[cfg(test)]
mod tests {
    use super::super::project::Kind;
    use super::super::record::{Standing, standing};
    use super::super::standin::Programs;
    use super::super::{Preference, survey};
    use super::*;

    const ROOM: Room = Room {
        name: "maker-1.2",
        contents: "Maker 1.2",
        registry: "the test",
        download_mb: 1,
        disk_mb: 2,
        needs: &[("fetch", "install fetch")],
        set_up: |set_up, say| set_up.run(set_up.command("fetch")?, say),
    };

    /// A language of the tests: its compiler copies the source.
    struct Copied;

    impl Language for Copied {
        fn name(&self) -> &'static str {
            "copied"
        }

        fn title(&self) -> &'static str {
            "Copied"
        }

        fn marks(&self) -> &'static [&'static str] {
            &["tool.txt"]
        }

        fn template(&self, _: Kind) -> &'static [File] {
            &[]
        }

        fn local_files(&self, sdk: &Path) -> Result<Vec<(String, String)>> {
            Ok(vec![("local/sdk".to_owned(), sdk.display().to_string())])
        }

        fn sdk(&self) -> &'static [File] {
            &[]
        }

        fn test_command(&self) -> &'static str {
            "true"
        }

        fn rooms(&self, _: &Search) -> Vec<&'static Room> {
            static KEPT: Room = ROOM;
            vec![&KEPT]
        }

        fn made_beside(&self) -> &'static [&'static str] {
            &["__cache__", "./local"]
        }

        fn steering(&self) -> &'static [&'static str] {
            &["steering.json"]
        }

        fn build(&self, dir: &Path, settings: &BuildSettings, say: Say) -> Result<Built> {
            build(self, dir, settings, &compile, say)
        }
    }

    fn compile(job: &Job, say: Say) -> Result<PathBuf> {
        let mut copy = job.command(&job.room(&ROOM).join("copy"));
        copy.arg("tool.txt").arg(job.work.join("made.wasm"));
        job.run(copy, say)?;
        Ok(job.work.join("made.wasm"))
    }

    /// Makes the room's one program, which has only the built-in commands of the shell.
    const FETCH: &str = r#"echo fetched >&2; [ -e "${0%/*}/broken" ] && exit 3
        printf '#!/bin/sh\nread -r all < "$1" && printf %%s "$all" > "$2"\n' > copy; /bin/chmod +x copy"#;

    struct Place {
        programs: Programs,
        project: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let place = Self { programs: Programs::new().with("fetch", FETCH), project: tempfile::tempdir().unwrap() };
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
            let mut settings = BuildSettings::new(self.search(), self.programs.dir().join("records"));
            settings.sdk = Some(self.programs.dir().join("sdk"));
            settings.target_dir = Some(self.programs.dir().join("builds"));
            settings
        }

        fn search(&self) -> Search {
            self.programs.search(Preference::Any)
        }

        fn build(&self) -> (Result<Built>, Vec<String>) {
            let mut said = Vec::new();
            let built = Copied.build(&self.dir(), &self.settings(), &mut |line| said.push(line.to_owned()));
            (built, said)
        }

        fn standing(&self) -> Standing {
            standing(&self.dir(), &self.programs.dir().join("records"))
        }
    }

    #[test]
    fn what_is_fetched_is_said_before_and_fetched_once() {
        let place = Place::new();
        let found = Copied.survey(&place.search());
        let [survey::Finding { state, detail, .. }] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(
            (*state, detail.as_str()),
            (survey::State::Absent, "the first build fetches Maker 1.2 from the test: 1 MB, 2 MB on disk")
        );
        let (built, said) = place.build();
        let built = built.unwrap();
        assert_eq!(
            said.iter().take(2).map(String::as_str).collect::<Vec<_>>(),
            ["fetching Maker 1.2 from the test: 1 MB, 2 MB on disk", "fetched"]
        );
        assert_eq!(std::fs::read(&built.wasm).unwrap(), b"first");
        assert!(!built.fresh && built.wasm.starts_with(place.dir().join("target/toolcell")));
        let (again, said) = place.build();
        assert!(again.unwrap().fresh && said.is_empty(), "{said:?}");
        assert_eq!(Copied.survey(&place.search())[0].state, survey::State::Ready);
    }

    #[test]
    fn a_record_is_bound_to_all_sources_and_to_nothing_that_a_build_or_a_test_writes() {
        let place = Place::new();
        place.build().0.unwrap();
        assert!(place.dir().join("local/sdk").is_file());
        place.write("target/toolcell/other", "other");
        place.write("deep/__cache__/made", "other");
        place.write("local/made", "other");
        assert!(matches!(place.standing(), Standing::Built(_)), "{:?}", place.standing());
        for source in ["steering.json", "deep/local/source", "deep/source", "target/source"] {
            place.write(source, "new");
            assert_eq!(place.standing(), Standing::NotBuilt(format!("{source} is new since it was built")));
            place.build().0.unwrap();
        }
        // A link of this name can lead to sources.
        std::os::unix::fs::symlink(place.dir().join("deep"), place.dir().join("__cache__")).unwrap();
        assert!(matches!(place.standing(), Standing::NotBuilt(_)));
    }

    #[test]
    fn a_build_makes_a_project_use_the_sdk_of_this_version_and_keeps_what_the_user_wrote() {
        let place = Place::new();
        let sdks = place.programs.dir().join("sdk");
        let (old, new) = ("0123456789abcdef", "fedcba9876543210");
        let text = |hash: &str| {
            let sdks = sdks.display();
            format!(
                "mine -I{sdks}/{hash}/guest-sdk/c {sdks}/{hash}/guest-sdk {sdks}/short/guest-sdk /x/{old}/guest-sdk"
            )
        };
        place.write("local/sdk", &text(old));
        let settings = BuildSettings { sdk: Some(sdks.join(new)), ..place.settings() };
        Copied.build(&place.dir(), &settings, &mut |_| ()).unwrap();
        assert_eq!(std::fs::read_to_string(place.dir().join("local/sdk")).unwrap(), text(new));
    }

    #[test]
    fn a_toolchain_that_is_not_whole_is_set_up_again() {
        let place = Place::new();
        std::fs::write(place.programs.dir().join("broken"), "").unwrap();
        let (built, _) = place.build();
        let error = format!("{:#}", built.unwrap_err());
        assert!(error.starts_with("set up Maker 1.2: `fetch` failed") && error.ends_with("fetched"), "{error}");
        std::fs::write(ROOM.folder(&place.search()).join("left"), "").unwrap();
        std::fs::remove_file(place.programs.dir().join("broken")).unwrap();
        place.build().0.unwrap();
        assert!(!ROOM.folder(&place.search()).join("left").exists());
    }

    #[test]
    fn what_cannot_be_fetched_is_refused_with_what_to_do() {
        let place = Place::new();
        let settings = BuildSettings { offline: true, ..place.settings() };
        let error = Copied.build(&place.dir(), &settings, &mut |_| ()).unwrap_err().to_string();
        assert_eq!(
            error,
            "Maker 1.2 from the test: 1 MB, 2 MB on disk would have to be fetched, and downloads are not allowed"
        );
        std::fs::remove_file(place.programs.dir().join("fetch")).unwrap();
        let error = place.build().0.unwrap_err().to_string();
        assert_eq!(error, "Maker 1.2 needs fetch, which is not on PATH: install fetch");
        let found = &Copied.survey(&place.search())[0];
        assert_eq!((found.state, found.fix.as_deref()), (survey::State::Missing, Some("install fetch")));
    }

    #[test]
    fn a_failed_compilation_has_what_the_compiler_printed_and_a_change_meanwhile_is_refused() {
        let place = Place::new();
        place.build().0.unwrap();
        let failing = |job: &Job, say: Say| -> Result<PathBuf> {
            job.run(job.command(&place.programs.dir().join("fetch")), say)?;
            Ok(job.work.join("none"))
        };
        std::fs::write(place.programs.dir().join("broken"), "").unwrap();
        let error = build(&Copied, &place.dir(), &place.settings(), &failing, &mut |_| ()).unwrap_err();
        assert!(format!("{error:#}").contains("does not build: `fetch` failed"), "{error:#}");
        let editing = |job: &Job, say: Say| -> Result<PathBuf> {
            place.write("tool.txt", "second\n");
            compile(job, say)
        };
        let error = build(&Copied, &place.dir(), &place.settings(), &editing, &mut |_| ()).unwrap_err().to_string();
        assert!(error.ends_with("tool.txt has changed since the build began: build again"), "{error}");
    }
}
