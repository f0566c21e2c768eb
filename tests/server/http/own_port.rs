//! A tool that calls the server which runs it, or other services of this machine (NET-12).
//!
//! Promise: Internal addresses are not reached.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Toolcell, Web, fixture, kept};

/// The outcome of a request from the tool to `authority`.
fn asks(web: &Web, authority: &str) -> Value {
    let arguments = json!({ "requests": [{ "authority": authority, "path": "/healthz" }] });
    let reply = web.stateless(
        "tools/call",
        json!({ "name": "ask", "arguments": arguments }),
        json!({}),
    );
    reply.answer()["result"]["structuredContent"]["answers"][0].clone()
}

#[test]
fn a_tool_cannot_call_the_server_that_runs_it_although_its_address_was_granted() {
    let hosts = ["127.0.0.1", "localhost"];
    let grants = hosts.map(|host| format!("--allow-net=http://{host}:*"));
    let web = Web::with(
        &["egress#ask"],
        grants.iter().map(String::as_str).chain(["--no-token"]),
    );
    let port = web.address.port();
    for host in hosts {
        let answer = asks(&web, &format!("{host}:{port}"));
        assert!(
            answer["error"]
                .as_str()
                .is_some_and(|error| error.contains("DestinationIpProhibited")),
            "{host}: {answer}"
        );
    }
    // The grant applies to other ports; this one is free, so the connection is refused.
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let free = other.local_addr().unwrap().port();
    drop(other);
    let answer = asks(&web, &format!("127.0.0.1:{free}"));
    assert!(
        answer["error"]
            .as_str()
            .is_some_and(|error| error.contains("ConnectionRefused")),
        "{answer}"
    );
}

#[test]
fn a_server_at_every_address_is_closed_to_its_tools_at_every_address() {
    let options = [
        "--allow-host=127.0.0.1",
        "--allow-net=http://127.0.0.1:*",
        "--allow-net=http://127.0.0.9:*",
    ];
    let mut arguments = Web::arguments(&["egress#ask"], options);
    arguments
        .iter_mut()
        .filter(|argument| *argument == "--listen=127.0.0.1:0")
        .for_each(|a| *a = "--listen=0.0.0.0:0".into());
    let mut web = Web::run(Toolcell::new(arguments));
    web.address.set_ip("127.0.0.1".parse().unwrap());
    for host in ["127.0.0.1", "127.0.0.9"] {
        let answer = asks(&web, &format!("{host}:{}", web.address.port()));
        assert!(
            answer["error"]
                .as_str()
                .is_some_and(|error| error.contains("DestinationIpProhibited")),
            "{host}: {answer}"
        );
    }
}

/// Runs one request to a public address in a network namespace that has that address. Returns the outcome.
#[cfg(target_os = "linux")]
fn in_a_machine_with_a_public_address(grant: &str) -> Value {
    let mut tool = fixture("egress").into_os_string();
    tool.push("#ask");
    let script = "ip link set lo up && ip address add 93.184.215.14/32 dev lo && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args([
        "--user",
        "--map-root-user",
        "--net",
        "sh",
        "-c",
        script,
        "sh",
        env!("CARGO_BIN_EXE_toolcell"),
        "call",
    ]);
    command
        .arg(tool)
        .arg(r#"{"requests":[{"authority":"93.184.215.14:80"}]}"#)
        .arg(grant)
        .arg("--json");
    command.env("TOOLCELL_HOME", kept("home"));
    let ran = Toolcell::exactly(command).run().exits(0);
    ran.json()["structured_content"]["answers"][0].clone()
}

#[test]
#[cfg(target_os = "linux")]
fn a_wide_grant_does_not_reach_a_public_address_of_this_machine() {
    let answer = in_a_machine_with_a_public_address("--allow-net=http://*:*");
    assert!(
        answer["error"]
            .as_str()
            .is_some_and(|error| error.contains("DestinationIpProhibited")),
        "{answer}"
    );
    // The grant names the address; the connection is refused because no service listens.
    let answer = in_a_machine_with_a_public_address("--allow-net=http://93.184.215.14:80");
    assert!(
        answer["error"]
            .as_str()
            .is_some_and(|error| error.contains("ConnectionRefused")),
        "{answer}"
    );
}
