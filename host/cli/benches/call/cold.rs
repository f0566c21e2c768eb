//! A cold start: from nothing to the first result of a tool that this process has not loaded.

use std::time::Instant;

use toolcell::HostBuilder;

use crate::bare::{Bare, Settings};
use crate::samples::{Samples, repeated};
use crate::subjects::{self, Subject};

const HOSTS: usize = 25;
const COMPILATIONS: usize = 3;

pub(crate) fn run() -> anyhow::Result<()> {
    let subjects = [subjects::count()?, subjects::jq()?];
    println!(
        "cold, from the cache on disk: a new host, its first load, its first call; median of {}, ms",
        repeated(HOSTS)
    );
    println!(
        "{:<22}{:>8}{:>8}{:>8}{:>8}",
        "", "host", "load", "call", "all"
    );
    for subject in &subjects {
        revive(subject, "on demand", |settings| settings.pooled(false))?;
        revive(subject, "pooled", |settings| settings)?;
    }
    println!(
        "compile: a load with an empty cache, in a child process, described twice; median of {}, ms",
        repeated(COMPILATIONS)
    );
    println!("{:<22}{:>8}{:>8}{:>8}", "", "KiB", "bare", "load");
    subjects.iter().try_for_each(compile)
}

fn revive(
    subject: &Subject,
    how: &str,
    change: fn(HostBuilder) -> HostBuilder,
) -> anyhow::Result<()> {
    let [mut host_made, mut loaded, mut called, mut all] = [const { Samples::new() }; 4];
    for _ in 0..repeated(HOSTS) {
        let runtime = crate::runtime()?;
        let start = Instant::now();
        let host = subjects::host(change)?;
        host_made.since(start);
        runtime.block_on(async {
            let load = Instant::now();
            subjects::load(&host, &subject.component).await?;
            loaded.since(load);
            let call = Instant::now();
            subjects::succeeded(host.call(subject.request()).await)?;
            called.since(call);
            all.since(start);
            anyhow::Ok(())
        })?;
    }
    let name = format!("{}, {how}", subject.name);
    let [host_made, loaded, called, all] =
        [host_made, loaded, called, all].map(|samples| samples.median_ms());
    println!("{name:<22}{host_made:>8.2}{loaded:>8.2}{called:>8.2}{all:>8.2}");
    Ok(())
}

fn compile(subject: &Subject) -> anyhow::Result<()> {
    let mut bare = Samples::default();
    let mut loaded = Samples::default();
    for _ in 0..repeated(COMPILATIONS) {
        let start = Instant::now();
        Bare::compile(Settings::metered(None), &subject.component)?;
        bare.since(start);
        let host = subjects::host(|settings| settings.pooled(false).cached(false))?;
        let start = Instant::now();
        crate::runtime()?.block_on(subjects::load(&host, &subject.component))?;
        loaded.since(start);
    }
    let size = subject.component.len() >> 10;
    println!(
        "{:<22}{size:>8}{:>8.0}{:>8.0}",
        subject.name,
        bare.median_ms(),
        loaded.median_ms()
    );
    Ok(())
}
