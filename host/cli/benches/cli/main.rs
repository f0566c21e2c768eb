//! `toolcell call` of a cached tool, against a program that does the same with bare wasmtime: whole processes,
//! interleaved. On a busy machine compare the best runs, because other processes delay one by more than it takes. This
//! binary is both the benchmark and, called with `bare`, the bare program; it links no toolcell.

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
use samples::{Samples, repeated};

const RUNS: usize = 60;
const TOOLCELL: &str = env!("CARGO_BIN_EXE_toolcell");

/// A tool in a source folder, and one call of it.
struct Subject {
    name: &'static str,
    folder: PathBuf,
    tool: &'static str,
    input: &'static str,
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["bare", code, tool, input] => call_once(Path::new(code), tool, input),
        _ => compare_all(),
    }
}

/// The bare program: maps the code, calls it once, and prints its output.
fn call_once(code: &Path, tool: &str, input: &str) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let bare = Bare::map(Settings::metered(None), code)?;
    let output = runtime.block_on(bare.answer(tool, input))?;
    println!("{output}");
    Ok(())
}

fn compare_all() -> anyhow::Result<()> {
    println!(
        "cli: whole processes, {} each, interleaved; median and best, ms",
        repeated(RUNS)
    );
    println!(
        "{:<12}{:>8}{:>8}{:>10}{:>8}{:>8}{:>8}",
        "", "bare", "best", "toolcell", "best", "ratio", "more"
    );
    let small = compare(&started()?)?;
    let jq = Subject {
        name: "SDK jq .",
        folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../example-tools/jq"),
        tool: "jq",
        input: r#"{"filter":".","input":{"a":1}}"#,
    };
    let large = compare(&jq)?;
    println!(
        "a process that only prints the version of toolcell: {:.2}",
        version()?.median_ms()
    );
    println!("target: at most 1.50");
    println!("cli_over_bare={small:.2}");
    println!("cli_over_bare_large={large:.2}");
    Ok(())
}

/// What `toolcell new` writes: the smallest tool that an author would write with the SDK.
fn started() -> anyhow::Result<Subject> {
    let folder = kept().join("count");
    if !folder.exists() {
        std::fs::create_dir_all(kept())?;
        let made = Command::new(TOOLCELL)
            .current_dir(kept())
            .args(["new", "count"])
            .status()?;
        anyhow::ensure!(made.success(), "start a tool: {made}");
    }
    Ok(Subject {
        name: "SDK new",
        folder,
        tool: "count",
        input: r#"{"text":"one two"}"#,
    })
}

/// How much longer `toolcell call` takes than the bare program.
fn compare(subject: &Subject) -> anyhow::Result<f64> {
    let component = build(&subject.folder)?;
    let code = precompile(subject, &component)?;
    let home = kept().join("home");
    let installed = install(Path::new(TOOLCELL))?;
    let program = install(&std::env::current_exe()?)?;
    let toolcell = || {
        let mut command = Command::new(&installed);
        command
            .env("TOOLCELL_HOME", &home)
            .arg("call")
            .arg(&component)
            .args([subject.input, "--json"]);
        command
    };
    let bare = || {
        let mut command = Command::new(&program);
        command
            .arg("bare")
            .arg(&code)
            .args([subject.tool, subject.input]);
        command
    };
    // The first call fills the cache.
    time(toolcell())?;
    let mut call = Samples::new();
    let mut floor = Samples::new();
    for _ in 0..repeated(RUNS) {
        floor.push(time(bare())?);
        call.push(time(toolcell())?);
    }
    let floor_ms = floor.median_ms();
    let call_ms = call.median_ms();
    println!(
        "{:<12}{floor_ms:>8.2}{:>8.2}{call_ms:>10.2}{:>8.2}{:>8.2}{:>8.2}",
        subject.name,
        floor.us(0.0) / 1e3,
        call.us(0.0) / 1e3,
        call_ms / floor_ms,
        call_ms - floor_ms,
    );
    Ok(call_ms / floor_ms)
}

fn version() -> anyhow::Result<Samples> {
    let installed = install(Path::new(TOOLCELL))?;
    let mut samples = Samples::new();
    for _ in 0..repeated(RUNS) {
        let mut command = Command::new(&installed);
        command.arg("--version");
        samples.push(time(command)?);
    }
    Ok(samples)
}

/// A copy of `program`, like an installed one. A linker writes a file page by page, and while the page cache holds it
/// like that, each start takes a hundred page faults more.
fn install(program: &Path) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(kept())?;
    let copy = kept().join(program.file_name().context("name the program")?);
    let age = |file: &Path| file.metadata().and_then(|metadata| metadata.modified());
    if age(&copy).ok() < Some(age(program)?) {
        std::fs::write(&copy, std::fs::read(program)?)
            .with_context(|| format!("copy {}", program.display()))?;
        std::fs::set_permissions(&copy, program.metadata()?.permissions())?;
        std::fs::File::open(&copy)?.sync_all()?;
    }
    Ok(copy)
}

/// How long a process takes from start to end; it must succeed.
fn time(mut command: Command) -> anyhow::Result<std::time::Duration> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let start = Instant::now();
    let output = command.output()?;
    let elapsed = start.elapsed();
    anyhow::ensure!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(elapsed)
}

fn build(folder: &Path) -> anyhow::Result<PathBuf> {
    let output = Command::new(TOOLCELL)
        .arg("build")
        .arg(folder)
        .stderr(Stdio::inherit())
        .output()?;
    anyhow::ensure!(output.status.success(), "build the tool: {}", output.status);
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

fn precompile(subject: &Subject, component: &Path) -> anyhow::Result<PathBuf> {
    let bytes =
        std::fs::read(component).with_context(|| format!("read {}", component.display()))?;
    let code = Settings::metered(None)
        .engine()?
        .precompile_component(&bytes)?;
    std::fs::create_dir_all(kept())?;
    let file = kept().join(subject.tool).with_extension("cwasm");
    std::fs::write(&file, code)?;
    Ok(file)
}

/// The folder of this benchmark, kept between runs.
fn kept() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-cli")
}
