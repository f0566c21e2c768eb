//! From an empty folder to a call and a native test, in each language. What a toolchain lacks is fetched into the user's
//! cache, once.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolcell_toolchain::Language;

use crate::support::{Client, Toolcell, scratch};

use super::BUILDING;
use super::build::with_toolchain;

/// Runs a command that `toolcell new` printed, in the project's folder.
fn native_test(lang: Language, project: &Path) {
    let ran = Command::new("sh")
        .args(["-c", lang.test_command()])
        .current_dir(project)
        .output()
        .unwrap();
    let said = [ran.stdout, ran.stderr]
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .concat();
    assert!(
        ran.status.success(),
        "{}: {}\n{said}",
        lang.name(),
        lang.test_command()
    );
}

/// What a person, a model and a caller see of a tool, whatever its language.
#[derive(Clone, Debug, PartialEq)]
struct Same {
    described: String,
    /// For MCP, with the hints that follow from its permissions.
    listed: Value,
    results: Vec<Value>,
}

impl Same {
    fn of(place: &Path, folder: &str) -> Self {
        let said = |words: &[&str]| {
            let text = with_toolchain(place, words).run().exits(0).stdout;
            text.replace(folder, "NAME")
                .replace(&folder.replace('-', "_"), "NAME")
        };
        let arguments = [
            r#"{"text":"one two three"}"#,
            r#"{"text":""}"#,
            r#"{"text":3}"#,
            "{}",
            r#"{"text":"a","b":1}"#,
        ];
        let results = arguments.map(|arguments| {
            let record = with_toolchain(place, &["call", folder, arguments, "--json"])
                .run()
                .json();
            let texts = record["content"]
                .as_array()
                .unwrap()
                .iter()
                .map(|block| block["text"].clone());
            let error = record["error"].is_object().then(|| {
                (
                    &record["error"]["error_class"],
                    &record["error"]["error_code"],
                )
            });
            json!({ "text": texts.collect::<Vec<_>>(), "error": error })
        });
        let mut listed: Value =
            serde_json::from_str(&said(&["export", "--dialect=mcp", folder])).unwrap();
        assert!(
            listed[0]["_meta"]["toolcell/tool"]["component"]
                .take()
                .is_string(),
            "{listed}"
        );
        Self {
            described: said(&["describe", folder]),
            listed,
            results: results.to_vec(),
        }
    }
}

/// Builds, and writes what is printed into the project's folder at the same time.
fn build_with_a_log_in(project: &Path) {
    let home = toolcell::Home::find().unwrap();
    let mut build = Command::new("sh");
    build
        .args(["-c", "exec \"$TOOLCELL\" build . > build.log 2>&1"])
        .current_dir(project);
    build
        .env("TOOLCELL", env!("CARGO_BIN_EXE_toolcell"))
        .env("TOOLCELL_HOME", home.folder());
    let log = || std::fs::read_to_string(project.join("build.log")).unwrap_or_default();
    assert!(build.status().unwrap().success(), "{}", log());
}

/// A push builds a copy elsewhere, and what comes of it is the same: in Python, its code.
fn published(place: &Path, folder: &str, lang: Language) {
    let to = format!("localhost:5000/me/{folder}:0.1");
    let pushed = with_toolchain(place, &["push", folder, &to, "--dry-run", "--json"])
        .run()
        .exits(0)
        .json();
    let same_snapshot = lang.name() != "python";
    assert_eq!(
        pushed["reproducible"],
        if same_snapshot {
            json!(true)
        } else {
            Value::Null
        },
        "{}: {pushed}",
        lang.name()
    );
    let found = pushed["findings"]
        .as_array()
        .unwrap()
        .iter()
        .any(|found| found["code"] == "snapshot_differs");
    assert_eq!(found, !same_snapshot, "{}: {pushed}", lang.name());
    // What the manifest, or a comment in its place, says is in the component.
    let component = place
        .join(folder)
        .join(format!("target/toolcell/{folder}.wasm"));
    let component = std::fs::read(component).unwrap();
    let version = toolcell_spec::dialect::sections::custom(&component, "version").unwrap();
    assert_eq!(version, Some(&b"0.1.0"[..]), "{}", lang.name());
}

#[test]
#[ignore = "sets up and uses eight toolchains, for minutes: `just nightly` runs it"]
fn each_language_goes_from_nothing_to_a_call_and_a_native_test() {
    let _turn = BUILDING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let (_guard, place) = scratch();
    let mut first = None;
    for lang in Language::all() {
        let folder = format!("count-{}", lang.name());
        let printed = with_toolchain(&place, &["new", &folder, "--lang", lang.name()])
            .run()
            .exits(0)
            .stdout;
        for line in [
            format!("toolcell build {folder}"),
            format!("(cd {folder} && {})", lang.test_command()),
        ] {
            assert!(printed.contains(&line), "{}: {printed}", lang.name());
        }
        let project = place.join(&folder);
        assert_eq!(
            Language::detect(&project),
            Some(lang),
            "its own files make it a project of another language"
        );
        let unbuilt = with_toolchain(&place, &["call", &folder, "{\"text\": \"one\"}", "--json"])
            .run()
            .exits(2)
            .json();
        assert_eq!(
            unbuilt["error"]["error_code"],
            "not_built",
            "{}",
            lang.name()
        );

        // What is printed and noted in the folder meanwhile is no source.
        build_with_a_log_in(&project);
        std::fs::write(project.join("notes.txt"), "unrelated").unwrap();
        let found = Same::of(&place, &folder);
        assert_eq!(
            found.results[0],
            json!({ "text": ["3 words"], "error": null }),
            "{}",
            lang.name()
        );
        assert_eq!(
            found,
            *first.get_or_insert_with(|| found.clone()),
            "{}",
            lang.name()
        );

        native_test(lang, &project);
        // Neither a call nor a test makes the build stale.
        let ran = with_toolchain(&place, &["call", &folder, "{\"text\": \"\"}"])
            .run()
            .exits(0);
        assert!(
            !ran.stderr.contains("older than its sources"),
            "{}: {}",
            lang.name(),
            ran.stderr
        );
        // Of Rust, the test of a push to a registry.
        if lang.name() != "rust" {
            published(&place, &folder, lang);
        }
    }
}

#[test]
fn a_language_that_is_not_known_and_a_hook_in_another_one_are_refused_and_leave_nothing() {
    let (_guard, place) = scratch();
    let refused = Toolcell::new(["new", "tool", "--lang", "cobol"])
        .dir(&place)
        .run()
        .exits(2)
        .stderr;
    assert!(
        refused.contains("there is no template for \"cobol\": choose "),
        "{refused}"
    );
    for lang in Language::all().filter(|lang| lang.name() != "rust") {
        let refused = Toolcell::new(["new", "--hook", "tool", "--lang", lang.name()])
            .dir(&place)
            .run()
            .exits(2)
            .stderr;
        assert!(refused.contains("hooks are written in Rust"), "{refused}");
    }
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0);
    let refused = Toolcell::new(["build", "--watch", "."])
        .dir(&place)
        .run()
        .exits(2)
        .stderr;
    assert!(refused.contains("is not a source folder"), "{refused}");
}

#[test]
fn doctor_names_the_toolchain_of_each_language_and_no_language_is_a_fault() {
    let (_guard, home) = scratch();
    let ran = Toolcell::at(&home, ["doctor", "--json"]).run();
    let checks = ran.json()["checks"].as_array().unwrap().clone();
    for lang in Language::all().filter(|lang| lang.name() != "rust") {
        let subject = format!("the toolchain for {}", lang.title());
        let check = checks
            .iter()
            .find(|check| check["subject"] == json!(subject))
            .unwrap_or_else(|| panic!("{subject}"));
        let words = check["detail"].as_str().unwrap();
        let said = match check["state"].as_str().unwrap() {
            // With a size, because nothing may be fetched that was not announced.
            "absent" => words.starts_with("the first build fetches ") && words.contains(" MB"),
            "missing" => check["fix"].is_string(),
            _ => true,
        };
        assert!(said, "{check}");
    }
    // Looking fetches nothing.
    assert_eq!(std::fs::read_dir(&home).unwrap().count(), 0);
}

/// Waits until `file` has `text` in it, and fails after two minutes with what it has.
fn until(file: &Path, text: &str) {
    let began = Instant::now();
    loop {
        let found = std::fs::read_to_string(file).unwrap_or_default();
        if found.contains(text) {
            return;
        }
        assert!(
            began.elapsed() < Duration::from_secs(120),
            "{text:?} is not in:\n{found}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_watched_folder_is_built_after_each_change_and_a_running_server_takes_it_up() {
    let _turn = BUILDING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let (_guard, place) = scratch();
    with_toolchain(&place, &["new", "watched"]).run().exits(0);
    with_toolchain(&place, &["build", "watched"]).run().exits(0);
    let mut client = Client::run(with_toolchain(&place, &["mcp", "watched"]));
    client.initialize("2025-11-25");
    let words = |client: &mut Client| {
        client.call("count", json!({ "text": "one two" }))["content"][0]["text"].clone()
    };
    assert_eq!(words(&mut client), "2 words");

    let home = toolcell::Home::find().unwrap();
    let said = place.join("said");
    let log = place.join("log");
    let mut watching = Command::new(env!("CARGO_BIN_EXE_toolcell"))
        .args(["build", "--watch", "watched"])
        .current_dir(&place)
        .env("TOOLCELL_HOME", home.folder())
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&said).unwrap())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    until(&log, "waiting for a change");
    let source = place.join("watched/src/lib.rs");
    let text = std::fs::read_to_string(&source).unwrap();
    std::fs::write(&source, "fn broken(").unwrap();
    until(&log, "error: ");
    assert_eq!(
        words(&mut client),
        "2 words",
        "a build that failed changes nothing"
    );
    std::fs::write(&source, text.replace("{} words", "{} words here")).unwrap();
    client.says("now serving the new version");
    assert_eq!(words(&mut client), "2 words here");
    until(&said, "watched.wasm\n");
    watching.kill().unwrap();
    watching.wait().unwrap();
}
