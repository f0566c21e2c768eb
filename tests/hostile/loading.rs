//! Attacks through input that a host parses: arguments, declarations, components.

use std::fmt::Write;
use std::time::Duration;

use serde_json::json;

use super::arena::{Arena, host};
use super::meters::Seeded;
use crate::pipeline::doubles::declaring;
use crate::sandbox::compiling::bomb;
use crate::support::{Test, wat};

/// Anything but plain JSON is refused; plain JSON reaches the guest unchanged, to the byte.
pub(super) async fn argument_bombs(arena: &Arena) {
    let deep = 100_000;
    let mut keys = String::with_capacity(12 << 20);
    for number in 0..1_000_000 {
        write!(keys, "\"k{number}\":0,").unwrap();
    }
    for (what, text, refused) in [
        (
            "depth",
            format!("{}{}", "{\"a\":".repeat(deep), "}".repeat(deep)),
            true,
        ),
        (
            "depth of lists",
            format!("{{\"a\":{}{}}}", "[".repeat(deep), "]".repeat(deep)),
            true,
        ),
        ("a number beyond all", "{\"n\":1e400}".to_owned(), true),
        (
            "the same key twice",
            r#"{"path":"a","path":"/etc"}"#.to_owned(),
            true,
        ),
        (
            "the same key twice, escaped",
            r#"{"path":"a","p\u0061th":"/etc"}"#.to_owned(),
            true,
        ),
        (
            "the same key twice, deep",
            r#"{"a":[{"b":1,"b":2}]}"#.to_owned(),
            true,
        ),
        ("half of a character", r#"{"a":"\ud800"}"#.to_owned(), true),
        (
            "many keys",
            format!("{{{}}}", keys.trim_end_matches(',')),
            true,
        ),
        (
            "a number of 65 bits",
            "{\"n\":18446744073709551616}".to_owned(),
            false,
        ),
        (
            "names of another language",
            r#"{"__proto__":{"admin":true},"constructor":{"prototype":{}}}"#.to_owned(),
            false,
        ),
    ] {
        let called = arena
            .call_text(arena.test("probe#echo").timeout_ms(2_000), &text)
            .await;
        arena.holds(
            called.0.result.is_error == refused,
            format!("{what}: {:?}", called.0.result.error),
        );
        if refused {
            called.never_ran();
        } else {
            let seen = called.succeeded()["input_text"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let same = seen == text;
            arena.holds(
                same,
                format!("{what}: the guest saw {seen:?}, not {text:?}"),
            );
        }
    }
}

/// References in a schema are not resolved, neither from the network nor from files.
pub(super) async fn schemas_from_elsewhere(arena: &Arena) {
    let port = arena.listeners.port;
    for reference in [
        format!("http://127.0.0.1:{port}/schema.json"),
        format!("https://[::1]:{port}/schema.json"),
        format!("http://localhost:{port}/"),
        format!("file://{}", arena.canary().display()),
        "http://169.254.169.254/latest/meta-data".to_owned(),
        "../../etc/passwd".to_owned(),
    ] {
        for schema in [
            json!({ "$ref": reference }),
            json!({ "$dynamicRef": reference }),
        ] {
            let bytes = declaring("elsewhere", |declaration| {
                declaration["input_contract"]["model_input_schema"] = schema.clone();
            });
            let on_demand = host(|settings| settings.pooled(false));
            arena
                .load(
                    Test::of_bytes(bytes, None).on(&on_demand),
                    Duration::from_secs(3),
                )
                .await;
        }
    }
}

/// A component that is small to send and expensive to compile, first limited in time, then in memory.
pub(super) async fn compile_bomb(arena: &Arena) {
    let bomb = wat::parse_str(bomb::compile_bomb()).unwrap();
    for (cpu_seconds, memory_bytes) in [(1, 4 << 30), (30, 160 << 20)] {
        let host = host(|settings| {
            settings
                .pooled(false)
                .cached(false)
                .compile_cpu_seconds(cpu_seconds)
                .compile_memory_bytes(memory_bytes)
        });
        let test = Test::of_bytes(bomb.clone(), None).on(&host);
        arena.load(test, Duration::from_secs(2 * cpu_seconds)).await;
    }
}

/// Random bytes, and a valid component with truncations and bit flips: each is refused, or loads as a tool.
pub(super) async fn garbage(arena: &Arena) {
    let host = host(|settings| settings.pooled(false).cached(false));
    let whole = wat("echo");
    let mut random = Seeded(0x00c0_ffee);
    let mut corpus: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"\x7fELF\x02\x01\x01\0".to_vec(),
        b"PK\x03\x04".to_vec(),
        wat("core-module"),
        vec![0; 1 << 20],
    ];
    for length in (0..300).map(|number| number * 7) {
        // Random bytes, first bare, then behind a component header, so that they reach the compiler.
        corpus.push((0..length).map(|_| random.next() as u8).collect());
    }
    for length in 1..20 {
        let noise = (0..length * 13).map(|_| random.next() as u8);
        corpus.push(whole[..8].iter().copied().chain(noise).collect());
    }
    corpus.extend((0..60).map(|_| whole[..random.below(whole.len())].to_vec()));
    corpus.extend((0..120).map(|_| {
        let mut flipped = whole.clone();
        for _ in 0..=random.below(3) {
            let place = 8 + random.below(whole.len() - 8);
            flipped[place] ^= 1 << random.below(8);
        }
        flipped
    }));
    for bytes in corpus {
        arena
            .load(
                Test::of_bytes(bytes, None).on(&host),
                Duration::from_secs(6),
            )
            .await;
    }
}
