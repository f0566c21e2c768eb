//! `toolcell.toml`: its layers, trust and errors; and the predictions of `toolcell policy`.
//!
//! Promise: Denials of any layer hold.
//! Promise: A project grants nothing by itself.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{example, guest};
use crate::support::{Ran, Toolcell, fixture, scratch, share_compiled};

/// A separate home and project. Compiled components are shared with all tests.
pub(super) struct Place {
    _guard: tempfile::TempDir,
    pub(super) home: PathBuf,
    pub(super) project: PathBuf,
}

impl Place {
    pub(super) fn new() -> Self {
        let (guard, root) = scratch();
        let home = root.join("home");
        let project = root.join("project");
        for folder in [&home, &project.join("src/deep")] {
            fs::create_dir_all(folder).unwrap();
        }
        // Compiled components are authenticated with the key beside them.
        share_compiled(&home);
        fs::write(project.join("src/a.txt"), "content of a").unwrap();
        fs::write(project.join("src/secret.txt"), "hidden").unwrap();
        Self {
            _guard: guard,
            home,
            project,
        }
    }

    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    pub(super) fn user(self, text: &str) -> Self {
        fs::write(self.home.join("toolcell.toml"), text).unwrap();
        self
    }

    pub(super) fn project(self, text: &str) -> Self {
        fs::write(self.file(), text).unwrap();
        self
    }

    /// Writes the user's own settings for the project.
    pub(super) fn local(self, text: &str) -> Self {
        fs::write(self.project.join("toolcell.local.toml"), text).unwrap();
        self
    }

    pub(super) fn file(&self) -> PathBuf {
        self.project.join("toolcell.toml")
    }

    pub(super) fn trusted(self) -> Self {
        self.run(&["trust"]).exits(0);
        self
    }

    pub(super) fn run_in(&self, dir: &Path, arguments: &[&str]) -> Ran {
        Toolcell::at(&self.home, arguments).dir(dir).run()
    }

    pub(super) fn toolcell(&self, arguments: &[&str]) -> Toolcell {
        Toolcell::at(&self.home, arguments).dir(&self.project)
    }

    pub(super) fn run(&self, arguments: &[&str]) -> Ran {
        self.run_in(&self.project, arguments)
    }

    /// Sets the secret `name`, which is sealed with a key of this home.
    pub(super) fn secret(&self, name: &str, value: &str) {
        Toolcell::at(&self.home, ["secrets", "set", name])
            .stdin(value)
            .run()
            .exits(0);
    }

    /// Reads `path` with `files#read` and these options.
    fn read(&self, path: &str, options: &[&str]) -> Ran {
        let tool = format!("{}#read", example("files"));
        let input = json!({ "path": path }).to_string();
        let mut arguments = vec!["call", &tool, &input, "--print-record"];
        arguments.extend(options);
        self.run(&arguments)
    }

    pub(super) fn check(&self, path: &str, options: &[&str]) -> Ran {
        let tool = format!("{}#read", example("files"));
        let input = json!({ "path": path }).to_string();
        let mut arguments = vec!["policy", "check", &tool, &input];
        arguments.extend(options);
        self.run(&arguments)
    }
}

/// The first decision of a `--print-record`.
fn decision(ran: &Ran) -> Value {
    ran.json()["decisions"][0].clone()
}

fn error_of(ran: &Ran) -> (String, String) {
    let error = &ran.json()["result"]["error"];
    (
        format!(
            "{}/{}",
            error["error_class"].as_str().unwrap(),
            error["error_code"].as_str().unwrap()
        ),
        error.to_string(),
    )
}

#[test]
fn a_projects_file_counts_once_it_is_trusted_and_again_when_it_has_changed() {
    let place = Place::new().project("[grants]\nread = [\"src\"]\n");
    let refused = place.read("src/a.txt", &[]).exits(3);
    let (error, text) = error_of(&refused);
    assert_eq!(error, "policy_blocked/project_not_trusted");
    let command = format!("toolcell trust {}", place.project.display());
    assert!(
        text.contains(&command) && text.contains("is not trusted"),
        "{text}"
    );
    assert!(
        refused.json()["invocation"]["started_at"].is_null(),
        "nothing ran"
    );

    let trusted = place.run(&["trust"]).exits(0);
    assert!(
        trusted.stdout.contains(&place.file().display().to_string()),
        "{}",
        trusted.stdout
    );
    let allowed = place.read("src/a.txt", &[]).exits(0);
    let decided = decision(&allowed);
    assert_eq!(decided["source"], "project_settings");
    assert_eq!(
        decided["rule_refs"],
        json!([format!("grants.read \"src\" in {}", place.file().display())])
    );

    let place = place.project("[grants]\nread = [\"src\"]\nwrite = [\"src/deep\"]\n");
    assert_eq!(
        error_of(&place.read("src/a.txt", &[]).exits(3)).0,
        "policy_blocked/project_not_trusted"
    );
    place.run(&["trust", "."]).exits(0);
    place.read("src/a.txt", &["--mode=plan"]).exits(0);
    // The old trust is gone, because an older version of the file may be the insecure one.
    let place = place.project("[grants]\nread = [\"src\"]\n");
    assert_eq!(
        error_of(&place.read("src/a.txt", &[]).exits(3)).0,
        "policy_blocked/project_not_trusted"
    );
    let mode = fs::metadata(place.home.join("trusted"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o077, 0, "no other user may trust for this user");
}

#[test]
fn a_mistake_in_a_changed_file_is_shown_if_the_file_was_trusted_before() {
    let mistaken = "[grants]\nread = [\"src\"]\nraed = [\"src\"]\n";
    let refused = |place: &Place| {
        let (error, text) = error_of(&place.read("src/a.txt", &[]).exits(3));
        assert_eq!(error, "policy_blocked/project_not_trusted");
        text
    };
    let place = Place::new().project(mistaken);
    let text = refused(&place);
    assert!(
        text.contains("is not trusted") && !text.contains("raed"),
        "{text}"
    );

    let place = place
        .project("[grants]\nread = [\"src\"]\n")
        .trusted()
        .project(mistaken);
    let text = refused(&place);
    let why =
        "has changed since it was trusted, and cannot be parsed (line 3: unknown field `raed`";
    assert!(text.contains(why), "{text}");
    // The words of the file control no terminal.
    let place = place.project("\"\\u001b]0;title\\u0007\" = 1\n");
    let shown = place.run(&["call", &guest("probe#echo"), "{}"]).exits(3);
    assert!(
        !shown.stderr.contains(['\u{1b}', '\u{7}']) && shown.stderr.contains("line 1: "),
        "{}",
        shown.stderr
    );

    let place = place.project("[grants]\nread = [\"src/deep\"]\n");
    let text = refused(&place);
    assert!(
        text.contains("changed after you trusted it: review it"),
        "{text}"
    );
}

#[test]
fn the_nearest_projects_file_counts_and_its_paths_start_at_its_folder() {
    let place = Place::new()
        .project("[grants]\nread = [\"src\"]\n")
        .trusted();
    let deep = place.project.join("src/deep");
    let tool = format!("{}#read", example("files"));
    let call = || {
        place.run_in(
            &deep,
            &["call", &tool, "{\"path\": \"../a.txt\"}", "--print-record"],
        )
    };
    assert_eq!(
        call().exits(0).json()["result"]["content"][0]["text"],
        "content of a"
    );
    fs::write(deep.join("toolcell.toml"), "").unwrap();
    assert_eq!(
        error_of(&call().exits(3)).0,
        "policy_blocked/project_not_trusted"
    );
    place.run(&["trust", "src/deep"]).exits(0);
    // Now the nearest file counts, which grants nothing.
    assert_eq!(
        error_of(&call().exits(3)).0,
        "permission_denied/not_granted"
    );
}

#[test]
fn the_same_words_have_the_source_that_they_come_from() {
    let words = "[grants]\nread = [\"src\"]\n";
    let of = |ran: &Ran| decision(ran)["source"].as_str().unwrap().to_owned();
    let place = Place::new();
    assert_eq!(
        of(&place.read("src/a.txt", &["--allow-read=src"]).exits(0)),
        "cli_arg"
    );
    let place = place.project(words);
    assert_eq!(
        of(&place
            .read("src/a.txt", &["--config=toolcell.toml"])
            .exits(0)),
        "flag_settings"
    );
    let place = place.trusted();
    assert_eq!(
        of(&place.read("src/a.txt", &[]).exits(0)),
        "project_settings"
    );
    assert_eq!(
        error_of(&place.read("src/a.txt", &["--no-config"]).exits(3)).0,
        "permission_denied/not_granted"
    );
    let place = Place::new().local(words).trusted();
    assert_eq!(of(&place.read("src/a.txt", &[]).exits(0)), "local_settings");
    let place = Place::new();
    let folder = place.project.join("src").display().to_string();
    let place = place.user(&format!("[grants]\nread = [{folder:?}]\n"));
    assert_eq!(of(&place.read("src/a.txt", &[]).exits(0)), "user_settings");
}

#[test]
fn a_denial_of_any_layer_holds_against_every_grant() {
    let deny =
        "[[rule]]\nbehavior = \"deny\"\npath = \"src/secret.txt\"\nreason = \"not for tools\"\n";
    let place = Place::new().project(deny).trusted();
    assert!(
        place
            .read("src/a.txt", &["--allow-read=."])
            .exits(0)
            .stdout
            .contains("content of a")
    );
    let denied = place.read("src/secret.txt", &["--allow-read=."]).exits(3);
    let decided = decision(&denied);
    assert_eq!(
        (&decided["behavior"], &decided["source"]),
        (&json!("deny"), &json!("project_settings"))
    );
    assert_eq!(
        decided["blocked_path"],
        json!(place.project.join("src/secret.txt"))
    );
    assert!(error_of(&denied).1.contains("not for tools"));
    // The search of the whole folder runs, and does not see the closed file.
    let search = format!("{}#search", example("files"));
    let found = place
        .run(&[
            "call",
            &search,
            "{\"pattern\": \"hidden|content\"}",
            "--allow-read=.",
        ])
        .exits(0);
    assert!(
        found.stdout.contains("content of a") && !found.stdout.contains("hidden"),
        "{}",
        found.stdout
    );

    let closed = format!(
        "[grants]\ndeny_read = [{:?}]\n",
        place.project.join("src").display().to_string()
    );
    let place = place.user(&closed);
    let denied = place.read("src/a.txt", &["--allow-read=."]).exits(3);
    assert_eq!(error_of(&denied).0, "permission_denied/denied_by_rule");
}

#[test]
fn limits_of_files_apply_the_lowest_wins_and_the_command_line_goes_first() {
    let place = Place::new()
        .user("[limits]\nfuel = 5\n")
        .project("[limits]\nfuel = 100000000000\n")
        .trusted();
    let echo = guest("probe#echo");
    let call = |options: &[&str]| {
        let mut arguments = vec!["call", echo.as_str(), "{}", "--print-record"];
        arguments.extend(options);
        place.run(&arguments)
    };
    let spent = call(&[]).exits(4);
    assert_eq!(error_of(&spent).0, "timeout/fuel_exhausted");
    assert_eq!(spent.json()["result"]["usage"]["fuel"]["limit"], 5);
    call(&["--fuel=100000000000"]).exits(0);
    let place =
        place.user("[limits]\ntimeout = \"7s\"\nmemory = \"64MiB\"\nmax_output = \"1KiB\"\nmax_disk = \"2KiB\"\n");
    let usage = place
        .run(&["call", &echo, "{}", "--print-record", "--memory=65MiB"])
        .exits(0)
        .json()["result"]["usage"]
        .clone();
    assert_eq!(
        (&usage["wall_ms"]["limit"], &usage["output_bytes"]["limit"]),
        (&json!(7_000), &json!(1_024))
    );
    assert_eq!(usage["memory_bytes"]["limit"], 65 << 20);
    let input = json!({ "path": place.project.join("src/a.txt") }).to_string();
    let wrote = place
        .run(&[
            "call",
            &guest("probe#touch_writes"),
            &input,
            "--allow-write=.",
            "--print-record",
        ])
        .exits(0);
    assert_eq!(
        wrote.json()["result"]["usage"]["files"]["disk_bytes"]["limit"],
        2_048
    );
}

#[test]
fn of_two_files_the_stricter_mode_counts_and_the_command_line_goes_first() {
    let place = Place::new()
        .user("mode = \"plan\"\n")
        .project("mode = \"default\"\n")
        .trusted();
    let write = guest("probe#touch_writes");
    let input = json!({ "path": place.project.join("src/a.txt") }).to_string();
    let call = |options: &[&str]| {
        let mut arguments = vec![
            "call",
            write.as_str(),
            &input,
            "--allow-write=.",
            "--print-record",
        ];
        arguments.extend(options);
        place.run(&arguments)
    };
    let refused = call(&[]).exits(3);
    assert_eq!(error_of(&refused).0, "permission_denied/plan_mode");
    assert_eq!(decision(&refused)["mode"], "plan");
    assert_eq!(
        decision(&call(&["--mode=non_interactive"]).exits(0))["mode"],
        "non_interactive"
    );
    call(&["--mode=yolo"]).exits(2);
}

#[test]
fn a_file_that_cannot_be_understood_denies_and_names_file_and_line() {
    for (text, line, what) in [
        ("[grants\n", 1, "TOML"),
        ("\n[grants]\nraed = [\"src\"]\n", 3, "raed"),
        (
            "mode = \"default\"\n\n[[rule]]\nbehavior = \"dney\"\n",
            4,
            "dney",
        ),
        (
            "[[rule]]\nbehavior = \"deny\"\npath = \"src/[\"\n",
            3,
            "src/[",
        ),
        (
            "[[rule]]\nbehavior = \"deny\"\nurl = \"https://u@h\"\n",
            3,
            "no user",
        ),
        (
            "[[rule]]\nbehavior = \"deny\"\nrisk = \"huge\"\n",
            3,
            "huge",
        ),
        (
            "[[rule]]\nbehavior = \"deny\"\ncomponent = \"me\"\n",
            2,
            "sha256",
        ),
        ("mode = \"bypass\"\n", 1, "bypass"),
        ("[limits]\ntimeout = \"5\"\n", 2, "unit"),
        ("[grants]\nwrite = [\"src/a.txt\"]\n", 2, "not a folder"),
        // The same word twice: the second one is wrong.
        (
            "[grants]\ndeny_read = [\"src/a.txt\"]\nread = [\n  \"src\",\n  \"src/a.txt\",\n]\n",
            5,
            "not a folder",
        ),
        (
            "[approvals]\ntimeout = \"5m\"\n[limits]\ntimeout = \"5s\"\nmemory = \"5m\"\n",
            5,
            "5m",
        ),
        (
            "[limits]\ntimeout = \"5m\"\n[approvals]\n\ntimeout = \"soon\"\n",
            5,
            "soon",
        ),
    ] {
        for place in [Place::new().user(text), Place::new().project(text)] {
            let (file, options): (_, &[&str]) = if place.file().exists() {
                (place.file(), &["--config=toolcell.toml"])
            } else {
                (place.home.join("toolcell.toml"), &[])
            };
            fs::create_dir_all(place.home.join("src")).unwrap();
            fs::write(place.home.join("src/a.txt"), "").unwrap();
            let mut all = vec!["--allow-read=."];
            all.extend(options);
            let denied = place.read("src/a.txt", &all).exits(3);
            let (error, message) = error_of(&denied);
            assert_eq!(error, "policy_blocked/policy_unreadable", "{text}");
            assert!(message.contains(&file.display().to_string()), "{message}");
            assert!(
                message.contains(&format!("line {line}")) && message.contains(what),
                "{text}: {message}"
            );
        }
    }
}

#[test]
fn a_granted_folder_that_does_not_exist_stops_the_tools_with_files_alone() {
    let place = Place::new().project("[grants]\nwrite = [\"later\"]\nread = [\"src\"]\n");
    assert!(
        place
            .run(&["trust"])
            .exits(2)
            .stderr
            .contains("does not exist")
    );
    let later = place.project.join("later");
    fs::create_dir(&later).unwrap();
    let place = place.trusted();
    place.read("src/a.txt", &[]).exits(0);
    fs::remove_dir(&later).unwrap();
    let refused = place.read("src/a.txt", &[]).exits(2);
    assert_eq!(error_of(&refused).0, "setup_required/tool_requires_setup");
    assert_eq!(refused.json()["invocation"]["status"], "blocked");
    assert!(
        refused.stderr.contains("grants.write \"later\""),
        "{}",
        refused.stderr
    );
    place.run(&["call", &guest("probe#echo"), "{}"]).exits(0);
    let tool = format!("{}#read", example("files"));
    let surface = place.run(&["surface", &tool, "--json"]).exits(0).json();
    let blocked = &surface["blocked_tools"][0];
    assert_eq!(
        (&blocked["reason"], &blocked["lifecycle"]),
        (&json!("setup_required"), &json!("requires_setup")),
        "{surface:#}"
    );
    fs::create_dir(&later).unwrap();
    place.read("src/a.txt", &[]).exits(0);
    // What the other grant leads to has not moved into its place.
    fs::remove_dir(&later).unwrap();
    fs::rename(place.project.join("src"), place.project.join("other")).unwrap();
    std::os::unix::fs::symlink(place.project.join("other"), &later).unwrap();
    place.run(&["call", &guest("probe#echo"), "{}"]).exits(3);
}

#[test]
fn a_file_that_cannot_be_read_denies() {
    let place = Place::new().user("");
    let user = place.home.join("toolcell.toml");
    let echo = guest("probe#echo");
    let refused =
        |place: &Place| error_of(&place.run(&["call", &echo, "{}", "--print-record"]).exits(3)).0;
    fs::write(&user, [0xff, 0xfe]).unwrap();
    assert_eq!(refused(&place), "policy_blocked/policy_unreadable");
    fs::remove_file(&user).unwrap();
    fs::create_dir(&user).unwrap();
    assert_eq!(refused(&place), "policy_blocked/policy_unreadable");
    fs::remove_dir(&user).unwrap();
    std::os::unix::fs::symlink("nowhere", &user).unwrap();
    assert_eq!(refused(&place), "policy_blocked/policy_unreadable");
    fs::remove_file(&user).unwrap();
    fs::File::create(&user).unwrap().set_len(2 << 20).unwrap();
    assert_eq!(refused(&place), "policy_blocked/policy_unreadable");
    fs::remove_file(&user).unwrap();
    // Absent files allow only what a tool without access needs.
    place.run(&["call", &echo, "{}"]).exits(0);
    named_pipe(&place.file());
    assert_eq!(refused(&place), "policy_blocked/policy_unreadable");
    let refused = place
        .run(&["call", &echo, "{}", "--config=none.toml", "--print-record"])
        .exits(3);
    assert_eq!(error_of(&refused).0, "policy_blocked/policy_unreadable");
}

#[test]
fn in_a_folder_that_is_gone_the_files_above_it_are_not_passed_over() {
    let place = Place::new()
        .project("[[rule]]\nbehavior = \"deny\"\ntool = \"*\"\n")
        .trusted();
    let echo = guest("probe#echo");
    let call = |options: &[&str]| {
        let deep = place.project.join("src/deep");
        fs::create_dir_all(&deep).unwrap();
        let mut command = std::process::Command::new("sh");
        command.args([
            "-c",
            "rmdir \"$PWD\" && exec \"$0\" \"$@\"",
            env!("CARGO_BIN_EXE_toolcell"),
            "call",
            &echo,
            "{}",
        ]);
        command
            .args(options)
            .arg("--print-record")
            .env("TOOLCELL_HOME", &place.home)
            .current_dir(&deep);
        Ran::from(command.output().unwrap())
    };
    let (error, message) = error_of(&call(&[]).exits(3));
    assert_eq!(error, "policy_blocked/policy_unreadable");
    assert!(
        message.contains("current folder") && message.contains("--no-config"),
        "{message}"
    );
    let named = format!("--config={}", place.file().display());
    assert_eq!(
        error_of(&call(&[&named]).exits(3)).0,
        "permission_denied/denied_by_rule"
    );
    assert_eq!(
        error_of(&call(&["--config=toolcell.toml"]).exits(3)).0,
        "policy_blocked/policy_unreadable"
    );
    call(&["--no-config"]).exits(0);
}

/// A named pipe without a writer, which blocks every reader.
fn named_pipe(path: &Path) {
    assert!(
        std::process::Command::new("mkfifo")
            .arg(path)
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn trust_is_given_to_what_is_there_and_can_be_understood() {
    let place = Place::new();
    assert!(
        place
            .run(&["trust"])
            .exits(2)
            .stderr
            .contains("there is no toolcell.toml")
    );
    place.run(&["trust", "nowhere"]).exits(2);
    let place = place.project("[grants\n");
    assert!(place.run(&["trust"]).exits(2).stderr.contains("line 1"));
}

#[test]
fn trust_says_what_was_trusted_and_what_has_changed() {
    let text = "mode = \"plan\"\n[grants]\nread = [\".\"]\n[[rule]]\nbehavior = \"deny\"\npath = \"**/.env\"\n\
                [limits]\ntimeout = \"9s\"\n[approvals]\ntimeout = \"7m\"\n";
    let place = Place::new().project(text);
    let trusted = place.run(&["trust"]).exits(0).stdout;
    for line in [
        "  mode: \"plan\"\n",
        "  grants.read: \".\"\n",
        "  rule: {\"behavior\":\"deny\",\"path\":\"**/.env\"}\n",
        "  limits.timeout: \"9s\"\n",
        "  approvals.timeout: \"7m\"\n",
    ] {
        assert!(trusted.contains(line), "{trusted}");
    }
    let place = place.project(&text.replace("9s", "8s"));
    let changed = place.run(&["trust"]).exits(0).stdout;
    for line in [
        "\n- limits.timeout: \"9s\"\n",
        "\n+ limits.timeout: \"8s\"\n",
        "\n  mode: \"plan\"\n",
    ] {
        assert!(changed.contains(line), "{changed}");
    }
}

#[test]
fn trust_can_be_withdrawn() {
    let place = Place::new().project("[grants]\nread = [\".\"]\n");
    place.run(&["trust"]).exits(0);
    place.check("src/a.txt", &[]).exits(0);
    assert!(
        place
            .run(&["trust", "--revoke"])
            .exits(0)
            .stdout
            .starts_with("no longer trusted: ")
    );
    place.check("src/a.txt", &[]).exits(3);
    assert!(
        place
            .run(&["trust", "--revoke"])
            .exits(0)
            .stdout
            .starts_with("was not trusted: ")
    );
    place.run(&["trust", "--revoke", "nowhere"]).exits(2);
}

#[test]
fn what_would_refuse_every_call_is_not_trusted() {
    let mut place = Place::new();
    let hook = fixture("hooks");
    let with_hook = |words: &str| format!("[[hook]]\ncomponent = {hook:?}\n{words}\n");
    let home = place.home.display().to_string();
    for (text, what) in [
        (
            "mode = \"strict\"\n".to_owned(),
            "line 1: mode \"strict\" is not one of",
        ),
        (
            "\n[[rule]]\nbehavior = \"deny\"\npath = \"src/[\"\n".to_owned(),
            "line 4",
        ),
        ("[[rule]]\nbehavior = \"dney\"\n".to_owned(), "dney"),
        (
            "[grants]\nread = [\"nowhere\"]\n".to_owned(),
            "grants.read \"nowhere\"",
        ),
        (
            format!("[grants]\nwrite = [{home:?}]\n"),
            "toolcell's own data",
        ),
        ("[limits]\ntimeout = \"5\"\n".to_owned(), "unit"),
        (
            "[approvals]\ntimeout = \"soon\"\n".to_owned(),
            "[approvals] timeout",
        ),
        (
            "[approvals]\nif_client_cannot_ask = \"never\"\n".to_owned(),
            "[approvals] if_client_cannot_ask",
        ),
        (
            "[[tool]]\ncomponent = \"x.wasm\"\ntimeout = \"soon\"\n".to_owned(),
            "[[tool]] timeout",
        ),
        (
            with_hook("events = [\"pre_tool\"]"),
            "there is no hook event",
        ),
        (with_hook("matcher = { tool = \"[\" }"), "["),
        (
            with_hook("grants = { read = [\"nowhere\"] }"),
            "find the folder nowhere",
        ),
    ] {
        place = place.project(&text);
        let refused = place.run(&["trust"]).exits(2);
        assert!(refused.stderr.contains(what), "{text}: {}", refused.stderr);
        assert!(!place.home.join("trusted").exists(), "{text}");
    }
}

#[test]
fn check_answers_with_its_exit_code_and_runs_nothing() {
    let ask =
        "[[rule]]\nbehavior = \"ask\"\npath = \"src/secret.txt\"\nreason = \"ask the owner\"\n";
    let place = Place::new().project(ask).trusted();
    let allowed = place
        .check("src/a.txt", &["--allow-read=.", "--json"])
        .exits(0)
        .json();
    assert_eq!(
        (&allowed["behavior"], &allowed["error"]),
        (&json!("allow"), &Value::Null)
    );
    let asked = place.check("src/secret.txt", &["--allow-read=."]).exits(6);
    assert!(
        asked.stdout.starts_with("needs an approval: ask the owner"),
        "{}",
        asked.stdout
    );
    let denied = place.check(
        "src/secret.txt",
        &["--allow-read=.", "--mode=non_interactive", "--json"],
    );
    assert_eq!(
        denied.exits(3).json()["error"]["error_code"],
        "approval_not_possible"
    );
    assert!(
        place
            .check("src/a.txt", &[])
            .exits(3)
            .stdout
            .starts_with("refused:")
    );
    // An error that stops the call before the decision.
    let wrong = place
        .run(&[
            "policy",
            "check",
            &format!("{}#read", example("files")),
            "{}",
            "--json",
        ])
        .exits(2);
    assert_eq!(
        wrong.json()["error"]["error_class"],
        "schema_validation_failed"
    );
    let place = place.project("# changed\n");
    let untrusted = place.check("src/a.txt", &["--json"]).exits(3);
    assert_eq!(
        untrusted.json()["error"]["error_code"],
        "project_not_trusted"
    );
    // A real call of this tool would write.
    let write = guest("probe#touch_writes");
    let input = json!({ "path": place.project.join("src/a.txt") }).to_string();
    place
        .run(&[
            "policy",
            "check",
            &write,
            &input,
            "--allow-write=.",
            "--no-config",
        ])
        .exits(0);
    assert!(!place.project.join("src/a.txt.new").exists());
}

#[test]
fn explain_shows_each_rule_what_it_matched_and_the_world_of_the_call() {
    let rules = "[[rule]]\nbehavior = \"deny\"\npath = \"src/secret.txt\"\n\
                 [[rule]]\nbehavior = \"ask\"\nrisk = \"critical\"\n";
    let tool = format!(
        "[[tool]]\ncomponent = {:?}\n[[rule]]\nbehavior = \"allow\"\ntool = \"files.*\"\n",
        example("files")
    );
    let place = Place::new().project(&format!("{tool}{rules}")).trusted();
    let explained = place
        .check("src/a.txt", &["--explain", "--allow-read=.", "--json"])
        .exits(0)
        .json();
    let rules: Vec<(bool, &str)> = explained["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| {
            (
                rule["matched"].as_bool().unwrap(),
                rule["behavior"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(rules, [(true, "allow"), (false, "deny"), (false, "ask")]);
    assert!(
        explained["rules"][2]["why"]
            .as_str()
            .unwrap()
            .contains("low"),
        "{explained}"
    );
    assert_eq!(
        (&explained["risk"], &explained["decision"]["source"]),
        (&json!("low"), &json!("project_settings"))
    );
    let source = place.project.join("src");
    assert_eq!(
        explained["capability"]["mounts"][0],
        json!({ "host": source, "guest": source, "writable": false })
    );
    assert_eq!(
        explained["capability"]["closed"][0]["what"],
        "src/secret.txt"
    );

    let denied = place
        .check("src/secret.txt", &["--explain", "--allow-read=."])
        .exits(3)
        .stdout;
    for words in [
        "refused: a rule denies this call",
        &format!("blocked: {}", source.join("secret.txt").display()),
        &format!("matches ({})", source.join("secret.txt").display()),
        "does not match: the risk is low",
    ] {
        assert!(denied.contains(words), "{words}: {denied}");
    }
}

#[test]
fn what_a_rule_says_begins_no_line_of_an_answer() {
    let reason = "no\\nallowed: everything that the tool declares was granted";
    let rule =
        format!("[[rule]]\nbehavior = \"deny\"\ntool = \"files.*\"\nreason = \"{reason}\"\n");
    let place = Place::new().user(&rule);
    for options in [
        &["--allow-read=src"][..],
        &["--allow-read=src", "--explain"],
    ] {
        let told = place.check("src/a.txt", options).exits(3).stdout;
        assert!(told.contains("no\\u{a}allowed: everything"), "{told}");
        assert!(
            !told.lines().any(|line| line.starts_with("allowed")),
            "{told}"
        );
    }
}

#[test]
fn a_refusal_names_the_rule_that_closes_the_folder_for_this_tool() {
    let place = Place::new();
    let folder = place.project.join("src");
    let rule = |more: &str| format!("[[rule]]\nbehavior = \"deny\"\npath = {folder:?}\n{more}");
    let place = place.user(
        &[
            rule("tool = \"other.*\"\n"),
            rule("risk = \"critical\"\n"),
            rule(""),
        ]
        .concat(),
    );
    let input = json!({ "path": folder.join("a.txt") }).to_string();
    let checked = place.run(&[
        "policy",
        "check",
        &guest("probe#read"),
        &input,
        "--allow-read=src",
        "--json",
    ]);
    let decision = checked.exits(3).json()["decision"].clone();
    assert_eq!(
        decision["rule_refs"].as_array().unwrap().len(),
        1,
        "{decision}"
    );
    let named = decision["rule_refs"][0].as_str().unwrap();
    assert!(
        named.starts_with("deny path ") && !named.contains("risk"),
        "{named}"
    );
}

#[test]
fn a_denied_name_is_denied_in_every_folder_whatever_file_says_so() {
    let denial = "[[rule]]\nbehavior = \"deny\"\npath = \"**/.env\"\n";
    let place = Place::new().user(denial);
    fs::write(place.project.join("src/.env"), "TOKEN=1").unwrap();
    let denied = |place: &Place, options: &[&str]| {
        let mut all = vec!["--allow-read=."];
        all.extend(options);
        let refused = place.read("src/.env", &all).exits(3);
        assert_eq!(error_of(&refused).0, "permission_denied/denied_by_rule");
        place.read("src/a.txt", &all).exits(0);
    };
    denied(&place, &[]);
    // A file elsewhere says the same.
    let place = place.user("");
    let elsewhere = place.home.join("more.toml");
    fs::write(&elsewhere, denial).unwrap();
    denied(&place, &[&format!("--config={}", elsewhere.display())]);
    // What an argument does not name is closed too.
    let place = place.user(denial);
    let tool = format!("{}#search", example("files"));
    let input = json!({ "pattern": "TOKEN", "path": "src" }).to_string();
    let found = place
        .run(&["call", &tool, &input, "--allow-read=.", "--print-record"])
        .json();
    assert!(
        !found["result"].to_string().contains("TOKEN=1"),
        "{found:#}"
    );
}

#[test]
fn a_path_that_would_close_nothing_is_an_error() {
    for (text, says) in [
        (
            "[[rule]]\nbehavior = \"deny\"\npath = \"src/secret.txt\"\n",
            "put **/ before it",
        ),
        (
            "[[rule]]\nbehavior = \"ask\"\npath = \"*.key\"\n",
            "put **/ before it",
        ),
        ("[grants]\ndeny_read = [\"src\"]\n", "write a whole path"),
        ("[grants]\ndeny_write = [\"/**/.git\"]\n", "is a pattern"),
    ] {
        let place = Place::new().user(text);
        let refused = place.read("src/a.txt", &["--allow-read=."]).exits(3);
        let shown = format!("{}{}", refused.stdout, refused.stderr);
        assert!(shown.contains(says), "{text} {shown}");
    }
    let pattern = Place::new().read("src/a.txt", &["--allow-read=.", "--deny-read=**/.env"]);
    assert!(
        format!("{}{}", pattern.stdout, pattern.stderr).contains("is a pattern"),
        "{pattern:?}"
    );
    assert_ne!(pattern.code, Some(0));
}
