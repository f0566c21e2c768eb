//! The memory that clients can make a server use, as the kernel counts it.
//!
//! Promise: Clients cannot exhaust memory.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::pipeline::doubles::declaring;
use crate::support::{Client, NEW, Toolcell, Web, scratch};

const MIB: u64 = 1 << 10;

/// A field of `/proc/PID/status` by its name, in KiB.
fn kib(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .unwrap();
    line.trim_start_matches(':')
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap()
}

/// Waits until the process has released its memory, except for 64 MiB.
fn gives_back(pid: u32, start: u64) {
    let began = Instant::now();
    loop {
        let now = kib(pid, "VmRSS");
        if now <= start + 64 * MIB {
            return;
        }
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{} MiB at the start, {} MiB are kept",
            start / MIB,
            now / MIB
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Arguments with this number of values, in this number of bytes.
fn arguments(values: usize, bytes: usize) -> String {
    let values = vec!["0"; values].join(",");
    let text = "x".repeat(bytes.saturating_sub(values.len()));
    format!(r#"{{"values":[{values}],"text":"{text}"}}"#)
}

/// A call with these arguments, as the bytes of an HTTP request.
fn call(web: &Web, arguments: &str) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": NEW,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let headers = [
        ("MCP-Protocol-Version", NEW),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "invocation"),
    ];
    let head: String = web
        .changed(&headers)
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let params = format!(r#"{{"name":"invocation","_meta":{meta},"arguments":{arguments}}}"#);
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    format!(
        "POST /mcp HTTP/1.1\r\n{head}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends the same call twelve times at once. Returns the answers.
fn twelve(address: SocketAddr, call: &str) -> Vec<String> {
    let send = || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(120)))
            .unwrap();
        let _ = stream.write_all(call.as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    std::thread::scope(|scope| {
        let sent: Vec<_> = (0..12).map(|_| scope.spawn(send)).collect();
        sent.into_iter().map(|sent| sent.join().unwrap()).collect()
    })
}

#[test]
fn twelve_large_bodies_at_once_take_little_memory_and_it_goes_back() {
    let mut web = Web::of(&["probe#invocation"]);
    let pid = web.pid();
    let address = web.address;
    twelve(address, &call(&web, "{}"));
    let start = kib(pid, "VmRSS");
    // Two bytes per value.
    for answer in twelve(address, &call(&web, &arguments(2_000_000, 0))) {
        assert!(answer.contains("\"invalid_arguments\""), "{answer}");
    }
    // The maximum number of values, and of bytes. If memory is short, the server asks to retry later.
    for answer in twelve(address, &call(&web, &arguments(90_000, 4_000_000))) {
        assert!(
            answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.1 503"),
            "{answer}"
        );
    }
    let peak = kib(pid, "VmHWM");
    assert!(peak < 1_024 * MIB, "{} MiB", peak / MIB);
    gives_back(pid, start);
}

#[test]
fn a_body_of_many_values_beside_the_arguments_is_not_parsed() {
    let mut web = Web::of(&["probe#invocation"]);
    let pid = web.pid();
    let session = web.session(json!({}));
    let start = kib(pid, "VmRSS");
    let values = vec!["0"; 1_900_000].join(",");
    for body in [
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"x":[{values}]}}}}"#),
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{{"name":"x","arguments":[{values}]}}}}"#
        ),
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":[{values}]}}"#),
        format!("[{values}]"),
    ] {
        let reply = web.request("POST /mcp", &web.in_session(&session), &body);
        assert_eq!(
            (reply.status, reply.answer()["error"]["code"].clone()),
            (400, json!(-32600)),
            "{}",
            reply.head
        );
    }
    let peak = kib(pid, "VmHWM");
    assert!(peak < start + 100 * MIB, "{} MiB", peak / MIB);
}

#[test]
fn a_long_line_of_values_takes_little_memory() {
    let mut client = Client::of(&["probe#invocation"]);
    client.call("invocation", json!({}));
    let start = kib(client.pid(), "VmRSS");
    let arguments = arguments(7_500_000, 0);
    client.send_text(&format!(
        r#"{{"jsonrpc":"2.0","id":71,"method":"tools/call","params":{{"name":"invocation","arguments":{arguments}}}}}"#
    ));
    let answer = client.answer(&json!(71));
    assert_eq!(
        answer["result"]["_meta"]["toolcell/error"]["class"], "invalid_arguments",
        "{answer}"
    );
    client.send_text(&format!(
        r#"{{"jsonrpc":"2.0","id":72,"method":"tools/list","params":{arguments}}}"#
    ));
    assert_eq!(client.answer(&json!(72))["error"]["code"], json!(-32600));
    // Only the arguments of a call are removed from the frame before parsing.
    let params = format!(r#"{{"name":"x","arguments":{arguments}}}"#);
    client.send_text(&format!(
        r#"{{"jsonrpc":"2.0","id":73,"method":"prompts/get","params":{params}}}"#
    ));
    assert_eq!(client.answer(&json!(73))["error"]["code"], json!(-32600));
    let peak = kib(client.pid(), "VmHWM");
    assert!(peak < start + 250 * MIB, "{} MiB", peak / MIB);
    gives_back(client.pid(), start);
}

#[test]
fn calls_that_would_take_too_much_memory_together_are_refused_and_the_others_go_on() {
    let mut client = Client::with(&["hostile#sleep", "probe#invocation"], ["--timeout=50s"]);
    let arguments = format!(r#"{{{}"ms":60000}}"#, " ".repeat(7 << 20));
    let mut call = |id: u32| {
        client.send_text(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"sleep","arguments":{arguments}}}}}"#
        ));
    };
    (101..=107).for_each(&mut call);
    let answer = client.answer(&json!(107));
    assert_eq!(answer["error"]["code"], json!(-32600), "{answer}");
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains("wait for answers"),
        "{answer}"
    );
    client.call("invocation", json!({}));
}

#[test]
fn many_numbers_below_a_long_name_take_little_memory_where_defaults_are_filled_in() {
    let (_guard, folder) = scratch();
    let file = folder.join("numbers.wasm");
    let bytes = declaring("numbers", |declaration| {
        declaration["input_contract"] = json!({ "model_input_schema": { "type": "object" }, "strict": false, "defaults": { "limit": 1 } });
    });
    std::fs::write(&file, bytes).unwrap();
    let mut client = Client::run(Toolcell::new(["mcp".into(), file.into_os_string()]));
    client.initialize("2025-11-25");
    client.call("echo", json!({}));
    let start = kib(client.pid(), "VmRSS");
    // Each number is spelled differently from its stored form; with the whole path of each, they would take 2 GB.
    let name = "x".repeat(200_000);
    let numbers = vec!["1e2"; 10_000].join(",");
    let arguments = format!(r#"{{"{name}":[{numbers}],"n":1234567890123456}}"#);
    client.send_text(&format!(
        r#"{{"jsonrpc":"2.0","id":71,"method":"tools/call","params":{{"name":"echo","arguments":{arguments}}}}}"#
    ));
    let answer = client.answer(&json!(71));
    assert_eq!(answer["result"]["isError"], json!(false), "the call failed");
    let peak = kib(client.pid(), "VmHWM");
    assert!(peak < start + 300 * MIB, "{} MiB", peak / MIB);
}
