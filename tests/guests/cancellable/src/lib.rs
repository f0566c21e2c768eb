//! A component that imports `cancellation` and `cancellation-signal`, so that its calls get a grace period. Two tools use it well, the others
//! waste it. (Sleepers without the import are in `hostile`: they must be stopped at once.)

use fixture::{Access, Input, Tool, Toolkit};
use serde_json::{Value, json};
use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::io::poll::{Pollable, poll};

wit_bindgen::generate!({
    inline: "
        package toolcell:test-guests;
        world cancellable {
            include toolcell:tool/tool@0.2.0;
            include toolcell:tool/waiting@0.2.0;
        }
    ",
    path: "../../../wit",
    with: { "wasi:io/poll@0.2.6": wasip2::io::poll },
    generate_all,
});

use exports::toolcell::tool::guest::{Call, Guest, Outcome, Output, PartialOutput};
use toolcell::tool::cancellation::{AbortReason, acknowledge, requested};
use toolcell::tool::cancellation_signal::subscribe;
use toolcell::tool::types::{ErrorClass, ToolError};

struct Cancellable;

impl Guest for Cancellable {
    fn describe() -> String {
        let plain = |name, description| Tool::new(name, Access::Nothing, description);
        let work = json!({
            "ms": { "type": "integer", "minimum": 0 },
            "cleanup_ms": { "type": "integer", "minimum": 0 },
            "answer": { "enum": ["success", "partial", "canceled"] },
        });
        Toolkit::new("cancellable")
            .with([
                plain(
                    "cooperative",
                    "Waits for its work and for a stop together, and cleans up",
                )
                .input(work.clone(), &[]),
                plain("polling", "Asks every 5 ms whether it should stop").input(work, &[]),
                plain(
                    "acknowledge_never",
                    "Sees the request, never says so, and goes on for ever",
                ),
                plain(
                    "acknowledge_and_stay",
                    "Acknowledges the request, and goes on for ever",
                ),
                plain(
                    "acknowledge_unasked",
                    "Acknowledges a request that was never made",
                ),
                plain(
                    "sleep_ignore_cancel",
                    "Sleeps for ever, and never looks for a request",
                ),
                plain(
                    "spin_ignore_cancel",
                    "Loops for ever, and never looks for a request",
                ),
                plain("trap_when_asked", "Traps as soon as it is asked to stop"),
            ])
            .to_json()
    }

    fn invoke(call: Call) -> Outcome {
        let Ok(input) = Input::parse(&call.input) else {
            return failure(ErrorClass::InvalidArguments, "input_not_json");
        };
        match call.tool.as_str() {
            "cooperative" => cooperative(&input),
            "polling" => polling(&input),
            "acknowledge_never" => {
                wait_for_request();
                sleep_for_ever()
            }
            "acknowledge_and_stay" => {
                wait_for_request();
                acknowledge();
                sleep_for_ever()
            }
            "acknowledge_unasked" => {
                acknowledge();
                answer(json!({ "requested": requested().map(name) }))
            }
            "sleep_ignore_cancel" => sleep_for_ever(),
            "spin_ignore_cancel" => loop {
                std::hint::spin_loop();
            },
            "trap_when_asked" => {
                panic!("asked to stop: {}", name(wait_for_request()))
            }
            _ => failure(ErrorClass::CapabilityGap, "unknown_tool"),
        }
    }
}

fn wait_for_request() -> AbortReason {
    subscribe().block();
    loop {
        if let Some(reason) = requested() {
            return reason;
        }
        timer(1).block();
    }
}

fn cooperative(input: &Input) -> Outcome {
    let work = timer(input.number_or("ms", 60_000));
    let stop = subscribe();
    let ready = poll(&[&work, &stop]);
    match requested() {
        Some(reason) if ready.contains(&1) => stop_well(input, reason),
        _ => answer(json!({ "finished": true })),
    }
}

fn polling(input: &Input) -> Outcome {
    for _ in 0..input.number_or("ms", 60_000) / 5 {
        if let Some(reason) = requested() {
            return stop_well(input, reason);
        }
        timer(5).block();
    }
    answer(json!({ "finished": true }))
}

fn stop_well(input: &Input, reason: AbortReason) -> Outcome {
    acknowledge();
    timer(input.number("cleanup_ms")).block();
    let structured = json!({ "finished": false, "reason": name(reason) });
    match input.text_or("answer", "success") {
        "canceled" => failure(ErrorClass::Canceled, "stopped_on_request"),
        "partial" => Outcome::Partial(PartialOutput {
            output: output(structured),
            error: error(ErrorClass::Canceled, "stopped_on_request"),
        }),
        _ => answer(structured),
    }
}

fn timer(ms: u64) -> Pollable {
    subscribe_duration(ms.saturating_mul(1_000_000))
}

fn sleep_for_ever() -> ! {
    loop {
        subscribe_duration(u64::MAX).block();
    }
}

fn name(reason: AbortReason) -> &'static str {
    match reason {
        AbortReason::UserInterruption => "user_interruption",
        AbortReason::SiblingError => "sibling_error",
        AbortReason::Timeout => "timeout",
        AbortReason::Fallback => "fallback",
        AbortReason::RuntimeShutdown => "runtime_shutdown",
    }
}

fn answer(structured: Value) -> Outcome {
    Outcome::Success(output(structured))
}

fn output(structured: Value) -> Output {
    Output {
        content: "[]".into(),
        structured: Some(structured.to_string()),
        ui_summary: None,
    }
}

fn failure(class: ErrorClass, code: &str) -> Outcome {
    Outcome::Failure(error(class, code))
}

fn error(class: ErrorClass, code: &str) -> ToolError {
    ToolError {
        class,
        code: code.into(),
        message: format!("The tool stopped: {code}."),
        detail: None,
        retry_after_ms: None,
    }
}

export!(Cancellable);
