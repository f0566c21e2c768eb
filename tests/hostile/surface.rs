//! Attacks on host functions: descriptors, streams, odd arguments, the environment, the network.

use std::time::Duration;

use serde_json::json;

use super::arena::Arena;
use super::meters;

/// The guest opens files and closes none, in a process with a low limit. The host can still open, connect and accept.
pub(super) async fn descriptors(arena: &Arena) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let folder = arena.folder("open");
    let file = folder.join("file");
    std::fs::write(&file, "content").unwrap();
    let room = meters::descriptors() + 256 + 40;
    let before = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(room),
            maximum: before.maximum,
        },
    )
    .unwrap();
    let flood = |kind| {
        let test = arena.test("hostile#flood_handles").read(&folder);
        arena.call(
            test,
            json!({ "count": 100_000, "kind": kind, "path": file }),
        )
    };
    let mut refused = 0;
    let mut look = async || {
        loop {
            let listener = std::net::TcpListener::bind("127.0.0.1:0");
            let opened = std::fs::File::open(&file).is_ok()
                && listener.is_ok_and(|listener| {
                    std::net::TcpStream::connect(listener.local_addr().unwrap()).is_ok()
                });
            refused += u32::from(!opened);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    for kind in ["files", "files"] {
        tokio::select! {
            _ = flood(kind) => {}
            () = look() => {}
        }
    }
    setrlimit(Resource::Nofile, before).unwrap();
    arena.holds(
        refused == 0,
        format!("F: the host itself could not open a file {refused} times"),
    );
}

/// Answers that are too large are refused; output and logs are counted and dropped.
pub(super) async fn output_flood(arena: &Arena) {
    for (tool, input, verdict) in [
        (
            "hostile#flood_output",
            json!({ "mib": 9 }),
            "result_too_large",
        ),
        (
            "hostile#flood_structured",
            json!({ "mib": 20 }),
            "result_too_large",
        ),
        ("hostile#flood_stdout", json!({ "mib": 64 }), ""),
        ("hostile#flood_stderr", json!({ "mib": 64 }), ""),
        (
            "hostile#flood_log",
            json!({ "count": 20_000, "bytes": 4_000 }),
            "",
        ),
        ("hostile#one_huge_log", json!({ "mib": 8 }), ""),
        ("hostile#flood_progress", json!({ "count": 20_000 }), ""),
        (
            "hostile#flood_partial",
            json!({ "count": 300, "bytes": 200_000 }),
            "",
        ),
    ] {
        let called = arena.call(arena.test(tool), input).await;
        let class = called
            .0
            .result
            .error
            .as_ref()
            .map(|error| serde_json::to_value(error.error_class).unwrap());
        let class = class
            .as_ref()
            .and_then(|class| class.as_str())
            .unwrap_or_default();
        arena.holds(
            class == verdict,
            format!("{tool} ended as {class:?}, not as {verdict:?}"),
        );
        let bytes = called.record().to_string().len();
        arena.holds(
            bytes < 18 << 20,
            format!("M: the record of {tool} has {bytes} bytes"),
        );
        let kept: usize = called
            .0
            .result
            .content
            .iter()
            .map(|block| serde_json::to_string(block).unwrap().len())
            .sum();
        arena.holds(
            kept < 1 << 20,
            format!("M: the result of {tool} has {kept} bytes"),
        );
    }
}

/// Empty writes to a full stream, each of which once cost the host a buffer.
pub(super) async fn empty_writes(arena: &Arena) {
    arena
        .call(
            arena.test("hostile#flood_empty_writes").timeout_ms(1_500),
            json!({ "count": 200_000_000 }),
        )
        .await;
}

/// The host survives every poke, whatever its result.
pub(super) async fn pokes(arena: &Arena) {
    let folder = arena.folder("poked");
    let names = arena
        .call(arena.test("hostile#pokes"), json!({}))
        .await
        .succeeded();
    let names = names.as_array().unwrap();
    arena.holds(names.len() > 20, "there are too few pokes");
    for name in names {
        let test = arena.test("hostile#poke").write(&folder).timeout_ms(500);
        let called = arena.call(test, json!({ "poke": name })).await;
        let poked = called.0.result.is_error || called.succeeded().get("said").is_some();
        arena.holds(
            poked,
            format!("{name}: {:?}", called.0.result.structured_content),
        );
        let size = std::fs::metadata(folder.join("poked")).map_or(0, |metadata| metadata.len());
        arena.holds(
            size <= 1 << 30,
            format!("Q: {name} made a file of {size} bytes"),
        );
    }
    for name in [
        "unaligned-outcome",
        "out-of-bounds-string",
        "invalid-utf8",
        "invalid-outcome",
        "realloc-out-of-bounds",
    ] {
        arena
            .call(arena.test(&format!("wat:{name}")), json!({}))
            .await;
    }
}

pub(super) async fn exits(arena: &Arena) {
    for code in [0, 1, 255] {
        arena
            .call(arena.test("hostile#exit"), json!({ "code": code }))
            .await;
    }
}

/// Everything that a guest can ask about its surroundings. It contains no secret of the host's environment.
pub(super) async fn surroundings(arena: &Arena) {
    let called = arena
        .call(arena.test("probe#echo"), json!({ "a": 1 }))
        .await;
    let told = called.succeeded();
    for nothing in ["env", "args", "preopens", "readable"] {
        let empty = told[nothing].as_array().is_some_and(Vec::is_empty)
            || told[nothing]
                .as_object()
                .is_some_and(serde_json::Map::is_empty);
        arena.holds(empty, format!("Z: {nothing} is {}", told[nothing]));
    }
    let text = told.to_string();
    let home = std::env::var("HOME").unwrap_or_default();
    arena.holds(
        home.len() < 2 || !text.contains(&home),
        "Z: the host's home folder is known",
    );
    // A variable is granted but not declared by the tool, so the tool does not get it.
    let granted = arena
        .test("probe#echo")
        .grant(|grants| grants.allow_env(super::SECRET).unwrap());
    let told = arena.call(granted, json!({})).await.succeeded();
    arena.holds(
        !told.to_string().contains(super::SECRET),
        "Z: the guest knows the name of the secret",
    );
    let named = arena
        .call(arena.test("probe#env"), json!({ "name": super::SECRET }))
        .await;
    arena.holds(
        named.succeeded()["value"].is_null(),
        "Z: the secret is in the guest's environment",
    );
}

/// Sockets and look-ups, with a profile that declares them and with one that does not.
pub(super) async fn network_without_a_grant(arena: &Arena) {
    let input = json!({ "host": "127.0.0.1", "port": arena.listeners.port, "name": "localhost" });
    let asked = arena.call(arena.test("probe#net"), input.clone()).await;
    asked.never_ran();
    let authority = format!("127.0.0.1:{}", arena.listeners.port);
    let request =
        json!({ "requests": [{ "authority": authority }, { "authority": "api.ex.test" }] });
    arena
        .call(arena.test("egress#ask"), request.clone())
        .await
        .never_ran();
    let sent = arena
        .call(arena.test("egress#undeclared"), request)
        .await
        .succeeded();
    arena.holds(
        sent["answers"]
            .as_array()
            .unwrap()
            .iter()
            .all(|a| a["error"].is_string()),
        format!("E: {sent}"),
    );
    arena.holds(
        arena.names.asked().is_empty(),
        format!("E: looked up: {:?}", arena.names.asked()),
    );
    let silent = arena
        .call(arena.test("probe#net_undeclared"), input)
        .await
        .succeeded();
    arena.holds(silent["succeeded"] == json!([]), format!("E: {silent}"));
}
