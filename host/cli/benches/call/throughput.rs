//! Calls a second, with one thread and with two: each thread has a runtime of its own, all share one engine.

use std::time::{Duration, Instant};

use toolcell::Host;

use crate::bare::{Bare, Settings};
use crate::samples::repeated;
use crate::subjects::{self, Subject};

const ROUNDS: usize = 5;
const ROUND_MS: usize = 400;
const POOL: u32 = 64;

pub(crate) fn run() -> anyhow::Result<()> {
    println!(
        "throughput: calls a second; median of {} rounds of {} ms, interleaved",
        repeated(ROUNDS),
        repeated(ROUND_MS)
    );
    println!(
        "{:<12}{:>10}{:>10}{:>8}{:>12}{:>12}{:>8}{:>8}",
        "", "floor", "pipeline", "share", "floor x2", "pipeline x2", "share", "gain"
    );
    for subject in [subjects::count()?, subjects::jq()?, subjects::echo()?] {
        measure(&subject)?;
    }
    println!("share: pipeline to floor; gain: what the pipeline wins by a second thread");
    Ok(())
}

fn measure(subject: &Subject) -> anyhow::Result<()> {
    let bare = Bare::compile(Settings::metered(Some(POOL)), &subject.component)?;
    let host = subjects::host(|settings| settings.calls_at_once(POOL))?;
    crate::runtime()?.block_on(subjects::load(&host, &subject.component))?;
    let mut rates: [Vec<f64>; 4] = Default::default();
    for _ in 0..repeated(ROUNDS) {
        let [floor, pipeline, floor_of_two, pipeline_of_two] = &mut rates;
        floor.push(rate(1, || bare_calls(&bare, subject))?);
        pipeline.push(rate(1, || host_calls(&host, subject))?);
        floor_of_two.push(rate(2, || bare_calls(&bare, subject))?);
        pipeline_of_two.push(rate(2, || host_calls(&host, subject))?);
    }
    let [floor, pipeline, floor_of_two, pipeline_of_two] = rates.map(median);
    println!(
        "{:<12}{floor:>10.0}{pipeline:>10.0}{:>8.2}{floor_of_two:>12.0}{pipeline_of_two:>12.0}{:>8.2}{:>8.2}",
        subject.name,
        pipeline / floor,
        pipeline_of_two / floor_of_two,
        pipeline_of_two / pipeline,
    );
    Ok(())
}

fn round() -> Duration {
    Duration::from_millis(repeated(ROUND_MS) as u64)
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Calls a second of `threads` threads that each run `work`, which returns its number of calls.
fn rate(threads: usize, work: impl Fn() -> anyhow::Result<u32> + Sync) -> anyhow::Result<f64> {
    let start = Instant::now();
    let calls = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(&work)).collect();
        running
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .map_err(|_| anyhow::anyhow!("a thread panicked"))?
            })
            .sum::<anyhow::Result<u32>>()
    })?;
    Ok(f64::from(calls) / start.elapsed().as_secs_f64())
}

fn bare_calls(bare: &Bare, subject: &Subject) -> anyhow::Result<u32> {
    crate::runtime()?.block_on(async {
        let start = Instant::now();
        let mut calls = 0;
        while start.elapsed() < round() {
            bare.answer(subject.tool, subject.input).await?;
            calls += 1;
        }
        Ok(calls)
    })
}

fn host_calls(host: &Host, subject: &Subject) -> anyhow::Result<u32> {
    crate::runtime()?.block_on(async {
        let start = Instant::now();
        let mut calls = 0;
        while start.elapsed() < round() {
            subjects::succeeded(host.call(subject.request()).await)?;
            calls += 1;
        }
        Ok(calls)
    })
}
