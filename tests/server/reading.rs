//! `read_result`: how a client that reads no resources gets what is too large for a result.
//!
//! Promise: An output is kept as the strictest says.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::pipeline::doubles::declaring;
use crate::support::{Client, OLD, Toolcell, fixture, scratch, share_compiled};

/// A client of a server with a home of its own, which offers tools of the test guest `probe`.
fn client(home: &Path, tools: &[&str], config: &str) -> Client {
    std::fs::write(home.join("toolcell.toml"), config).unwrap();
    let offered = tools
        .iter()
        .map(|name| format!("{}#{name}", fixture("probe").display()));
    let arguments: Vec<String> = std::iter::once("mcp".to_owned()).chain(offered).collect();
    let mut client = Client::run(Toolcell::at(home, arguments).dir(home));
    client.initialize(OLD);
    client
}

fn home() -> (tempfile::TempDir, PathBuf) {
    let (guard, home) = scratch();
    share_compiled(&home);
    (guard, home)
}

fn listed(client: &mut Client) -> Vec<Value> {
    client.request("tools/list", json!({}))["result"]["tools"]
        .as_array()
        .unwrap()
        .clone()
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect()
}

/// The URI of the payload that a result refers to.
#[track_caller]
fn reference(answer: &Value) -> String {
    let content = answer["content"].as_array().unwrap();
    let link = content
        .iter()
        .find(|block| block["type"] == "resource_link")
        .unwrap_or_else(|| panic!("{answer:#}"));
    link["uri"].as_str().unwrap().to_owned()
}

fn state(answer: &Value) -> (&Value, &Value) {
    assert_eq!(answer["isError"], json!(true), "{answer:#}");
    (
        &answer["structuredContent"]["state"],
        &answer["_meta"]["toolcell/error"]["code"],
    )
}

/// Why the resource cannot be read, for programs.
#[track_caller]
fn resource_state(client: &mut Client, uri: &str) -> String {
    let error = client.request("resources/read", json!({ "uri": uri }))["error"].clone();
    assert_eq!(
        (&error["code"], &error["data"]["uri"]),
        (&json!(-32002), &json!(uri)),
        "{error:#}"
    );
    error["data"]["state"].as_str().unwrap().to_owned()
}

#[test]
fn a_large_result_is_read_back_in_parts_and_persists_nothing_again() {
    let (_guard, home) = home();
    let mut client = client(&home, &["big_multibyte", "echo"], "");
    let tools = listed(&mut client);
    assert_eq!(
        names(&tools),
        ["probe_big_multibyte", "probe_echo", "read_result"]
    );
    assert_eq!(tools[2]["inputSchema"]["required"], json!(["reference"]));
    let uri = reference(&client.call("big_multibyte", json!({ "bytes": 200_000 })));
    let payloads = || std::fs::read_dir(home.join("payloads")).unwrap().count();
    assert_eq!(payloads(), 1);
    for _ in 0..3 {
        let mut whole = String::new();
        let mut offset = json!(0);
        while !offset.is_null() {
            // Not a multiple of the four bytes of a character.
            let part = client.call(
                "read_result",
                json!({ "reference": uri, "offset": offset, "length": 50_001 }),
            );
            assert_eq!(part["isError"], json!(false), "{part:#}");
            assert_eq!(
                part["_meta"]["toolcell/provenance"]["tool_id"],
                "probe.big_multibyte"
            );
            let text = part["content"][0]["text"].as_str().unwrap();
            assert_eq!(part["structuredContent"]["length"], text.len());
            assert!(
                part["structuredContent"]["text"]
                    .as_str()
                    .unwrap()
                    .starts_with(text)
            );
            whole.push_str(text);
            offset = part["structuredContent"]["next_offset"].clone();
        }
        assert_eq!(whole, "\u{1f980}".repeat(50_000));
    }
    assert_eq!(payloads(), 1, "reading made no payload");
    // A whole payload in one call would be as large as the result that was cut.
    let most = client.call(
        "read_result",
        json!({ "reference": uri, "length": 1_000_000 }),
    );
    assert_eq!(most["content"][0]["text"].as_str().unwrap().len(), 64 << 10);
}

#[test]
fn only_what_a_client_was_referred_to_can_be_read_and_why_not_is_for_programs_too() {
    let (_guard, home) = home();
    let mut owner = client(&home, &["big"], "");
    let uri = reference(&owner.call("big", json!({ "bytes": 100_000 })));
    let digest = uri.strip_prefix("toolcell:payload/").unwrap().to_owned();
    let by_digest = owner.call("read_result", json!({ "reference": digest, "length": 3 }));
    assert_eq!(by_digest["content"][0]["text"], "xxx");
    let mut other = client(&home, &["big"], "");
    for forged in [
        uri.as_str(),
        "toolcell:payload/sha256:../../keys/components",
        "",
        "\u{1b}[31m",
    ] {
        let refused = other.call("read_result", json!({ "reference": forged }));
        assert_eq!(
            state(&refused),
            (&json!("unknown_reference"), &json!("unknown_reference"))
        );
    }
    assert_eq!(resource_state(&mut other, &uri), "unknown_reference");
    let wrong = owner.call("read_result", json!({ "reference": uri, "offset": "0" }));
    assert_eq!(wrong["_meta"]["toolcell/error"]["code"], "schema_mismatch");
    std::fs::remove_file(
        home.join("payloads")
            .join(digest.strip_prefix("sha256:").unwrap()),
    )
    .unwrap();
    let gone = owner.call("read_result", json!({ "reference": uri }));
    assert_eq!(
        state(&gone),
        (&json!("result_removed"), &json!("result_removed"))
    );
    for uri in [uri.clone(), format!("{uri}?offset=5")] {
        assert_eq!(resource_state(&mut owner, &uri), "result_removed");
    }
}

#[test]
fn a_payload_that_was_cut_on_disk_is_not_read() {
    let (_guard, home) = home();
    let mut client = client(&home, &["big"], "");
    let uri = reference(&client.call("big", json!({ "bytes": 100_000 })));
    let file = home
        .join("payloads")
        .join(uri.rsplit_once("sha256:").unwrap().1);
    // A payload is read-only once it is stored.
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, "x".repeat(50_000)).unwrap();
    let first = client.call("read_result", json!({ "reference": uri, "length": 3 }));
    assert_eq!(first["content"][0]["text"], "xxx");
    let refused = client.call("read_result", json!({ "reference": uri, "offset": 49_990 }));
    assert_eq!(
        refused["_meta"]["toolcell/error"]["code"],
        "payload_unreadable"
    );
    for uri in [uri.clone(), format!("{uri}?offset=5")] {
        assert_eq!(resource_state(&mut client, &uri), "damaged");
    }
}

#[test]
fn a_result_that_is_displaced_by_a_thousand_newer_ones_has_expired() {
    let (_guard, home) = home();
    let mut client = client(&home, &["say_by_reference"], "");
    let call = |client: &mut Client, n: usize| {
        let content = json!([{ "type": "text", "text": format!("number {n}") }]);
        reference(&client.call("say_by_reference", json!({ "content": content })))
    };
    let first = call(&mut client, 0);
    for n in 1..=1_000 {
        call(&mut client, n);
        client.forget();
    }
    let refused = client.call("read_result", json!({ "reference": first }));
    assert_eq!(
        state(&refused),
        (&json!("reference_expired"), &json!("reference_expired"))
    );
    assert_eq!(resource_state(&mut client, &first), "reference_expired");
}

#[test]
fn where_nothing_is_persisted_nothing_is_offered_to_read_it() {
    for strategy in ["never_persist", "drop_with_reason", "redact"] {
        let (_guard, home) = home();
        let mut client = client(
            &home,
            &["big"],
            &format!("[results]\npersistence = \"{strategy}\"\n"),
        );
        assert_eq!(names(&listed(&mut client)), ["probe_big"], "{strategy}");
        let refused = client.call("big", json!({ "bytes": 100_000 }));
        assert_eq!(refused["isError"], json!(true), "{strategy}: {refused:#}");
        let id = client.begin_call("read_result", json!({ "reference": "x" }));
        assert_eq!(
            client.answer(&id)["error"]["data"]["error"]["error_class"],
            "unknown_tool"
        );
        assert!(!home.join("payloads").exists(), "{strategy}");
    }
    // The same for a server all of whose tools persist nothing.
    let (_guard, home) = home();
    assert_eq!(
        names(&listed(&mut client(&home, &["say_or_drop"], ""))),
        ["probe_say_or_drop"]
    );
}

#[test]
fn an_operator_who_keeps_all_output_by_reference_announces_no_schema_of_it() {
    let (_guard, home) = home();
    let mut client = client(
        &home,
        &["good_structured"],
        "[results]\npersistence = \"ref_only\"\n",
    );
    let tools = listed(&mut client);
    assert_eq!(names(&tools), ["probe_good_structured", "read_result"]);
    assert!(tools[0].get("outputSchema").is_none(), "{}", tools[0]);
    let answer = client.call("good_structured", json!({}));
    assert!(answer.get("structuredContent").is_none(), "{answer:#}");
    let part = client.call("read_result", json!({ "reference": reference(&answer) }));
    assert_eq!(part["content"][0]["text"], "{\"n\":7}");
}

#[test]
fn what_was_readable_is_redacted_once_the_operator_says_so() {
    let (_guard, home) = home();
    let mut client = client(&home, &["big"], "");
    let uri = reference(&client.call("big", json!({ "bytes": 100_000 })));
    let next = home.join("next");
    std::fs::write(&next, "[results]\npersistence = \"redact\"\n").unwrap();
    std::fs::rename(next, home.join("toolcell.toml")).unwrap();
    client.says("now serving the new version");
    let refused = client.call("read_result", json!({ "reference": uri }));
    assert_eq!(state(&refused), (&json!("redacted"), &json!("redacted")));
    assert_eq!(resource_state(&mut client, &uri), "redacted");
    assert_eq!(names(&listed(&mut client)), ["probe_big"]);
}

#[test]
fn no_tool_takes_the_name_of_the_reader() {
    let (_guard, home) = home();
    let component = home.join("named.wasm");
    let bytes = declaring("named_reader", |declaration| {
        declaration["name"] = json!("read_result")
    });
    std::fs::write(&component, bytes).unwrap();
    let mut client =
        Client::run(Toolcell::at(&home, ["mcp".as_ref(), component.as_os_str()]).dir(&home));
    client.initialize(OLD);
    assert_eq!(
        names(&listed(&mut client)),
        ["named_reader_read_result", "read_result"]
    );
    let answer = client.call("named_reader_read_result", json!({ "n": 1 }));
    assert_eq!(answer["structuredContent"], json!({ "n": 1 }));
}
