//! Attacks on memory, stack and host handles.

use std::fs::File;
use std::hint::black_box;

use fixture::{Access, Input, Tool};
use serde_json::json;
use wasip2::cli::stdout::get_stdout;
use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::filesystem::preopens::get_directories;

use crate::{Attack, ErrorClass, Outcome, answer, refuse};

const MIB: usize = 1 << 20;
const PAGES_PER_MIB: usize = 16;

pub(crate) fn tools() -> Vec<Tool> {
    let plain = |name, description| Tool::new(name, Access::Nothing, description);
    vec![
        plain(
            "memory",
            "Takes memory until there is none, in one of three ways",
        )
        .input(
            json!({
                "mib": { "type": "integer", "minimum": 0 },
                "how": { "enum": ["push", "reserve", "grow"] },
            }),
            &["mib"],
        ),
        plain(
            "recurse",
            "Overflows the engine's stack, or the stack that the guest keeps in memory",
        )
        .input(json!({ "stack": { "enum": ["engine", "memory"] } }), &[]),
        Tool::new(
            "flood_handles",
            Access::ReadsFiles,
            "Opens handles of the host and keeps them",
        )
        .input(
            json!({
                "count": { "type": "integer", "minimum": 0 },
                "kind": { "enum": ["pollables", "streams", "folders", "files"] },
                "path": { "type": "string" },
            }),
            &["count"],
        ),
    ]
}

pub(crate) fn attack(tool: &str) -> Option<Attack> {
    Some(match tool {
        "memory" => memory,
        "recurse" => recurse,
        "flood_handles" => flood_handles,
        _ => return None,
    })
}

fn memory(input: &Input) -> Outcome {
    let mib = input.number("mib") as usize;
    match input.text_or("how", "push") {
        "reserve" => reserve(mib),
        "grow" => grow(mib),
        _ => push(mib),
    }
}

/// A failed allocation aborts the guest, as in most programs.
fn push(mib: usize) -> Outcome {
    let mut blocks = Vec::new();
    for _ in 0..mib {
        blocks.push(black_box(vec![1_u8; MIB]));
    }
    answer(json!({ "mib": blocks.len(), "refused": false }))
}

/// A failed allocation is reported, as in a careful program.
fn reserve(mib: usize) -> Outcome {
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    for _ in 0..mib {
        let mut block = Vec::new();
        if block.try_reserve_exact(MIB).is_err() {
            let mib = blocks.len();
            drop(blocks);
            return answer(json!({ "mib": mib, "refused": true }));
        }
        block.resize(MIB, 1);
        blocks.push(black_box(block));
    }
    answer(json!({ "mib": blocks.len(), "refused": false }))
}

/// The bare instruction; the new pages are not touched.
fn grow(mib: usize) -> Outcome {
    for taken in 0..mib {
        if core::arch::wasm32::memory_grow::<0>(PAGES_PER_MIB) == usize::MAX {
            return answer(json!({ "mib": taken, "refused": true }));
        }
    }
    answer(json!({ "mib": mib, "refused": false }))
}

fn recurse(input: &Input) -> Outcome {
    let depth = match input.text_or("stack", "engine") {
        "memory" => deep_in_memory(u64::MAX),
        _ => deep_in_engine(u64::MAX),
    };
    answer(json!({ "returned": depth }))
}

/// Uses no linear memory, and cannot be compiled to a loop, because each level needs the result of the next one.
#[inline(never)]
fn deep_in_engine(level: u64) -> u64 {
    match level {
        0 => 1,
        _ => deep_in_engine(level - 1).wrapping_mul(31) ^ level,
    }
}

/// Keeps a large frame in linear memory, so that the guest's own stack overflows first.
#[inline(never)]
fn deep_in_memory(level: u64) -> u64 {
    let frame = black_box([level; 512]);
    match level {
        0 => 1,
        _ => deep_in_memory(level - 1) ^ frame[(level % 512) as usize],
    }
}

fn flood_handles(input: &Input) -> Outcome {
    let count = input.number("count") as usize;
    let kind = input.text_or("kind", "pollables");
    let kept = match kind {
        "streams" => keep(count, || Some(get_stdout())),
        "folders" => keep(count, || Some(get_directories())),
        "files" => keep(count, || File::open(input.text("path")).ok()),
        "pollables" => keep(count, || Some(subscribe_duration(u64::MAX))),
        _ => return refuse(ErrorClass::InvalidArguments, "unknown_kind", kind),
    };
    answer(json!({ "asked": count, "kept": kept }))
}

/// Opens up to `count` handles, and holds all of them until the last one is open.
fn keep<T>(count: usize, open: impl FnMut() -> Option<T>) -> usize {
    let handles: Vec<T> = std::iter::repeat_with(open)
        .take(count)
        .map_while(|handle| handle)
        .collect();
    black_box(&handles).len()
}
