//! Contracts and values that are expensive for a server, while other calls wait.
//!
//! Promise: Contracts cannot exhaust the host.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli::contracts::{chain, doubled};
use crate::pipeline::doubles::declaring;
use crate::support::{Client, Toolcell, fixture, kept, scratch};

/// Maximum 99th percentile of a neighbour's call beside the attack, on an idle machine.
const SLOWEST: Duration = Duration::from_millis(50);
/// Calls of the neighbour.
const CALLS: usize = 100;

/// A component with the tool `heavy.echo`, whose schema has the maximum size.
pub(crate) fn heavy(folder: &Path) -> PathBuf {
    let file = folder.join("heavy.wasm");
    let schema = json!({
        "properties": { "list": { "type": "array", "items": { "$ref": "#/$defs/d0" } } },
        "$defs": doubled(13)["$defs"],
    });
    let bytes = declaring("heavy", |declaration| {
        declaration["input_contract"] = json!({ "model_input_schema": schema });
    });
    std::fs::write(&file, bytes).unwrap();
    file
}

/// A server with the probe's `invocation`, and `heavy.echo`.
fn server(folder: &Path) -> Client {
    let mut probe = fixture("probe").into_os_string();
    probe.push("#invocation");
    let heavy = heavy(folder).into_os_string();
    let mut client = Client::run(Toolcell::new([
        "mcp".into(),
        heavy,
        probe,
        "--timeout=20s".into(),
    ]));
    client.initialize("2025-11-25");
    client
}

/// Arguments whose cost is at the limit, or above it.
fn attacks() -> [Value; 3] {
    let list = |count: usize, item: Value| json!({ "list": vec![item; count] });
    // Valid, just within the budget; invalid; and over the budget.
    [
        list(60, json!({})),
        list(60, json!({ "a": [] })),
        list(20_000, json!({ "a": { "b": 1 } })),
    ]
}

/// The 99th percentile of the neighbour's calls.
fn slowest(client: &mut Client) -> Duration {
    let mut took: Vec<Duration> = (0..CALLS)
        .map(|_| {
            let began = Instant::now();
            client.call("invocation", json!({}));
            began.elapsed()
        })
        .collect();
    took.sort();
    took[CALLS - 2]
}

fn peak_kib(client: &Client) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", client.pid())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn three_calls_that_cost_the_most_delay_no_neighbour_and_take_little_memory() {
    let (_guard, folder) = scratch();
    let mut client = server(&folder);
    client.call("invocation", json!({}));
    let alone = slowest(&mut client);
    let before = peak_kib(&client);
    let mut attackers: Vec<Value> = Vec::new();
    let mut took = Vec::new();
    for _ in 0..2 {
        // Twelve calls wait at any time, so that the threads for checks are never idle.
        for _ in 0..4 {
            attackers.extend(attacks().map(|arguments| client.begin_call("echo", arguments)));
        }
        took.push(slowest(&mut client));
    }
    // Other programs use the machine, too, so the fastest round shows the effect of the attack.
    let beside = *took.iter().min().unwrap();
    assert!(
        beside < SLOWEST.max(alone * 3),
        "{took:?} beside the attack, {alone:?} alone"
    );
    for id in attackers {
        let answer = client.answer(&id)["result"].clone();
        let code = answer["_meta"]["toolcell/error"]["code"].clone();
        let known = ["arguments_too_costly", "check_timeout", "too_many_checks"];
        assert!(
            known.iter().any(|known| code == *known) || answer["isError"] != true,
            "{answer}"
        );
    }
    let grown = peak_kib(&client).saturating_sub(before);
    assert!(grown < 512 << 10, "{grown} KiB more than before");
}

#[test]
fn costly_checks_do_not_run_where_other_calls_are_served() {
    let (_guard, folder) = scratch();
    let mut client = server(&folder);
    client.call("invocation", json!({}));
    let [.., over] = attacks();
    let began = Instant::now();
    let attackers: Vec<Value> = (0..6)
        .map(|_| client.begin_call("echo", over.clone()))
        .collect();
    client.call("invocation", json!({}));
    let neighbour = began.elapsed();
    attackers.iter().for_each(|id| _ = client.answer(id));
    let all = began.elapsed();
    assert!(neighbour < all / 4, "{neighbour:?} of {all:?}");
}

#[test]
fn an_ordinary_call_does_not_wait_for_costly_checks() {
    let (_guard, folder) = scratch();
    let file = folder.join("plain.wasm");
    let bytes = declaring("plain", |declaration| {
        declaration["name"] = json!("plain");
        declaration["input_contract"] = json!({ "model_input_schema": {
            "properties": { "list": { "type": "array", "items": { "type": "string" }, "uniqueItems": true } },
        } });
    });
    std::fs::write(&file, bytes).unwrap();
    let heavy = heavy(&folder).into_os_string();
    let mut client = Client::run(Toolcell::new([
        "mcp".into(),
        heavy,
        file.into_os_string(),
        "--timeout=2m".into(),
    ]));
    client.initialize("2025-11-25");
    let plain = json!({ "list": (0..100).map(|n| n.to_string()).collect::<Vec<_>>() });
    client.call("plain", plain.clone());
    let began = Instant::now();
    let costly: Vec<Value> = (0..40)
        .map(|_| client.begin_call("echo", json!({ "list": vec![json!({}); 60] })))
        .collect();
    assert_eq!(
        client.call("plain", plain.clone())["structuredContent"],
        plain
    );
    let took = began.elapsed();
    for id in costly {
        assert_ne!(client.answer(&id)["result"]["isError"], json!(true));
    }
    let all = began.elapsed();
    assert!(took < all / 4, "{took:?} beside checks that took {all:?}");
}

#[test]
fn termination_ends_a_server_that_checks_what_costs_the_most() {
    let (_guard, folder) = scratch();
    let mut client = server(&folder);
    client.call("invocation", json!({}));
    for _ in 0..4 {
        for arguments in attacks() {
            client.begin_call("echo", arguments);
        }
    }
    client.request("ping", json!({}));
    let began = Instant::now();
    let pid = client.pid().to_string();
    assert!(
        std::process::Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .unwrap()
            .success()
    );
    let (status, took, stderr, _) = client.end(began);
    assert!(
        status.success() && took < Duration::from_secs(5),
        "{status} {took:?} {stderr}"
    );
}

#[test]
fn a_component_that_is_swapped_for_one_with_endless_references_is_not_offered_and_the_old_goes_on()
{
    let (_guard, folder) = scratch();
    let component = folder.join("tool.wasm");
    std::fs::write(&component, declaring("swapped", |_| {})).unwrap();
    let config = folder.join("toolcell.toml");
    std::fs::write(&config, "[[tool]]\ncomponent = \"tool.wasm\"\n").unwrap();
    let config = format!("--config={}", config.display());
    let mut client =
        Client::run(Toolcell::at(&kept("home"), ["mcp", &config]).env("TOOLCELL_SESSION", ""));
    client.initialize("2025-11-25");
    client.call("echo", json!({}));
    let next = folder.join("next");
    let bytes = declaring("swapped", |declaration| {
        let schema = chain(8_000, |next| next);
        declaration["input_contract"] = json!({ "model_input_schema": schema, "examples": [{}] });
    });
    std::fs::write(&next, bytes).unwrap();
    std::fs::rename(next, component).unwrap();
    client.says("256 subschemas deep");
    assert_eq!(
        client.call("echo", json!({ "a": 1 }))["structuredContent"],
        json!({ "a": 1 })
    );
}
