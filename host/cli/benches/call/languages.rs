//! The tool of `toolcell new` in each language, and the tools of the toolbox: their sizes, and what their first and their later
//! calls cost.

use std::time::Instant;

use toolcell::Keep;
use toolcell_toolchain::Language;

use crate::samples::Samples;
use crate::subjects::{self, Subject};
use crate::warm;

pub(crate) fn run() -> anyhow::Result<()> {
    println!(
        "languages: the tool of `toolcell new` in each; compiled in a child process, then loaded from the cache"
    );
    head();
    Language::all().try_for_each(|lang| row(&subjects::count_in(lang)?))
}

pub(crate) fn toolbox() -> anyhow::Result<()> {
    println!(
        "toolbox: a small call of each tool; compiled in a child process, then loaded from the cache"
    );
    head();
    subjects::toolbox().try_for_each(|subject| row(&subject?))
}

fn head() {
    println!(
        "{:<14}{:>8}{:>12}{:>10}{:>10}{:>10}{:>8}{:>12}",
        "", "KiB", "compile ms", "first ms", "floor us", "warm us", "ratio", "memory KiB"
    );
}

fn row(subject: &Subject) -> anyhow::Result<()> {
    let compiling = Instant::now();
    crate::runtime()?.block_on(async {
        let host = subjects::host(|settings| settings.pooled(false).cached(false))?;
        subjects::load(&host, &subject.component).await
    })?;
    let compiling = compiling.elapsed();
    let mut first = Samples::default();
    let mut memory = 0;
    // The first load compiles, and the second one finds the code in the cache.
    for _ in 0..2 {
        first = Samples::default();
        let start = Instant::now();
        crate::runtime()?.block_on(async {
            let host = subjects::host(|settings| settings)?;
            subjects::load(&host, &subject.component).await?;
            let record = subjects::succeeded(host.call(subject.request()).await)?;
            memory = record
                .result
                .usage
                .map_or(0, |usage| usage.memory_bytes.used);
            anyhow::Ok(())
        })?;
        first.since(start);
    }
    let (floor, pipeline) = warm::measured(subject, Keep::None)?;
    let floor = floor.median_us();
    let pipeline = pipeline.median_us();
    println!(
        "{:<14}{:>8}{:>12.0}{:>10.1}{floor:>10.1}{pipeline:>10.1}{:>8.2}{:>12}",
        subject.name,
        subject.component.len() >> 10,
        compiling.as_secs_f64() * 1e3,
        first.median_ms(),
        pipeline / floor,
        memory >> 10,
    );
    Ok(())
}
