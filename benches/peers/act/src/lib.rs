//! The tools of `../toolcell`, word for word, with ACT's SDK.

use act_sdk::prelude::*;

#[act_component]
mod component {
    use std::hint::black_box;
    use std::time::{Duration, Instant};

    use super::*;

    #[act_tool(description = "Says hello", read_only)]
    fn hello(name: String) -> ActResult<String> {
        Ok(format!("Hello, {name}!"))
    }

    #[act_tool(description = "Computes for a while", read_only)]
    fn busy(ms: u64) -> ActResult<String> {
        let end = Instant::now() + Duration::from_millis(ms);
        let mut turns = 0u64;
        while Instant::now() < end {
            for _ in 0..10_000 {
                turns = black_box(turns + 1);
            }
        }
        Ok(format!("{turns} turns"))
    }

    #[act_tool(description = "Never ends", read_only)]
    fn spin() -> ActResult<String> {
        loop {
            black_box(0);
        }
    }
}
