//! A reader that closes its pipe early must not cause a panic.

use std::process::{Child, Command};

use super::{echo_in, guest};
use crate::support::{Ran, Toolcell, kept, scratch};

/// Closes standard output before the program writes to it.
fn closed(mut child: Child) -> Ran {
    drop(child.stdout.take());
    Ran::from(child.wait_with_output().unwrap())
}

#[test]
fn a_closed_pipe_is_met_in_silence_and_the_exit_code_stays_that_of_the_call() {
    let big = guest("probe#big");
    for (arguments, code) in [
        (vec!["call", &big, "{\"bytes\": 60000}"], 0),
        (vec!["call", &big, "{\"bytes\": 60000}", "--json"], 0),
        (
            vec!["call", &big, "{\"bytes\": 60000}", "--print-record"],
            0,
        ),
        (vec!["call", &big, "{\"wrong\": 1}", "--json"], 2),
        (vec!["describe", &big], 0),
        (vec!["describe", &big, "--json"], 0),
        (vec!["doctor"], 0),
        (vec!["--help"], 0),
    ] {
        let ran = closed(Toolcell::new(&arguments).spawn());
        assert!(
            !ran.stderr.contains("panicked"),
            "{arguments:?}: {}",
            ran.stderr
        );
        if arguments[0] == "doctor" {
            // This test does not check whether the machine has everything.
            assert!(ran.code.is_some_and(|code| code < 2), "{ran:?}");
        } else {
            ran.exits(code);
        }
    }
}

#[test]
fn standard_input_is_not_read_unless_asked_for() {
    let (_guard, folder) = scratch();
    let ran = Toolcell::new(["call", &echo_in(&folder), "{\"a\": 1}", "--json"])
        .stdin("not for the tool")
        .run()
        .exits(0);
    assert_eq!(
        ran.json()["structured_content"],
        serde_json::json!({"a": 1})
    );
    let ran = Toolcell::new(["call", &guest("probe#stdin"), "--json"])
        .stdin("not for the tool")
        .run()
        .exits(0);
    assert_eq!(ran.json()["structured_content"]["bytes"], 0);
}

#[test]
fn notes_that_cannot_be_written_keep_no_result_back() {
    let (_guard, folder) = scratch();
    let echo = echo_in(&folder);
    for form in [vec![], vec!["--json"]] {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "exec \"$0\" \"$@\" 2>/dev/full",
            env!("CARGO_BIN_EXE_toolcell"),
        ]);
        // The tool declares no access to files, so a note reports the unused grant.
        command
            .args(["call", &echo, "{\"a\": 1}", "--allow-read=."])
            .args(&form);
        let ran = command
            .env("TOOLCELL_HOME", kept("home"))
            .current_dir(&folder)
            .output()
            .unwrap();
        let ran = Ran::from(ran).exits(0);
        assert!(ran.stdout.contains("\"a\""), "{form:?}: {ran:?}");
    }
}
