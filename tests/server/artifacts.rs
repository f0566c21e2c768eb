//! Artifacts over MCP: links that only the caller can read, part by part, and a host that holds none of them in memory.

use serde_json::{Value, json};

use crate::support::{Client, Toolcell, fixture, scratch, share_compiled};

const MIB: u64 = 1 << 20;

fn write(client: &mut Client, files: Value) -> Value {
    let answer = client.call("artifacts", json!({ "files": files }));
    assert_eq!(answer["isError"], json!(false), "{answer:#}");
    assert_eq!(
        answer["structuredContent"]["errors"],
        json!([]),
        "{answer:#}"
    );
    answer
}

fn read(client: &mut Client, uri: &str) -> Value {
    client.request("resources/read", json!({ "uri": uri }))["result"]["contents"][0].clone()
}

#[test]
fn an_artifact_is_a_link_that_its_caller_alone_can_read() {
    let mut client = Client::of(&["probe#artifacts"]);
    let file =
        json!({ "name": "../report \u{202e}.csv", "media_type": "text/csv", "text": "a,b\n1,2\n" });
    let answer = write(&mut client, json!([file]));
    let link = &answer["content"][0];
    let uri = link["uri"].as_str().unwrap().to_owned();
    assert_eq!(
        (&link["type"], &link["name"]),
        (&json!("resource_link"), &json!("report .csv"))
    );
    assert_eq!(
        (&link["mimeType"], &link["size"]),
        (&json!("text/csv"), &json!(8))
    );
    assert_eq!(
        answer["_meta"]["toolcell/artifact_refs"][0]["uri"],
        json!(uri)
    );
    let contents = read(&mut client, &uri);
    assert_eq!(
        (&contents["text"], &contents["mimeType"]),
        (&json!("a,b\n1,2\n"), &json!("text/csv"))
    );
    assert_eq!(
        contents["_meta"]["toolcell/provenance"]["trust"],
        "untrusted"
    );
    let listed = client.request("resources/list", json!({}))["result"]["resources"].clone();
    assert_eq!(
        (&listed[0]["uri"], &listed[0]["name"]),
        (&json!(uri), &json!("report .csv"))
    );
    let mut other = Client::of(&["probe#artifacts"]);
    for uri in [uri.clone(), format!("{uri}?offset=0")] {
        assert_eq!(
            other.request("resources/read", json!({ "uri": uri }))["error"]["code"],
            json!(-32002)
        );
    }
}

#[test]
fn a_large_artifact_is_read_part_by_part() {
    let mut client = Client::of(&["probe#artifacts"]);
    let size = 33 * MIB;
    let answer = write(
        &mut client,
        json!([{ "text": "begin", "bytes": size - 5, "chunk": MIB }]),
    );
    let mut uri = answer["content"][0]["uri"].as_str().unwrap().to_owned();
    let mut parts = 0;
    let mut bytes = 0;
    loop {
        let contents = read(&mut client, &uri);
        let part = &contents["_meta"]["toolcell/part"];
        let text = contents["text"].as_str().unwrap();
        assert_eq!(
            (&part["offset"], &part["size"]),
            (&json!(bytes), &json!(size)),
            "{part}"
        );
        assert_eq!(part["length"], json!(text.len()));
        assert!(text.len() as u64 <= 8 * MIB && text.starts_with("begin") == (parts == 0));
        (parts, bytes) = (parts + 1, bytes + text.len() as u64);
        match part["next"].as_str() {
            Some(next) => uri = next.to_owned(),
            None => break,
        }
    }
    assert_eq!((parts, bytes), (5, size));
    let beyond = read(&mut client, &uri.replace("?offset=", "?offset=9"));
    assert_eq!(
        (
            &beyond["text"],
            beyond["_meta"]["toolcell/part"].get("next")
        ),
        (&json!(""), None)
    );
    for wrong in ["?offset=-1", "?offset=x", "?offset="] {
        let uri = format!("{}{wrong}", uri.split('?').next().unwrap());
        assert_eq!(
            client.request("resources/read", json!({ "uri": uri }))["error"]["code"],
            json!(-32002)
        );
    }
}

#[cfg(target_os = "linux")]
fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn the_host_holds_no_artifact_in_memory() {
    let (_guard, home) = scratch();
    share_compiled(&home);
    let tool = format!("{}#artifacts", fixture("probe").display());
    let mut client = Client::run(Toolcell::at(
        &home,
        ["mcp", tool.as_str(), "--memory=16MiB"],
    ));
    client.initialize("2025-11-25");
    let files = |bytes: u64| json!([{ "bytes": bytes, "chunk": MIB }]);
    // Its first call also warms the server up.
    write(&mut client, files(2 * MIB));
    let before = peak_kib(client.pid());
    let answer = write(&mut client, files(500 * MIB));
    assert_eq!(answer["content"][0]["size"], json!(500 * MIB), "{answer:#}");
    // Neither does a part of it take more than the part.
    let uri = &answer["content"][0]["uri"];
    for (offset, next) in [
        (0, json!(64 << 10)),
        (400 * MIB, json!(400 * MIB + (64 << 10))),
        (500 * MIB - 9, Value::Null),
    ] {
        let part = client.call(
            "read_result",
            json!({ "reference": uri, "offset": offset, "length": 64 << 10 }),
        );
        assert_eq!(part["isError"], json!(false), "{part:#}");
        let text = part["content"][0]["text"].as_str().unwrap();
        let at = &part["structuredContent"];
        assert_eq!(
            (&at["offset"], &at["next_offset"]),
            (&json!(offset), &next),
            "{at}"
        );
        assert_eq!(
            (&at["size_bytes"], text.len()),
            (&json!(500 * MIB), if next.is_null() { 9 } else { 64 << 10 })
        );
        assert!(text.bytes().all(|byte| byte == b'x'));
    }
    let grown = peak_kib(client.pid()) - before;
    assert!(grown < 8 << 10, "500 MiB took {grown} KiB of memory");
}
