//! Building requires consent, because a source folder is native code of everyone who can write to it.
//!
//! Promise: A build needs consent.
//! Promise: A guest cannot change sources.

use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use super::BUILDING;
use super::build::with_toolchain;
use super::hooks::{configured, scripted};
use crate::support::{Ran, Toolcell, fixture, scratch};

/// A folder of the user with the source folder `stranger`, whose build script leaves a mark that it ran.
struct Place {
    _guard: tempfile::TempDir,
    folder: PathBuf,
}

const BUILD_SCRIPT: &str = "fn main() { std::fs::write(\"../ran\", \"as the user\").unwrap() }";

impl Place {
    fn new() -> Self {
        let (guard, path) = scratch();
        let folder = path.join("place");
        let place = Self {
            _guard: guard,
            folder,
        };
        place.write(
            "stranger/Cargo.toml",
            "[package]\nname = \"stranger\"\nedition = \"2024\"\n[lib]\ncrate-type = [\"cdylib\"]\n[workspace]\n",
        );
        place.write("stranger/src/lib.rs", "");
        place.write("stranger/build.rs", BUILD_SCRIPT);
        place
    }

    fn write(&self, name: &str, text: &str) {
        let file = self.folder.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    /// Uses the user's own toolchain, so that a build would work.
    fn run(&self, arguments: &[&str]) -> Ran {
        with_toolchain(&self.folder, arguments).run()
    }

    /// Whether the build script ran since the last call of this function.
    fn ran(&self) -> bool {
        std::fs::remove_file(self.folder.join("ran")).is_ok()
    }

    /// Whether a tool with a grant for the whole place can write `name`.
    fn tool_writes(&self, name: &str, text: &str, options: &[&str]) -> bool {
        let tool = format!("{}#write", fixture("probe").display());
        let input = json!({ "path": self.folder.join(name), "text": text }).to_string();
        let call = ["call", &tool, &input, "--json", "--allow-write=."];
        let ran = Toolcell::new([&call, options].concat())
            .dir(&self.folder)
            .run()
            .exits(0);
        ran.json()["structured_content"]["ok"] == true
    }

    #[track_caller]
    fn is_not_built(&self, why: &str) {
        let refused = self.run(&["call", "stranger", "--json"]).exits(2).json()["error"].clone();
        assert_eq!(
            (&refused["error_code"], &refused["error_class"]),
            (&json!("not_built"), &json!("setup_required"))
        );
        let message = refused["message"].as_str().unwrap();
        for word in [why, "toolcell build stranger", "--build"] {
            assert!(message.contains(word), "{word} is not in {message}");
        }
        for command in [
            &["describe", "stranger"][..],
            &["policy", "check", "stranger"],
            &["policy", "check", "--explain", "stranger"],
            &["mcp", "stranger"],
            &["mcp", "stranger", "--print-config=cursor"],
            &["serve", "stranger", "--listen=127.0.0.1:0", "--no-token"],
        ] {
            let ran = self.run(command).exits(2);
            assert!(
                [ran.stdout, ran.stderr]
                    .concat()
                    .contains("toolcell build stranger"),
                "{command:?}"
            );
            assert!(!self.ran(), "{command:?} ran the build script");
        }
        self.write("named.toml", "[[tool]]\ncomponent = \"stranger\"\n");
        let ran = self.run(&["doctor", "--json", "--config=named.toml"]);
        assert!(ran.stdout.contains("toolcell build "), "{}", ran.stdout);
        assert!(!self.ran(), "doctor ran the build script");
    }

    /// What was built runs, and is said to be older than its sources.
    #[track_caller]
    fn is_outdated(&self, why: &str) {
        let ran = self.run(&["describe", "stranger", "--json"]).exits(2);
        assert_eq!(ran.json()["error"]["error_code"], "not_a_tool", "{ran:?}");
        let notes: Vec<&str> = ran
            .stderr
            .lines()
            .filter(|line| line.contains("older than its sources"))
            .collect();
        assert!(
            notes.len() == 1 && notes[0].contains(why),
            "{why}: {}",
            ran.stderr
        );
        assert!(!self.ran(), "describe ran the build script");
    }

    /// The stranger is not a tool, which only its built component shows.
    #[track_caller]
    fn is_built(&self) {
        let ran = self.run(&["describe", "stranger", "--json"]).exits(2);
        assert_eq!(ran.json()["error"]["error_code"], "not_a_tool", "{ran:?}");
        assert!(
            !ran.stderr.contains("older than its sources"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn looking_at_a_source_folder_runs_nothing_of_it() {
    let place = Place::new();
    place.is_not_built("was never built");
}

#[test]
fn what_a_tool_writes_into_sources_does_not_run_before_the_user_agrees() {
    let _turn = BUILDING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let place = Place::new();
    // It is built, and then refused, because it is not a tool.
    place.run(&["build", "stranger"]).exits(2);
    assert!(place.ran());
    place.is_built();
    // Cargo's output, and the component that runs, lie where no tool can replace them.
    let made = std::fs::read_dir(place.folder.join("stranger/target/toolcell")).unwrap();
    let mut made: Vec<_> = made
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    made.sort();
    assert_eq!(made, [".gitignore", "stranger.wasm"]);
    assert!(place.tool_writes(
        "stranger/target/toolcell/stranger.wasm",
        "not a component",
        &[]
    ));
    place.is_built();

    let worse = BUILD_SCRIPT.replace("as the user", "again");
    assert!(place.tool_writes("stranger/build.rs", &worse, &[]));
    place.is_outdated("build.rs has changed");
    assert!(place.tool_writes("stranger/build.rs", BUILD_SCRIPT, &[]));
    place.is_built();
    // Cargo also searches the parent folders for its configuration and for a workspace.
    std::fs::create_dir(place.folder.join(".cargo")).unwrap();
    for name in [".cargo/config.toml", "Cargo.toml", "rust-toolchain"] {
        assert!(place.tool_writes(name, "", &[]));
        place.is_outdated(name);
        std::fs::remove_file(place.folder.join(name)).unwrap();
        place.is_built();
    }
    // A chain of links too long for a recursive resolver's stack.
    std::fs::create_dir(place.folder.join("links")).unwrap();
    let entrance = place.folder.join("stranger/src/entrance");
    symlink("../../links/0", &entrance).unwrap();
    for at in 0..20_000 {
        symlink(
            format!("{}", at + 1),
            place.folder.join(format!("links/{at}")),
        )
        .unwrap();
    }
    place.is_outdated("leads through more than 40 links");
    std::fs::remove_file(entrance).unwrap();
    place.is_built();
    assert!(!place.ran());
    place.write("stranger/src/lib.rs", "// mine");
    place.run(&["call", "--build", "stranger"]).exits(2);
    place.is_built();
    place.ran();
    place.write("stranger/build.rs", &worse);
    place.run(&["call", "stranger", "--build"]).exits(2);
    assert!(place.ran());
    place.is_built();
}

#[test]
fn another_component_in_the_place_of_the_built_one_is_refused() {
    let _turn = BUILDING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let place = Place::new();
    place.run(&["build", "stranger"]).exits(2);
    place.ran();
    place.is_built();
    let records = std::fs::read_dir(toolcell::Home::find().unwrap().builds()).unwrap();
    let of_place = |folder: &Path| {
        let record = std::fs::read_to_string(folder.join("record.json")).unwrap_or_default();
        record.contains(place.folder.to_str().unwrap())
    };
    let folder = records
        .map(|entry| entry.unwrap().path())
        .find(|folder| of_place(folder))
        .unwrap();
    std::fs::write(folder.join("stranger.wasm"), crate::support::wat("echo")).unwrap();
    place.is_not_built("its component is not the one that was built");
}

#[test]
fn no_tool_and_no_hook_changes_the_sources_of_a_tool_in_use() {
    let place = Place::new();
    std::fs::create_dir(place.folder.join(".cargo")).unwrap();
    place.write("tools.toml", "[[tool]]\ncomponent = \"stranger\"\n");
    let in_use = &["--config=tools.toml"];
    for name in [
        "stranger/build.rs",
        "stranger/new",
        "stranger/src/lib.rs",
        "stranger/target",
        "Cargo.toml",
        ".cargo/config.toml",
        "rust-toolchain.toml",
    ] {
        assert!(
            !place.tool_writes(name, "changed", in_use),
            "{name} was changed"
        );
    }
    assert!(place.tool_writes("other", "x", in_use));
    assert_eq!(
        std::fs::read_to_string(place.folder.join("stranger/build.rs")).unwrap(),
        BUILD_SCRIPT
    );
    // The first hook writes `mark` into its granted folder.
    let hook = scripted("events = [\"pre_tool_use\"]\ngrants = { write = [\"stranger\"] }\n");
    let config = configured(
        &place.folder,
        &format!("{hook}[[tool]]\ncomponent = \"stranger\"\n"),
    );
    let tool = format!("{}#echo", fixture("probe").display());
    let input = json!({"hook": {"pre_tool_use": [{"attack": "look_around"}]}}).to_string();
    let ran = Toolcell::new(["call", &tool, &input, "--config", config.to_str().unwrap()])
        .run()
        .exits(0);
    assert!(
        ran.stderr.contains("folder ") && !ran.stderr.contains("write "),
        "{}",
        ran.stderr
    );
    assert!(!place.folder.join("stranger/mark").exists());
}

#[test]
fn agreeing_to_one_tool_builds_no_hook() {
    let place = Place::new();
    let config = configured(&place.folder, "[[hook]]\ncomponent = \"stranger\"\n");
    let tool = format!("{}#echo", fixture("probe").display());
    let ran = place
        .run(&[
            "call",
            "--build",
            &tool,
            "--config",
            config.to_str().unwrap(),
        ])
        .exits(3);
    assert!(ran.stderr.contains("toolcell build "), "{}", ran.stderr);
    assert!(!place.ran());
    // A file cannot consent to a build, either.
    let config = configured(
        &place.folder,
        "[[tool]]\ncomponent = \"stranger\"\nbuild = true\n",
    );
    place
        .run(&["call", &tool, "--config", config.to_str().unwrap()])
        .exits(3);
    assert!(!place.ran());
}

/// Runs the program at a terminal at which the user types `answer`. Returns its output and exit code.
fn at_a_terminal(place: &Place, answer: &str) -> (String, Option<i32>) {
    at_a_terminal_with(place, answer, &[])
}

/// As [`at_a_terminal`], with other variables of the environment.
fn at_a_terminal_with(
    place: &Place,
    answer: &str,
    variables: &[(&str, &str)],
) -> (String, Option<i32>) {
    let home = toolcell::Home::find().unwrap();
    let mut child = Command::new("script")
        .args([
            "--quiet",
            "--return",
            "--command",
            "exec $TOOLCELL call stranger",
            "/dev/null",
        ])
        .current_dir(&place.folder)
        .env("TOOLCELL_HOME", home.folder())
        .env("TOOLCELL", env!("CARGO_BIN_EXE_toolcell"))
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut keys = child.stdin.take().unwrap();
    let mut screen = child.stdout.take().unwrap();
    let mut seen = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = screen.read(&mut piece) {
        seen.extend_from_slice(&piece[..count]);
        if seen.ends_with(b"[y/N] ") {
            keys.write_all(answer.as_bytes()).unwrap();
        }
    }
    (
        String::from_utf8_lossy(&seen).into_owned(),
        child.wait().unwrap().code(),
    )
}

#[test]
fn a_person_at_the_terminal_is_asked_before_anything_is_built() {
    let _turn = BUILDING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let place = Place::new();
    for answer in ["n\n", "\n", "maybe\n"] {
        let (seen, code) = at_a_terminal(&place, answer);
        for row in [
            "| folder     stranger",
            "| because    it was never built here",
        ] {
            assert!(seen.contains(row), "{seen}");
        }
        assert!(seen.contains("as you, outside the sandbox"), "{seen}");
        assert!(
            seen.contains("not_built") && code == Some(2),
            "{code:?}: {seen}"
        );
        assert!(!place.ran());
    }
    let (seen, _) = at_a_terminal(&place, "y\n");
    assert!(place.ran(), "{seen}");
    place.is_built();

    // Sources that changed since ask nothing. The author of a file in the sources chooses its name.
    let name = format!(
        "z\nNothing of it runs.\nBuild it now? [y/N] y{}",
        "z".repeat(180)
    );
    place.write(&format!("stranger/src/{name}"), "");
    let (seen, _) = at_a_terminal(&place, "n\n");
    assert!(
        seen.contains("stranger is older than its sources: src/z\\u{a}Nothing of it runs."),
        "{seen}"
    );
    assert!(
        !seen.contains("Build it? [y/N]")
            && seen.lines().all(|row| !row.starts_with("Nothing of it")),
        "{seen}"
    );
    assert!(!place.ran());
}

/// Programs of the names `names` that note the folder in which they run, and do nothing else. Returns their folder.
fn noting(names: &[&str]) -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let programs = tempfile::tempdir().unwrap();
    for name in names {
        let program = programs.path().join(name);
        std::fs::write(&program, "#!/bin/sh\npwd >> \"${0%/*}/asked\"\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    programs
}

#[test]
fn the_question_says_what_a_build_fetches_and_runs_nothing_in_the_folder() {
    let place = Place::new();
    let programs = noting(&["rustc", "cargo", "rustup"]);
    let path = format!("{}:/usr/bin:/bin", programs.path().display());
    let variables = [
        ("PATH", path.as_str()),
        ("TOOLCELL_GUEST_TOOLCHAIN", "rustup"),
    ];
    let (seen, code) = at_a_terminal_with(&place, "n\n", &variables);
    assert!(
        seen.contains("It fetches Rust's target wasm32-wasip2 from rustup: some 30 MB."),
        "{seen}"
    );
    assert_eq!(code, Some(2));
    let asked = std::fs::read_to_string(programs.path().join("asked")).unwrap();
    assert!(asked.lines().all(|folder| folder == "/"), "{asked}");
}

#[test]
fn a_loop_of_links_above_sources_ends_no_command_and_stays_as_it_is() {
    let place = Place::new();
    place.write("tools.toml", "[[tool]]\ncomponent = \"stranger\"\n");
    for (link, target) in [
        (".cargo", ".cargo"),
        ("rust-toolchain", "back"),
        ("back", "rust-toolchain"),
    ] {
        symlink(target, place.folder.join(link)).unwrap();
    }
    let in_use = &["--config=tools.toml"];
    assert!(place.tool_writes("other", "x", in_use));
    for name in [".cargo", "rust-toolchain", "back"] {
        let tool = format!("{}#remove", fixture("probe").display());
        let input = json!({ "path": place.folder.join(name) }).to_string();
        let call = [
            "call",
            &tool,
            &input,
            "--json",
            "--allow-write=.",
            in_use[0],
        ];
        let ran = Toolcell::new(call).dir(&place.folder).run().exits(0);
        assert_eq!(
            ran.json()["structured_content"]["ok"],
            false,
            "{name}: {ran:?}"
        );
        assert!(place.folder.join(name).is_symlink(), "{name} was removed");
    }
    // The tool itself is refused, with a result.
    place
        .run(&["call", "stranger", "--json", "--allow-write=."])
        .exits(2)
        .json();
}

#[test]
fn a_configuration_that_is_too_large_to_be_read_is_refused_before_anything_runs() {
    let place = Place::new();
    let config = format!(
        "#{}\ninclude = [\"../../more.toml\"]\n",
        "x".repeat(1 << 20)
    );
    place.write("stranger/.cargo/config.toml", &config);
    place.write("more.toml", "");
    let refused = place.run(&["build", "stranger"]).exits(2);
    assert!(
        refused
            .stderr
            .contains("config.toml has more than 1048576 bytes"),
        "{}",
        refused.stderr
    );
    assert!(!place.ran());
}

#[test]
fn what_steers_the_build_of_two_tools_is_closed_once() {
    let place = Place::new();
    place.write("second/Cargo.toml", "[package]\nname = \"second\"\n");
    place.write(
        "tools.toml",
        "[[tool]]\ncomponent = \"stranger\"\n[[tool]]\ncomponent = \"second\"\n",
    );
    let tool = format!("{}#write", fixture("probe").display());
    let input = json!({ "path": place.folder.join("other"), "text": "x" }).to_string();
    let explain = [
        "policy",
        "check",
        "--explain",
        &tool,
        &input,
        "--json",
        "--allow-write=.",
        "--config=tools.toml",
    ];
    let explained = Toolcell::new(explain).dir(&place.folder).run().json();
    let closed = explained["capability"]["closed"].as_array().unwrap().iter();
    let closed: Vec<&str> = closed
        .map(|closed| closed["what"].as_str().unwrap())
        .collect();
    let times = |name: &str| {
        let place = place.folder.join(name);
        closed
            .iter()
            .filter(|closed| **closed == place.to_str().unwrap())
            .count()
    };
    for name in ["stranger", "second", "Cargo.toml", ".cargo/config.toml"] {
        assert_eq!(times(name), 1, "{name}: {closed:?}");
    }
    assert_eq!(
        times("stranger/Cargo.toml"),
        0,
        "it lies in a folder that is closed: {closed:?}"
    );
}

#[test]
fn doctor_asks_no_compiler_in_the_current_folder() {
    // rustup's `rustc` runs the program that the rust-toolchain file of its folder names.
    let place = Place::new();
    let programs = noting(&["rustc", "cargo"]);
    let path = format!("{}:/usr/bin:/bin", programs.path().display());
    let home = place.folder.join("../home");
    Toolcell::at(Path::new(&home), ["doctor", "--json"])
        .dir(&place.folder)
        .env("PATH", &path)
        .env("TOOLCELL_GUEST_TOOLCHAIN", "")
        .run();
    let asked = std::fs::read_to_string(programs.path().join("asked")).unwrap();
    assert!(asked.lines().all(|folder| folder == "/"), "{asked}");
}
