//! The whole pipeline on a loaded tool, interleaved with bare calls of the same component.

use std::time::Instant;

use toolcell::{Keep, LogSettings};

use crate::bare::{Bare, Settings};
use crate::samples::{Samples, repeated};
use crate::subjects::{self, Subject};

const ROUNDS: usize = 80;
const CALLS_A_ROUND: usize = 25;
const POOL: u32 = 64;

pub(crate) fn run() -> anyhow::Result<()> {
    println!("warm: Host::call on a loaded tool, and bare wasmtime, interleaved; µs");
    println!(
        "{:<20}{:>10}{:>10}{:>8}{:>8}{:>12}{:>12}",
        "", "floor", "pipeline", "ratio", "more", "floor p99", "p99"
    );
    let counted = subjects::count()?;
    let headline = compare(&counted, Keep::None)?;
    let recorded = compare(&counted, Keep::All)?;
    for subject in [
        subjects::jq()?,
        subjects::fixture("probe", "probe echo", "echo", "probe.echo")?,
        subjects::echo()?,
    ] {
        compare(&subject, Keep::None)?;
    }
    println!(
        "targets, for SDK new, compiled as the packages are (`just marks`): at most 2.00, and 2.60 on record"
    );
    println!("warm_over_floor={:.2}", headline.pipeline / headline.floor);
    println!(
        "recorded_over_floor={:.2}",
        recorded.pipeline / recorded.floor
    );
    println!(
        "warm_minus_floor_us={:.1}",
        headline.pipeline - headline.floor
    );
    Ok(())
}

/// Medians in microseconds.
struct Compared {
    floor: f64,
    pipeline: f64,
}

/// Prints what a call costs, with what `keep` says on record.
fn compare(subject: &Subject, keep: Keep) -> anyhow::Result<Compared> {
    let (floor, pipeline) = measured(subject, keep)?;
    let compared = Compared {
        floor: floor.median_us(),
        pipeline: pipeline.median_us(),
    };
    println!(
        "{:<12}{:>10.1}{:>10.1}{:>8.2}{:>8.1}{:>12.1}{:>12.1}",
        if keep == Keep::None {
            subject.name.to_owned()
        } else {
            format!("{}, on record", subject.name)
        },
        compared.floor,
        compared.pipeline,
        compared.pipeline / compared.floor,
        compared.pipeline - compared.floor,
        floor.us(0.99),
        pipeline.us(0.99),
    );
    Ok(compared)
}

/// Bare calls, and calls through the pipeline.
pub(crate) fn measured(subject: &Subject, keep: Keep) -> anyhow::Result<(Samples, Samples)> {
    let mut floor = Samples::default();
    let mut pipeline = Samples::default();
    let mut bare = Bare::compile(Settings::metered(Some(POOL)), &subject.component)?;
    bare.sample.clone_from(&subject.sample);
    let host = subjects::host(|settings| {
        settings.calls_at_once(POOL).journal(LogSettings {
            keep,
            ..LogSettings::default()
        })
    })?;
    // A host for many calls would compile a new component twice, the second time beside these calls.
    let single = subjects::host(|settings| settings.pooled(false))?;
    crate::runtime()?.block_on(async {
        subjects::load(&single, &subject.component).await?;
        subjects::load(&host, &subject.component).await?;
        for round in 0..repeated(ROUNDS) {
            for _ in 0..repeated(CALLS_A_ROUND) {
                let start = Instant::now();
                bare.answer(subject.tool, subject.input).await?;
                floor.since(start);
            }
            for _ in 0..repeated(CALLS_A_ROUND) {
                let start = Instant::now();
                subjects::succeeded(host.call(subject.request()).await)?;
                pipeline.since(start);
            }
            if round == repeated(ROUNDS) / 10 {
                // The rounds so far were the warm-up.
                (floor, pipeline) = Default::default();
            }
        }
        anyhow::Ok(())
    })?;
    Ok((floor, pipeline))
}
