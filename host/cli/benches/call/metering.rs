//! The cost of fuel and epochs for a CPU-bound guest, in bare engines that differ in nothing else.

use std::time::Instant;

use wasmtime::{Linker, Module};

use crate::bare::{Bare, Settings};
use crate::samples::{Samples, repeated};
use crate::subjects::{self, Subject};

const ROUNDS: usize = 15;
/// Rounds of compiling, which takes seconds.
const COMPILE_ROUNDS: usize = 3;
/// Units of fuel that take about a millisecond, the interval at which the host's guests yield: 8.7 to 12 million in
/// Python, 15 to 35 million in compiled languages.
const FUEL_YIELDS: u64 = 10_000_000;
const METERS: [Settings; 5] = [
    meters(false, false, None),
    meters(false, true, None),
    meters(true, false, None),
    meters(true, true, None),
    // What could take the place of both: fuel that yields, without epochs.
    meters(true, false, Some(FUEL_YIELDS)),
];

const fn meters(fuel: bool, epoch: bool, fuel_yields: Option<u64>) -> Settings {
    Settings {
        fuel,
        epoch,
        fuel_yields,
        pool: None,
    }
}

/// Builds, sorts and adds up: an interpreter's work, full of branches and calls.
const FILTER: &str =
    r#"{"filter":"[range(6000)] | map({a: ., b: (. % 7)}) | sort_by(.b) | map(.a) | add"}"#;

/// A short loop: the worst case, because each iteration pays.
const LOOP: &str = r#"
    (module (func (export "run") (result i32) (local $n i32)
        (loop $again
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $n) (i32.const 40000000))))
        (local.get $n)))"#;

pub(crate) fn run() -> anyhow::Result<()> {
    println!(
        "metering: CPU-bound guests in bare engines, to the engine without meters; best of {}",
        repeated(ROUNDS)
    );
    println!(
        "{:<12}{:>10}{:>8}{:>8}{:>8}{:>12}",
        "", "none, ms", "epoch", "fuel", "both", "fuel yields"
    );
    let jq = subjects::jq()?;
    let mut bares = Vec::new();
    for settings in METERS {
        bares.push(Bare::compile(settings, &jq.component)?);
    }
    let runtime = crate::runtime()?;
    let busy = rounds(ROUNDS, |at| {
        let Some(bare) = bares.get(at) else {
            return Ok(());
        };
        runtime.block_on(bare.answer(jq.tool, FILTER)).map(drop)
    })?;
    show("jq sort_by", &busy);
    let text = wat::parse_str(LOOP)?;
    let mut modules = Vec::new();
    for settings in METERS {
        let engine = settings.engine()?;
        let module = Module::new(&engine, &text)?;
        modules.push((settings, engine, module));
    }
    let tight = rounds(ROUNDS, |at| {
        let Some((settings, engine, module)) = modules.get(at) else {
            return Ok(());
        };
        let mut store = settings.open(engine, ())?;
        // Asynchronous, because a store whose fuel yields refuses other calls.
        runtime.block_on(async {
            let instance = Linker::new(engine)
                .instantiate_async(&mut store, module)
                .await?;
            let run = instance.get_typed_func::<(), i32>(&mut store, "run")?;
            run.call_async(&mut store, ())
                .await
                .map(drop)
                .map_err(anyhow::Error::from)
        })
    })?;
    show("tight loop", &tight);
    let compiled = rounds(COMPILE_ROUNDS, |at| {
        let Some(settings) = METERS.get(at) else {
            return Ok(());
        };
        settings
            .engine()?
            .precompile_component(&jq.component)
            .map(drop)
            .map_err(anyhow::Error::from)
    })?;
    show("jq compiled", &compiled);
    in_hosts(&jq)
}

/// The same work as calls, each with all limits: what `meter = "time"` saves.
fn in_hosts(jq: &Subject) -> anyhow::Result<()> {
    let file = subjects::kept().join("metered.wasm");
    std::fs::write(&file, &jq.component)?;
    let runtime = crate::runtime()?;
    let hosts = [
        subjects::host(|settings| settings)?,
        subjects::host(|settings| settings.metered_by_time(|_| true))?,
    ];
    for host in &hosts {
        let loaded = runtime.block_on(host.load_file(&file));
        loaded.map_err(|refusal| anyhow::anyhow!("load a component: {refusal:?}"))?;
    }
    let called = rounds(ROUNDS, |at| {
        let Some(host) = hosts.get(at) else {
            return Ok(());
        };
        let request = subjects::request(jq.qualified, FILTER);
        subjects::succeeded(runtime.block_on(host.call(request))).map(drop)
    })?;
    let [fuel, time]: [Samples; 2] = called;
    println!(
        "jq sort_by as a call: by fuel {:.1} ms, by time {:.2} of it",
        fuel.us(0.0) / 1e3,
        time.us(0.0) / fuel.us(0.0)
    );
    Ok(())
}

/// Runs `work` once a round for each of several engines or hosts.
fn rounds<const N: usize>(
    number: usize,
    mut work: impl FnMut(usize) -> anyhow::Result<()>,
) -> anyhow::Result<[Samples; N]> {
    let mut samples = [const { Samples::new() }; N];
    for _ in 0..repeated(number) {
        for (at, samples) in samples.iter_mut().enumerate() {
            let start = Instant::now();
            work(at)?;
            samples.since(start);
        }
    }
    Ok(samples)
}

fn show(name: &str, samples: &[Samples; METERS.len()]) {
    let [none, epoch, fuel, both, yields] = samples.each_ref().map(|samples| samples.us(0.0));
    let [epoch, fuel, both, yields] = [epoch, fuel, both, yields].map(|metered| metered / none);
    println!(
        "{name:<12}{:>10.1}{epoch:>8.2}{fuel:>8.2}{both:>8.2}{yields:>12.2}",
        none / 1e3
    );
}
