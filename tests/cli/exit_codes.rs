use serde_json::json;

use super::{echo_in, example, guest};
use crate::support::{Toolcell, scratch};

#[test]
fn success_is_0_and_a_tool_that_failed_is_1() {
    Toolcell::new(["call", &guest("probe#empty")]).run().exits(0);
    let fail = guest("probe#fail");
    for class in ["execution_failed", "dependency_unavailable", "partial_failure"] {
        Toolcell::new(["call", &fail, &json!({"class": class}).to_string()]).run().exits(1);
    }
    Toolcell::new(["call", &guest("hostile#panic")]).run().exits(1);
}

#[test]
fn a_bad_request_is_2() {
    for arguments in [
        vec!["call", "no/such/tool"],
        vec!["call"],
        vec!["cal"],
        vec![],
        vec!["call", "x", "{}", "--no-such-option"],
        vec!["call", "x", "{}", "--timeout", "soon"],
        vec!["describe", "no/such/tool"],
        vec!["new", "Upper"],
        vec!["new", "x", "--lang", "cobol"],
        vec!["build", "no/such/folder"],
    ] {
        let ran = Toolcell::new(&arguments).run().exits(2);
        assert!(ran.stdout.is_empty() && !ran.stderr.is_empty(), "{arguments:?}: {ran:?}");
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    }
    for (tool, input) in [
        ("probe#strict", "{}"),
        ("probe#strict", "not JSON"),
        ("probe#no_such_tool", "{}"),
        ("validated#even", "{\"n\": 1}"),
        ("validated#even", "{\"n\": 102}"),
        ("probe#lifecycle_deferred", "{}"),
        ("probe#lifecycle_requires_setup", "{}"),
    ] {
        Toolcell::new(["call", &guest(tool), input]).run().exits(2);
    }
}

#[test]
fn what_is_refused_is_3() {
    let path = json!({"path": "/tmp"}).to_string();
    for (tool, input) in [
        ("probe#read", path.as_str()),
        ("probe#net", "{}"),
        ("probe#lifecycle_disabled", "{}"),
        ("probe#lifecycle_draft", "{}"),
        ("probe#lifecycle_retired", "{}"),
    ] {
        Toolcell::new(["call", &guest(tool), input]).run().exits(3);
    }
    Toolcell::new(["call", &format!("{}#search", example("files")), "{\"pattern\": \"x\"}"]).run().exits(3);
}

#[test]
fn a_limit_that_was_hit_is_4() {
    Toolcell::new(["call", &guest("hostile#spin"), "--timeout", "50ms"]).run().exits(4);
    Toolcell::new(["call", &guest("hostile#memory"), "{\"mib\": 512}"]).run().exits(4);
    Toolcell::new(["call", &guest("probe#big"), "{\"bytes\": 9999}", "--max-output", "1KiB"]).run().exits(4);
}

#[test]
fn a_fault_of_toolcell_itself_is_70_and_is_told_with_its_cause() {
    let (_guard, folder) = scratch();
    let tool = echo_in(&folder);
    let home = folder.join("home");
    std::fs::write(&home, "a file, where a folder should be").unwrap();
    for command in ["call", "describe"] {
        let ran = Toolcell::at(&home, [command, &tool]).run().exits(70);
        assert!(ran.stdout.is_empty() && ran.stderr.starts_with("error: "), "{ran:?}");
        assert!(ran.stderr.contains(home.to_str().unwrap()), "{}", ran.stderr);
    }
}
