//! Attacks on time: calls that do not end by themselves.

use std::fs::OpenOptions;
use std::hint::black_box;
use std::io::Write;
use std::time::Duration;

use fixture::{Access, Input, Tool};
use serde_json::json;
use wasip2::clocks::monotonic_clock;

use crate::{Attack, ErrorClass, Outcome, answer, refuse};

const BULK_BYTES: usize = 8 << 20;

pub(crate) fn tools() -> Vec<Tool> {
    let plain = |name, description| Tool::new(name, Access::Nothing, description);
    vec![
        plain("spin", "Loops for ever, doing nothing"),
        plain("spin_fuel", "Loops for ever, counting: burns fuel evenly"),
        plain(
            "sleep",
            "Sleeps in the host's clock; without a length for ever",
        )
        .input(json!({ "ms": { "type": "integer", "minimum": 0 } }), &[]),
        plain(
            "sleep_ignore_cancel",
            "Sleeps in short steps for ever, and cannot hear a stop",
        ),
        plain("clock_flood", "Asks the host for the time for ever"),
        plain(
            "memcpy_loop",
            "Copies and fills 8 MiB of memory for ever, in bulk instructions",
        ),
        Tool::new(
            "busy_write",
            Access::WritesFiles,
            "Appends a numbered line to a file every 10 ms, for ever",
        )
        .input(json!({ "path": { "type": "string" } }), &["path"]),
    ]
}

pub(crate) fn attack(tool: &str) -> Option<Attack> {
    Some(match tool {
        "spin" => |_| spin(),
        "spin_fuel" => |_| spin_fuel(),
        "sleep" => sleep,
        "sleep_ignore_cancel" => |_| sleep_in_steps(),
        "clock_flood" => |_| clock_flood(),
        "memcpy_loop" => |_| memcpy_loop(),
        "busy_write" => busy_write,
        _ => return None,
    })
}

fn spin() -> ! {
    loop {
        std::hint::spin_loop();
    }
}

fn spin_fuel() -> ! {
    let mut count = 0_u64;
    loop {
        count = black_box(count).wrapping_add(1);
    }
}

/// Calls the clock directly, because the longest sleep of std is shorter than the clock's.
fn sleep(input: &Input) -> Outcome {
    let ms = input.number_or("ms", u64::MAX);
    monotonic_clock::subscribe_duration(ms.saturating_mul(1_000_000)).block();
    answer(json!({ "slept_ms": ms }))
}

fn sleep_in_steps() -> ! {
    loop {
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn clock_flood() -> ! {
    loop {
        black_box(monotonic_clock::now());
    }
}

fn memcpy_loop() -> ! {
    let mut memory = vec![1_u8; BULK_BYTES];
    loop {
        memory.copy_within(..BULK_BYTES / 2, BULK_BYTES / 2);
        black_box(&mut memory).fill(2);
    }
}

fn busy_write(input: &Input) -> Outcome {
    let opened = OpenOptions::new()
        .append(true)
        .create(true)
        .open(input.text("path"));
    let mut file = match opened {
        Ok(file) => file,
        Err(error) => {
            return refuse(
                ErrorClass::ExecutionFailed,
                "not_opened",
                &error.to_string(),
            );
        }
    };
    for beat in 1_u64.. {
        if let Err(error) = writeln!(file, "{beat}") {
            return refuse(
                ErrorClass::ExecutionFailed,
                "not_written",
                &error.to_string(),
            );
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    answer(json!({ "stopped": false }))
}
