use serde_json::json;

use super::{echo_in, example, guest};
use crate::support::{Toolcell, scratch};

#[test]
fn success_is_0_and_a_tool_that_failed_is_1() {
    Toolcell::new(["call", &guest("probe#empty")])
        .run()
        .exits(0);
    let fail = guest("probe#fail");
    for class in [
        "execution_failed",
        "dependency_unavailable",
        "partial_failure",
    ] {
        Toolcell::new(["call", &fail, &json!({"class": class}).to_string()])
            .run()
            .exits(1);
    }
    Toolcell::new(["call", &guest("hostile#panic")])
        .run()
        .exits(1);
}

#[test]
fn no_tool_can_choose_a_code_that_decides_on_the_exit_code() {
    let fail = guest("probe#fail");
    for code in [
        "host_fault",
        "host_stopped",
        "network_denied",
        "network_request_refused",
    ] {
        let input = json!({ "class": "execution_failed", "code": code }).to_string();
        let ran = Toolcell::new(["call", &fail, &input, "--json"])
            .run()
            .exits(1);
        assert_eq!(ran.json()["error"]["error_code"], "tool_failed", "{code}");
    }
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
        assert!(
            ran.stdout.is_empty() && !ran.stderr.is_empty(),
            "{arguments:?}: {ran:?}"
        );
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
    Toolcell::new([
        "call",
        &format!("{}#search", example("files")),
        "{\"pattern\": \"x\"}",
    ])
    .run()
    .exits(3);
}

#[test]
fn a_limit_that_was_hit_is_4() {
    Toolcell::new(["call", &guest("hostile#spin"), "--timeout", "50ms"])
        .run()
        .exits(4);
    Toolcell::new(["call", &guest("hostile#memory"), "{\"mib\": 512}"])
        .run()
        .exits(4);
    Toolcell::new([
        "call",
        &guest("probe#big"),
        "{\"bytes\": 9999}",
        "--max-output",
        "1KiB",
    ])
    .run()
    .exits(4);
}

#[test]
fn a_fault_of_toolcell_itself_is_70_and_is_told_with_its_cause() {
    let (_guard, folder) = scratch();
    let tool = echo_in(&folder);
    let home = folder.join("home");
    std::fs::write(&home, "a file, where a folder should be").unwrap();
    for command in [
        &["call", tool.as_str(), "{}", "--no-config"][..],
        &["describe", &tool],
    ] {
        let ran = Toolcell::at(&home, command).run().exits(70);
        assert!(
            ran.stdout.is_empty() && ran.stderr.contains("error: "),
            "{ran:?}"
        );
        assert!(
            ran.stderr.contains(home.to_str().unwrap()),
            "{}",
            ran.stderr
        );
    }
    // The call has a result even so.
    let result = Toolcell::at(&home, ["call", &tool, "{}", "--json", "--no-config"])
        .run()
        .exits(70)
        .json();
    assert_eq!(result["error"]["error_code"], "host_fault", "{result:#}");
}

#[test]
fn a_key_that_cannot_be_read_refuses_the_call_with_a_result() {
    use std::os::unix::fs::PermissionsExt;
    let (_guard, folder) = scratch();
    let tool = echo_in(&folder);
    let home = folder.join("home");
    let call = || Toolcell::at(&home, ["call", &tool, "{}", "--json"]).run();
    call().exits(0);
    let key = home.join("keys/components");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let result = call().exits(2).json();
    let error = &result["error"];
    assert_eq!(
        (&error["error_class"], &error["error_code"]),
        (&json!("setup_required"), &json!("component_key_unreadable"))
    );
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains(key.to_str().unwrap()) && message.contains("chmod 600"),
        "{message}"
    );
    for command in [&["policy", "check", &tool][..], &["describe", &tool]] {
        let told = Toolcell::at(&home, command).run().exits(2);
        assert!(
            format!("{}{}", told.stdout, told.stderr).contains("chmod 600"),
            "{told:?}"
        );
    }
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    call().exits(0);
}
