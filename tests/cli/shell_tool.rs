//! The example tool `shell`: scripts over the files of a workspace and of granted folders, other tools as commands, and the
//! limits that end what does not end by itself.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::example;
use crate::support::{Ran, Toolcell, scratch};

/// A home with workspaces of its own, and an empty folder to call from.
struct Place {
    home: PathBuf,
    folder: PathBuf,
    _guards: [tempfile::TempDir; 2],
}

impl Place {
    fn new() -> Self {
        let (home_guard, home) = scratch();
        let (folder_guard, folder) = scratch();
        Self {
            home,
            folder,
            _guards: [home_guard, folder_guard],
        }
    }

    fn call(&self, tool: &str, script: &str, options: &[&str]) -> Ran {
        let tool = match tool {
            "shell" => example("shell"),
            other => format!("{}#{other}", example("shell")),
        };
        let input = json!({ "script": script }).to_string();
        let words = [&["call", &tool, &input, "--json"], options].concat();
        Toolcell::at(&self.home, &words).dir(&self.folder).run()
    }

    /// A call in the workspace `w`; the structured answer.
    fn shell(&self, script: &str) -> Value {
        let result = self.call("shell", script, &["--workspace=w"]);
        result.exits(0).json()["structured_content"].clone()
    }

    /// What a script prints that succeeds and says nothing else.
    fn stdout(&self, script: &str) -> String {
        let ran = self.shell(script);
        assert_eq!(
            (&ran["exit_code"], &ran["stderr"]),
            (&json!(0), &json!("")),
            "{script}: {ran}"
        );
        ran["stdout"].as_str().unwrap().to_owned()
    }

    fn code(&self, tool: &str, script: &str, options: &[&str]) -> String {
        let ran = self.call(tool, script, options);
        ran.json()["error"]["error_code"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

#[test]
#[ignore = "bashkit compiles for minutes: `just nightly` runs it"]
fn scripts_work_on_the_files_of_a_workspace() {
    let place = Place::new();
    place.stdout("printf 'b\\na\\n' > one.csv; printf 'a\\nc\\na\\n' > two.csv; mkdir -p deep/er");
    for (script, expected) in [
        ("pwd; echo *", "/workspace\ndeep one.csv two.csv\n"),
        (
            "cat *.csv | sort | uniq -c | sort -rn | head -1 | tr -s ' '",
            " 3 a\n",
        ),
        (
            "find . -name '*.csv' | sort | xargs wc -l | tail -1 | tr -s ' '",
            " 5 total\n",
        ),
        (
            "f() { echo \"$1-$2\"; }; for n in {1..3}; do f $n $((n * n)); done | paste -sd,",
            "1-1,2-4,3-9\n",
        ),
        (
            "cat <<END > deep/er/text && cat deep/er/text\n$(echo a)\nEND",
            "a\n",
        ),
        ("for n in $(seq 20000); do :; done; echo $n", "20000\n"),
        ("jq -n '{a: [1, 2]}' | jq -c '.a | add'", "3\n"),
        ("yes | head -20000 | wc -l", "20000\n"),
    ] {
        let printed = place.stdout(script);
        assert_eq!(printed.trim_start(), expected.trim_start(), "{script}");
    }
    let failed = place.shell("set -e; echo before; cat missing; echo after");
    assert_eq!(
        (&failed["exit_code"], &failed["stdout"]),
        (&json!(1), &json!("before\n"))
    );
    assert_eq!(place.shell("exit 7")["exit_code"], 7);
    assert_eq!(place.shell("nonesuch")["exit_code"], 127);
    assert_eq!(place.code("shell", "if true; then", &[]), "script_invalid");
}

#[test]
#[ignore = "bashkit compiles for minutes: `just nightly` runs it"]
fn nothing_needs_to_be_granted_and_nothing_else_is_there() {
    let place = Place::new();
    std::fs::write(place.folder.join("secret"), "secret\n").unwrap();
    let path = place.folder.join("secret").display().to_string();
    let script = format!(
        "echo hi > /tmp/a; cat /tmp/a; cat {path} || cat /etc/shadow || ls /root | head -3"
    );
    let ran = place.call("shell", &script, &[]).exits(0).json();
    assert_eq!(ran["structured_content"]["stdout"], "hi\n");
    let read = format!("--allow-read={}", place.folder.display());
    let ran = place
        .call("shell", "cat secret; echo x > secret", &[&read])
        .exits(0)
        .json();
    let ran = &ran["structured_content"];
    assert_eq!(
        (&ran["stdout"], &ran["exit_code"]),
        (&json!("secret\n"), &json!(1))
    );
    assert_eq!(place.code("shell_writing", "true", &[]), "not_granted");
    assert_eq!(place.code("shell_online", "true", &[]), "not_granted");
    let write = format!("--allow-write={}", place.folder.display());
    place
        .call("shell_writing", "echo x > secret", &[&write])
        .exits(0);
    assert_eq!(
        std::fs::read_to_string(place.folder.join("secret")).unwrap(),
        "x\n"
    );
    let ran = place
        .call("shell", "curl https://example.org", &[])
        .exits(0)
        .json();
    assert_eq!(ran["structured_content"]["exit_code"], 7, "{ran}");
}

#[test]
#[ignore = "bashkit compiles for minutes: `just nightly` runs it"]
fn granted_tools_are_commands_with_records_of_their_own() {
    let place = Place::new();
    std::fs::write(place.folder.join("a.txt"), "one\ntwo\n").unwrap();
    let read = format!("--allow-read={}", place.folder.display());
    let with: Vec<String> = ["files", "jq"]
        .iter()
        .map(|name| format!("--with={}", example(name)))
        .collect();
    let mut options = vec![read.as_str(), "--allow-tool=files.*", "--allow-tool=jq.jq"];
    options.extend(with.iter().map(String::as_str));
    let run = |script: &str| {
        let ran = place.call("shell", script, &options).exits(0).json();
        let of = |name: &str| ran["structured_content"][name].as_str().unwrap().to_owned();
        (of("stdout"), of("stderr"))
    };
    let (found, _) = run("search --json pattern=t path=. | jq -r '.matches[].line'");
    assert_eq!(found, "2\n");
    let (found, _) = run("echo '[1, 2]' | jq.jq filter=add; jq.jq '{\"filter\": \"3\"}'");
    assert_eq!(found, "3\n3\n");
    let (found, failed) = run("files.read path=missing || echo caught");
    assert!(
        found == "caught\n" && failed.starts_with("files.read: "),
        "{failed}"
    );
    let (help, _) = run("help");
    assert!(help.contains("  files.search, search  "), "{help}");
}

#[test]
#[ignore = "bashkit compiles for minutes: `just nightly` runs it"]
fn what_does_not_end_is_ended_by_the_limits_of_the_call() {
    let place = Place::new();
    let workspace = "--workspace=w";
    for (script, option, expected) in [
        (
            "while true; do echo line; done",
            "--timeout=3s",
            "deadline_exceeded",
        ),
        ("yes", "--max-artifact-bytes=1MiB", "artifact_quota"),
        ("while :; do :; done", "--fuel=2000000000", "fuel_exhausted"),
        ("sleep 1000", "--timeout=1s", "deadline_exceeded"),
        ("f() { f; }; f", "--timeout=20s", "recursion_too_deep"),
    ] {
        let code = place.code("shell", script, &[workspace, option]);
        assert_eq!(code, expected, "{script}");
    }
    let bytes = "while :; do seq 10000 >> big; done";
    assert_eq!(
        place.code("shell", bytes, &[workspace, "--max-disk=1MiB"]),
        "disk_limit"
    );
}

#[test]
#[ignore = "bashkit compiles for minutes: `just nightly` runs it"]
fn a_long_output_is_an_artifact() {
    let place = Place::new();
    let out = place.folder.join("out");
    let option = format!("--artifacts={}", out.display());
    let ran = place
        .call("shell", "seq 1 50000", &[&option])
        .exits(0)
        .json();
    let inline = ran["structured_content"]["stdout"].as_str().unwrap();
    assert_eq!(inline.len(), 16_000);
    let all = std::fs::read_to_string(Path::new(&out).join("stdout.txt")).unwrap();
    assert!(all.starts_with(inline) && all.ends_with("\n50000\n"));
}
