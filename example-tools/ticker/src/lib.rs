//! Counts slowly. Shows how a tool reports progress, sends a partial result, and stops on request.

use std::time::Duration;

use toolcell_guest::{
    Content, Output, cancellation, data, log,
    progress::{self, Update},
    tool, toolkit,
};

#[data]
struct Ticks {
    /// How often to tick, 1 to 10000.
    #[schemars(range(min = 1, max = 10_000))]
    ticks: u32,
    /// Milliseconds between two ticks, up to a minute.
    #[serde(default)]
    #[schemars(range(max = 60_000))]
    interval_ms: u64,
    /// Hand out a partial result half way.
    #[serde(default)]
    partial: bool,
}

#[data]
struct Ticked {
    /// How many ticks there were.
    ticks: u32,
    /// How many there should have been.
    of: u32,
}

/// Ticks a number of times with a pause between two ticks, and reports progress at each.
#[tool(search_hint = "count slowly wait report progress", read_only, concurrency_safe, content = ["text"])]
fn ticker(input: Ticks) -> Output<Ticked> {
    for tick in 1..=input.ticks {
        if tick > 1
            && let Err(stop) = cancellation::sleep(Duration::from_millis(input.interval_ms))
        {
            cancellation::acknowledge();
            log::info(format!("stopped after {} ticks", tick - 1));
            return ticked(tick - 1, input.ticks).partial_failure(stop.into());
        }
        progress::report(
            Update::new()
                .message(format!("tick {tick} of {}", input.ticks))
                .percent(f64::from(tick) * 100.0 / f64::from(input.ticks))
                .current_step(format!("tick {tick}"))
                .total_steps(input.ticks),
        );
        if input.partial && tick == input.ticks.div_ceil(2) {
            progress::partial([Content::text(format!("{tick} ticks so far"))]);
        }
    }
    ticked(input.ticks, input.ticks)
}

fn ticked(ticks: u32, of: u32) -> Output<Ticked> {
    Output::new()
        .text(format!("{ticks} of {of} ticks"))
        .structured(Ticked { ticks, of })
}

toolkit! { namespace: "ticker", tools: [ticker] }

#[cfg(test)]
mod tests {
    use toolcell_guest::{
        ErrorClass, Outcome, cancellation::AbortReason, serde_json::json, testing,
    };

    use super::*;

    #[test]
    fn every_tick_is_reported_and_the_last_one_is_all() {
        testing::reset();
        let output = ticker(Ticks {
            ticks: 4,
            interval_ms: 250,
            partial: true,
        });
        assert_eq!(output.structured.map(|ticked| ticked.ticks), Some(4));
        let percents: Vec<_> = testing::progress()
            .iter()
            .map(|update| update.percent)
            .collect();
        assert_eq!(percents, [25.0, 50.0, 75.0, 100.0].map(Some));
        assert_eq!(testing::slept(), Duration::from_millis(750));
        assert_eq!(
            testing::partials(),
            [json!([{"type": "text", "text": "2 ticks so far"}])]
        );
    }

    #[test]
    fn a_cancelled_call_acknowledges_and_returns_what_it_has() {
        testing::reset();
        testing::cancel_after(Duration::from_millis(150), AbortReason::UserInterruption);
        let outcome =
            testing::invoke::<Toolkit>("ticker", json!({"ticks": 10, "interval_ms": 100}));
        let Outcome::Partial(output, error) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(output.structured, Some(json!({"ticks": 2, "of": 10})));
        assert_eq!(error.class, ErrorClass::Canceled);
        assert!(testing::acknowledged());
    }
}
