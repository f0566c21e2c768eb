//! Output for people: content on standard output, everything else on standard error.

use serde_json::json;

use super::guest;
use crate::support::{Toolcell, scratch};

#[test]
fn text_is_printed_as_it_is() {
    let ran = Toolcell::new(["call", &guest("probe#summary")])
        .run()
        .exits(0);
    assert_eq!(ran.stdout, "words for the model\n");
    assert_eq!(ran.stderr, "words for the person\n");
}

#[test]
fn structured_output_without_text_is_printed_prettily() {
    let ran = Toolcell::new(["call", &guest("probe#good_structured")])
        .run()
        .exits(0);
    assert_eq!(ran.stdout, "{\n  \"n\": 7\n}\n");
}

#[test]
fn nothing_is_printed_where_nothing_was_said() {
    let ran = Toolcell::new(["call", &guest("probe#empty")])
        .run()
        .exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
}

#[test]
fn what_a_tool_prints_and_logs_is_marked_and_on_standard_error() {
    let input = json!({"out": "one\ntwo\n", "err": "three"}).to_string();
    let ran = Toolcell::new(["call", &guest("probe#stdio"), &input])
        .run()
        .exits(0);
    assert_eq!(ran.stderr, "stdout| one\nstdout| two\nstderr| three\n");
    assert!(
        !ran.stdout.contains("one"),
        "only the answer is there: {}",
        ran.stdout
    );
    let ran = Toolcell::new([
        "call",
        &guest("probe#log"),
        "{\"count\": 1, \"bytes\": 3, \"level\": \"warn\"}",
    ])
    .run()
    .exits(0);
    assert_eq!(ran.stderr, "log| warn xxx {\"line\":1}\n");
}

#[test]
fn an_error_is_one_line_with_class_and_code_after_what_is_usable() {
    let ran = Toolcell::new(["call", &guest("probe#partial")])
        .run()
        .exits(1);
    assert_eq!(ran.stdout, "half of it\n");
    let said = "Half of it is done.\nerror: The second half could not be read. [partial_failure/second_half_missing]\n";
    assert_eq!(ran.stderr, said);
    let ran = Toolcell::new(["call", &guest("probe#read"), "{\"path\": \"/a\"}"])
        .run()
        .exits(3);
    assert!(ran.stdout.is_empty());
    assert!(
        ran.stderr.starts_with("error: ")
            && ran.stderr.ends_with(" [permission_denied/not_granted]\n"),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.stderr.lines().count(), 1);
}

#[test]
fn a_refusal_before_any_call_has_a_code_to_explain() {
    let (_guard, folder) = scratch();
    for command in [
        &["call", "nope"][..],
        &["describe", "nope"],
        &["search", "words", "nope"],
        &["surface", "nope"],
        &["export", "nope", "--dialect=openai"],
        &["mcp", "nope"],
        &["serve", "nope", "--listen=127.0.0.1:0"],
        &["policy", "check", "nope"],
        &["policy", "check", "--explain", "nope"],
        &["check", "nope"],
        &["info", "./nope.wasm"],
        &["verify", "nope.wasm"],
    ] {
        let ran = Toolcell::new(command).dir(&folder).run().exits(2);
        let said = ran.stdout + &ran.stderr;
        assert!(
            said.trim_end().ends_with("unknown_tool]"),
            "{command:?}: {said}"
        );
    }
}

#[test]
fn blocks_that_are_no_text_are_shown_as_json() {
    let ran = Toolcell::new(["call", &guest("probe#blocks")])
        .run()
        .exits(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[0], "a text");
    let image: serde_json::Value = serde_json::from_str(lines[1]).unwrap();
    assert_eq!(
        (&image["type"], &image["media_type"]),
        (&json!("image"), &json!("image/png"))
    );
    assert!(
        ran.stderr.contains("log| a line of a log"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_large_output_is_shown_as_a_preview_and_where_the_rest_is() {
    let ran = Toolcell::new(["call", &guest("probe#big"), "{\"bytes\": 100000}"])
        .run()
        .exits(0);
    assert!(
        ran.stdout.len() < 10_000 && ran.stdout.trim_end().chars().all(|c| c == 'x'),
        "{}",
        ran.stdout
    );
    let note = ran
        .stderr
        .lines()
        .find(|line| line.contains("100000 bytes in all"))
        .unwrap_or_default();
    assert!(
        note.contains("toolcell artifact toolcell:payload/sha256:"),
        "{}",
        ran.stderr
    );
}

#[test]
fn what_a_tool_says_cannot_act_on_a_terminal_but_reaches_a_pipe_as_it_is() {
    // Standard output of a test is a pipe; the escaping for terminals has its own test beside the code.
    let ran = Toolcell::new([
        "call",
        &guest("hostile#control_chars"),
        "{\"where\": \"content\"}",
    ])
    .run()
    .exits(0);
    assert!(ran.stdout.contains('\u{1b}'));
}
