//! `hotcell call` of a cached tool, beside a program that does the same with bare wasmtime: whole processes, started
//! in turns. This binary is both the measurement and, called with `bare`, the bare program; it links no hotcell.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]

#[path = "../support/bare.rs"]
mod bare;
#[path = "../support/samples.rs"]
mod samples;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context;
use bare::{Bare, Settings};
use samples::Samples;

const RUNS: usize = 60;
const HOTCELL: &str = env!("CARGO_BIN_EXE_hotcell");
const TOOL: &str = "jq";
const INPUT: &str = r#"{"filter":".","input":{"a":1}}"#;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["bare", code, tool, input] => call_once(Path::new(code), tool, input),
        _ => compare(),
    }
}

/// The bare program: maps the code, calls it once, prints what it said.
fn call_once(code: &Path, tool: &str, input: &str) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let bare = Bare::map(Settings::metered(None), code)?;
    let output = runtime.block_on(bare.answer(tool, input))?;
    println!("{}", output.structured.unwrap_or(output.content));
    Ok(())
}

fn compare() -> anyhow::Result<()> {
    let component = build()?;
    let code = precompile(&component)?;
    let home = kept("home");
    let hotcell = || {
        let mut command = Command::new(HOTCELL);
        command.env("HOTCELL_HOME", &home).arg("call").arg(&component).args([INPUT, "--json"]);
        command
    };
    let program = std::env::current_exe()?;
    let bare = || {
        let mut command = Command::new(&program);
        command.arg("bare").arg(&code).args([TOOL, INPUT]);
        command
    };
    let version = || {
        let mut command = Command::new(HOTCELL);
        command.arg("--version");
        command
    };
    // The first call fills the cache.
    time(hotcell())?;
    let [mut call, mut floor, mut start] = [const { Samples::new() }; 3];
    for _ in 0..RUNS {
        floor.push(time(bare())?);
        call.push(time(hotcell())?);
        start.push(time(version())?);
    }
    println!("cli: whole processes, {RUNS} each, interleaved; ms");
    println!("{:<28}{:>8}{:>8}{:>8}", "", "median", "best", "p90");
    for (name, samples) in [("bare wasmtime", &floor), ("hotcell call --json", &call), ("hotcell --version", &start)] {
        println!("{name:<28}{:>8.2}{:>8.2}{:>8.2}", samples.median_ms(), samples.us(0.0) / 1e3, samples.us(0.9) / 1e3);
    }
    println!("target: at most 1.50");
    println!("cli_over_bare={:.2}", call.median_us() / floor.median_us());
    Ok(())
}

/// How long a process takes from start to end; it must succeed.
fn time(mut command: Command) -> anyhow::Result<std::time::Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let start = Instant::now();
    let output = command.output()?;
    let elapsed = start.elapsed();
    anyhow::ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(elapsed)
}

fn build() -> anyhow::Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../example-tools").join(TOOL);
    let output = Command::new(HOTCELL).arg("build").arg(folder).stderr(Stdio::inherit()).output()?;
    anyhow::ensure!(output.status.success(), "build the tool: {}", output.status);
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

fn precompile(component: &Path) -> anyhow::Result<PathBuf> {
    let bytes = std::fs::read(component).with_context(|| format!("read {}", component.display()))?;
    let code = Settings::metered(None).engine()?.precompile_component(&bytes)?;
    let file = kept("bare.cwasm");
    std::fs::create_dir_all(kept("."))?;
    std::fs::write(&file, code)?;
    Ok(file)
}

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-cli").join(name)
}
