//! A guest finds nothing around itself that was not granted.
//!
//! Promise: Nothing without a grant.
//! Promise: A tool reaches only what was granted.

use std::net::{TcpListener, UdpSocket};
use std::os::unix::ffi::OsStrExt;

use serde_json::json;

use super::{logged, text};
use crate::support::{Test, Toolcell, fixture, scratch};

#[tokio::test]
async fn without_grants_there_is_nothing_around_a_guest() {
    let called = Test::new("probe#echo")
        .call(json!({ "any": ["thing", 1] }))
        .await;
    let seen = called.succeeded();
    assert_eq!(seen["input"], json!({ "any": ["thing", 1] }));
    for nothing in ["env", "readable", "context"] {
        assert_eq!(seen[nothing], json!({}), "{nothing}");
    }
    for nothing in ["args", "preopens"] {
        assert_eq!(seen[nothing], json!([]), "{nothing}");
    }
}

#[tokio::test]
async fn the_standard_input_is_empty() {
    let seen = Test::new("probe#stdin").call(json!({})).await.succeeded();
    assert_eq!((&seen["bytes"], &seen["error"]), (&json!(0), &json!(null)));
}

#[tokio::test]
async fn what_a_tool_does_not_declare_it_does_not_get_whatever_is_granted() {
    let (_dir, dir) = scratch();
    let seen = Test::new("probe#echo")
        .read(&dir)
        .write(&dir)
        .grant(|grants| {
            grants
                .environment
                .push(("GRANTED".into(), "a value".into()))
        })
        .call(json!({}))
        .await
        .succeeded();
    assert_eq!((&seen["env"], &seen["preopens"]), (&json!({}), &json!([])));
    let seen = Test::new("probe#env")
        .grant(|grants| {
            grants
                .environment
                .push(("GRANTED".into(), "a value".into()))
        })
        .call(json!({ "name": "GRANTED" }))
        .await
        .succeeded();
    assert_eq!(seen["value"], json!(null));
}

#[tokio::test]
async fn the_environment_of_the_host_is_not_the_guests() {
    let seen = Test::new("probe#env")
        .call(json!({ "name": "PATH" }))
        .await
        .succeeded();
    assert_eq!(seen["value"], json!(null));
}

#[tokio::test]
async fn what_a_guest_prints_becomes_log_content() {
    let called = Test::new("probe#stdio")
        .call(json!({ "out": "to stdout", "err": "to stderr" }))
        .await;
    assert_eq!(
        called.succeeded(),
        json!({ "out": "written", "err": "written" })
    );
    let record = called.record();
    assert_eq!(logged(&record, "stdout"), "to stdout");
    assert_eq!(logged(&record, "stderr"), "to stderr");
    assert!(
        !record["result"]["model_facing_content"]
            .to_string()
            .contains("to std")
    );
}

#[tokio::test]
async fn a_name_that_is_no_text_hides_no_other_of_its_folder() {
    let (_dir, dir) = scratch();
    let list = || async {
        Test::new("probe#list")
            .read(&dir)
            .call(json!({ "path": text(&dir) }))
            .await
            .succeeded()["value"]
            .clone()
    };
    for name in [&b"a"[..], b"\xff", b"\xe4\xf6", b"z"] {
        std::fs::write(dir.join(std::ffi::OsStr::from_bytes(name)), "").unwrap();
    }
    assert_eq!(list().await, json!(["a", "z"]));
}

#[test]
fn what_a_guest_prints_is_not_printed_by_the_host() {
    let tool = format!("{}#stdio", fixture("probe").display());
    let frame = r#"{"jsonrpc":"2.0","id":1}"#;
    let input = json!({ "out": frame, "err": frame }).to_string();
    let ran = Toolcell::new(["call", &tool, &input, "--print-record"])
        .run()
        .exits(0);
    let record = ran.json();
    assert_eq!(logged(&record, "stdout"), frame);
    assert!(!ran.stdout.lines().any(|line| line == frame));
    assert!(!ran.stderr.contains(frame), "{}", ran.stderr);
}

#[tokio::test]
async fn there_is_no_network() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let socket = UdpSocket::bind(("127.0.0.1", port)).unwrap();
    socket.set_nonblocking(true).unwrap();

    let tried = Test::new("probe#net_undeclared")
        .call(json!({ "port": port }))
        .await
        .succeeded();
    assert_eq!(tried["attempts"].as_array().unwrap().len(), 5);
    assert_eq!(tried["succeeded"], json!([]), "{tried:#}");
    let refused = Test::new("probe#net").call(json!({ "port": port })).await;
    refused
        .failed("permission_denied", "not_granted")
        .never_ran();
    let granted = Test::new("probe#net").grant(|grants| grants.allow_net("*").unwrap());
    let tried = granted.call(json!({ "port": port })).await.succeeded();
    assert_eq!(
        tried["succeeded"],
        json!([]),
        "a grant is for requests, not for sockets: {tried:#}"
    );

    assert!(listener.accept().is_err(), "the guest connected");
    assert!(socket.recv(&mut [0; 16]).is_err(), "something was sent");
}

#[tokio::test]
async fn the_working_directory_of_the_caller_is_known_only_where_it_was_granted() {
    let (_dir, dir) = scratch();
    let cwd = |grants: &mut toolcell_policy::Grants| grants.cwd = Some(std::env::temp_dir());
    let seen = Test::new("probe#echo")
        .grant(cwd)
        .call(json!({}))
        .await
        .succeeded();
    assert!(
        !seen["context_text"]
            .as_str()
            .unwrap()
            .contains(text(&std::env::temp_dir())),
        "{seen}"
    );
    // A tool that declares no access to files is not told of a granted folder, either.
    let seen = Test::new("probe#echo")
        .read(&dir)
        .grant(cwd)
        .call(json!({}))
        .await
        .succeeded();
    assert_eq!(seen["context"], json!({}));
}
