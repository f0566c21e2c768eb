//! The cost of fuel and epochs for a CPU-bound guest, in bare engines that differ in nothing else.

use std::time::Instant;

use wasmtime::{Linker, Module};

use crate::bare::{Bare, Settings};
use crate::samples::{Samples, repeated};
use crate::subjects;

const ROUNDS: usize = 15;
const METERS: [(&str, bool, bool); 4] =
    [("none", false, false), ("epoch", false, true), ("fuel", true, false), ("both", true, true)];

/// Builds, sorts and adds up: an interpreter's work, full of branches and calls.
const FILTER: &str = r#"{"filter":"[range(6000)] | map({a: ., b: (. % 7)}) | sort_by(.b) | map(.a) | add"}"#;

/// A short loop: the worst case, because each iteration pays.
const LOOP: &str = r#"
    (module (func (export "run") (result i32) (local $n i32)
        (loop $again
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $n) (i32.const 40000000))))
        (local.get $n)))"#;

pub(crate) fn run() -> anyhow::Result<()> {
    println!("metering: CPU-bound guests in bare engines, to the engine without meters; best of {}", repeated(ROUNDS));
    println!("{:<12}{:>10}{:>8}{:>8}{:>8}", "", "none, ms", "epoch", "fuel", "both");
    let jq = subjects::jq()?;
    let mut bares = Vec::new();
    for settings in settings() {
        bares.push(Bare::compile(settings, &jq.component)?);
    }
    let runtime = crate::runtime()?;
    let busy = rounds(|at| {
        let Some(bare) = bares.get(at) else { return Ok(()) };
        runtime.block_on(bare.answer(jq.tool, FILTER)).map(drop)
    })?;
    show("jq sort_by", &busy);
    let text = wat::parse_str(LOOP)?;
    let mut modules = Vec::new();
    for settings in settings() {
        let engine = settings.engine()?;
        let module = Module::new(&engine, &text)?;
        modules.push((settings, engine, module));
    }
    let tight = rounds(|at| {
        let Some((settings, engine, module)) = modules.get(at) else { return Ok(()) };
        let mut store = settings.open(engine, ())?;
        let instance = Linker::new(engine).instantiate(&mut store, module)?;
        instance.get_typed_func::<(), i32>(&mut store, "run")?.call(&mut store, ())?;
        Ok(())
    })?;
    show("tight loop", &tight);
    Ok(())
}

fn settings() -> [Settings; 4] {
    METERS.map(|(_, fuel, epoch)| Settings { fuel, epoch, pool: None })
}

/// Runs `work` once a round for each engine.
fn rounds(mut work: impl FnMut(usize) -> anyhow::Result<()>) -> anyhow::Result<[Samples; 4]> {
    let mut samples = [const { Samples::new() }; 4];
    for _ in 0..repeated(ROUNDS) {
        for (at, samples) in samples.iter_mut().enumerate() {
            let start = Instant::now();
            work(at)?;
            samples.since(start);
        }
    }
    Ok(samples)
}

fn show(name: &str, samples: &[Samples; 4]) {
    let [none, epoch, fuel, both] = samples.each_ref().map(|samples| samples.us(0.0));
    println!("{name:<12}{:>10.1}{:>8.2}{:>8.2}{:>8.2}", none / 1e3, epoch / none, fuel / none, both / none);
}
