//! The host's resources for guests are bounded and separate: waiting threads, lists, memory, slots. Measured by other
//! calls of the same server.
//!
//! Promise: Only regular files and folders are opened.
//! Promise: Memory of one call is bounded.
//! Promise: Memory of all calls is bounded.
//! Promise: Large guests run side by side.
//! Promise: Kinds of blocking work are separate.
//! Promise: A call is over when its result is there.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::approvals::{accept, forms, question, reply};
use crate::support::{Client, Toolcell, fixture, kept, root, scratch};

/// A server with tools of the guests `hostile`, `probe` and `egress`, and the folder that they may write to.
fn serving(tools: &[&str], folder: &Path, options: &[&str]) -> Client {
    let grant = format!("--allow-write={}", folder.display());
    Client::silent(tools, options.iter().copied().chain([grant.as_str()]))
}

fn initialized(mut client: Client) -> Client {
    client.initialize("2025-11-25");
    client
}

fn status(client: &Client, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", client.pid())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The sockets that the server has open.
fn sockets(client: &Client) -> usize {
    let open = std::fs::read_dir(format!("/proc/{}/fd", client.pid())).unwrap();
    // A descriptor that was closed meanwhile has no link to read.
    let targets = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    targets
        .filter(|target| {
            target
                .to_str()
                .is_some_and(|target| target.starts_with("socket:"))
        })
        .count()
}

fn code(answer: &Value) -> &Value {
    &answer["result"]["_meta"]["toolcell/error"]["code"]
}

/// The component of a WAT file in `folder`, with its text changed by `change`.
fn changed(folder: &Path, name: &str, change: impl FnOnce(String) -> String) -> String {
    let text = std::fs::read_to_string(root().join("tests/guests/wat").join(format!("{name}.wat")))
        .unwrap();
    let changed = change(text.clone());
    assert_ne!(changed, text);
    let file = folder.join(format!("{name}.wasm"));
    std::fs::write(&file, wat::parse_str(changed).unwrap()).unwrap();
    file.display().to_string()
}

/// Serves components by their paths.
fn offering(arguments: &[&str]) -> Client {
    initialized(Client::run(Toolcell::new(["mcp"].iter().chain(arguments))))
}

#[test]
fn six_hundred_opens_of_a_fifo_stop_neither_files_nor_approvals() {
    let (_guard, path) = scratch();
    let fifo = path.join("fifo");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    std::fs::write(path.join("file"), "read me").unwrap();
    let tools = ["hostile#open_again", "probe#read", "probe#append_approved"];
    let client = serving(&tools, &path, &["--timeout=30s"]).can(forms());
    let mut client = initialized(client);
    let threads = status(&client, "Threads");
    let attack = client.begin_call("open_again", json!({ "name": "fifo", "times": 600 }));
    let line = json!({ "path": path.join("lines"), "text": "approved" });
    let approved = client.begin_call("append_approved", line);
    let asked = question(&mut client);
    let read = client.call("read", json!({ "path": path.join("file") }));
    assert_eq!(read["isError"], json!(false), "{read:#}");
    reply(
        &mut client,
        &asked,
        accept(json!({ "decision": "run once" })),
    );
    assert_eq!(client.answer(&approved)["result"]["isError"], json!(false));
    assert_eq!(
        std::fs::read_to_string(path.join("lines")).unwrap(),
        "approved"
    );
    let ends = client.answer(&attack)["result"]["structuredContent"].clone();
    let refused =
        ends["unsupported"].as_u64().unwrap_or(0) + ends["not-directory"].as_u64().unwrap_or(0);
    assert_eq!(refused, 600, "{ends}");
    assert!(
        status(&client, "Threads") < threads + 64,
        "{threads} threads before, now {}",
        status(&client, "Threads")
    );
}

#[test]
fn what_is_no_regular_file_is_not_opened_whatever_leads_to_it() {
    let (_guard, path) = scratch();
    assert!(
        std::process::Command::new("mkfifo")
            .arg(path.join("fifo"))
            .status()
            .unwrap()
            .success()
    );
    let _socket = std::os::unix::net::UnixListener::bind(path.join("socket")).unwrap();
    std::os::unix::fs::symlink("fifo", path.join("link")).unwrap();
    let mut client = initialized(serving(
        &["hostile#open_again"],
        &path,
        &["--timeout=30s", "--deny-read=nothing"],
    ));
    for name in ["fifo", "socket", "link"] {
        let answer = client.call("open_again", json!({ "name": name, "times": 18 }));
        assert_eq!(answer["isError"], json!(false), "{name}: {answer:#}");
        let ends = answer["structuredContent"].as_object().unwrap();
        let tries: u64 = ends.values().filter_map(Value::as_u64).sum();
        assert!(
            tries == 18 && !ends.contains_key("opened"),
            "{name}: {ends:?}"
        );
    }
}

#[test]
fn calls_against_a_silent_name_server_keep_no_thread_and_stop_when_they_are_canceled() {
    let (_guard, path) = scratch();
    std::fs::write(path.join("file"), "read me").unwrap();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    silent
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let server = format!("--dns-server={}", silent.local_addr().unwrap());
    let options = [
        server.as_str(),
        "--allow-net=http://*.example.com",
        "--timeout=10m",
    ];
    let mut client = initialized(serving(&["egress#ask", "probe#read"], &path, &options));
    client.call("read", json!({ "path": path.join("file") }));
    let threads = status(&client, "Threads");
    let before = sockets(&client);
    let request = |n: usize| json!({ "requests": [{ "authority": format!("n{n}.example.com") }] });
    let waiting: Vec<Value> = (0..64)
        .map(|n| client.begin_call("ask", request(n)))
        .collect();
    // Every call has sent its query before any is canceled.
    let mut asked = std::collections::HashSet::new();
    let mut packet = [0; 512];
    while asked.len() < waiting.len() {
        let length = silent.recv(&mut packet).unwrap();
        // After the header of twelve bytes, the first label of the name with its length.
        let label = usize::from(packet[12]);
        assert!(length > 13 + label);
        asked.insert(packet[13..13 + label].to_ascii_lowercase());
    }
    assert!(
        status(&client, "Threads") < threads + 16,
        "{threads} threads before, now {}",
        status(&client, "Threads")
    );
    assert!(sockets(&client) > before, "nothing waits for an answer");
    let read = client.call("read", json!({ "path": path.join("file") }));
    assert_eq!(read["isError"], json!(false));
    for id in &waiting {
        client.notify("notifications/cancelled", json!({ "requestId": id }));
    }
    // Their places are free long before the name server's timeout.
    let read = client.call("read", json!({ "path": path.join("file") }));
    assert_eq!(read["isError"], json!(false));
    let began = Instant::now();
    while sockets(&client) > before {
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{before} sockets before, now {}",
            sockets(&client)
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn listings_of_a_large_folder_take_the_memory_of_a_few_names() {
    const NAMES: usize = 40_000;
    const PEAK_KIB: u64 = 48 << 10;
    let (_guard, path) = scratch();
    let long = "n".repeat(200);
    (0..NAMES).for_each(|n| drop(std::fs::File::create(path.join(format!("{long}-{n}"))).unwrap()));
    let mut client = initialized(serving(
        &["hostile#hold_listings"],
        &path,
        &["--memory=16MiB", "--timeout=5m"],
    ));
    client.call("hold_listings", json!({ "times": 1 }));
    let before = status(&client, "VmHWM");
    let held = client.call("hold_listings", json!({ "times": 32 }))["structuredContent"].clone();
    let peak = status(&client, "VmHWM") - before;
    assert_eq!(
        (&held["held"], &held["names"]),
        (&json!(32), &json!(NAMES)),
        "{held}"
    );
    assert!(peak < PEAK_KIB, "{peak} KiB more than for one listing");
}

#[test]
fn what_streams_hold_counts_as_the_tools_memory() {
    let (_guard, path) = scratch();
    std::fs::write(path.join("file"), vec![b'x'; 1 << 20]).unwrap();
    let mut client = initialized(serving(
        &["hostile#hold_streams"],
        &path,
        &["--memory=16MiB", "--timeout=5m"],
    ));
    let held = client.call("hold_streams", json!({ "name": "file" }))["structuredContent"].clone();
    let held = held["held"].as_u64().unwrap();
    assert!(
        (16..256).contains(&held),
        "{held} streams of 64 KiB under 16 MiB"
    );
}

#[test]
fn sixty_calls_of_a_guest_with_as_many_instances_as_python_run_at_once() {
    let (_guard, path) = scratch();
    let parts = "(core instance (instantiate $part))\n".repeat(13);
    let spin = changed(&path, "spin", |text| {
        let main = "(core instance $main (instantiate $main))";
        text.replace(
            main,
            &format!(
                "(core module $part (memory 1) (table 1 funcref))\n(core module $none)\n{}{main}",
                parts.replacen("$part", "$none", 8)
            ),
        )
    });
    // All at once, even on a machine with little memory.
    let mut client = offering(&[
        &spin,
        "--memory=8MiB",
        "--memory-total=4GiB",
        "--timeout=2s",
    ]);
    let ids: Vec<Value> = (0..60)
        .map(|_| client.begin_call("spin", json!({})))
        .collect();
    for id in &ids {
        let answer = client.answer(id);
        assert_eq!(code(&answer), "epoch_deadline", "{answer:#}");
    }
}

#[test]
fn a_core_module_with_two_memories_is_served() {
    let (_guard, path) = scratch();
    let memory = "(memory (export \"memory\") 1)";
    let echo = changed(&path, "echo", |text| {
        text.replace(memory, &format!("{memory} (memory 1)"))
    });
    let mut client = offering(&[&echo]);
    assert_eq!(
        client.call("echo", json!({ "n": 1 }))["isError"],
        json!(false)
    );
}

#[test]
fn a_call_waits_for_the_memory_of_all_calls_and_is_refused_when_its_time_is_up() {
    let tools = ["progress", "echo", "timeout_in_interface"]
        .map(|tool| format!("{}#{tool}", fixture("probe").display()));
    // Room for two calls of 64 MiB with their overhead, not for three.
    let options = ["--memory=64MiB", "--memory-total=200MiB", "--timeout=10m"];
    let mut client = offering(
        &tools
            .iter()
            .map(String::as_str)
            .chain(options)
            .collect::<Vec<_>>(),
    );
    let held = [(); 2].map(|()| {
        let token = client.next_id();
        let arguments = json!({ "count": 1_000_000, "interval_ms": 500 });
        let meta = json!({ "progressToken": token });
        client.begin(
            "tools/call",
            json!({ "name": "progress", "arguments": arguments, "_meta": meta }),
        )
    });
    for id in &held {
        client.until(|frame| frame["params"]["progressToken"] == *id);
    }
    // The call waits for memory until its own timeout of 200 ms.
    let refused = client.begin_call("timeout_in_interface", json!({}));
    let refused = client.answer(&refused);
    let error = &refused["result"]["_meta"]["toolcell/error"];
    assert_eq!(
        (&error["class"], code(&refused)),
        (&json!("rate_limited"), &json!("host_memory")),
        "{refused:#}"
    );
    assert_eq!(error["retry_after"], json!(1.0), "{refused:#}");
    let waits = client.begin_call("echo", json!({ "n": 1 }));
    client.request("ping", json!({}));
    assert!(
        !client.seen().iter().any(|frame| frame["id"] == waits),
        "a third call ran"
    );
    client.notify("notifications/cancelled", json!({ "requestId": held[0] }));
    assert_eq!(client.answer(&waits)["result"]["isError"], json!(false));
}

#[test]
fn less_memory_for_all_calls_than_one_may_take_is_refused_at_the_start() {
    let echo = format!("{}#echo", fixture("probe").display());
    let refused = Toolcell::new(["mcp", &echo, "--memory=64MiB", "--memory-total=32MiB"]).run();
    assert!(
        refused
            .stderr
            .contains("all calls together get 33554432 bytes"),
        "{}",
        refused.stderr
    );
    assert_ne!(refused.code, Some(0));
}

#[test]
fn a_file_does_not_grow_after_the_verdict() {
    let (_guard, path) = scratch();
    let mut client = initialized(serving(
        &["hostile#fill_disk", "hostile#sleep"],
        &path,
        &["--timeout=150ms", "--max-disk=4GiB"],
    ));
    let fill = path.join("fill");
    let size = || std::fs::metadata(&fill).map_or(0, |file| file.len());
    let mut wrote = false;
    for round in 0..12 {
        let ended = client.begin_call("fill_disk", json!({ "path": path, "how": "slabs" }));
        let answer = client.answer(&ended);
        let at_verdict = size();
        assert!(
            ["deadline_exceeded", "epoch_deadline"]
                .contains(&code(&answer).as_str().unwrap_or_default()),
            "{answer:#}"
        );
        // Long enough for a write in progress.
        client.call("sleep", json!({ "ms": 40 }));
        assert_eq!(
            size(),
            at_verdict,
            "grew after the verdict, in round {round}"
        );
        wrote |= at_verdict > 0;
        match std::fs::remove_file(&fill) {
            // On a busy machine the deadline can pass before the tool begins.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed.unwrap(),
        }
    }
    assert!(wrote, "no round wrote anything");
}

#[test]
fn doctor_says_how_much_memory_all_calls_have() {
    let (_guard, path) = scratch();
    std::fs::write(
        path.join("toolcell.toml"),
        "[limits]\nmemory = \"64MiB\"\nmemory_total = \"1GiB\"\n",
    )
    .unwrap();
    let file = format!("--config={}", path.join("toolcell.toml").display());
    let said = Toolcell::at(&kept("home"), ["doctor", &file]).run().stdout;
    let line = said
        .lines()
        .find(|line| line.contains("memory: "))
        .unwrap_or_else(|| panic!("{said}"));
    assert!(
        line.contains("1024 MiB for all calls of a server, as [limits] memory_total says"),
        "{line}"
    );
}
