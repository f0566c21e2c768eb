//! What is measured: a trivial tool, a busy one, one that never ends. `../act` has the same three.

use std::hint::black_box;
use std::time::{Duration, Instant};

use toolcell_guest::{data, tool, toolkit};

#[data]
struct Name {
    name: String,
}

/// Says hello
#[tool(read_only, concurrency_safe)]
fn hello(input: Name) -> String {
    format!("Hello, {}!", input.name)
}

#[data]
struct Milliseconds {
    ms: u64,
}

/// Computes for a while
#[tool(read_only, concurrency_safe)]
fn busy(input: Milliseconds) -> String {
    let end = Instant::now() + Duration::from_millis(input.ms);
    let mut turns = 0u64;
    while Instant::now() < end {
        for _ in 0..10_000 {
            turns = black_box(turns + 1);
        }
    }
    format!("{turns} turns")
}

/// Never ends
#[tool(read_only, concurrency_safe)]
fn spin() -> String {
    loop {
        black_box(0);
    }
}

toolkit! { namespace: "peer", tools: [hello, busy, spin] }
