//! The cost of a call, beside bare wasmtime's in the same rounds.
//!
//! `cargo bench --bench call` prints everything, `cargo bench --bench call -- warm cancel` some of it. Times depend on
//! the machine and its load: quote the ratios. No benchmark fails for being slow.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]

mod cancel;
mod cold;
mod languages;
mod many;
mod metering;
mod subjects;
mod throughput;
mod warm;

#[path = "../support/bare.rs"]
mod bare;
#[path = "../support/samples.rs"]
mod samples;

/// That of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Section = fn() -> anyhow::Result<()>;

const SECTIONS: [(&str, Section); 8] = [
    ("warm", warm::run),
    ("cold", cold::run),
    ("languages", languages::run),
    ("toolbox", languages::toolbox),
    ("metering", metering::run),
    ("throughput", throughput::run),
    ("cancel", cancel::run),
    ("many", many::run),
];

fn main() -> anyhow::Result<()> {
    // Cargo itself passes `--bench`.
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    for (name, section) in SECTIONS {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            section()?;
            println!();
        }
    }
    Ok(())
}

/// A runtime on this thread, as `toolcell` itself has one.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}
