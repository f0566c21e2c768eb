//! A server that has to compile a component greets its client first. What needs the tools waits for them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::sandbox::compiling::bomb::{compile_bomb, slow_to_compile};
use crate::support::{Client, OLD, Toolcell, scratch};

/// A folder with an empty home, and a component of `text`.
fn place(text: &str) -> (tempfile::TempDir, PathBuf, String) {
    place_of(&wat::parse_str(text).unwrap())
}

fn place_of(component: &[u8]) -> (tempfile::TempDir, PathBuf, String) {
    let (guard, folder) = scratch();
    let home = folder.join("home");
    let tool = folder.join("slow.wasm");
    std::fs::create_dir(&home).unwrap();
    std::fs::write(&tool, component).unwrap();
    (guard, home, tool.to_str().unwrap().to_owned())
}

/// Adds a custom section that fills `component` up to `bytes`.
fn fill(component: &mut Vec<u8>, bytes: usize) {
    let header = 1 + 5;
    let size = bytes - component.len() - header;
    component.push(0);
    // Five bytes of LEB128 for any size.
    component.extend(
        (0..5).map(|part| (size >> (7 * part)) as u8 & 0x7f | if part < 4 { 0x80 } else { 0 }),
    );
    component.extend(b"\x04fill");
    component.resize(bytes, 0);
}

/// Whether a component was compiled.
fn is_compiled(home: &Path) -> bool {
    std::fs::read_dir(home.join("cache/components"))
        .is_ok_and(|mut entries| entries.next().is_some())
}

fn notices<'f>(frames: &'f [Value], method: &str) -> Vec<&'f Value> {
    frames
        .iter()
        .filter(|frame| frame["method"] == method)
        .map(|frame| &frame["params"])
        .collect()
}

#[test]
fn a_client_is_greeted_before_a_component_is_compiled_and_told_why_its_list_waits() {
    let (_guard, home, tool) = place(&slow_to_compile(2_000));
    let mut client = Client::run(Toolcell::at(&home, ["mcp", &tool]));
    client.initialize(OLD);
    assert!(!is_compiled(&home), "the greeting waited for the compiler");
    // Requests that need no tool are answered at once.
    client.request("ping", json!({}));
    assert!(
        !is_compiled(&home),
        "the answer to a ping waited for the compiler"
    );
    let listed = client.begin("tools/list", json!({ "_meta": { "progressToken": 7 } }));
    let called = client.begin_call("echo", json!({ "a": 1 }));
    let listed = client.answer(&listed);
    assert_eq!(listed["result"]["tools"][0]["name"], "wat_echo", "{listed}");
    let called = client.answer(&called);
    assert_eq!(called["result"]["isError"], json!(false), "{called}");
    let frames = client.seen();
    let progress = notices(&frames, "notifications/progress");
    let steps: Vec<f64> = progress
        .iter()
        .filter_map(|step| step["progress"].as_f64())
        .collect();
    assert!(!steps.is_empty() && steps.is_sorted(), "{frames:#?}");
    assert!(
        progress.iter().all(|step| step["progressToken"] == 7),
        "{progress:?}"
    );
    let said = notices(&frames, "notifications/message");
    assert_eq!(said.len(), 1, "a session is told once: {said:?}");
    assert!(
        said[0]["data"]
            .as_str()
            .unwrap()
            .contains("compiling a component"),
        "{said:?}"
    );
    // No client has seen another list.
    assert!(
        notices(&frames, "notifications/tools/list_changed").is_empty(),
        "{frames:#?}"
    );
    let (status, _, stderr, _) = client.close();
    assert!(status.success() && stderr.is_empty(), "{status} {stderr}");
}

/// The compiled code that a home has, without its authentication code, which differs in each home.
fn code(home: &Path) -> Vec<u8> {
    let entry = std::fs::read_dir(home.join("cache/components"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let mut entry = std::fs::read(entry.path()).unwrap();
    entry.truncate(entry.len() - blake3::OUT_LEN);
    entry
}

#[test]
fn a_server_compiles_a_new_component_quickly_and_again_thoroughly_when_its_first_calls_are_over() {
    let (_guard, home, tool) = place(&slow_to_compile(100));
    let (_other_guard, other, same_tool) = place(&slow_to_compile(100));
    Toolcell::at(&other, ["call", &same_tool, r#"{"a":1}"#])
        .run()
        .exits(0);
    let thorough = code(&other);
    let mut client = Client::run(Toolcell::at(&home, ["mcp", &tool]));
    client.initialize(OLD);
    let first = client.call("echo", json!({ "a": 1 }));
    assert!(
        code(&home) != thorough,
        "one call and a server compile the same"
    );
    // Its process has the lowest priority, and other tests keep the processors busy.
    let end = Instant::now() + Duration::from_secs(240);
    // A part of an entry is never there: it is renamed when it is whole.
    while code(&home) != thorough {
        assert!(Instant::now() < end, "the component is not compiled again");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(
        client.call("echo", json!({ "a": 1 }))["content"],
        first["content"]
    );
    let (status, _, stderr, _) = client.close();
    assert!(status.success() && stderr.is_empty(), "{status} {stderr}");
}

#[test]
fn a_component_that_is_too_large_to_wait_for_a_second_compilation_is_compiled_thoroughly_at_once() {
    let mut component = wat::parse_str(slow_to_compile(100)).unwrap();
    fill(&mut component, 64 << 20);
    let (_guard, home, tool) = place_of(&component);
    let (_other_guard, other, same_tool) = place_of(&component);
    Toolcell::at(&other, ["call", &same_tool, r#"{"a":1}"#])
        .run()
        .exits(0);
    let mut client = Client::run(Toolcell::at(&home, ["mcp", &tool]));
    client.initialize(OLD);
    client.call("echo", json!({ "a": 1 }));
    assert!(
        code(&home) == code(&other),
        "it is compiled without optimizations, although it will not be compiled again"
    );
    let (status, _, stderr, _) = client.close();
    assert!(status.success() && stderr.is_empty(), "{status} {stderr}");
}

#[test]
fn a_server_whose_component_is_cached_says_nothing_of_it() {
    let (_guard, home, tool) = place(&slow_to_compile(100));
    Toolcell::at(&home, ["describe", &tool]).run().exits(0);
    let mut client = Client::run(Toolcell::at(&home, ["mcp", &tool]));
    client.initialize(OLD);
    client.request("tools/list", json!({ "_meta": { "progressToken": 7 } }));
    let frames = client.seen();
    assert!(
        frames.iter().all(|frame| frame.get("id").is_some()),
        "{frames:#?}"
    );
}

#[test]
fn requests_of_a_client_that_sends_no_more_are_answered_after_the_compilation() {
    let (_guard, home, tool) = place(&slow_to_compile(2_000));
    let params = json!({ "protocolVersion": OLD, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let frames = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "echo", "arguments": {} } }),
    ];
    let input: String = frames.iter().map(|frame| format!("{frame}\n")).collect();
    let ran = Toolcell::at(&home, ["mcp", &tool])
        .stdin(&input)
        .run()
        .exits(0);
    let answers: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let answer = answers
        .iter()
        .find(|answer| answer["id"] == 2)
        .unwrap_or_else(|| panic!("{ran:?}"));
    assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
}

#[test]
fn a_component_that_cannot_be_compiled_ends_the_server_as_it_ends_other_commands() {
    let (_guard, home, tool) = place(&compile_bomb());
    std::fs::write(home.join("toolcell.toml"), "[compile]\ntime = \"2s\"\n").unwrap();
    let meant = "compiling the component takes more than 2 s";
    let mut client = Client::run(Toolcell::at(&home, ["mcp", &tool]));
    client.initialize(OLD);
    let answer = client.request("tools/list", json!({}));
    assert_eq!(answer["error"]["code"], json!(-32603), "{answer}");
    assert!(
        !answer.to_string().contains("slow.wasm"),
        "a client does not learn where tools lie: {answer}"
    );
    let (status, _, stderr, _) = client.end(Instant::now());
    assert_eq!(status.code(), Some(4), "{stderr}");
    assert!(
        stderr.contains("error: ") && stderr.contains(meant),
        "{stderr}"
    );
    // The same without a client.
    let ran = Toolcell::at(&home, ["mcp", &tool]).run().exits(4);
    assert!(
        ran.stdout.is_empty() && ran.stderr.contains(meant),
        "{ran:?}"
    );
}
