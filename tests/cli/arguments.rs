//! The forms of arguments, and the forms of tool names.

use serde_json::{Value, json};

use super::{echo_in, guest};
use crate::support::{Ran, Toolcell, scratch};

#[track_caller]
fn echoed(ran: Ran) -> Value {
    ran.exits(0).json()["structured_content"].clone()
}

#[test]
fn arguments_come_inline_from_a_file_from_standard_input_or_not_at_all() {
    let (_guard, folder) = scratch();
    let tool = echo_in(&folder);
    std::fs::write(folder.join("input.json"), "{\"from\": \"file\"}\n").unwrap();
    let call = |input: &str| Toolcell::new(["call", &tool, input, "--json"]).dir(&folder);
    assert_eq!(
        echoed(call("{\"from\": \"line\"}").run()),
        json!({"from": "line"})
    );
    assert_eq!(echoed(call("@input.json").run()), json!({"from": "file"}));
    assert_eq!(
        echoed(call("-").stdin("{\"from\": \"pipe\"}").run()),
        json!({"from": "pipe"})
    );
    std::fs::write(folder.join("-"), "{\"from\": \"a file\"}\n").unwrap();
    assert_eq!(
        echoed(call("@-").stdin("{\"from\": \"pipe\"}").run()),
        json!({"from": "a file"})
    );
    assert_eq!(
        echoed(Toolcell::new(["call", &tool, "--json"]).run()),
        json!({})
    );
}

#[test]
fn a_file_of_arguments_that_is_not_there_or_no_text_is_a_bad_request() {
    let (_guard, folder) = scratch();
    let tool = echo_in(&folder);
    std::fs::write(folder.join("binary"), [0xff, 0xfe]).unwrap();
    for (input, said) in [
        ("@none.json", "none.json"),
        ("@binary", "binary"),
        ("@.", "."),
        ("@", ""),
    ] {
        let ran = Toolcell::new(["call", &tool, input])
            .dir(&folder)
            .run()
            .exits(2);
        assert!(
            ran.stderr.starts_with("error: ") && ran.stderr.contains(said),
            "{input}: {}",
            ran.stderr
        );
    }
}

#[test]
fn arguments_that_are_not_json_say_so_whichever_way_they_came() {
    let (_guard, folder) = scratch();
    let tool = echo_in(&folder);
    std::fs::write(folder.join("input"), "nonsense").unwrap();
    for input in ["nonsense", "@input", "-"] {
        let ran = Toolcell::new(["call", &tool, input])
            .dir(&folder)
            .stdin("nonsense")
            .run()
            .exits(2);
        assert!(
            ran.stderr
                .ends_with("[invalid_arguments/arguments_not_json]\n"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn the_bytes_of_the_arguments_are_what_the_record_refers_to() {
    let (_guard, folder) = scratch();
    let sent = " { \"a\" : 1.0 } \n";
    let ran = Toolcell::new(["call", &echo_in(&folder), "-", "--print-record"])
        .stdin(sent)
        .run()
        .exits(0);
    let record = ran.json();
    assert_eq!(
        record["invocation"]["model_input_ref"],
        toolcell_spec::digest(sent.as_bytes())
    );
    assert_eq!(record["invocation"]["model_input_text"], sent);
}

#[test]
fn a_tool_among_several_is_named_after_the_path_and_the_choices_are_told() {
    let probe = guest("probe#");
    let probe = probe.trim_end_matches('#');
    let ran = Toolcell::new(["call", probe]).run().exits(2);
    assert!(
        ran.stderr.contains("has several tools") && ran.stderr.contains(&format!("{probe}#echo")),
        "{}",
        ran.stderr
    );
    let ran = Toolcell::new(["call", &format!("{probe}#ecko")])
        .run()
        .exits(2);
    assert!(
        ran.stderr.contains("has no tool `ecko`") && ran.stderr.contains(&format!("{probe}#echo")),
        "{}",
        ran.stderr
    );
    for name in ["counter", "probe.counter"] {
        Toolcell::new(["call", &format!("{probe}#{name}")])
            .run()
            .exits(0);
    }
}

#[test]
fn an_alias_names_a_tool_and_the_record_says_that_it_was_one() {
    let record = Toolcell::new(["call", &guest("probe#nicknamed"), "--print-record"])
        .run()
        .exits(0)
        .json();
    assert_eq!(record["invocation"]["tool_id"], "probe.aliased");
    assert_eq!(record["events"][1]["data"]["via"], "alias");
}

#[test]
fn a_path_may_have_the_sign_of_a_name_in_it() {
    let (_guard, folder) = scratch();
    let odd = folder.join("odd#name");
    std::fs::create_dir(&odd).unwrap();
    let tool = echo_in(&odd);
    for tool in [tool.clone(), format!("{tool}#echo")] {
        Toolcell::new(["call", &tool]).run().exits(0);
    }
}
